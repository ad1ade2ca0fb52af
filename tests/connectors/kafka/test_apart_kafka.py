"""Large Arrow batches over a real broker: the engine moves into a process of its own, which may die at any time."""

import numpy as np
import psutil
import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM
from tests.connectors.kafka.conftest import unique_name
from tests.predictors.plans import feature, tiny_plan
from tests.support.kafka import KafkaModelUnderTest, wait_until
from tests.support.shards import arrow_body
from tests.support.waiting import PATIENCE

_ARROW = (("content-type", ARROW_STREAM.encode()),)
_ROWS = 1_000


@pytest.fixture
def model(broker, request, tmp_path):
    """A model that has rounds for large batches."""
    plan = tiny_plan([feature("a"), feature("b")], points=(12, 15, 10, 13), rounds=40_000)
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create()
    yield made
    made.end()


def _messages(count, seed):
    source = np.random.default_rng(seed)
    columns = [source.uniform(-0.1, 1.1, (2, _ROWS)) for _ in range(count)]
    return [arrow_body(pa.table({"a": a, "b": b})) for a, b in columns]


def _engine_of(daemon):
    (engine,) = psutil.Process(daemon.pid).children()
    return engine


def _move(model, asked, log):
    """Ask one message after another until the engine has moved."""

    def moved():
        if "engine.apart" in model.events(log):
            return True
        asked.extend(more := _messages(1, len(asked)))
        model.ask(more, headers=_ARROW)
        model.wait_for_answers(len(asked))
        return False

    wait_until(moved)


def test_it_moves_and_its_end_costs_nothing(model):
    """Killed with the engine, or the engine alone: the next daemon goes on, and all is answered once, as by one."""
    asked = _messages(70, 1)
    model.ask(asked, headers=_ARROW)
    daemon = model.serve(model.config())
    model.wait_for_answers(len(asked))
    _move(model, asked, "serve.log")
    engine = _engine_of(daemon)

    daemon.kill()
    daemon.wait()
    wait_until(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE)

    asked += (more := _messages(70, 2))
    model.ask(more, headers=_ARROW)
    daemon = model.serve(model.config(), "second.log")
    model.wait_for_answers(len(asked))
    _move(model, asked, "second.log")
    _engine_of(daemon).kill()
    asked += (more := _messages(1, 3))
    model.ask(more, headers=_ARROW)
    assert daemon.wait(PATIENCE) == 70
    assert "engine: its process has ended" in str(model.log("second.log"))

    daemon = model.serve(model.config(), "third.log")
    model.wait_for_answers(len(asked))
    daemon.terminate()
    assert daemon.wait(PATIENCE) == 0
    assert model.values() == model.expected(asked)


def test_a_stop_with_the_engine_moved_is_clean(model):
    """SIGTERM: what was asked is answered, the snapshot is written by what the engine gives back, and it ends."""
    asked = _messages(70, 1)
    model.ask(asked, headers=_ARROW)
    daemon = model.serve(model.config())
    model.wait_for_answers(len(asked))
    _move(model, asked, "serve.log")
    engine = _engine_of(daemon)
    daemon.terminate()
    assert daemon.wait(PATIENCE) == 0
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    assert "snapshot.written" in model.events()
    asked += (more := _messages(2, 5))
    model.ask(more, headers=_ARROW)
    model.serve(model.config(service='drain_seconds = 60\nengine = "inside"'), "second.log")
    model.wait_for_answers(len(asked))
    assert model.values() == model.expected(asked)
    assert "engine.apart" not in model.events("second.log")
