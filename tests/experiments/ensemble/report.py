"""The runs as Markdown."""

from collections.abc import Sequence

import numpy as np

from oracle.planning.ensemble.model import EnsemblePlan
from tests.experiments.ensemble.runs import Phases
from tests.experiments.ensemble.tasks import Task


def markdown(task: Task, plan: EnsemblePlan, runs: Sequence[Phases]) -> str:
    """Return a table of runs of one plan: a line for each phase, the least and the most of the runs."""
    parameters = ", ".join(f"{name} = {value}" for name, value in plan.parameters.items())
    learner = plan.learner.rpartition(".")[2]
    title = (
        f"**{task.title}**: {learner}({parameters}), epsilon = {plan.epsilon:g}, {plan.declared:,} rows, "
        f"{plan.teachers:,} teachers, contested = {plan.contested:g}; {len(runs)} keys"
    )
    shares = [f"answered {name!r}, % (true)" for name in plan.classes[1:]]
    heads = ["phase", "rounds", "wrong, %", *shares, "unanswered, %", "lives"]
    lines = [title, "", _line(heads), _line(["---:"] * len(heads))]
    lines += [_line(_cells(plan, runs, number)) for number in range(len(runs[0].wrong))]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(plan: EnsemblePlan, runs: Sequence[Phases], number: int) -> list[str]:
    shares = []
    for name in range(1, len(plan.classes)):
        truth = 100.0 * np.mean([run.true[number, name] for run in runs])
        shares.append(f"{_span([100.0 * run.shares[number, name] for run in runs])} ({truth:.2f})")
    rounds = plan.phases[number].rounds
    return [
        f"{number + 1}",
        f"{rounds:,}",
        _span([100.0 * run.wrong[number] for run in runs]),
        *shares,
        _span([100.0 * run.resting[number] / rounds for run in runs]),
        _span([float(run.lives[number]) for run in runs], "{:.0f}"),
    ]


def _span(values: Sequence[float], form: str = "{:.2f}") -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"
