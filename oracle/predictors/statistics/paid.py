"""The paid questions of a plan about a table."""

from msgspec import UNSET

from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.planning.statistics.model import TablePlan

__all__ = ["paid_questions"]


def paid_questions(plan: TablePlan) -> PaidQuestions:
    """Return the mechanism of a plan.

    Raises:
        PlanError: The plan has none.
    """
    noise = plan.paid_noise
    threshold = None if noise.threshold_slope is UNSET else noise.threshold_slope
    return PaidQuestions(noise.law, noise.slope, plan.paid, threshold)
