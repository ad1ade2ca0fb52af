"""Profile `paper`: AdaptiveThresholds over a partition, with the constants of Bun, Steinke and Ullman (2017).

Theorem 5.5(ii): with an AdaptiveInteriorPoint in each chunk that is (eps', delta')-private and right for k questions
but with probability alpha beta/8 on n' rows (Proposition 5.11), n = max{6 n'/alpha, 24 log^2.5(4/alpha) log(2/beta)/
(alpha eps')} rows are (4 eps', (1 + exp(eps')) delta')-private. So eps' = eps/4, in name only: Claim 5.12 is false
(PRIVACY.md, section 16). Logarithms of the second term are to base 2: with natural ones Claim 5.13 is false.
"""

import math
from collections.abc import Callable

from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_SIDES
from oracle.mechanisms.noise.tables import SMALLEST_SCALE, tail_reach
from oracle.planning.distribution.model import (
    DistributionModel,
    DistributionPlan,
    PartitionPlan,
    check_distribution_model,
)
from oracle.planning.distribution.tight import held_bytes
from oracle.planning.model import promises_of
from oracle.planning.plan import Phase
from oracle.planning.questions import ROUNDS, check_questions, refuse_many

__all__ = ["paper_rows", "plan_distribution_paper", "verify_distribution_paper"]


def plan_distribution_paper(model: DistributionModel, _progress: Callable[[int], None]) -> DistributionPlan:
    """Plan the paper's algorithm, for the fewest rows that suffice where the model declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    chunks, sizes = _chunks(model.alpha), _sizes(model)
    least = paper_rows(model)
    if chunks > MAX_SIDES:
        raise PlanError(f"model.alpha = {model.alpha!r}: must be at least 1/512 with profile = 'paper'")
    refuse_many(model, least)
    if sizes.partition_slope < SMALLEST_SCALE:
        raise PlanError(f"model.epsilon = {model.epsilon!r}: no noise table is wide enough; take a larger epsilon")
    rows = max(model.examples, least)
    tables = sum(map(tail_reach, (sizes.partition_slope, sizes.threshold_slope, sizes.slope)))
    return DistributionPlan(
        **promises_of(model),
        profile="paper",
        examples=least,
        declared=rows,
        questions=model.rounds,
        comparisons=model.rounds,
        paid=chunks,
        error=model.alpha,
        partition=sizes,
        phases=(Phase(phase=1, rounds=ROUNDS, delta=model.delta),),
        memory_bytes=held_bytes(model.features, rows, chunks) + 2 * 16 * 2 * tables,
    )


def paper_rows(model: DistributionModel) -> int:
    """Return n of Theorem 5.5(ii)."""
    cuts: float = (
        24.0 * math.log2(4.0 / model.alpha) ** 2.5 * math.log2(2.0 / model.beta) / (model.alpha * model.epsilon / 4)
    )
    return math.ceil(max(6.0 * _sizes(model).rows / model.alpha, cuts))


def _chunks(alpha: float) -> int:
    """Return M, a power of 2 from 2/alpha on."""
    chunks: int = 1 << math.ceil(math.log2(2.0 / alpha))
    return chunks


def _sizes(model: DistributionModel) -> PartitionPlan:
    epsilon = model.epsilon / 4.0
    delta = model.delta / (1.0 + math.exp(epsilon))
    right = math.log(model.rounds + 1.0) + math.log(8.0 / (model.alpha * model.beta))
    private = math.log(10.0 / epsilon) + math.log(1.0 / delta) + 1.0
    rows = math.ceil(36.0 / epsilon * max(right + private, 1.0))  # of a large epsilon the paper says nothing
    return PartitionPlan(
        rows=rows,
        partition_slope=epsilon / math.log2(_chunks(model.alpha)),
        threshold_slope=epsilon / 2.0,
        slope=epsilon / 6.0,
        low=math.ceil(rows / 3),
        high=2 * rows // 3,
    )


def verify_distribution_paper(plan: DistributionPlan) -> None:
    """Make every figure of a plan again.

    Raises:
        PlanError: One differs.
    """
    model = check_questions(plan, DistributionModel, check_distribution_model)
    again = plan_distribution_paper(model, lambda _step: None)
    for name in ("examples", "declared", "comparisons", "paid", "error", "ladder", "partition", "memory_bytes"):
        if getattr(plan, name) != getattr(again, name):
            msg = f"plan.{name} = {getattr(plan, name)}: the paper's constants make it {getattr(again, name)}"
            raise PlanError(msg)
    if plan.phases[0].delta != plan.delta:
        raise PlanError(f"plan.phases[0].delta = {plan.phases[0].delta!r}: must be {plan.delta!r}")
