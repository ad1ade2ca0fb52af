"""The accountant: what it refuses, what it proves, and how events nest."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from oracle.accounting.accountant import Guarantee, UnsupportedEventError, delta_at, guarantee
from oracle.accounting.between_thresholds import (
    TABLE_REACH,
    laplace_log_delta,
    log_answer_law,
    table_slack,
)
from oracle.accounting.events import (
    BetweenThresholdsEvent,
    Composed,
    EdgesEvent,
    EitherOf,
    Event,
    NoiseDistanceEvent,
    NoisyCountEvent,
    NonPrivateEvent,
    NoOpEvent,
    PaidQuestionsEvent,
    StopperEvent,
    StopperOverflowEvent,
)
from oracle.accounting.paid_questions import NO_UPPER, above_log_delta, table_distance
from oracle.accounting.race import between_log_delta, race_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.accounting.value_iteration import worst_log_delta
from oracle.errors import InputError

BETWEEN = BetweenThresholdsEvent("logistic", 0.05, 60, 300)
LAPLACE = BetweenThresholdsEvent("discrete-laplace", 0.05, 60, 300)
OVERFLOW = StopperOverflowEvent(0.4, 100, 140)
NOISE = NoiseDistanceEvent(2**90, 0.4)
TRADING: tuple[Event, ...] = (
    BETWEEN,
    LAPLACE,
    EitherOf((BETWEEN, NoOpEvent())),
    Composed((StopperEvent(0.5), BETWEEN)),
)
TABLE = BetweenThresholdsEvent("logistic", 0.05, 60, 300, points=600, rounds=2**40)
EPSILONS = (0.1, 1.0, 2.5, 4.0, 4.5, 6.0)


@dataclass(frozen=True)
class ForeignEvent:
    """An event that no theorem knows."""


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: Composed((BETWEEN, e)), lambda e: EitherOf((e, NoOpEvent()))])
def test_an_unknown_event_is_refused_at_any_depth(wrap: Any) -> None:
    """No number is guessed for it, alone or inside others."""
    with pytest.raises(UnsupportedEventError, match="event ForeignEvent: no theorem covers it"):
        delta_at(wrap(ForeignEvent()), 4.0)


@pytest.mark.parametrize(
    "event", [NonPrivateEvent(), Composed((BETWEEN, NonPrivateEvent())), EitherOf((NonPrivateEvent(),))]
)
def test_a_non_private_event_costs_everything(event: Event) -> None:
    """Its delta is 1 at any epsilon, and it spoils what it is composed with."""
    assert delta_at(event, 50.0) == 1.0


@pytest.mark.parametrize("event", [NoOpEvent(), Composed(()), EitherOf(()), Composed((NoOpEvent(), NoOpEvent()))])
def test_nothing_costs_nothing(event: Event) -> None:
    """An empty event has no delta even at epsilon 0."""
    assert delta_at(event, 0.0) == 0.0


@pytest.mark.parametrize("event", [*TRADING, StopperEvent(2.0), OVERFLOW, NOISE, TABLE])
def test_delta_never_rises_with_epsilon(event: Event) -> None:
    """A weaker demand on epsilon is never harder."""
    deltas = [delta_at(event, epsilon) for epsilon in EPSILONS]
    assert deltas == sorted(deltas, reverse=True)
    assert all(0.0 <= delta <= 1.0 for delta in deltas)


def test_leaves_are_the_theorems() -> None:
    """Each leaf is read by its own theorem, rounded up."""
    for event, exact in (
        (BETWEEN, math.exp(between_log_delta(0.05, 60, 300, 4.0))),
        (LAPLACE, math.exp(laplace_log_delta(0.05, 60, 300, 4.0))),
        (StopperOverflowEvent(0.4, 100, 140, 3), 3.0 * math.exp(log_overflow(0.4, 100, 140))),
        (NOISE, (1.0 + math.exp(0.4)) * 2.0**-38),
    ):
        assert exact <= delta_at(event, 4.0) <= exact * (1.0 + 1e-10)


def test_table_noise_is_charged() -> None:
    """Noise from a table costs more than ideal noise: by a factor within reach, by its distance beyond it."""
    ideal = delta_at(BETWEEN, 4.0)
    slack = 2**40 * table_slack(0.05)
    assert 0.0 < slack < 1e-20
    assert delta_at(TABLE, 4.0) >= ideal
    many = BetweenThresholdsEvent("logistic", 0.05, 60, 300, points=600, rounds=round(1e-3 / table_slack(0.05)))
    assert delta_at(many, 4.0) == pytest.approx(ideal * math.exp(1e-3), rel=1e-9)
    far = BetweenThresholdsEvent("logistic", 0.05, 60, 300, points=2000, rounds=2**100)
    assert TABLE_REACH < 0.05 * 2001
    assert delta_at(far, 4.0) == pytest.approx(ideal + (1.0 + math.exp(4.0)) * 2.0**-27, rel=1e-9)
    laplace = BetweenThresholdsEvent("discrete-laplace", 0.05, 60, 300, points=600, rounds=2**100)
    assert delta_at(laplace, 4.0) == pytest.approx(delta_at(LAPLACE, 4.0) + (1.0 + math.exp(4.0)) * 2.0**-27, rel=1e-9)


@pytest.mark.parametrize("scale", [0.002, 0.05, 0.6])
@pytest.mark.parametrize("gap_nats", [0.3, 3.0])
def test_within_reach_every_answer_dwarfs_the_tables_distance(scale: float, gap_nats: float) -> None:
    """At the largest side the factor is meant for, no answer is rarer than 2^30 times what the table may be off."""
    points, gap = math.floor(TABLE_REACH / scale) - 1, math.ceil(gap_nats / scale)
    low = (points - gap) // 2
    logs = log_answer_law("logistic", scale, low, low + gap, np.arange(points + 1))
    assert min(float(part.min()) for part in logs) >= math.log(2.0 * 2.0**-128 * 2.0**30)


def test_a_pure_event_takes_its_epsilon_off() -> None:
    """What is left of epsilon pays for the one event that trades; additive deltas add."""
    found = delta_at(Composed((StopperEvent(0.5), BETWEEN, OVERFLOW)), 4.0)
    exact = delta_at(BETWEEN, 3.5) + delta_at(OVERFLOW, 4.0)
    assert exact <= found <= exact * (1.0 + 1e-9)
    assert delta_at(Composed((StopperEvent(0.5), BETWEEN)), 0.5) == 1.0
    assert delta_at(Composed((StopperEvent(0.3), StopperEvent(0.3))), 0.5) == 1.0
    assert delta_at(Composed((StopperEvent(0.2), StopperEvent(0.2))), 0.5) == 0.0


@pytest.mark.parametrize("event", TRADING)
def test_nesting_changes_nothing(event: Event) -> None:
    """Compositions flatten, and a choice of one is that one."""
    plain = delta_at(Composed((StopperEvent(0.4), OVERFLOW, event)), 4.5)
    nested = delta_at(Composed((Composed((StopperEvent(0.4),)), Composed((Composed((OVERFLOW,)), event)))), 4.5)
    assert nested == pytest.approx(plain, rel=1e-9)
    assert delta_at(EitherOf((event,)), 4.5) == pytest.approx(delta_at(event, 4.5), rel=1e-9)


def test_either_of_is_the_worst_of_its_branches() -> None:
    """The guarantee holds whichever happened."""
    branches = (BETWEEN, StopperEvent(0.1), OVERFLOW)
    assert delta_at(EitherOf(branches), 4.0) >= max(delta_at(branch, 4.0) for branch in branches)


@pytest.mark.parametrize("second", TRADING)
def test_two_trading_events_are_refused(second: Event) -> None:
    """No theorem here composes two trades of epsilon against delta, however deep they are nested."""
    with pytest.raises(UnsupportedEventError, match="at most one event may trade"):
        delta_at(Composed((BETWEEN, Composed((NoOpEvent(), second)))), 6.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_a_negative_epsilon_is_refused(epsilon: float) -> None:
    """The message names the field and its bound."""
    with pytest.raises(InputError, match=r"epsilon = .*: must be at least 0"):
        delta_at(BETWEEN, epsilon)


def test_a_guarantee_states_its_event() -> None:
    """The statement carries what it is about."""
    assert guarantee(BETWEEN, 4.0) == Guarantee(4.0, delta_at(BETWEEN, 4.0), BETWEEN)


def test_a_learned_edge_costs_twice_its_scale() -> None:
    """Losses of three sides change by -1, 0 or 1 each: (6 e, 0), and less is not enough."""
    edges = EdgesEvent(0.25, 3)
    assert delta_at(edges, 1.5) == 0.0
    assert delta_at(edges, math.nextafter(1.5, 0.0)) == 1.0
    assert delta_at(Composed((edges, StopperEvent(0.5))), 1.75) == 1.0


PAID = PaidQuestionsEvent("gumbel", 0.02, 50)
START = NoisyCountEvent(0.02, counts=5)


def test_paid_questions_are_their_theorems() -> None:
    """Above, between and one-sided: Theorem 20, 26 and 19."""
    zone = PaidQuestionsEvent("logistic", 0.02, 50, gap=100)
    once = PaidQuestionsEvent("exponential", 0.1, 4, threshold_slope=0.2)
    for event, exact in (
        (PAID, math.exp(worst_log_delta(0.02, 50, 1.0))),
        (zone, math.exp(race_log_delta(0.02, 100, 50, 1.0))),
        (replace(PAID, paid=4000, slope=0.002), math.exp(above_log_delta(0.002, 4000, 1.0, exact=True))),
    ):
        assert exact <= delta_at(event, 1.0) <= exact * (1.0 + 1e-10)
    assert delta_at(zone, 1.0) > delta_at(replace(PAID, law="logistic"), 1.0)
    assert [delta_at(once, epsilon) for epsilon in (0.99, 1.01)] == [1.0, 0.0]
    assert [delta_at(replace(once, monotone=True), epsilon) for epsilon in (0.59, 0.61)] == [1.0, 0.0]


@pytest.mark.parametrize("event", [PAID, PaidQuestionsEvent("exponential", 0.09, 4, threshold_slope=0.1)])
def test_the_tables_of_paid_questions_are_charged(event: PaidQuestionsEvent) -> None:
    """Lemma 21's addend, alone and behind a start."""
    told = replace(event, questions=2**90)
    addend = table_distance(event.slope, 2**90, 1.0)
    assert addend > 1e-9
    assert delta_at(told, 1.0) == pytest.approx(delta_at(event, 1.0) + addend, rel=1e-9)
    behind = delta_at(Composed((START, told)), 1.0) - delta_at(Composed((START, event)), 1.0)
    assert 0.9 * addend < behind < addend * (1.0 + 1e-6)


def test_a_start_goes_by_the_value_or_its_moment() -> None:
    """Theorem 22: whichever is less, never less than the questions alone, nor more than with its epsilon taken off."""
    by_value = math.exp(above_log_delta(0.02, 50, 1.0, exact=True, start=START))
    by_moment = math.exp(above_log_delta(0.02, 50, 1.0, start=START))
    assert by_value < 0.3 * by_moment
    assert delta_at(Composed((START, PAID)), 1.0) == pytest.approx(by_value, rel=1e-9)
    assert delta_at(PAID, 1.0) < by_value < delta_at(PAID, 0.9)
    zone = PaidQuestionsEvent("logistic", 0.02, 50, gap=100)
    zone_by_rho = math.exp(race_log_delta(0.02, 100, 50, 1.0, rho=START.rho))
    assert delta_at(Composed((START, zone)), 1.0) == pytest.approx(min(zone_by_rho, delta_at(zone, 0.9)), rel=1e-6)
    pure = PaidQuestionsEvent("exponential", 0.1, 4, threshold_slope=0.1)
    assert [delta_at(Composed((START, pure)), epsilon) for epsilon in (0.99, 1.01)] == [1.0, 0.0]


def test_several_counts_are_as_many_events() -> None:
    """A record in one cell of each of several marginals pays for each."""
    several = Composed((NoisyCountEvent(0.1),) * 3)
    assert [delta_at(several, epsilon) for epsilon in (0.29, 0.31)] == [1.0, 0.0]
    assert [delta_at(NoisyCountEvent(0.1, 3), epsilon) for epsilon in (0.29, 0.31)] == [1.0, 0.0]
    one_by_one = Composed((*(NoisyCountEvent(0.02),) * 5, PAID))
    by_rho = math.exp(race_log_delta(0.02, NO_UPPER, 50, 1.0, rho=START.rho))
    assert delta_at(one_by_one, 1.0) == pytest.approx(min(by_rho, delta_at(PAID, 0.9)), rel=1e-6)


def test_what_no_theorem_covers_is_refused() -> None:
    """Gumbel noise between two thresholds, and two mechanisms that both trade."""
    with pytest.raises(UnsupportedEventError, match="no theorem covers the law gumbel between two thresholds"):
        delta_at(replace(PAID, gap=100), 1.0)
    with pytest.raises(UnsupportedEventError, match="at most one event may trade"):
        delta_at(Composed((PAID, BETWEEN)), 1.0)
