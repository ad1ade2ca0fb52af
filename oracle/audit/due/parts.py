"""Parts of the audit of a plan: what was compared with what, and what instances of any predictor owe."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from oracle.audit.due.bounds import one_way, potential
from oracle.audit.due.game import Game, play
from oracle.audit.findings import Check
from oracle.planning.plan import Plan, truth_of

__all__ = ["Due", "as_check", "at_least", "at_most", "fits", "price", "schedule", "truth_dues"]

_NEAR: Final = 1.01
"""Numbers here are right to about a thousandth, and not rounded up: nothing within a hundredth is a finding."""

_INSIDE: Final = 1.03
"""By so much questions inside the zone may seem worth more than the game: chords on the lattice do as much."""

_SUMMED: Final = 1 + Fraction(1, 10**12)
"""Sums of floats are rounded, in plans of before towards less than a part in 10^15 too much."""

_MOST_STAGES: Final = 1_500
"""Arrivals up to which a game is played stage by stage; a longer race is integrated."""


@dataclass(frozen=True, slots=True)
class Due:
    """One comparison.

    Attributes:
        where: The field.
        what: What must hold.
        holds: Whether it does.
        says: Value and bound.
        promise: True if it is the promise about errors that does not hold, and not privacy.
    """

    where: str
    what: str
    holds: bool
    says: str
    promise: bool = False


def as_check(due: Due) -> Check:
    """Return a comparison as an audit prints it."""
    says = due.says if due.holds or not due.promise else f"{due.says}: the promise does not hold"
    return Check(
        cell=f"plan|{due.where}|{due.what}",
        target=due.where,
        name=due.what,
        passed=due.holds,
        says=says,
        seconds=0.0,
        promise=due.promise,
    )


def at_least(where: str, what: str, value: float, due: float, *, promise: bool = False) -> Due:
    """Compare a figure with the least that it must be."""
    return Due(where, what, value >= due, f"{value:.9g}; at least {due:.9g} is due", promise)


def at_most(where: str, what: str, value: float, bound: float, *, promise: bool = False) -> Due:
    """Compare a figure with the most that it may be."""
    return Due(where, what, value <= bound, f"{value:.9g}; at most {bound:.9g}", promise)


def fits(where: str, what: str, due: float, delta: float) -> Due:
    """Compare a delta that was worked out here with the one that is claimed."""
    return Due(where, what, due <= delta * _NEAR, f"delta = {delta:.6g}; at least {due:.6g} is due")


def schedule(plan: Plan) -> Iterator[Due]:
    """Yield whether all records' deltas, in fractions, stay within the plan's, but for the rounding of a sum."""
    first = Fraction(plan.phases[0].delta)
    rounds = sum((one.rounds * Fraction(one.delta) for one in plan.phases), Fraction(0))
    spent = rounds + plan.declared * first if plan.sums_delta and plan.protects_queries else first
    if plan.sums_delta and not plan.protects_queries:
        spent = plan.declared * first
    says = f"{float(spent):.9g}; at most {plan.delta:.9g}"
    yield Due("delta", "all records' deltas sum to at most this", spent <= Fraction(plan.delta) * _SUMMED, says)
    yield at_least("declared", "as many rows are declared as suffice", plan.declared, plan.examples, promise=True)


def truth_dues(plan: Plan) -> Iterator[Due]:
    """Yield whether the counts of true labels, of which a query moves one by 1, are paid for within epsilon."""
    truth = truth_of(plan)
    if truth is not None:
        fine = 0 < Fraction(truth.epsilon) < Fraction(plan.epsilon) and truth.rounds >= 1 and truth.lag >= 0
        says = f"{truth.epsilon:.9g} of {plan.epsilon:.9g}, in periods of {truth.rounds:,} rounds"
        yield Due("truth.epsilon", "one count of one period for each query, within epsilon", fine, says)


def price(where: str, game: Game, delta: float, others: float, factor: float = 1.0) -> Iterator[Due]:
    """Yield what is due for membership in instances, beside a claimed delta.

    Args:
        where: The instance.
        game: What an adversary plays against it.
        delta: Claimed for all that its record goes through.
        others: What else is due of that.
        factor: By which tables multiply what is due.
    """
    if not (0.0 < game.slope < math.inf and 0.0 < game.epsilon < math.inf and game.paid >= 1 and (game.gap or 0) >= 0):
        yield Due(where, "there is noise, and something left of epsilon", holds=False, says=f"{game}")
        return
    free = 0.0 if game.gap is None else math.exp(-game.slope * (game.gap + 1))
    if game.starts or game.paid / (1.0 - free) <= _MOST_STAGES:
        played = play(game._replace(delta=10.0 ** math.floor(math.log10(max(delta, 1e-300)))))
        due, how = played.delta, f"the best adversary of {game.paid:,} paid answers"
        says = f"by a factor of {played.inside - 1.0:.1g} at most"
        yield Due(where, "no question inside the zone reaches more", played.inside <= _INSIDE, says)
    else:
        due, how = potential(game), f"the potential of a race of {game.paid:,} paid answers"
        yield fits(where, "an adversary who never changes sign is within delta", one_way(game) + others, delta)
    yield fits(where, f"{how} is within delta", due * factor + others, delta)
