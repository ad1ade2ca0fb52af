"""Uneven runs of profile `paper` (see `oracle.audit.runs.uneven`), made of those of profile `tight`."""

from msgspec import UNSET
from msgspec.structs import replace

from oracle.audit.randomness import Draws
from oracle.audit.references.paper import PaperBoxes, PaperStumps
from oracle.audit.runs.uneven import box_run, stump_run
from oracle.audit.runs.whole import Run
from oracle.mechanisms.noise.tables import tail_reach
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["paper_run"]


def paper_run(draws: Draws, *, stumps: bool, sides: int) -> Run:
    """Return a run of boxes or stumps whose sides are sliced by RSC, and whose noise is Laplace's.

    Args:
        draws: Sizes, rows and messages are drawn.
        stumps: Whether it is of stumps.
        sides: As of `box_run`.
    """
    run = stump_run(draws) if stumps else box_run(draws, "sequential", learned=False, sides=sides)
    plan: BoxPlan = run.plan
    phases = tuple(_phase(draws, phase) for phase in plan.phases)
    plan = replace(plan, profile="paper", slicing="rsc", phases=phases, check=UNSET)
    if not isinstance(plan, StumpsPlan):
        return run._replace(plan=plan, plain=PaperBoxes)
    epsilon = plan.selection.epsilon
    selection = replace(plan.selection, scale=epsilon / 2.0, cut_law="laplace", cut_scale=plan.selection.cut_epsilon)
    plan = replace(plan, sides=("stump:lower", "stump:upper"), selection=selection)
    return run._replace(plan=plan, plain=PaperStumps)


def _phase(draws: Draws, phase: PhasePlan) -> PhasePlan:
    return replace(
        phase,
        start=_instance(draws, phase.start, noisy=True),
        rearmed=_instance(draws, phase.rearmed, noisy=False),
        stopper=replace(phase.stopper, law="laplace", scale=0.7 + draws.one()),
    )


def _instance(draws: Draws, instance: InstancePlan, *, noisy: bool) -> InstancePlan:
    high = instance.high + 1  # of integers from t_l on, t_h itself is none that is medium
    if not noisy:
        return replace(instance, law="laplace", high=high, points=instance.points + 1, trim=0)
    slope, base = 1.1 + draws.one(), instance.points + 1
    return replace(
        instance,
        law="laplace",
        high=high,
        points=base + tail_reach(slope),
        trim=0,
        base=base,
        slice_scale=slope,
    )
