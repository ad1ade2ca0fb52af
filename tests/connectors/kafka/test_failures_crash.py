"""Crashes: at every point of a commit, and on the way out. The answers are those of one uninterrupted run in memory."""

import signal
import time

import pytest

from oracle.planning.kinds import KINDS
from oracle.state.folder import peek_folder
from tests.support.kafka import wait_until
from tests.support.kafka_here import serve_here
from tests.support.kafka_launcher import CRASHED, POINTS
from tests.support.shards import bodies, mixed_bodies
from tests.support.waiting import TIMEOUT

_BATCHES = {"service": "drain_seconds = 60\nbatch_rows = 16"}
_EACH = 400
"""More than a commit can have that has the round of the trap in it: twelve batches wait at most."""


@pytest.mark.slow
def test_crashes_at_every_point_of_a_commit(model):
    """One daemon after another dies half-way, each at another point; the last one goes on to the end."""
    config = model.config(**_BATCHES)
    contents = mixed_bodies(_EACH * len(POINTS))
    for number, point in enumerate(POINTS):
        model.ask(contents[_EACH * number : _EACH * (number + 1)])
        daemon = model.serve(config, trap=(point, _EACH * number + _EACH // 4))
        assert daemon.wait(TIMEOUT) == CRASHED, model.log()[-3:]
        assert model.count() < _EACH * (number + 1)
    serve_here(config, lambda _log: model.count() >= len(contents))
    assert model.values() == model.expected(contents)


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_killed_at_any_time(model):
    """Whatever the predictor: twice, by SIGKILL, with work in hand; nothing is lost, and nothing given twice."""
    config = model.config(**_BATCHES)
    contents = bodies(900)
    model.ask(contents)
    for least in (100, 300):
        daemon = model.serve(config)
        wait_until(lambda least=least: model.count() >= least)
        daemon.kill()
        daemon.wait()
    serve_here(config, lambda _log: model.count() >= len(contents))
    assert model.values() == model.expected(contents)


def test_sigterm_saves_the_state_and_a_lone_query_is_answered_at_once(model):
    """A clean stop leaves a snapshot at the last commit: the next start executes nothing again."""
    config = model.config()
    daemon = model.serve(config)
    contents = bodies(50)
    model.ask(contents[:40])
    model.wait_for_answers(40)
    delays: list[float] = []
    looks: list[float] = []
    for query in contents[40:43]:
        asked = time.monotonic()
        model.ask([query])
        model.wait_for_answers(41 + len(delays))
        answered = time.monotonic()
        model.count()
        delays.append(answered - asked)
        looks.append(time.monotonic() - answered)
    assert min(delays) < 2 + 20 * max(looks)  # as long as it takes here to ask the broker for a few things
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(TIMEOUT) == 0
    assert "daemon.stopped" in model.events()
    header = peek_folder(model.folder / "state")
    assert header is not None
    assert (header.position, header.round) == (43, 43)
    model.ask(contents[43:])
    log = serve_here(config, lambda _log: model.count() >= len(contents))
    assert next(line["rounds"] for line in log if line["event"] == "daemon.recovered") == 0
    assert model.values() == model.expected(contents)
