"""PRIVACY.md, Theorem 17 to Theorem 20: steps, all adversaries of small games, and the figures that plans rest on."""

import math
from collections import Counter
from functools import partial

import dp_accounting.pld.privacy_loss_distribution as pld
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracle.accounting import value_iteration
from oracle.accounting.between_thresholds import kappa, logistic_log_delta
from oracle.accounting.events import NoisyCountEvent
from oracle.accounting.paid_questions import (
    above_log_delta,
    noise_slope,
    one_sided_slopes,
    table_distance,
)
from oracle.accounting.value_iteration import worst_log_delta
from oracle.errors import InputError
from tests.accounting.adversaries import delta_of, frontier, gumbel, logistic, questions

NO_UPPER = 1 << 62


def moment(law: list[tuple[float, float, int]], theta: float, price: float) -> float:
    """Return E exp(theta loss - price [paid])."""
    return math.fsum(
        math.exp((1.0 + theta) * math.log(p) - theta * math.log(q) - price * cost)
        for p, q, cost in law
        if min(p, q) > 0.0
    )


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.floats(0.01, 0.95), st.floats(0.02, 1.5), st.floats(-4.0, 20.0), st.sampled_from([-1, 1]), st.integers(0, 40))
def test_above_a_step_is_a_supermartingale(part: float, slope: float, nats: float, shift: int, values: int) -> None:
    """Theorem 17, at thresholds from 4 nats below the count to 20 above it, for either sign, with values released."""
    theta = part / math.expm1(slope)
    law = questions(partial(gumbel, slope), [round(nats / slope)], [shift], gap=None, values=values)[0]
    assert moment(list(law), theta, kappa(theta, slope, NO_UPPER)) <= 1.0 + 1e-9


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.floats(0.01, 0.7), st.floats(0.05, 2.0), st.integers(0, 40), st.floats(-25.0, 25.0), st.sampled_from([-1, 1]))
def test_between_values_are_free(part: float, slope: float, gap: int, nats: float, shift: int) -> None:
    """Theorem 18: every value of the zone told apart, below, in and above the zone, for either sign."""
    theta = part / math.expm1(slope)
    price = kappa(theta, slope, gap)
    if math.isfinite(price):
        law = questions(partial(logistic, slope), [round(nats / slope)], [shift], gap=gap, values=gap)[0]
        assert moment(list(law), theta, price) <= 1.0 + 1e-9


@pytest.mark.parametrize("slope", [0.05, 0.7])
def test_the_price_is_attained(slope: float) -> None:
    """Far below a threshold, when one record moves the count up, nothing less than kappa would do."""
    theta = 0.3 / math.expm1(slope)
    price = kappa(theta, slope, NO_UPPER)
    law = list(questions(partial(gumbel, slope), [round(18.0 / slope)], [1], gap=None, values=0)[0])
    assert moment(law, theta, price * (1.0 - 1e-3)) > 1.0 + 1e-3 * price * law[1][0] / 2.0


GAMES = [(0.5, 1, 1.0, 12), (0.5, 2, 1.0, 6), (0.5, 3, 1.5, 5), (0.3, 2, 0.5, 6), (0.7, 2, 2.0, 6)]


@pytest.mark.parametrize(("slope", "paid", "epsilon", "count"), GAMES)
@pytest.mark.parametrize("values", [0, 4])
def test_no_adversary_above_exceeds_either_bound(
    slope: float, paid: int, epsilon: float, count: int, values: int
) -> None:
    """All adaptive strategies of a few questions, thresholds free, either sign: below both, and not by far."""
    lows = range(round(-2.0 / slope), round(5.0 / slope), round(1.0 / slope))
    edge = frontier(questions(partial(gumbel, slope), lows, (-1, 1), gap=None, values=values), count, paid)
    exact = delta_of(edge, epsilon)
    there = delta_of(edge[:, ::-1], epsilon)
    iterated = math.exp(worst_log_delta(slope, paid, epsilon))
    assert max(exact, there) <= iterated <= 1.5 * exact
    assert iterated < math.exp(above_log_delta(slope, paid, epsilon))


@pytest.mark.parametrize(("slope", "paid", "epsilon", "count"), GAMES[1:])
@pytest.mark.parametrize(("start", "counts"), [(0.3, 1), (0.2, 3)])
def test_no_adversary_after_a_start_exceeds_the_value(  # noqa: PLR0913, PLR0917 -- columns of tables
    slope: float, paid: int, epsilon: float, count: int, start: float, counts: int
) -> None:
    """Theorem 22: noisy counts first, then all strategies of a few questions, chosen by what these showed."""
    lows = range(round(-2.0 / slope), round(5.0 / slope), round(1.0 / slope))
    edge = frontier(questions(partial(gumbel, slope), lows, (-1, 1), gap=None, values=0), count, paid)
    z = np.arange(-60, 62)
    here = np.exp(-start * np.abs(z)) * math.tanh(start / 2.0)
    there = np.exp(-start * np.abs(z - 1)) * math.tanh(start / 2.0)
    shown: Counter[tuple[float, float]] = Counter({(1.0, 1.0): 1})  # (P, Q) of what was shown, and how often
    for _ in range(counts):
        after: Counter[tuple[float, float]] = Counter()
        for (p, q), times in shown.items():
            for sign in (z > 0, z <= 0):  # one ratio each
                after[p * float(here[sign].sum()), q * float(there[sign].sum())] += times
        shown = after
    exact = math.fsum(times * delta_of(edge * [p, q], epsilon) for (p, q), times in shown.items())
    alone = math.exp(worst_log_delta(slope, paid, epsilon))
    found = math.exp(worst_log_delta(slope, paid, epsilon, start=(start, counts)))
    assert max(exact, alone) <= found <= 1.5 * exact
    by_moment = math.exp(above_log_delta(slope, paid, epsilon, start=NoisyCountEvent(start, counts)))
    assert found < by_moment


@pytest.mark.parametrize(("slope", "gap", "paid", "epsilon"), [(0.5, 3, 1, 1.0), (0.5, 3, 2, 1.5), (1.0, 2, 2, 4.0)])
@pytest.mark.parametrize("values", [0, 9])
def test_no_adversary_between_exceeds_the_bound(slope: float, gap: int, paid: int, epsilon: float, values: int) -> None:
    """The same between two thresholds, with logistic noise and every value of the zone."""
    lows = range(round(-4.0 / slope), round(4.0 / slope), 2)
    edge = frontier(questions(partial(logistic, slope), lows, (-1, 1), gap=gap, values=values), 4, paid)
    bound = math.exp(logistic_log_delta(slope, gap, paid, epsilon))
    assert max(delta_of(edge, epsilon), delta_of(edge[:, ::-1], epsilon)) <= bound


def test_the_enumeration_finds_a_broken_mechanism() -> None:
    """Where a paid answer is not counted, or Gumbel noise decides between two thresholds, it exceeds the bound."""
    bound = math.exp(above_log_delta(0.5, 1, 1.0))
    found = questions(partial(gumbel, 0.5), range(-4, 8, 2), (-1, 1), gap=None, values=0)
    uncounted = [[(p, q, 0) for p, q, _ in answers] for answers in found]
    assert delta_of(frontier(uncounted, 8, 1), 1.0) > bound
    between = questions(partial(gumbel, 0.5), range(-10, -2, 2), (-1, 1), gap=6, values=0)
    assert delta_of(frontier(between, 16, 1), 1.0) > bound


def far_delta(slope: float, paid: int, epsilon: float) -> float:
    """Return what an adversary who never changes sign reaches: K-th arrivals at rates 1 and exp(e), both orders."""
    law, growth, ratio = stats.gamma(paid), math.expm1(slope), math.exp(epsilon)
    late, early = (epsilon + paid * slope) / growth, (paid * slope - epsilon) / growth
    return max(
        float(law.sf(late) - ratio * law.sf(late * (1.0 + growth))),
        float(law.cdf(early * (1.0 + growth)) - ratio * law.cdf(early)),
    )


def counts_delta(slope: float, paid: int, epsilon: float) -> float:
    """Return what K counts with integer Gumbel noise cost by dp-accounting: K questions that are paid for certain."""
    z = np.arange(math.floor(-4.2 / slope), math.ceil(40.0 / slope))

    def law(shift: int) -> dict[int, float]:
        rates = np.exp(-slope * (z - shift))
        below = np.concatenate(([0.0], np.exp(-rates[1:]), [1.0]))
        above = np.concatenate(([1.0], -np.expm1(-rates[1:]), [0.0]))
        mass = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        return {int(value): math.log(part) for value, part in zip(z, mass, strict=True) if part > 0.0}

    one = pld.from_two_probability_mass_functions(
        law(0), law(1), value_discretization_interval=slope / 500.0, symmetric=False
    )
    return float(one.self_compose(paid).get_delta_for_epsilon(epsilon))


@pytest.mark.parametrize(
    ("slope", "paid", "epsilon"), [(0.09, 1, 1.0), (0.05, 10, 1.0), (0.0275, 50, 1.0), (0.3, 9, 2.0)]
)
def test_value_iteration_is_above_known_adversaries(slope: float, paid: int, epsilon: float) -> None:
    """Above the one who never changes sign, and K noisy counts by dp-accounting; and by less than half."""
    found = math.exp(worst_log_delta(slope, paid, epsilon))
    least, counts = far_delta(slope, paid, epsilon), counts_delta(slope, paid, epsilon)
    assert max(least, counts) <= found <= 1.5 * least
    assert counts == pytest.approx(least, rel=0.05)


@pytest.mark.parametrize(("slope", "paid", "epsilon"), [(0.045, 10, 1.0), (0.12, 3, 3.0), (0.0036, 10, 0.1)])
def test_finer_grids_only_lower_the_value(slope: float, paid: int, epsilon: float) -> None:
    """Each is a bound, and they converge: the error falls about fourfold with half the cell."""
    coarse, middle, fine = (math.exp(worst_log_delta(slope, paid, epsilon, cells=cells)) for cells in (5, 10, 20))
    assert fine < middle < coarse < 1.03 * fine
    assert (middle - fine) < 0.35 * (coarse - middle)


def test_an_unproved_stage_gives_nothing() -> None:
    """Where the grid cannot be checked, as for huge slopes, log delta is 0 and the other theorem stands."""
    assert worst_log_delta(3.0, 1, 2.0) == 0.0
    assert above_log_delta(3.0, 1, 2.0, exact=True) == above_log_delta(3.0, 1, 2.0)


def test_a_wrong_sweep_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sweeps find is checked, not trusted: too small a value proves nothing."""
    assert worst_log_delta(0.1, 3, 1.0) < -5.0
    monkeypatch.setattr(value_iteration, "_sweep", lambda least, _gains, _stay: least.copy())
    assert worst_log_delta(0.1, 3, 1.0) == 0.0


@pytest.mark.parametrize("sign", [1, -1])
def test_stopping_within_a_cell_is_worth_its_best(sign: int) -> None:
    """Theorem 20's third inequality, against the integral at ten thousand times within each cell near epsilon."""
    slope, cells = 0.4, 2
    flow = value_iteration._flow(slope, cells, sign)
    times = np.linspace(0.0, -math.log(flow.stay), 10_001)
    ratios = np.exp(-(flow.rate - 1.0) * times)  # x, from 1 to its value at the cell's end
    game = value_iteration._Game(slope, 1, 1.01, cells, 20, 60, 1.0)
    value = game.final
    least = game._least(value)
    growth = math.exp(slope)
    at_once = (value[:-4] + growth * value[4:]) / (1.0 + growth)  # of nodes 2 to 57
    gains = []
    for node in range(20, 32):

        def linear(start: float, end: float) -> np.ndarray:
            return np.asarray(start + (end - start) * (1.0 - ratios) / (1.0 - flow.shrink))

        near, far = value[node - sign * cells], value[node - sign * cells + sign]
        rain = np.exp(-times) * linear(near, far)
        arrived = np.concatenate(([0.0], np.cumsum((rain[1:] + rain[:-1]) / 2.0 * np.diff(times))))
        worth = arrived + np.exp(-times) * linear(at_once[node - 2], at_once[node - 2 + sign])
        assert least[node] >= worth[:-1].max() - 1e-7 or worth.argmax() == len(worth) - 1
        gains.append(least[node] - max(at_once[node - 2], value[node]))
    assert max(gains) > 1e-5


@pytest.mark.parametrize(
    ("paid", "slope", "exact"),
    [(1, 0.0743, 0.0892), (2, 0.0666, 0.0777), (5, 0.0545, 0.0617), (10, 0.0448, 0.0499), (50, 0.0252, 0.0275)],
)
def test_slopes_at_epsilon_one(paid: int, slope: float, exact: float) -> None:
    """At delta = 1e-6, rounded down; and each keeps its guarantee."""
    found = noise_slope(paid, 1.0, 1e-6)
    assert found == pytest.approx(slope, abs=1e-4)
    assert above_log_delta(found, paid, 1.0) <= math.log(1e-6) < above_log_delta(found * (1.0 + 1e-5), paid, 1.0)
    better = noise_slope(paid, 1.0, 1e-6, exact=True)
    assert better == pytest.approx(exact, abs=1e-4)
    assert worst_log_delta(better, paid, 1.0) <= math.log(1e-6)


def test_a_zone_costs_more_than_a_threshold() -> None:
    """And a narrow one more than a wide one."""
    assert noise_slope(9, 1.0, 1e-6, gap_nats=2.0) < noise_slope(9, 1.0, 1e-6, gap_nats=6.0) < noise_slope(9, 1.0, 1e-6)


def one_sided_loss(slope: float, threshold: float, paid: int, shifts: list[int], lows: list[int]) -> float:
    """Return the largest |log ratio| over all transcripts of one list of questions, values released."""
    reach = round(60.0 / min(slope, threshold))
    rho = np.arange(reach)
    weights = np.exp(-threshold * rho) * -math.expm1(-threshold)

    def step(low: int, shift: int, value: int | None) -> np.ndarray:
        need = (low if value is None else value) + rho - shift  # nu >= need, or nu = need
        if value is None:
            return np.where(need > 0, -np.expm1(-slope * np.maximum(need, 0)), 0.0)
        return np.where(need >= 0, np.exp(-slope * np.maximum(need, 0)) * -math.expm1(-slope), 0.0)

    def walk(index: int, here: np.ndarray, there: np.ndarray, left: int) -> float:
        if not here.any() and not there.any():
            return 0.0
        if index == len(lows) or not left:
            return abs(math.log(here.sum() / there.sum()))
        low, shift = lows[index], shifts[index]
        answers: list[int | None] = [None, low, low + 3]
        return max(
            walk(
                index + 1,
                here * step(low, 0, answer),
                there * step(low, shift, answer),
                left - (answer is not None),
            )
            for answer in answers
        )

    return walk(0, weights, weights, paid)


@pytest.mark.parametrize(("paid", "monotone"), [(1, False), (2, False), (2, True)])
def test_one_sided_noise_is_pure(paid: int, monotone: bool) -> None:  # noqa: FBT001 -- a column of the table
    """Theorem 19: no transcript of five questions exceeds epsilon in either order; some come within a fifth."""
    noise = one_sided_slopes(paid, 1.0, 100, 0.1, monotone=monotone)
    worst = 0.0
    lows = [0, 0, 0, 4, 4]
    for signs in ([1, 1, 1, -1, -1], [-1, -1, -1, 1, 1], [1, 1, 1, 1, 1], [-1, -1, -1, -1, -1], [1, 0, 1, 0, 0]):
        if not monotone or len(set(signs) - {0}) == 1:
            worst = max(worst, one_sided_loss(noise.slope, noise.threshold_slope, paid, signs, lows))
    assert 0.8 < worst <= 1.0 + 1e-9


def test_one_sided_noise_grows_with_what_is_paid() -> None:
    """Its windows for a million questions at epsilon 1."""
    few, many = (one_sided_slopes(paid, 1.0, 1e6, 0.01) for paid in (1, 30))
    assert few.window == pytest.approx(72.0, abs=0.1)
    assert many.window > 1300.0
    assert 2.0 * many.slope * 30 + many.threshold_slope <= 1.0


def test_a_start_leaves_less_noise_for_questions() -> None:
    """Slopes fall with what was released before; each keeps its guarantee; too much of it is refused."""
    start = NoisyCountEvent(0.02, 6)
    alone, after = (noise_slope(50, 1.0, 1e-6, exact=True, start=given) for given in (None, start))
    assert 0.85 * alone < after < alone
    assert above_log_delta(after, 50, 1.0, exact=True, start=start) <= math.log(1e-6)
    assert noise_slope(50, 1.0, 1e-6, start=start) < after
    with pytest.raises(InputError, match="must leave something of epsilon"):
        noise_slope(50, 1.0, 1e-6, start=NoisyCountEvent(0.5, 6))


def test_tables_add_next_to_nothing() -> None:
    """Lemma 21: a thousand thousand million answers."""
    assert 0.0 < table_distance(0.01, 1e12, 1.0) < 1e-21


@pytest.mark.parametrize(
    ("paid", "epsilon", "delta", "message"),
    [
        (0, 1.0, 1e-6, "paid = 0: must be at least 1"),
        (1, 0.0, 1e-6, "epsilon = 0.0: must be above 0 and finite"),
        (1, math.inf, 1e-6, "epsilon = inf: must be above 0 and finite"),
        (1, 1.0, 0.0, "delta = 0.0: must be above 0 and below 1"),
        (1, 1.0, 1.0, "delta = 1.0: must be above 0 and below 1"),
    ],
)
def test_a_slope_for_nothing_is_refused(paid: int, epsilon: float, delta: float, message: str) -> None:
    """The message names the field, the value and the bound."""
    with pytest.raises(InputError, match=message):
        noise_slope(paid, epsilon, delta)
