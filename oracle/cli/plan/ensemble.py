"""What `perpetua plan` shows of an ensemble's plan."""

from collections.abc import Iterator
from typing import Final

import msgspec
from rich.table import Table

from oracle.cli.output import Row, figure_table
from oracle.cli.plan.page import mebibytes
from oracle.planning.ensemble.model import EnsemblePhase, EnsemblePlan
from oracle.planning.ensemble.sizes import crowd_of, paid_rate

__all__ = ["LIFE_TERMS", "ensemble_phases", "ensemble_rows"]

LIFE_TERMS: Final[tuple[Row, ...]] = (
    ("rounds", "queries, answered or not; a phase that is over never comes back"),
    ("noise", "inverse scale of the noise on votes, logistic, and in brackets times the teachers"),
    ("zone", "counts of votes about a threshold within which an answer is paid for"),
    ("paid", "queries that a life pays for; then its teachers are replaced: with the phase's end, or sooner"),
    ("a life", "rounds that these last, if queries are as contested as declared in all phases; no promise"),
    ("rests at most", "rounds whose queries get no answer (`resting`), where a life is spent before it is so old"),
    ("kept", "answered queries that the next teachers are fitted to, at most"),
)
"""What the words in the table of phases mean."""


def ensemble_rows(plan: EnsemblePlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    steps = "".join(f"{step.transformer.rpartition('.')[2]}, then " for step in plan.preprocessing)
    yield "learns", f"{plan.teachers:,} teachers, each {steps}{plan.learner} on {plan.teacher_rows:,} rows or so"
    yield "classes", ", ".join(map(str, plan.classes))
    asked = "one question" if len(plan.classes) == 2 else f"at most {len(plan.classes) - 1} questions"  # noqa: PLR2004 -- classes
    yield "answers", f"{asked} about the votes, the rarest class first; a query pays {_times(plan.questions)} at most"
    if plan.share_slope is msgspec.UNSET:
        yield "shares", f"declared: {', '.join(f'{share:g}' for share in plan.shares or ())}; nothing is counted"
    else:
        yield (
            "shares",
            f"of the classes: noisy counts of the rows, inverse scale {plan.share_slope:.3g}, which `init` releases",
        )
    control = plan.control
    yield "drift", f"thresholds move after each {control.block_rounds:,} rounds, by noisy counts of what was answered:"
    yield "", f"inverse scale {control.epsilon:.3g}"
    yield "memory", f"{mebibytes(plan.memory_bytes)}, where teachers grow no more than their rows"


def _times(count: int) -> str:
    return "once" if count == 1 else "twice"


def ensemble_phases(plan: EnsemblePlan) -> Table:
    """Return the table of the phases."""
    table = figure_table("phase", "rounds", "delta", "noise", "zone", "paid", "a life", "rests at most", "kept")
    for phase in plan.phases:
        table.add_row(
            str(phase.phase),
            f"{phase.rounds:,}",
            f"{phase.delta:.2e}",
            f"{phase.slope:.4g} ({phase.slope * plan.teachers:.1f})",
            f"{phase.gap + 1:,}",
            f"{phase.stopper.threshold:,}",
            f"{_life(plan, phase):,.0f}",
            f"{phase.least_rounds:,}",
            f"{phase.kept_rows:,}",
        )
    return table


def _life(plan: EnsemblePlan, phase: EnsemblePhase) -> float:
    """Return how many rounds a life lasts on average, by the estimate, if its phase is long enough."""
    crowd = crowd_of(plan, plan.teachers, first=True)
    return min(phase.stopper.threshold / paid_rate(crowd, phase.gap), phase.rounds)
