"""A cut of `python -m tests.experiments.ensemble`: few rows, short phases."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from oracle.planning.ensemble.model import EnsemblePlan
from tests.experiments.ensemble.plot import draw
from tests.experiments.ensemble.report import markdown
from tests.experiments.ensemble.runs import Phases, Setting, cut, planned, play
from tests.experiments.ensemble.tasks import TASKS, Task

_PHASES = 5


@cache
def _played() -> tuple[Task, EnsemblePlan, Phases]:
    task = TASKS["flights"]()
    plan = cut(planned(task, Setting(examples=15_000)), 50_000)
    return task, plan, play(plan, task, _PHASES, 21)


@pytest.mark.slow
def test_errors_and_shares_stay_where_they_were_in_the_first_phase() -> None:
    """Within two points, and a tenth of the share."""
    _, _, run = _played()
    assert (run.wrong <= run.wrong[0] + 0.02).all()
    assert run.wrong[0] < 0.14
    assert run.shares[:, 1] == pytest.approx(run.true[:, 1], rel=0.15)


@pytest.mark.slow
def test_no_query_is_lost() -> None:
    """Each is answered, or rests."""
    _, plan, run = _played()
    rounds = [phase.rounds for phase in plan.phases[:_PHASES]]
    assert (run.said.sum(axis=(1, 2)) + run.resting).tolist() == rounds
    assert max(rounds) == 50_000


@pytest.mark.slow
def test_the_table_and_the_plot_are_of_the_runs(tmp_path: Path) -> None:
    """A line for each phase, and the same bytes each time."""
    task, plan, run = _played()
    lines = markdown(task, plan, [run]).splitlines()
    assert len(lines) == 4 + _PHASES
    assert f"{100.0 * run.wrong[2]:.2f}" in lines[6]
    for name in ("a", "b"):
        draw(task.title, [run, run], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_shares_of_right_and_wrong_answers() -> None:
    """Of two phases, with two unanswered."""
    said = np.array([[[8, 2], [1, 9]], [[5, 0], [0, 5]]])
    run = Phases(said, np.array([0, 2]), np.array([1, 1]), np.full((2, 1), 0.5))
    assert run.wrong == pytest.approx([0.15, 0.0])
    assert run.shares[:, 1] == pytest.approx([0.55, 0.5])
    assert run.true[:, 1] == pytest.approx([0.5, 0.5])
