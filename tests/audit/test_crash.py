"""Games through real daemons that are killed: the real one keeps its noise, a broken one is found out."""

import sys
from pathlib import Path

import pytest

from oracle.audit.crash import SERVE, _play
from oracle.audit.plans import TARGETS, small_plan
from oracle.errors import StateError

SECRET = bytes(range(32))


@pytest.mark.slow
def test_a_killed_daemon_answers_as_if_nothing_had_been(tmp_path):
    """Three kills, and every answer is the uninterrupted shard's, byte for byte."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    ones, same = _play(tmp_path / "game", SERVE, plan, SECRET, present=True)
    assert same
    assert 0 < ones < 240
    assert not (tmp_path / "game").exists()


@pytest.mark.slow
def test_noise_that_is_drawn_again_is_found(tmp_path):
    """A daemon whose processes have noise of their own diverges, or notices and stops."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    broken = (sys.executable, str(Path(__file__).with_name("broken_serve.py")), "noise drawn again after a restart")
    same, stopped = False, "diverged"
    try:
        _, same = _play(tmp_path / "game", broken, plan, SECRET, present=True)
    except StateError as exc:
        stopped = str(exc)
    assert not same
    assert "diverged" in stopped
