"""Checks of what the proof for distributions assumes (PRIVACY.md, Theorem 30)."""

import json
import math
from collections.abc import Iterator
from typing import Final

import msgspec

from oracle.accounting.between_thresholds import logistic_log_delta
from oracle.accounting.paid_questions import table_distance
from oracle.accounting.race import race_log_delta
from oracle.audit.findings import Seen
from oracle.audit.games.distributions import wider_plan
from oracle.audit.laws.bets import Bets
from oracle.audit.laws.distributions import judge_comparisons, live_comparisons
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.distributions import TYPES, Run, play, said, uneven_distribution
from oracle.audit.runs.unique_noise import spread_bits
from oracle.errors import DataError, PlanError
from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.planning.plan import Plan
from oracle.planning.planner import verify_plan

__all__ = ["ladder_differs", "ladder_draws", "ladder_laws", "ladder_plainly", "ladder_proved"]


_RUNS: Final = 8
_MESSAGES: Final = 120
_LIVE: Final = 1_200
"""Predictors whose comparisons are listened to."""


def _runs(randomness: Randomness) -> Iterator[Run]:
    """Play runs of values of every type."""
    for number in range(_RUNS):
        plan = uneven_distribution(Draws(randomness, _RUNS + number), TYPES[number % len(TYPES)])
        yield play(plan, randomness, number, _MESSAGES)


def ladder_differs(run: Run) -> str | None:
    """Return what of a run is not what the re-implementation says, if anything."""
    for place, (body, expected) in enumerate(zip(run.replies, run.expected, strict=True)):
        if expected is None:
            read = json.loads(body)
            right = isinstance(read["error"], str) and "value" not in read
        else:
            right = said(run.plan, body) == expected
        if not right:
            return f"the reply to message {place}"
    if list(run.ledger) != run.plain.events:
        return "the ledger"
    return None if run.drawn else "what is drawn"


def ladder_plainly(_plan: Plan, randomness: Randomness) -> Seen:
    """Every answer, and the ledger, is what a plain re-implementation says, over snapshots and restarts.

    Else thresholds do not retire, or are elsewhere, noise is another one, or an answer tells what nobody has paid for.
    """
    replies = paid = thresholds = comparisons = 0
    for number, run in enumerate(_runs(randomness)):
        place = ladder_differs(run)
        if place is not None:
            return False, f"run {number}: {place} is not what a plain re-implementation says"
        replies, paid = replies + len(run.replies), paid + run.plain.paid
        thresholds, comparisons = thresholds + run.plan.paid, comparisons + run.plain.comparisons
    seen = f"{replies} replies by {comparisons} comparisons, {paid} paid answers at {thresholds} thresholds"
    return paid > 0, f"{seen}: all as a plain re-implementation says"


def ladder_laws(plan: Plan, randomness: Randomness) -> Seen:
    """Comparisons of a live predictor have the plan's noise and thresholds: else its claim is of something else."""
    if not isinstance(plan, DistributionPlan):
        return False, "the plan is not one of a distribution"
    bets, coins = Bets(), Draws(randomness, _LIVE)
    try:
        for number in range(_LIVE):
            judge_comparisons(plan, *live_comparisons(plan, randomness, number), bets, coins)
    except DataError as exc:
        return False, str(exc)
    return bets.verdict()


def ladder_draws(plan: Plan, randomness: Randomness) -> Seen:
    """Every comparison has bits of its own, also with another threshold, and in the search for a quantile."""
    if not isinstance(plan, DistributionPlan):
        return False, "the plan is not one of a distribution"
    return spread_bits(
        [one.words for number in range(_LIVE // 30) for one in live_comparisons(plan, randomness, number)[1]]
    )


def ladder_proved(plan: Plan, _randomness: Randomness) -> Seen:
    """What plans claim is what Theorem 30 has, worked out from their figures alone; and no less noise is let pass.

    Of this plan, and of one with more thresholds, and their own: with one more, or a slope a tenth steeper, neither is
    taken.
    """
    if not isinstance(plan, DistributionPlan):
        return False, "the plan is not one of a distribution"
    worst = 0.0
    for one in (plan, wider_plan(plan.epsilon)):
        if _refused(one):
            return False, "a plan of the planner's is not taken"
        worst = max(worst, _delta(one) / one.delta)
        steeper = msgspec.structs.replace(one.thresholds, slope=1.1 * one.thresholds.slope)
        changed = (msgspec.structs.replace(one, paid=one.paid + 1), msgspec.structs.replace(one, ladder=steeper))
        if not all(map(_refused, changed)):
            return False, "a plan with more paid answers, or less noise, is taken"
    return worst <= 1.0, f"the proof has {100.0 * worst:.1f} % of the deltas that plans claim, at most"


def _delta(plan: DistributionPlan) -> float:
    ladder = plan.thresholds
    # a search for a quantile, and of its share; the numbers of steps that Theorem 30 has
    steps = domain_of(plan.feature).size.bit_length() + plan.paid.bit_length() + 1
    tables = table_distance(ladder.slope, plan.rounds * steps, plan.epsilon)
    priced = (
        price(ladder.slope, ladder.gap, plan.paid, plan.epsilon) for price in (logistic_log_delta, race_log_delta)
    )
    return math.exp(min(priced)) + tables


def _refused(plan: DistributionPlan) -> bool:
    try:
        verify_plan(plan)
    except PlanError:
        return True
    return False
