"""A quick cut of `python -m tests.storms.files`, and daemons broken on purpose, which it must find."""

import pytest

from oracle.planning.kinds import KINDS
from tests.storms.files.__main__ import main

_QUICK = ("jsonl", "phase-ends", "snapshots", "calls-parquet", "disk", "state-back", "sink-back")
_LONG = ("ensemble", "statistics", "sparse-vector", "distribution", "classical")


def _marks(predictor):
    return [pytest.mark.long] if predictor in _LONG else []


def test_a_few_kills_do_not_show(capsys):
    """Of a daemon over a file: identical output."""
    assert main(["--kills=20", "--messages=300", "--only=jsonl", "--predictor=rectangles"]) == 0, (
        capsys.readouterr().out
    )


@pytest.mark.slow
@pytest.mark.parametrize("predictor", [pytest.param(one, marks=_marks(one)) for one in KINDS])
def test_no_kill_shows(capsys, predictor):
    """Kills at all kinds of moments, a full disk, files set back: identical output, or a clear stop."""
    only = [f"--only={name}" for name in _QUICK]
    assert main(["--kills=10", "--messages=400", f"--predictor={predictor}", *only]) == 0, capsys.readouterr().out
    assert "every stop was clear" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "predictors"),
    [
        (40, ["rectangles"]),
        pytest.param(50, ["stumps", "bisection", "classical", "ensemble"], marks=pytest.mark.long),
        pytest.param(40, ["statistics", "sparse-vector", "distribution"], marks=pytest.mark.long),
    ],
)
def test_killed_init_can_be_run_again(capsys, kills, predictors):
    """A state of any kind whose `init` was killed is made by the next one, and serves."""
    chosen = [f"--predictor={predictor}" for predictor in predictors]
    assert main([f"--kills={kills}", "--only=init", *chosen]) == 0, capsys.readouterr().out
    table = capsys.readouterr().out
    assert all(f"\n{predictor} " in table for predictor in predictors)


@pytest.mark.parametrize(
    ("mutant", "predictor"),
    [
        ("drawn noise", "rectangles"),
        ("drawn noise", "bisection"),
        ("drawn noise", "statistics"),
        ("drawn noise", "sparse-vector"),
        ("drawn noise", "distribution"),
        ("drawn noise", "ensemble"),
        ("nothing cut", "rectangles"),
    ],
)
def test_broken_daemons_are_found(capsys, mutant, predictor):
    """Noise that differs from process to process, and torn output that is not cut back, are broken promises."""
    assert main(["--kills=20", "--messages=300", "--only=jsonl", f"--predictor={predictor}", f"--mutant={mutant}"]) == 1
    assert "BROKEN PROMISE" in capsys.readouterr().out
