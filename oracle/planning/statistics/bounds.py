"""What must be true of a table's plan before a theorem is asked: a model may declare it, and its noise has a table."""

from msgspec import UNSET, ValidationError, convert, to_builtins

from oracle.errors import InputError, PlanError
from oracle.mechanisms.noise.tables import SMALLEST_SCALE
from oracle.planning.statistics.model import (
    SparseVectorModel,
    SparseVectorPlan,
    StatisticsModel,
    StatisticsPlan,
    TablePlan,
    check_table_model,
)
from oracle.planning.statistics.noise import ROUNDS, STEEPEST

__all__ = ["check_bounds"]

_SAME = ("name", "predictor", "profile", "features", "epsilon", "delta", "alpha", "beta", "gamma", "attributes")


def check_bounds(plan: TablePlan) -> None:
    """Refuse a plan of which a theorem would be asked what it is not about, such as noise of a negative slope.

    Raises:
        PlanError: A field is outside its bound.
    """
    _check_declared(plan)
    phases = plan.phases
    if len(phases) != 1 or phases[0].phase != 1 or not 1 <= phases[0].rounds <= ROUNDS:
        raise PlanError("plan.phases: must be one, of number 1 and 1 to 2^49 rounds")
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


def _check_declared(plan: TablePlan) -> None:
    """Refuse declarations that are in no model file."""
    declared = {name: getattr(plan, name) for name in _SAME} | {"examples": plan.declared, "rounds": plan.questions}
    if not plan.nominal:  # of profile "paper" the constants say it
        declared["paid"] = plan.paid
    kind = SparseVectorModel if isinstance(plan, SparseVectorPlan) else StatisticsModel
    try:
        check_table_model(convert(to_builtins(declared), kind))
    except (ValidationError, InputError) as exc:
        raise PlanError(f"plan: no model declares this (rows as examples, questions as rounds): {exc}") from exc
