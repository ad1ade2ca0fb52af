"""What must be true of a table's plan before a theorem is asked: a model may declare it, and its noise has a table."""

from msgspec import UNSET

from oracle.errors import PlanError
from oracle.mechanisms.noise.tables import SMALLEST_SCALE
from oracle.planning.questions import STEEPEST, check_questions
from oracle.planning.statistics.model import (
    SparseVectorModel,
    SparseVectorPlan,
    StatisticsModel,
    StatisticsPlan,
    TablePlan,
    check_table_model,
)

__all__ = ["check_bounds"]


def check_bounds(plan: TablePlan) -> None:
    """Refuse a plan of which a theorem would be asked what it is not about, such as noise of a negative slope.

    Raises:
        PlanError: A field is outside its bound.
    """
    kind = SparseVectorModel if isinstance(plan, SparseVectorPlan) else StatisticsModel
    paid = {} if plan.nominal else {"paid": plan.paid}  # of profile "paper" the constants say it
    check_questions(plan, kind, check_table_model, attributes=plan.attributes, **paid)
    noise = plan.noise
    slopes = {} if noise is UNSET else {"noise.slope": noise.slope, "noise.threshold_slope": noise.threshold_slope}
    if isinstance(plan, StatisticsPlan):
        slopes["start_slope"] = plan.start_slope
    for field, slope in slopes.items():
        if slope is not UNSET and not SMALLEST_SCALE <= slope <= STEEPEST:
            raise PlanError(f"plan.{field} = {slope!r}: must be from {SMALLEST_SCALE:g} to {STEEPEST:g}")
    if noise is not UNSET and (noise.law, noise.threshold_slope is UNSET) not in {
        ("gumbel", True),
        ("exponential", False),
    }:
        raise PlanError(f"plan.noise.law = {noise.law!r}: must be gumbel, or exponential with a threshold_slope")
