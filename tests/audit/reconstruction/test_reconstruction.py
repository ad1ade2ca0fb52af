"""Decoders, functions and regressions of `perpetua audit reconstruct`: what the page on them says, in figures."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special

from oracle.audit.attacks.coins import cap, judge
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.reconstruction.decoders import Equations, least_squares, linear_program, predicted_share
from oracle.audit.reconstruction.functions import Linear, summed, table_of
from oracle.audit.reconstruction.people import alone, grouped, publish
from oracle.audit.reconstruction.regressions import LOSSES, Regressions
from oracle.audit.reconstruction.releases import Table, Terms, equations_of, release

_ONE = ("and", "or", "parity", "error")


def _random(rows, columns, seed):
    random = np.random.default_rng(seed)
    return random.integers(0, 2, (rows, columns)), random.random(rows) < 0.5, random


def _sums(name, ways, bits):
    chosen = np.array(list(combinations(range(bits.shape[1]), ways)))
    return summed(table_of(name, ways), bits, chosen, np.ones(len(bits))), chosen


def _wrong(found, secret):
    return float(np.mean((found > 0.5) != secret))


def _top_coefficient(values: NDArray[np.int64]) -> int:
    """Return the coefficient of the product of all bits in a function's polynomial."""
    for _ in range(values.ndim):
        values = values[1] - values[0]
    return int(values)


@pytest.mark.parametrize(
    ("name", "ways"),
    [*product(_ONE, (1, 2, 3)), ("majority", 2), ("tree", 2), ("tree", 3)],
)
def test_exact_sums_give_every_bit_away(name, ways):
    """Of each function that is not degenerate, by both decoders (R1)."""
    columns, rows = {1: (80, 25), 2: (20, 60), 3: (18, 80)}[ways]
    bits, secret, _ = _random(rows, columns, 11)
    sums, chosen = _sums(name, ways, bits)
    truth = [
        sum(table_of(name, ways)[(*row[some], int(bit))] for row, bit in zip(bits, secret, strict=True))
        for some in chosen
    ]
    told = sums.release(secret.astype(float), np.zeros(len(chosen)))
    assert told == pytest.approx(truth)
    equations = Equations.of(*sums.equations(told))
    assert _wrong(least_squares(equations, np.ones(rows), 0.5), secret) == 0.0
    assert _wrong(linear_program(equations, np.ones(rows)), secret) == 0.0


def test_a_degenerate_function_hides_what_it_does_not_ask():
    """`a ? s : s` is s: all sums are the same one number."""
    bits, secret, _ = _random(60, 40, 5)
    assert _top_coefficient(table_of("tree", 1)) == 0
    sums, _ = _sums("tree", 1, bits)
    told = Equations.of(*sums.equations(sums.release(secret.astype(float), np.zeros(40))))
    assert np.unique(told.told).size == 1
    assert _wrong(least_squares(told, np.ones(60), 0.5), secret) > 0.3


@pytest.mark.parametrize(("bits", "wanted"), [(2, 10), (3, 186)])
def test_how_many_functions_are_not_degenerate(bits, wanted):
    """Those whose ones are not as many of even as of odd weight (R7): both ways to say it agree on all functions."""
    signs = (-1) ** np.indices((2,) * bits).sum(axis=0)
    found = 0
    for values in product((0, 1), repeat=2**bits):
        table = np.array(values).reshape((2,) * bits)
        assert abs(int((signs * table).sum())) == abs(_top_coefficient(table))
        found += _top_coefficient(table) != 0
    assert found == wanted == 2**2**bits - math.comb(2**bits, 2 ** (bits - 1))


_SQUARES = (("and", 1, 800, 300), *((name, 2, 36, 220) for name in ("parity", "error", "and", "majority")))


@pytest.mark.parametrize(("name", "ways", "columns", "rows"), _SQUARES)
def test_the_least_singular_value_is_as_predicted(name, ways, columns, rows):
    """It is w (sqrt N - sqrt n), w the top Walsh coefficient; and wrong bits stay below Proposition 2's bound (R2)."""
    bits, secret, random = _random(rows, columns, 3)
    sums, chosen = _sums(name, ways, bits)
    values = table_of(name, ways)
    weight = abs(_top_coefficient(values[..., 1] - values[..., 0])) / 2.0**ways
    least = float(np.linalg.svd(sums.matrix, compute_uv=False)[-1])
    assert least == pytest.approx(weight * (math.sqrt(len(chosen)) - math.sqrt(rows)), rel=0.25)
    worst = np.linalg.svd(sums.matrix, full_matrices=False)[0][:, -1]
    for size in (0.1, 0.3):
        width = size * math.sqrt(rows)
        for error in (random.uniform(-width, width, len(chosen)), width * np.sign(worst)):
            told = Equations.of(*sums.equations(sums.release(secret.astype(float), error)))
            found = least_squares(told, np.ones(rows), 0.5)
            ridge = 4.0 * told.spread[0] ** 2
            reach = np.linalg.norm(error) / least + ridge * math.sqrt(rows) / 2.0 / (least**2 + ridge)
            assert rows * _wrong(found, secret) <= 4.0 * reach**2


def test_small_random_noise_hides_nothing():
    """Deviations up to 0.15 w sqrt N leave hardly a bit wrong (R3), and theory says how many at larger ones."""
    for name, weight in (("parity", 1.0), ("and", 0.25)):
        bits, secret, random = _random(300, 40, 8)
        sums, chosen = _sums(name, 2, bits)
        for size in (0.15, 0.6):
            deviation = size * weight * math.sqrt(len(chosen))
            told = sums.release(secret.astype(float), random.normal(0.0, deviation, len(chosen)))
            equations = Equations.of(sums.matrix, told - sums.offset, deviation)
            wrong = _wrong(least_squares(equations, np.ones(300), 0.5), secret)
            assert 1.0 - wrong == pytest.approx(predicted_share(equations), abs=0.01 if size < 0.5 else 0.09)
            assert wrong < 0.01 or size > 0.5


def test_theory_says_half_of_what_is_left_open():
    """One number about two bits; and a bit of its own."""
    equations = Equations.of(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.zeros(2), 0.25)
    assert predicted_share(equations) == pytest.approx((0.5 + 0.5 + special.ndtr(2.0)) / 3.0)


def test_least_squares_keeps_to_what_is_known_beforehand():
    """Without numbers it says the share; with exact ones the truth; between them the mean of a normal law."""
    sizes = np.array([4.0, 10.0])
    nothing = Equations.of(np.zeros((1, 2)), np.zeros(1))
    assert least_squares(nothing, sizes, 0.3) == pytest.approx([1.2, 3.0])
    told = Equations(np.eye(2), np.array([4.0, 1.0]), np.full(2, math.sqrt(0.75)), np.zeros(2))
    expected = [(4.0 * 4 * 0.21 + 1.2 * 0.25) / (4 * 0.21 + 0.25), (1.0 * 10 * 0.21 + 3.0 * 0.25) / (10 * 0.21 + 0.25)]
    assert least_squares(told, sizes, 0.3) == pytest.approx(expected)


def test_the_linear_program_against_another_solver():
    """The least sum of distances beyond the slack, by the textbook's inequalities."""
    random = np.random.default_rng(2)
    matrix, sizes = random.integers(0, 2, (12, 5)).astype(float), np.array([1.0, 3.0, 2.0, 1.0, 6.0])
    told, slack = matrix @ (sizes / 2.0) + random.normal(0, 2.0, 12), np.where(np.arange(12) % 3 == 0, 1.5, 0.0)
    found = linear_program(Equations(matrix, told, slack, np.zeros(12)), sizes, np.zeros(5))
    cost = np.concatenate([np.zeros(5), np.ones(12)])
    both = np.vstack([np.hstack([matrix, -np.eye(12)]), np.hstack([-matrix, -np.eye(12)])])
    bounds = [*((0.0, size) for size in sizes), *[(0.0, None)] * 12]
    best = optimize.linprog(cost, both, np.concatenate([told + slack, slack - told]), bounds=bounds, method="highs").fun
    assert np.maximum(np.abs(matrix @ found - told) - slack, 0.0).sum() == pytest.approx(best)
    assert ((found >= -1e-9) & (found <= sizes + 1e-9)).all()


def test_whole_counts_that_fit_are_the_answer():
    """Nothing is nearer; one that does not fit is not taken."""
    equations = Equations.of(np.eye(2), np.array([1.0, 2.0]))
    assert linear_program(equations, np.array([3.0, 3.0]), np.array([1.1, 1.9])).tolist() == [1.0, 2.0]
    assert linear_program(equations, np.array([3.0, 3.0]), np.array([1.1, 2.9])) == pytest.approx([1.0, 2.0])


def test_some_numbers_that_are_quite_wrong_mislead_least_squares_only():
    """A tenth of them, drawn at random, anything: the linear program does not mind (R4)."""
    bits, secret, random = _random(150, 32, 4)
    sums, chosen = _sums("parity", 2, bits)
    told = sums.release(secret.astype(float), random.uniform(-1.0, 1.0, len(chosen)))
    spoilt = random.random(len(chosen)) < 0.1
    told[spoilt] += random.normal(0.0, 400.0, spoilt.sum())
    equations = Equations.of(*sums.equations(told))
    assert _wrong(least_squares(equations, np.ones(150), 0.5), secret) > 0.2
    assert _wrong(linear_program(equations, np.ones(150)), secret) == 0.0


def test_marginals_made_consistent_with_another_secret_need_the_basis_of_parities():
    """K1, an error of the paper: all numbers about one attribute tell of that attribute in the secret's place.

    The linear program on marginals believes them, also on whole tables somewhat; not in the basis of parities.
    """
    bits, secret, random = _random(300, 40, 1)
    other = bits[:, 0].astype(float)
    sums, chosen = _sums("and", 2, bits)
    told = sums.release(secret.astype(float), random.uniform(-1.0, 1.0, len(chosen)))
    lied = (chosen == 0).any(axis=1)
    told[lied] = sums.release(other, np.zeros(len(chosen)))[lied]
    assert lied.mean() == 0.05
    assert _wrong(linear_program(Equations.of(*sums.equations(told)), np.ones(300)), secret) > 0.15
    cells = np.concatenate([
        np.arange(4)[:, None] == 2 * bits[:, first] + bits[:, second] for first, second in chosen
    ]).astype(float)  # fmt: skip
    whole = cells @ secret + random.uniform(-1.0, 1.0, len(cells))
    whole[np.repeat(lied, 4)] = (cells @ other)[np.repeat(lied, 4)]
    tables = Equations.of(cells, whole)
    turned = tables.turned(((2, 2),) * len(chosen))
    assert np.linalg.norm(turned.matrix) == pytest.approx(np.linalg.norm(cells))
    assert _wrong(linear_program(turned, np.ones(300)), secret) < 0.01


def test_contrasts_of_tables_of_bits_are_parities():
    """The last cell of a turned table is half the parity of its bits (Proposition 4); sums stay what they were."""
    bits, secret, _ = _random(50, 2, 6)
    cells = (np.arange(4)[:, None] == 2 * bits[:, 0] + bits[:, 1]).astype(float)
    turned = Equations.of(cells, cells @ secret).turned(((2, 2),))
    assert turned.matrix[3] == pytest.approx((1 - 2 * bits[:, 0]) * (1 - 2 * bits[:, 1]) / 2.0)
    assert turned.matrix @ secret == pytest.approx(turned.told)


@pytest.mark.parametrize("name", list(LOSSES))
def test_coefficients_give_every_bit_away(name):
    """Of exact regressions, whose loss they minimise; noise of o(1/sqrt n) hides nothing (R5)."""
    random = np.random.default_rng(7)
    secret = random.random(100) < 0.5
    columns = random.uniform(-1.0, 1.0, (240, 100))
    models = Regressions(columns, np.ones(100), LOSSES[name])
    theta = models.release(secret.astype(float), np.zeros(240))
    loss = {
        "linear": lambda t: 0.5 * (secret - t * columns[0]) ** 2,
        "logistic": lambda t: np.log1p(np.exp(t * columns[0])) - secret * t * columns[0],
        "robust": lambda t: np.sqrt(1.0 + 4.0 * (secret - t * columns[0]) ** 2) / 4.0,
    }[name]
    best = optimize.minimize_scalar(lambda t: float(loss(t).sum())).x
    assert theta[0] == pytest.approx(best, abs=1e-5)
    for noise in (0.0, 0.05):
        told = theta + random.normal(0.0, noise / math.sqrt(100), 240)
        equations = Equations.of(*models.equations(told))
        assert _wrong(least_squares(equations, np.ones(100), 0.5), secret) == 0.0
    told = theta.copy()
    told[::20] += random.normal(0.0, 3.0, 12)
    equations = Equations.of(*models.equations(told))
    assert _wrong(least_squares(equations, np.ones(100), 0.5), secret) > 0.1
    assert _wrong(linear_program(equations, np.ones(100)), secret) < 0.05


def _parities(rows, columns, seed):
    bits, _, _ = _random(rows, columns, seed)
    sums, _ = _sums("parity", 2, bits)
    return Linear(sums.matrix, sums.offset)


_PLANTED = {
    "a tenth of the noise": lambda noise: noise / 10.0,
    "the noise of one number for all": lambda noise: noise / math.sqrt(780),
    "noise drawn once": lambda noise: np.full_like(noise, noise[0]),
}


def _guessed(published, name, epsilon, draws, change=lambda noise: noise):
    """Release parities of coins, and judge what is guessed of them."""
    coins = draws.uniform(400) < 0.5
    table = Table(alone(400), coins, published, Terms(epsilon=epsilon, delta=1e-5))
    told = release(name, table, coins, draws)
    exact = published.release(coins.astype(float), np.zeros(780))
    equations = equations_of(published, told._replace(numbers=exact + change(told.numbers - exact)))
    return judge(least_squares(equations, np.ones(400), 0.5) - 0.5, coins, 1e-5, 1e-3)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_epsilon_is_a_ceiling(name):
    """Of honest noise no more coins are guessed than epsilon allows, and no more is proved (R6)."""
    published, draws = _parities(400, 40, 9), Draws(Randomness(bytes(16), "honest"), 0)
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        guesses = _guessed(published, name, epsilon, draws)
        assert guesses.share <= cap(epsilon, 1e-5) + 3.0 * math.sqrt(0.25 / 400)
        assert guesses.lowest <= epsilon


@pytest.mark.parametrize("planted", list(_PLANTED))
def test_noise_that_is_wrong_is_refuted(planted):
    """Of three bugs that a release may have, each proves more than epsilon = 1 (R6)."""
    draws = Draws(Randomness(bytes(16), "planted"), 0)
    assert _guessed(_parities(400, 40, 9), "gaussian", 1.0, draws, _PLANTED[planted]).lowest > 1.0


def test_noise_is_what_the_claim_asks_for():
    """By the most that one bit moves: of 780 parities 780, and the root of it."""
    published = _parities(400, 40, 9)
    table = Table(alone(400), None, published, Terms(epsilon=2.0, delta=1e-5))
    draws = Draws(Randomness(bytes(16), "noise"), 0)
    coins = np.zeros(400, dtype=bool)
    for name, wanted in (("laplace", 780 / 2.0 * math.sqrt(2.0)), ("gaussian", math.sqrt(780) * 2.0048)):
        told = release(name, table, coins, draws)
        assert told.deviation == pytest.approx(wanted, rel=0.01)
        assert np.std(told.numbers - published.offset) == pytest.approx(wanted, rel=0.1)


def test_statistics_count_those_who_have_the_bit():
    """Of random sets, within what the plan promises; which is what an attacker takes for their noise."""
    draws = Draws(Randomness(bytes(16), "statistics"), 0)
    people = alone(600)
    secret = draws.uniform(600) < 0.1
    published = publish("counts", people, 1, 15, draws)
    told = release("statistics", Table(people, secret, published, Terms(epsilon=16.0)), secret, draws)
    assert 0.0 < told.deviation < 100
    assert np.abs(told.numbers - published.matrix @ secret).max() < 2.0 * told.deviation


def test_rows_that_look_alike_are_one_unknown():
    """Whatever order they come in; each row knows its group."""
    people = grouped(["a", "b"], [("x", "y"), ("u", "v", "w")], [np.array([1, 0, 1, 0]), np.array([2, 0, 2, 1])])
    assert people.sizes.tolist() == [1.0, 1.0, 2.0]
    assert people.codes.tolist() == [[0, 0], [0, 1], [1, 2]]
    assert people.group.tolist() == [2, 0, 2, 1]
    assert people.counts(np.array([True, False, True, False])).tolist() == [0.0, 0.0, 2.0]
