"""The planner of classical learners: how many examples the exponential mechanism over all float64 edges takes.

Everything here follows from two facts: P(loss >= least + x) <= (number of edges) exp(-e x), and binomial tails.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import scipy  # which loads its parts when they are asked for

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import ChoiceEvent, Composed, Event
from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_SIDES
from oracle.mechanisms.grid import EDGES
from oracle.planning.boxes.harvest import trials_for
from oracle.planning.boxes.model import side_names
from oracle.planning.boxes.tight import COIN, faces_share
from oracle.planning.classical.model import ClassicalModel, ClassicalPlan
from oracle.planning.model import promises_of
from oracle.planning.plan import Phase

__all__ = [
    "ENDLESS",
    "box_error",
    "classical_event",
    "plan_classical",
    "stump_error",
    "verify_classical_plan",
]

ENDLESS: Final = 2**53
"""Rounds of the one phase: as far as every JSON reader counts exactly; 285 years at a million a second."""

_LARGEST: Final = 2**48
"""Examples that a model may declare at most."""

_STATE_BYTES: Final = 256


def plan_classical(model: ClassicalModel, _progress: Callable[[int], None]) -> ClassicalPlan:
    """Plan a run, as if just enough examples were declared where the model declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    sides = side_names(model)
    box = model.concept == "box"
    if box and len(sides) > MAX_SIDES:
        raise PlanError(f"model.features: {len(sides)} sides: at most {MAX_SIDES} are supported")
    faces = box and model.slicing == "faces"
    spread, choices = (2, 1 if faces else len(sides)) if box else (1, 1)
    scale = _scale(model.epsilon, spread * choices)
    share = (model.share or faces_share(model, len(sides))) if faces else 1.0
    rank = _rank(scale, len(sides), model.beta) if box else 0

    def error(rows: int) -> float:
        if box:
            return box_error(rank, len(sides), share, model.beta, rows)
        return stump_error(scale, len(sides), model.beta, rows)

    least = _least_box(model, rank, len(sides), share) if box else _least_stump(model.alpha, error)
    if least > _LARGEST:
        msg = f"model.alpha = {model.alpha!r}: {least:,} examples would be needed; at most 2^48 can be declared"
        raise PlanError(msg)
    declared = max(model.examples, least)
    plan = ClassicalPlan(
        **promises_of(model) | {"delta": 0.0},
        profile="tight",
        concept=model.concept,
        sides=sides,
        slicing="faces" if faces else "whole",
        coin=COIN if faces and len(sides) > 1 else 0.0,
        share=share,
        examples=least,
        declared=declared,
        scale=scale,
        spread=spread,
        choices=choices,
        rank=rank,
        expected_error=error(declared),
        phases=(Phase(phase=1, rounds=ENDLESS, delta=0.0),),
        memory_bytes=_STATE_BYTES + 16 * len(model.features),
    )
    verify_classical_plan(plan)
    return plan


def _scale(epsilon: float, parts: int) -> float:
    """Return the largest e with parts * e <= epsilon, as exact numbers."""
    scale = epsilon / parts
    return math.nextafter(scale, 0.0) if parts * Fraction(scale) > Fraction(epsilon) else scale


def _rank(scale: float, sides: int, beta: float) -> int:
    """Return the least m with 2^64 exp(-e m) <= beta/(2 S): one side's choice loses m or more that seldom."""
    return math.ceil(math.log(EDGES * 2.0 * sides / beta) / scale * (1.0 + 1e-9))


def box_error(rank: int, sides: int, share: float, beta: float, rows: int) -> float:
    """Return a bound on the error of a learned box, missed with probability at most beta.

    Formal guarantees:
        Let the labels be those of a box that has no other sides than these, and the examples independent.
        * *The choice.* An edge of loss 0 exists (`edges.side_candidates`), so the chosen one loses `rank` or more with
          probability at most (number of edges) exp(-e rank) <= beta/(2S). Otherwise an example labelled 1 lies at or
          outside it, or nothing reaches it: in both cases it does not lie outside the true side, and what it labels 1
          is 1. And at most k = 2 rank - 1 of the side's examples lie outside it.
        * *The sample.* Let s be the innermost edge with P(label 1, outside s) <= a; then P(label 1, at or outside s)
          is at least a (or all that is labelled 1). If the chosen edge is further in, all examples at or outside s lie
          outside it, and the side is shown each such one with probability a * share or more: then
          Bin(n, a * share) <= k, which has probability beta/(2S) for the a that this is made of (Clopper and Pearson,
          1934). Otherwise the side loses at most a.
        * So with probability 1 - beta all errors are on what is labelled 1, and weigh S a at most. Under `faces` this
          takes it that a stripe's side is shown its share of it: an estimate.

    Args:
        rank: m.
        sides: S.
        share: Part of a stripe that its side is shown.
        beta: In (0, 1).
        rows: n.
    """
    if rows < 2 * rank:
        return 1.0
    miss = beta / (2.0 * sides)
    return min(sides / share * float(scipy.stats.beta.isf(miss, 2 * rank, rows - 2 * rank + 1)), 1.0)


def _least_box(model: ClassicalModel, rank: int, sides: int, share: float) -> int:
    return trials_for(2 * rank, model.alpha * share / sides, model.beta / (2.0 * sides))


def stump_error(scale: float, stumps: int, beta: float, rows: int) -> float:
    """Return a bound on what the chosen stump errs more than the best one, missed with probability at most beta.

    * The choice: with probability 1 - beta/3 it gets at most ln(3 K 2^64/beta)/e examples more wrong than the best.
    * The sample, for the chosen one: its error is the sum of two sub-distribution functions at its edge, each within
      sqrt(ln(6 K/beta)/(2n)) of the sample's for all edges of all K stumps (Massart, 1990, one-sided; there are 2K of
      them), but with probability beta/3.
    * The sample, for the best one: Hoeffding's inequality, but with probability beta/3.

    Args:
        scale: e.
        stumps: K, pairs of a feature and a direction.
        beta: In (0, 1).
        rows: n.
    """
    miss = beta / 3.0
    choice = math.log(stumps * EDGES / miss) / scale / rows
    chosen = 2.0 * math.sqrt(math.log(2.0 * stumps / miss) / (2.0 * rows))
    return min(choice + chosen + math.sqrt(math.log(1.0 / miss) / (2.0 * rows)), 1.0)


def _least_stump(alpha: float, error: Callable[[int], float]) -> int:
    low, high = 0, 1
    while error(high) > alpha:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= alpha else (middle, high)
    return high


def classical_event(plan: ClassicalPlan) -> Event:
    """Return what a training record goes through; a query goes through nothing.

    Under `faces` a record is shown to one side, which its own coin and features name, so the sides compose in parallel;
    under `whole` to all of them; and a stump is one choice. What is chosen is all that is ever released.
    """
    return Composed((ChoiceEvent(plan.scale, plan.spread),) * plan.choices)


def _verify_shown(plan: ClassicalPlan) -> None:
    """Check what decides to which choices a record is shown: it has a coin where it goes to one side of several.

    Raises:
        PlanError: A record is shown to other sides than are paid for, or two sides share their noise.
    """
    box, sides = plan.concept == "box", side_names(plan)
    if plan.sides != sides or not sides or (box and len(sides) > MAX_SIDES):
        msg = f"must be those of the features, and of a box from 1 to {MAX_SIDES}"
        raise PlanError(f"plan.sides = {len(plan.sides)} names: {msg}")
    drawn = box and plan.slicing == "faces" and len(sides) > 1
    if not (0.0 < plan.coin < 1.0 if drawn else plan.coin == 0.0):
        raise PlanError(f"plan.coin = {plan.coin!r}: must be {'above 0, and below 1' if drawn else '0'}")
    if box and plan.rank < 1:
        raise PlanError(f"plan.rank = {plan.rank}: must be at least 1")


def verify_classical_plan(plan: ClassicalPlan) -> None:
    """Check a plan's epsilon with the accountant, and its error with the bounds above.

    Raises:
        PlanError: A figure does not hold.
    """
    sides = len(plan.sides)
    wanted = (1, 1) if plan.concept == "stump" else (2, 1 if plan.slicing == "faces" else sides)
    if (plan.spread, plan.choices) != wanted:
        msg = f"plan.spread = {plan.spread}, plan.choices = {plan.choices}: must be {wanted[0]} and {wanted[1]}"
        raise PlanError(msg)
    _verify_shown(plan)
    if not 0.0 < plan.share <= 1.0:
        raise PlanError(f"plan.share = {plan.share!r}: must be above 0, and at most 1")
    if not 0.0 < plan.scale < math.inf:
        raise PlanError(f"plan.scale = {plan.scale!r}: must be above 0 and finite")
    spent = plan.declared * plan.phases[0].delta
    if not spent <= plan.delta:
        raise PlanError(f"plan.delta = {plan.delta!r}: the schedule spends {spent!r}")
    if delta_at(classical_event(plan), plan.epsilon) > 0.0:
        raise PlanError(f"plan.epsilon = {plan.epsilon!r}: the choices' epsilons sum to more")
    if plan.concept == "box":
        proved = box_error(plan.rank, sides, plan.share, plan.beta, plan.declared)
        if plan.rank < _rank(plan.scale, sides, plan.beta):
            proved = 1.0
    else:
        proved = stump_error(plan.scale, sides, plan.beta, plan.declared)
    if not proved <= plan.expected_error * (1.0 + 1e-9):
        raise PlanError(f"plan.expected_error = {plan.expected_error!r}: only {proved!r} is proved")
