"""The planner of distributions: K thresholds, and the noise that leaves the fewest rows for an error."""

import math
from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from oracle.accounting.accountant import delta_at
from oracle.accounting.paid_questions import noise_slope, table_distance
from oracle.errors import PlanError
from oracle.mechanisms.noise.tables import SMALLEST_SCALE, tail_reach
from oracle.planning.distribution.guarantees import distribution_event
from oracle.planning.distribution.model import (
    DistributionModel,
    DistributionPlan,
    LadderPlan,
    check_distribution_model,
    question_steps,
)
from oracle.planning.distribution.sizes import Sizes, comparisons_for, margin_of
from oracle.planning.features import Feature, key_bytes
from oracle.planning.model import promises_of
from oracle.planning.plan import Phase
from oracle.planning.questions import MOST_ROWS, ROUNDS, STEEPEST, check_questions, refuse_many

__all__ = ["MOST_THRESHOLDS", "held_bytes", "plan_distribution", "verify_distribution"]

MOST_THRESHOLDS: Final = 1 << 14

_GAPS: Final = (1.5, 2.0, 2.5, 3.0)
"""g e: in a wider zone more is paid for that noise decides, a narrower one makes what is paid dearer."""


def plan_distribution(model: DistributionModel, _progress: Callable[[int], None]) -> DistributionPlan:
    """Plan a ladder, for the fewest rows that suffice where the model declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    least, sizes = min(_fewest(model, gap_nats) for gap_nats in _GAPS)
    refuse_many(model, least)
    rows = max(model.examples, least)
    plan = DistributionPlan(
        **promises_of(model),
        profile="tight",
        examples=least,
        declared=rows,
        questions=model.rounds,
        comparisons=comparisons_for(model.rounds, sizes.thresholds),
        paid=sizes.thresholds,
        error=sizes.error(rows),
        ladder=LadderPlan(slope=sizes.slope, gap=sizes.gap, margin=sizes.margin, width=sizes.width(rows)),
        phases=(Phase(phase=1, rounds=ROUNDS, delta=model.delta),),
        memory_bytes=_memory(model.features, rows, sizes),
    )
    verify_distribution(plan)
    return plan


def _fewest(model: DistributionModel, gap_nats: float) -> tuple[int, Sizes]:
    """Return the fewest rows, by trisection: they fall and then rise with K, but for rounding.

    Raises:
        PlanError: More thresholds would be needed than there may be.
    """
    low = math.floor(0.5 / model.alpha) + 1
    high = min(6 * low + 10, MOST_THRESHOLDS)
    if low > high:
        raise PlanError(f"model.alpha = {model.alpha!r}: more than {MOST_THRESHOLDS:,} thresholds would be needed")

    def rows(thresholds: int) -> tuple[int, Sizes]:
        sizes = _sizes(model, thresholds, gap_nats)
        return sizes.least_rows(model.alpha) or 2 * MOST_ROWS, sizes

    while high - low > 3:  # noqa: PLR2004 -- so few are looked at one by one
        third = (high - low) // 3
        if rows(low + third) <= rows(high - third):
            high -= third
        else:
            low += third
    return min(map(rows, range(low, high + 1)))


def _sizes(model: DistributionModel, thresholds: int, gap_nats: float) -> Sizes:
    """Return a ladder with the largest e for K paid answers, rounded down.

    Raises:
        PlanError: The noise tables alone cost more than delta, or no table is wide enough.
    """
    draws = ROUNDS * question_steps(model.features[0], thresholds)
    # noise is less than this slope's in no plan; a smaller slope has a longer table, in proportion
    steepest = noise_slope(thresholds, model.epsilon, model.delta, gap_nats=gap_nats)
    tables = 2.0 * table_distance(steepest, draws, model.epsilon)
    delta = (model.delta - tables) * (1.0 - 1e-9)
    if not delta > 0.5 * model.delta:
        msg = f"model.delta = {model.delta!r}: the noise tables of so many answers cost {tables:.2g} of it"
        raise PlanError(f"{msg}; take a larger delta or a smaller epsilon")
    # what the accountant takes off epsilon, rounded down
    epsilon = math.nextafter(model.epsilon, 0.0)
    slope = min(noise_slope(thresholds, epsilon, delta, gap_nats=gap_nats, exact=True), STEEPEST)
    if slope < SMALLEST_SCALE:
        raise PlanError(f"model.epsilon = {model.epsilon!r}: no noise table is wide enough; take a larger alpha")
    gap = math.floor(gap_nats / slope)
    margin = margin_of(slope, gap, comparisons_for(model.rounds, thresholds), model.beta)
    return Sizes(thresholds, slope, gap, margin)


def held_bytes(features: tuple[Feature, ...], rows: int, paid: int) -> int:
    """Return the bytes of all rows' keys, and of what is known of each threshold, or each chunk.

    Args:
        features: One.
        rows: n.
        paid: K.
    """
    key = key_bytes(features)
    return rows * key + paid * (8 * key + 512)


def _memory(features: tuple[Feature, ...], rows: int, sizes: Sizes) -> int:
    """Return the same with the noise's table: two words for each edge, and as many again while it is made."""
    return held_bytes(features, rows, sizes.thresholds) + 2 * 16 * 2 * tail_reach(sizes.slope)


def verify_distribution(plan: DistributionPlan) -> None:
    """Make every figure of a plan again.

    Raises:
        PlanError: A figure does not hold.
    """
    check_questions(plan, DistributionModel, check_distribution_model)
    ladder = plan.thresholds
    if plan.partition is not UNSET:
        raise PlanError("plan.partition: is for profile paper only")
    if not SMALLEST_SCALE <= ladder.slope <= STEEPEST:
        raise PlanError(f"plan.ladder.slope = {ladder.slope!r}: must be from {SMALLEST_SCALE:g} to {STEEPEST:g}")
    if not 1 < plan.paid <= MOST_THRESHOLDS:
        raise PlanError(f"plan.paid = {plan.paid}: must be from 2 to {MOST_THRESHOLDS:,} thresholds")
    if not (0 <= ladder.gap <= MOST_ROWS and 1 <= ladder.margin <= MOST_ROWS):
        raise PlanError(f"plan.ladder: gap = {ladder.gap}, margin = {ladder.margin}: must be of 0 to 2^40 rows")
    _verify_privacy(plan)
    _verify_figures(plan, Sizes(plan.paid, ladder.slope, ladder.gap, ladder.margin))


def _verify_privacy(plan: DistributionPlan) -> None:
    proved = delta_at(distribution_event(plan), plan.epsilon)
    if not proved <= plan.phases[0].delta == plan.delta:
        msg = f"plan.phases[0].delta = {plan.phases[0].delta!r}: {proved!r} is proved, and {plan.delta!r} declared"
        raise PlanError(msg)


def _verify_figures(plan: DistributionPlan, sizes: Sizes) -> None:
    """Check what follows from a ladder's sizes: each figure has one value."""
    comparisons = comparisons_for(plan.questions, plan.paid)
    again = {
        "comparisons": (plan.comparisons, comparisons),
        "ladder.margin": (sizes.margin, margin_of(sizes.slope, sizes.gap, comparisons, plan.beta)),
        "ladder.width": (plan.thresholds.width, sizes.width(plan.declared)),
        "error": (plan.error, sizes.error(plan.declared)),
        "examples": (plan.examples, sizes.least_rows(plan.alpha)),
        "memory_bytes": (plan.memory_bytes, _memory(plan.features, plan.declared, sizes)),
    }
    for field, (figure, made) in again.items():
        if figure != made:
            raise PlanError(f"plan.{field} = {figure!r}: the other figures make it {made!r}")
    if plan.declared < plan.examples:
        raise PlanError(f"plan.declared = {plan.declared}: must be at least {plan.examples} examples")
