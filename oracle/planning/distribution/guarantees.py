"""From a distribution's plan to the event that each of its rows goes through."""

from msgspec import UNSET

from oracle.accounting.events import Event, NonPrivateEvent, PaidQuestionsEvent
from oracle.planning.distribution.model import DistributionPlan, question_steps

__all__ = ["distribution_event"]


def distribution_event(plan: DistributionPlan) -> Event:
    """Return what a training row goes through: all comparisons (PRIVACY.md, Theorem 30).

    A row moves the count up to any value by at most 1; each of K thresholds is paid for once. All else is a function
    of what these release. Profile `paper` has no event here: its epsilon and delta are nominal.
    """
    if plan.ladder is UNSET:
        return NonPrivateEvent()
    ladder, draws = plan.ladder, plan.rounds * question_steps(plan.feature, plan.paid)
    return PaidQuestionsEvent("logistic", ladder.slope, plan.paid, gap=ladder.gap, questions=draws)
