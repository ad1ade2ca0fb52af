"""A state's live objects, as they are restored, beside what its plan says: read only, and nothing is answered.

What is printed is public: which checks hold. A state's points, counters and noisy thresholds are looked at, never told.
"""

import time
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.audit.due.exactness import ALLOWED, exact_between, exact_stopper
from oracle.audit.due.parts import Due, as_check
from oracle.audit.findings import Check
from oracle.mechanisms.noise.tables import Law
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan, Plan
from oracle.planning.questions import QuestionPlan
from oracle.predictors.kinds import restore_predictor
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.sides import SideBank
from oracle.predictors.stumps import StumpsPERP
from oracle.state.format import Snapshot

__all__ = ["audit_state"]

_OF_MACHINE: Final = frozenset({"libraries"})
"""What names the software of whoever fits an ensemble's teachers: it may differ, as long as these vote as before."""


def audit_state(plan: Plan, snapshot: Snapshot, where: str) -> Iterator[Check]:
    """Yield what the live objects of a state are beside what its plan says.

    Args:
        plan: The state's.
        snapshot: Its newest one; a copy of its arrays is restored.
        where: What the state is called in the report.
    """
    begun = time.process_time()
    for due in _state(plan, snapshot, where):
        yield msgspec.structs.replace(as_check(due), seconds=time.process_time() - begun)
        begun = time.process_time()


def _state(plan: Plan, snapshot: Snapshot, where: str) -> Iterator[Due]:
    yield Due(where, "the snapshot is of this plan", snapshot.plan_digest == plan.digest, plan.name)
    inside = 1 <= snapshot.phase <= len(plan.phases)
    yield Due(where, "its phase is one of the plan's", inside, f"phase {snapshot.phase} of {len(plan.phases)}")
    if not inside:
        return
    first, rounds = plan.first_round(snapshot.phase), plan.phases[snapshot.phase - 1].rounds
    begun = first <= snapshot.round <= first + rounds
    yield Due(where, "its round is one of the phase", begun, f"{snapshot.round:,} rounds answered")
    predictor = restore_predictor(plan, {name: array.copy() for name, array in snapshot.arrays.items()})
    again = predictor.export()
    stored = snapshot.arrays.keys() - _OF_MACHINE
    same = stored <= again.keys()  # formats only grow: what an older version wrote comes first
    same = same and all(_begins(again[name].ravel(), snapshot.arrays[name].ravel()) for name in stored)
    yield Due(where, "what was restored is what was stored", same, f"{len(again)} arrays")
    facts = predictor.facts()
    told = (facts.phase, facts.paid) == (snapshot.phase, snapshot.paid)
    yield Due(where, "it says the phase and paid answers that the header says", told, "")
    if isinstance(plan, QuestionPlan):
        yield Due(
            where, "no more answers were paid for than K", facts.paid <= plan.paid, f"{facts.paid} of {plan.paid}"
        )
    if isinstance(plan, BoxPlan) and isinstance(predictor, RectanglesPERP | StumpsPERP):
        yield from _bank(plan, plan.phases[snapshot.phase - 1], predictor.sides, where)


def _begins(whole: NDArray[np.generic], first: NDArray[np.generic]) -> bool:
    return bool(np.array_equal(whole[: len(first)], first))


def _bank(plan: BoxPlan, phase: PhasePlan, bank: SideBank, where: str) -> Iterator[Due]:
    """Yield what each armed side answers with, and what it counts."""
    yield Due(
        where, "as many sides are armed as the plan has", len(bank.armed) == len(plan.sides), f"{len(plan.sides)}"
    )
    scale = phase.stopper.epsilon if phase.stopper.scale is UNSET else phase.stopper.scale
    law: Law = "discrete-laplace" if phase.stopper.law is UNSET else phase.stopper.law
    for name, armed in zip(plan.sides, bank.armed, strict=False):
        side = f"{where}: {name}"
        kinds = [one for one in (phase.start, phase.rearmed) if _runs(armed.thresholds, one)]
        yield Due(side, "it answers with the law and the thresholds of the plan", bool(kinds), f"phase {phase.phase}")
        stopper = armed.stopper
        ours = (stopper.epsilon, stopper.threshold, stopper.law) == (scale, phase.stopper.threshold, law)
        yield Due(side, "its Stopper has the plan's noise and threshold", ours, f"k = {phase.stopper.threshold:,}")
        held = any(len(armed.points) == one.points for one in kinds)
        yield Due(side, "it holds as many points as the plan says", held, "")
        counted = 0 <= armed.mediums <= phase.stopper.cap
        yield Due(side, "no more mediums were answered than K", counted, f"K = {phase.stopper.cap:,}")
        now = -1 <= armed.armed < phase.rounds
        yield Due(side, "it was armed in this phase", now, "")
    yield from _noise(phase, bank, where, law, scale)


def _runs(thresholds: BetweenThresholds, instance: InstancePlan) -> bool:
    live = (thresholds.law, thresholds.scale, thresholds.low, thresholds.high, thresholds.points)
    return live == (instance.law, instance.scale, instance.low, instance.high, instance.points)


def _noise(phase: PhasePlan, bank: SideBank, where: str, law: Law, scale: float) -> Iterator[Due]:
    """Find the edges at which live objects' answers change, by bisection, and compare them with the laws."""
    live = {id(armed.thresholds): armed.thresholds for armed in bank.armed}
    for thresholds in live.values():
        named = [
            (name, one) for name, one in (("start", phase.start), ("rearmed", phase.rearmed)) if _runs(thresholds, one)
        ]
        for name, instance in named[:1]:
            exact = bool(exact_between(thresholds, instance) <= ALLOWED)
            yield Due(f"{where}: {name}", "its noise is the integer law's, to 128 bits", exact, "")
    for stopper in {id(armed.stopper): armed.stopper for armed in bank.armed}.values():
        exact = bool(exact_stopper(stopper, law, scale, phase.stopper.threshold) <= ALLOWED)
        yield Due(f"{where}: Stopper", "its noise is the integer law's, to 128 bits", exact, "")
