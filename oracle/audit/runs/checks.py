"""Checks that whole runs are those of plain re-implementations (see `oracle.audit.structure.checks`)."""

from typing import Final

import numpy as np
from msgspec import UNSET

from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.paper import paper_run
from oracle.audit.runs.steering import not_rearmed, steered
from oracle.audit.runs.uneven import bisection_run, box_run, classical_run, stump_run
from oracle.audit.runs.unique_noise import spread_bits
from oracle.audit.runs.whole import Run, begins, differs
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["beside_plain", "run_of"]


_RUNS: Final = 4
_KEYS: Final = 24
"""Keys under which a state is made of the same rows: a choice by other weights shows in some."""

_FEWER: Final = 6
"""The same, where edges are learned: each of these shows in itself."""

_MANY: Final = 11
_STEERED: Final = 1 << 10


def run_of(plan: Plan, draws: Draws, number: int) -> Run:
    """Return a run of the kind that a plan is of.

    Args:
        plan: Of boxes, stumps, a classical learner or OnlineBisection.
        draws: Sizes, rows and messages are drawn.
        number: Of the run; every other one of boxes with several sides has many of them.
    """
    if isinstance(plan, ClassicalPlan):
        return classical_run(draws, plan.concept, plan.slicing, one_side=len(plan.sides) == 1)
    if isinstance(plan, BisectionPlan):
        return bisection_run(draws, plan.profile)
    if not isinstance(plan, BoxPlan):
        raise TypeError
    if plan.slicing == "rsc":
        return paper_run(draws, stumps=isinstance(plan, StumpsPlan), sides=len(plan.sides))
    if isinstance(plan, StumpsPlan):
        return stump_run(draws)
    learned, sides = plan.scale is not UNSET, len(plan.sides)
    many = sides > 1 and number % 2 == 1 and plan.slicing == "faces" and not learned
    return box_run(draws, plan.slicing, learned=learned, sides=_MANY if many else sides)


def beside_plain(plan: Plan, randomness: Randomness) -> Seen:
    """Every answer, event and state is what a plain re-implementation says, whole, in batches, restored and killed.

    Else a draw has another law, scale or address than the proof says, or serves twice; a threshold, a counter or a set
    is another phase's, side's or life's; or a restart changes what is answered. In each phase a side is armed again.
    """
    rounds = events = 0
    drawn: list[tuple[int, int]] = []
    for number in range(_RUNS):
        run, _ = steered(
            run_of(plan, Draws(randomness, number), number),
            randomness.secret(number),
            Draws(randomness, _STEERED + number),
        )
        wrong, played = differs(run, randomness.secret(number), Draws(randomness, _RUNS + number))
        if wrong is not None:
            return False, f"run {number}: {wrong}: not what a plain re-implementation says"
        rounds += played.rounds
        drawn += played.drawn
        events += len(played.events)
        silent = not_rearmed(run.plan, played.events) if isinstance(plan, BoxPlan) else None
        if silent is not None:
            return False, f"run {number}: {silent}, so it has not been looked at"
    run = run_of(plan, Draws(randomness, 2 * _RUNS), 0)
    keys = _FEWER if isinstance(plan, BoxPlan) and plan.scale is not UNSET else _KEYS
    for number in range(keys):
        wrong, words = begins(run, randomness.secret(_RUNS + number), Draws(randomness, 3 * _RUNS + number))
        drawn += words
        if wrong is not None:
            return False, f"key {number}: {wrong}: not what a plain re-implementation says"
    says = f"{rounds} rounds four times, {events} events and {keys} more states are what a plain re-implementation says"
    fine, spread = spread_bits([np.array(drawn, dtype=np.uint64)])
    return fine, f"{says}; {spread}"
