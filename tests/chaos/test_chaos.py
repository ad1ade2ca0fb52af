"""A quick cut of `python -m tests.chaos`, and daemons broken on purpose, which it must find."""

import pytest

from oracle.planning.kinds import KINDS
from tests.chaos.__main__ import main

_QUICK = ("jsonl", "phase-ends", "snapshots", "calls-parquet", "disk", "state-back", "sink-back")


@pytest.mark.slow
@pytest.mark.parametrize("predictor", KINDS)
def test_no_kill_shows(capsys, predictor):
    """Kills at all kinds of moments, a full disk, files set back: identical output, or a clear stop."""
    only = [f"--only={name}" for name in _QUICK]
    assert main(["--kills=10", "--messages=400", f"--predictor={predictor}", *only]) == 0, capsys.readouterr().out
    assert "every stop was clear" in capsys.readouterr().out


@pytest.mark.slow
def test_killed_init_can_be_run_again(capsys):
    """A state of any kind whose `init` was killed is made by the next one, and serves."""
    assert main(["--kills=60", "--only=init"]) == 0, capsys.readouterr().out
    assert all(capsys.readouterr().out.count(f"\n{predictor} ") == 1 for predictor in KINDS)


@pytest.mark.parametrize("mutant", ["drawn noise", "nothing cut"])
def test_broken_daemons_are_found(capsys, mutant):
    """Noise that differs from process to process, and torn output that is not cut back, are broken promises."""
    assert main(["--kills=20", "--messages=300", "--only=jsonl", "--predictor=rectangles", f"--mutant={mutant}"]) == 1
    assert "BROKEN PROMISE" in capsys.readouterr().out
