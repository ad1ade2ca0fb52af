"""Table plans: the event that a row goes through, and what the accountant proves of it."""

import math

import msgspec
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import (
    Composed,
    NoiseDistanceEvent,
    NoisyCountEvent,
    NonPrivateEvent,
    PaidQuestionsEvent,
)
from oracle.accounting.paid_questions import above_log_delta, one_sided_slopes
from oracle.mechanisms.noise.tables import SMALLEST_SCALE, tail_reach
from oracle.planning.statistics.guarantees import table_event
from oracle.planning.statistics.model import NoisePlan, SparseVectorPlan, StatisticsPlan, TablePlan
from tests.planning.statistics.tables import SLOPE, table_plan

_START = ((0, 1), (0, 2), (1, 2))


@pytest.mark.parametrize("kind", [StatisticsPlan, SparseVectorPlan])
def test_questions_alone_are_one_event(kind: type[TablePlan]) -> None:
    """K paid questions "above", with tables for any number of rounds; their delta is Theorem 20's."""
    plan = table_plan(kind)
    event = table_event(plan)
    assert event == Composed((PaidQuestionsEvent("gumbel", SLOPE, 40, questions=2**50 + 81),))
    exact = math.exp(above_log_delta(SLOPE, 40, 1.0, exact=True))
    assert exact < delta_at(event, 1.0) < exact * (1.0 + 1e-9)
    assert delta_at(event, 1.0) <= 9.01e-7


def test_a_start_is_a_count_for_each_marginal() -> None:
    """A row is in one cell of each marginal: two counts of 37 cells. A steeper start costs more."""
    plan = table_plan(StatisticsPlan, start_slope=0.012)
    event = table_event(plan)
    assert isinstance(event, Composed)
    marginals, tables, paid = event.events
    assert marginals == NoisyCountEvent(0.012, 2)
    assert isinstance(tables, NoiseDistanceEvent)
    assert tables.comparisons >= 2 * (2 * tail_reach(SMALLEST_SCALE) + 3)
    assert tables.epsilon == pytest.approx(0.024)
    assert isinstance(paid, PaidQuestionsEvent)
    alone = delta_at(table_event(table_plan(StatisticsPlan)), 1.0)
    steeper = table_event(table_plan(StatisticsPlan, start_slope=0.08))
    assert alone < delta_at(event, 1.0) < 1.2 * alone < 2.0 * alone < delta_at(steeper, 1.0)


def test_one_sided_noise_is_pure_but_for_its_tables() -> None:
    """Theorem 19, with the threshold's slope of the plan."""
    found = one_sided_slopes(3, 1.0, 1e6, 0.01)
    noise = NoisePlan(law="exponential", slope=found.slope, threshold_slope=found.threshold_slope, above=200, below=100)
    event = table_event(table_plan(SparseVectorPlan, paid=3, noise=noise))
    assert 0.0 < delta_at(event, 1.0) < 1e-18
    flat = msgspec.structs.replace(noise, threshold_slope=SMALLEST_SCALE)
    draws = 2 * (2**49 + 3) + 1  # with a table each, and that on thresholds with its own: here the longer one
    edges = draws * (2 * tail_reach(noise.slope) + 3) + 2 * tail_reach(SMALLEST_SCALE) + 3
    assert delta_at(table_event(table_plan(SparseVectorPlan, paid=3, noise=flat)), 1.0) >= edges * 2.0**-128 * (
        1.0 + math.e
    )
    steeper = msgspec.structs.replace(noise, threshold_slope=2.0 * found.threshold_slope)
    assert delta_at(table_event(table_plan(SparseVectorPlan, paid=3, noise=steeper)), 1.0) == 1.0


def test_more_paid_answers_than_planned_are_noticed() -> None:
    """A plan that pays more often, or with less noise, proves less."""
    assert delta_at(table_event(table_plan(StatisticsPlan, paid=60)), 1.0) > 1e-5
    steeper = NoisePlan(law="gumbel", slope=1.1 * SLOPE, above=900, below=150)
    assert delta_at(table_event(table_plan(StatisticsPlan, noise=steeper)), 1.0) > 2e-6


def test_the_paper_profile_has_no_event() -> None:
    """Its epsilon and delta are nominal."""
    plan = table_plan(StatisticsPlan, profile="paper", noise=msgspec.UNSET)
    assert table_event(plan) == NonPrivateEvent()
