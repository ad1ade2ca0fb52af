"""The broker goes away: stopped, killed, or silent. The daemon waits, and goes on by itself."""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.kafka import KafkaModelUnderTest, wait_until
from tests.support.shards import bodies

_SMALL = {"service": "drain_seconds = 5\nbatch_rows = 1"}
_LOAD = 600


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for this module alone."""
    with Broker(tmp_path_factory.mktemp("mortal") / "broker") as running:
        yield running


@pytest.fixture
def served(mortal, request, tmp_path):
    """A model on it, and its daemon with much to do."""
    model = KafkaModelUnderTest(mortal, unique_name(request), tmp_path).create()
    model.ask(bodies(_LOAD))
    daemon = model.serve(model.config(**_SMALL))
    wait_until(lambda: model.written() > 10)
    assert model.written() < _LOAD  # each commit writes an answer and a marker: this is the first half of them
    yield model, daemon
    model.end()


def finish(model, daemon, contents):
    """Wait for all answers, compare them, and stop the daemon, which was never started anew."""
    model.wait_for_answers(len(contents), 90)
    assert model.values() == model.expected(contents)
    assert daemon.poll() is None
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0
    assert model.events()[-1] == "daemon.stopped"


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_broker_restarted_under_load(mortal, served, kill):
    """It is stopped, or killed, with answers on their way, and comes back."""
    model, daemon = served
    mortal.restart(kill=kill)
    finish(model, daemon, bodies(_LOAD))


@pytest.mark.slow
def test_a_broker_that_is_silent_for_a_minute(mortal, served):
    """Connections stay open and nothing answers: the daemon tries on, within its bounds, and goes on afterwards."""
    model, daemon = served
    more = bodies(100, seed=2)
    with mortal.paused():
        time.sleep(60)
        assert "bus.unavailable" in model.events()
    model.ask(more)
    finish(model, daemon, [*bodies(_LOAD), *more])
