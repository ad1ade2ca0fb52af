"""What may answer, by plan and phase: the laws, slopes, thresholds and counts of everything that draws or chooses.

Worked out from what the plan promises and not from what it says of its own mechanisms, where the two differ: a choice
goes by the epsilon that is claimed for it, and by how far one row moves its losses.

All that is due in a phase can be made to answer in it, by rows and queries, and so must be heard in some run
(`oracle.audit.live`). What a phase cannot draw by construction is not due in it: choices, and counts of rows, are over
with training; a row is sliced off before a phase, so behind the last one no noise is; OnlineBisection asks for no bit
once it has released what it has learned; and the threshold of an ensemble's Stopper gets its noise when a life is
armed, so never in the phase behind that (of a fork it does: `oracle.audit.around.forks`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET

from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePhase, EnsemblePlan
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan, Plan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["Life", "Mechanism", "Part", "due_parts"]

Mechanism = tuple[Any, ...]
"""Its kind, then its public parameters."""

Life = Literal["", "first", "again", "before"]
"""Of a side or an ensemble: it began with the phase, within it, or within the one before; "" where none is told."""

_NO_CAP: Final = 1 << 60
"""Votes are asked about without a K of their own: lives end by their Stoppers."""

_LIVES: Final[dict[Life, str]] = {
    "first": "lives that begin with the phase",
    "again": "lives that are armed within the phase",
    "before": "lives that were armed in the phase before",
}


class Part(NamedTuple):
    """Something that is due in a phase.

    Two whose life, law and parameters are the same cannot be told apart, nor need they be: one that is heard is both.

    Attributes:
        name: What it is called.
        mechanism: What it is.
        life: Which lives it answers in; "" for any.
        lasting: Whether each query draws from it, so that it answers behind a restart too; else it draws now and then:
            in training, where something is armed or ends, or for what is paid, of which there may be none left.
    """

    name: str
    mechanism: Mechanism
    life: Life = ""
    lasting: bool = False


def due_parts(plan: Plan) -> Mapping[int, Sequence[Part]]:
    """Return what is drawn from in each phase; in phase 1 with all that training draws."""
    if isinstance(plan, BoxPlan):
        return {phase.phase: [*_of_box(plan, phase)] for phase in plan.phases}
    if isinstance(plan, EnsemblePlan):
        return {phase.phase: [*_of_ensemble(plan, phase.phase)] for phase in plan.phases}
    if isinstance(plan, BisectionPlan):
        return {1: [Part("bits", ("bits", plan.noise, plan.scale), lasting=True)], 2: []}
    if isinstance(plan, ClassicalPlan):
        moves = 1 if plan.concept == "stump" else 2 * (1 if plan.slicing == "faces" else len(plan.sides))
        return {1: [Part("choices", ("choice", plan.epsilon / moves))]}
    if isinstance(plan, DistributionPlan):
        return {1: [*_asked("logistic", plan.thresholds.slope, plan.paid, gap=plan.thresholds.gap)]}
    if isinstance(plan, TablePlan):
        return {1: [*_of_table(plan)]}
    raise TypeError


def _asked(  # noqa: PLR0913, PLR0917 -- what questions are made of
    law: str, slope: float, paid: int, threshold: float | None = None, gap: int | None = None, life: Life = ""
) -> Iterator[Part]:
    """Yield paid questions, and the noise on the counts that they release, and on thresholds where these have some."""
    of = f" of {_LIVES[life]}" if life else ""
    yield Part(f"questions{of}", ("questions", law, slope, paid, threshold, gap), life, lasting=True)
    if law == "exponential":
        yield Part("noise on thresholds", ("noise", "laplace", threshold))
        law = "laplace"
    yield Part(f"noise on released counts{of}", ("noise", law, slope), life)


def _of_table(plan: TablePlan) -> Iterator[Part]:
    threshold = None if plan.paid_noise.threshold_slope is UNSET else plan.paid_noise.threshold_slope
    yield from _asked(plan.paid_noise.law, plan.paid_noise.slope, plan.paid, threshold)
    if isinstance(plan, StatisticsPlan) and plan.start_slope is not UNSET:
        yield Part("noise on marginals", ("noise", "discrete-laplace", plan.start_slope))


def _of_ensemble(plan: EnsemblePlan, number: int) -> Iterator[Part]:
    """Yield what lives of a phase and of the one before draw from, and the counts of blocks and classes."""
    phase = plan.phases[number - 1]
    yield Part("noise on counts of blocks", ("noise", "discrete-laplace", plan.control.epsilon))
    if number == 1 and plan.share_slope is not UNSET:
        yield Part("noise on counts of classes", ("noise", "discrete-laplace", plan.share_slope))
    yield Part("noise on Stoppers' thresholds", ("noise", "discrete-laplace", phase.stopper.epsilon))
    yield from _of_life(phase, "first")
    yield from _of_life(phase, "again")
    if number > 1:
        yield from _of_life(plan.phases[number - 2], "before")


def _of_life(phase: EnsemblePhase, life: Life) -> Iterator[Part]:
    """Yield what lives draw from that were armed in a phase."""
    stopper = ("Stopper", "discrete-laplace", phase.stopper.epsilon, phase.stopper.threshold)
    yield Part(f"Stoppers of {_LIVES[life]}", stopper, life, lasting=True)
    yield from _asked("logistic", phase.slope, _NO_CAP, gap=phase.gap, life=life)


def _of_box(plan: BoxPlan, phase: PhasePlan) -> Iterator[Part]:
    law, scale = "discrete-laplace", phase.stopper.epsilon
    if plan.profile == "paper":
        if phase.stopper.scale is UNSET:
            raise TypeError
        law, scale = "laplace", phase.stopper.scale
        sliced = {phase.phase + 1, phase.phase if phase.phase == 1 else 0}
        slices = [one.start.slice_scale for one in plan.phases if one.phase in sliced]
        yield from (Part("noise on sizes of slices", ("noise", law, one)) for one in slices)
    else:
        yield Part("noise on Stoppers' thresholds", ("noise", law, scale), lasting=True)  # states do not hold it
    lives: tuple[tuple[Life, InstancePlan], ...] = (("first", phase.start), ("again", phase.rearmed))
    for life, instance in lives:
        yield Part(f"depths of {_LIVES[life]}", _depths(instance), life, lasting=True)
        yield Part(f"Stoppers of {_LIVES[life]}", ("Stopper", law, scale, phase.stopper.threshold), life, lasting=True)
    if phase.phase == 1:
        yield from _of_training(plan)


def _of_training(plan: BoxPlan) -> Iterator[Part]:
    if plan.scale is not UNSET:
        yield Part("choices of edges", ("choice", plan.scale.scale))
    if plan.check is not UNSET:
        yield Part("noise on the points", ("noise", "discrete-laplace", plan.check.epsilon))
    if isinstance(plan, StumpsPlan):
        selection, paper = plan.selection, plan.profile == "paper"
        cut = ("noise", "laplace", selection.cut_epsilon) if paper else ("choice", selection.cut_epsilon / 2.0)
        yield Part("choices of stumps", ("choice", selection.epsilon / (2.0 if paper else 1.0)))
        yield Part("cuts", cut)


def _depths(instance: InstancePlan) -> Mechanism:
    return ("depths", instance.law, instance.scale, instance.low, instance.high, instance.points)
