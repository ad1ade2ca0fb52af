"""From a table's plan to the event that each of its rows goes through."""

from msgspec import UNSET

from oracle.accounting.events import (
    Composed,
    Event,
    NoiseDistanceEvent,
    NoisyCountEvent,
    NonPrivateEvent,
    PaidQuestionsEvent,
)
from oracle.planning.guarantees import ONE_DRAW
from oracle.planning.statistics.model import StatisticsPlan, TablePlan

__all__ = ["table_event"]


def table_event(plan: TablePlan) -> Event:
    """Return what a training row goes through: the start's counts, then all questions (PRIVACY.md, Theorem 22).

    A row is in one cell of each marginal, so it moves one count of each, and each question's count by at most 1, either
    way. All else is a function of what these release. Profile `paper` has no event here: its epsilon
    and delta are nominal.
    """
    if plan.noise is UNSET:
        return NonPrivateEvent()
    events: list[Event] = []
    if isinstance(plan, StatisticsPlan) and plan.start_slope is not UNSET:
        marginals = NoisyCountEvent(plan.start_slope, len(plan.start))
        # of joint weights p and q with p <= exp(d e) q: Theorem 15's argument for the count's table
        events += [marginals, NoiseDistanceEvent(marginals.counts * ONE_DRAW, marginals.counts * marginals.epsilon)]
    threshold_slope = None if plan.noise.threshold_slope is UNSET else plan.noise.threshold_slope
    # a round asks twice at most, and twice again after each paid answer; the draw on all thresholds is one more
    questions = 2 * (plan.rounds + plan.paid) + 1
    paid = PaidQuestionsEvent(
        plan.noise.law, plan.noise.slope, plan.paid, threshold_slope=threshold_slope, questions=questions
    )
    return Composed((*events, paid))
