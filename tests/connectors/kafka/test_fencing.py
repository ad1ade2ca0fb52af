"""Two processes, one partition: whatever one of them missed, every query is answered once, and as ever."""

import shutil
import signal

import pytest

from tests.support.kafka import wait_until
from tests.support.processes import stopped
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

_SMALL = {
    "kafka": "request_seconds = 300",  # what it is stopped for is the other's business, and not a broker's that is away
    "service": "drain_seconds = 60\nbatch_rows = 8",
    "sink": "transaction_seconds = 600",
    "source": "session_seconds = 1.5",
}


@pytest.mark.parametrize(
    ("state", "point"),
    [("state", "stop-end"), ("second", "stop-answers")],
    ids=["one folder, before the end of a commit", "two folders, behind its answers"],
)
def test_a_process_that_slept_through_its_session_answers_nothing_twice(model, state, point):
    """Stopped within a commit, fenced by the other, resumed: it says so, and is there when the other dies."""
    if state != "state":
        shutil.copytree(model.folder / "state", model.folder / state)
    first = model.serve(model.config("first.toml", **_SMALL), "first.log", trap=(point, 160))
    contents = bodies(700)
    model.ask(contents[:400])
    wait_until(lambda: stopped(first))
    second = model.serve(model.config("second.toml", state=state, **_SMALL), "second.log")
    model.wait_for_answers(400)
    first.send_signal(signal.SIGCONT)
    wait_until(lambda: "shard.fenced" in model.events("first.log"))
    model.ask(contents[400:500])
    model.wait_for_answers(500)
    second.kill()
    model.ask(contents[500:])
    model.wait_for_answers(700)
    assert model.values() == model.expected(contents)
    first.terminate()
    assert first.wait(TIMEOUT) == 0


def test_a_transaction_that_ran_out_of_time_is_done_again(model):
    """Stopped within a commit for longer than the broker waits: aborted by it, and done again without a restart."""
    config = model.config(sink="transaction_seconds = 6", source="session_seconds = 60")
    contents = bodies(300)
    model.ask(contents)
    daemon = model.serve(config, trap=("stop-end", 1))
    wait_until(lambda: stopped(daemon))
    wait_until(lambda: model.written() > 0)  # what was open has ended
    assert model.count() == 0
    daemon.send_signal(signal.SIGCONT)
    model.wait_for_answers(300)
    assert model.values() == model.expected(contents)
    assert model.events().count("daemon.recovered") == 1
    assert "shard.fenced" not in model.events()
