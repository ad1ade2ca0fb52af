"""The broker goes away: stopped, killed, or silent. The daemon waits, and goes on by itself."""

import shutil
import signal
import time
from collections.abc import Iterator

import pytest

from connectors.kafka.source import KafkaSource
from oracle.runtime import recovery
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.kafka import KafkaModelUnderTest, wait_until
from tests.support.kafka_here import serve_here
from tests.support.processes import stopped
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

_SMALL = {"service": "drain_seconds = 60\nbatch_rows = 1"}
_LOAD = 600


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for this module alone."""
    with Broker(tmp_path_factory.mktemp("mortal") / "broker") as running:
        yield running


@pytest.fixture
def served(mortal, request, tmp_path):
    """A model on it, and its daemon with much to do, stopped by SIGSTOP in the middle of it."""
    model = KafkaModelUnderTest(mortal, unique_name(request), tmp_path).create()
    model.ask(bodies(_LOAD))
    daemon = model.serve(model.config(**_SMALL), trap=("stop-end", 20))
    wait_until(lambda: stopped(daemon))
    assert 10 < model.written() < _LOAD  # and a commit is under way
    yield model, daemon
    model.end()


def finish(model, daemon, contents):
    """Wait for all answers, compare them, and stop the daemon, which was never started anew."""
    model.wait_for_answers(len(contents))
    assert model.values() == model.expected(contents)
    assert daemon.poll() is None
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(TIMEOUT) == 0
    assert "daemon.stopped" in model.events()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_broker_restarted_under_load(mortal, served, kill):
    """It is stopped, or killed, with answers on their way, and comes back."""
    model, daemon = served
    daemon.send_signal(signal.SIGCONT)
    mortal.restart(kill=kill)
    finish(model, daemon, bodies(_LOAD))


@pytest.mark.slow
@pytest.mark.long
def test_a_broker_that_is_silent_for_a_minute(mortal, served):
    """Connections stay open and nothing answers: the daemon tries on, within its bounds, and goes on afterwards."""
    model, daemon = served
    more = bodies(100, seed=2)
    daemon.send_signal(signal.SIGCONT)
    with mortal.paused():
        time.sleep(60)
        wait_until(lambda: "bus.unavailable" in model.events())
    model.ask(more)
    finish(model, daemon, [*bodies(_LOAD), *more])


@pytest.mark.slow
def test_a_broker_that_is_silent_while_answers_are_executed_again(mortal, request, tmp_path, monkeypatch):
    """Records that were answered are not handed over: the log has not ended, so the shard is opened again."""
    model = KafkaModelUnderTest(mortal, unique_name(request), tmp_path).create()
    shutil.copytree(model.folder / "state", model.folder / "aside")
    config = model.config()
    model.ask(bodies(300))
    serve_here(config, lambda _log: model.count() >= 300)
    shutil.rmtree(model.folder / "state")
    shutil.move(model.folder / "aside", model.folder / "state")
    model.ask(bodies(50, seed=2))
    real, opened, seconds = KafkaSource.open, 0, recovery._FETCH_SECONDS

    async def open_and_fall_silent(source, position):
        nonlocal opened
        await real(source, position)
        opened += 1
        monkeypatch.setattr(recovery, "_FETCH_SECONDS", 1.0 if opened == 1 else seconds)
        if opened == 1:
            mortal.pause()

    def done(log):
        if not any(line["event"] in {"bus.unavailable", "shard.failed"} for line in log):
            return False
        mortal.resume()
        return model.count() >= 350

    monkeypatch.setattr(KafkaSource, "open", open_and_fall_silent)
    try:
        log = serve_here(config, done)
    finally:
        mortal.resume()
    assert [line["rounds"] for line in log if line["event"] == "daemon.recovered"] == [300]
    assert model.values() == model.expected([*bodies(300), *bodies(50, seed=2)])
    model.end()


def test_a_coordinator_that_ends_no_transaction_is_waited_for(own_broker, request, tmp_path):
    """It can write no end into the topic of answers: each try runs out of time, says so, and others follow."""
    model = KafkaModelUnderTest(own_broker, unique_name(request), tmp_path).create()
    config = model.config(kafka="request_seconds = 1", sink="transaction_seconds = 2")
    own_broker.configure_topic(model.answers, {"message.timestamp.before.max.ms": "0"})
    model.ask(bodies(3))

    def tried(log):
        return sum(line["event"] == "bus.unavailable" and "no answer in time" in line["error"] for line in log) > 1

    log = serve_here(config, tried)
    assert "check the clocks of both machines" in str(log)
    assert not any(line["event"] == "shard.failed" for line in log)
    model.end()
