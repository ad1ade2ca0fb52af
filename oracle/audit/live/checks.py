"""Checks of what answers in runs of all predictors, in each phase and behind each restart."""

from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

from oracle.audit.due.live import due_parts
from oracle.audit.due.parts import Due, as_check
from oracle.audit.findings import Check, Seen
from oracle.audit.live.mechanisms import Heard, heard, inexact
from oracle.audit.randomness import SEED_BYTES, Draws, Randomness
from oracle.audit.references.far_out import wrong_far_out
from oracle.audit.runs.checks import run_of
from oracle.audit.runs.distributions import TYPES, uneven_distribution
from oracle.audit.runs.distributions import play as play_distribution
from oracle.audit.runs.ensembles import play as play_ensemble
from oracle.audit.runs.ensembles import uneven_plan
from oracle.audit.runs.served import Served
from oracle.audit.runs.steering import steered
from oracle.audit.runs.tables import eager
from oracle.audit.runs.tables import play as play_table
from oracle.audit.runs.uneven import run_with
from oracle.audit.runs.whole import body_of, train
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import TablePlan

__all__ = ["lawful", "state_laws"]


_RUNS: Final = 2
_TURNS: Final = 4
"""How often other runs are played where by chance something due was not asked: of ensembles once in 30 times."""

_AGAIN: Final = 1 << 20
_NAMED: Final = 3
_CUTS: Final = 40
_MESSAGES: Final = 100


def lawful(plan: Plan, randomness: Randomness) -> Seen:
    """What answers has the law, the scale, the thresholds and the counts that are due, in each phase and life.

    Also where a state has been taken back; and all that is due is heard. Floating-point noise has gaps that give single
    records away: so what is heard is asked at all edges about its thresholds, and far out, and compared with the law at
    high precision.
    """
    far = wrong_far_out()
    if far is not None:
        return False, f"far out: {far}"
    several = states = 0
    due, told = set[str](), set[str]()
    for turn in range(_TURNS):
        drawn = randomness if turn == 0 else Randomness(randomness.secret(_AGAIN + turn)[:SEED_BYTES], "again")
        for number in range(_RUNS):
            with heard() as found:
                used = _played(plan, drawn, number, found)
            wrong = found.wrong(used)
            if wrong is not None:
                return False, f"run {number}: {wrong}"
            several += sum(len(mechanisms) for mechanisms in found.mechanisms.values())
            states += found.states
            its_due, its_told = found.due_and_told(used)
            due, told = (due | its_due if turn == 0 else due), told | its_told
        if due <= told:
            break
    if due - told:
        return False, f"due, and heard in no run: {_named(due - told)}"
    return several > 0, f"{several} mechanisms that answered in {states} states are those due; all edges within 2^-128"


def _named(missing: AbstractSet[str]) -> str:
    """Return some of what is missing."""
    names = sorted(missing)
    return "; ".join(names[:_NAMED]) + (f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def state_laws(plan: Plan, phase: int, where: str) -> Check:
    """Return whether all that is due in a phase has its law, as a state's predictor makes it.

    Args:
        plan: The state's.
        phase: Which it is in.
        where: What the state is called in the report.
    """
    other = inexact(plan, min(phase, max(due_parts(plan))))
    what = "all noise and choices of its phase have their laws, to 128 bits"
    return as_check(Due(where, what, other is None, f"{other or ''}"))


def _played(plan: Plan, randomness: Randomness, number: int, found: Heard) -> Plan:
    """Play a run of a plan of the same kind, and return that."""
    draws = Draws(randomness, number)
    found.enter(1)
    if isinstance(plan, EnsemblePlan):
        return play_ensemble(uneven_plan(draws, 2 + number, resting=number == 1), randomness, number).plan
    if isinstance(plan, DistributionPlan):
        return play_distribution(uneven_distribution(draws, TYPES[number]), randomness, number, _MESSAGES).plan
    if isinstance(plan, TablePlan):
        return play_table((plan, eager(plan))[number], randomness, number, _MESSAGES).plan
    run = run_of(plan, draws, number)
    if isinstance(plan, BoxPlan) and number == _RUNS - 1:  # the plan itself, whose sizes are not as small
        run = run_with(draws, plan, run.plain)
    run, restarts = steered(run, randomness.secret(number), draws)
    predictor, _ = train(run, randomness.secret(number), draws)
    served = Served(run.plan, predictor)
    bodies = [body_of(run.plan, place, message) for place, message in enumerate(run.messages)]
    cuts = sorted({*restarts, *(1 + cut for cut in draws.some(_CUTS, len(bodies) - 1))})
    for start, stop in pairwise([0, *cuts, len(bodies)]):
        served.send(bodies[start:stop])
        served.checkpoint()
        served.restart()
    used: Plan = run.plan
    return used
