import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

from oracle.errors import InputError, RefusedError
from oracle.mechanisms.noise.laws import CLIP, NoiseLaw, frozen_law, named_law
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle, BitLedger

_LAWS: dict[str, tuple[NoiseLaw, Any]] = {
    "laplace": (named_law("laplace", 0.3), scipy.stats.laplace(scale=0.3)),
    "gaussian": (named_law("gaussian", 0.3), scipy.stats.norm(scale=0.3)),
    "uniform": (named_law("uniform", 0.3), scipy.stats.uniform(loc=-0.3, scale=0.6)),
    "frozen": (frozen_law(scipy.stats.t(3, loc=0.1)), scipy.stats.t(3, loc=0.1)),
}
_PLACES = np.array([-2.0, -0.31, -0.3, -0.1, -1e-9, 0.0, 1e-9, 0.05, 0.29, 0.3, 0.5, 2.0])


@pytest.mark.parametrize("name", _LAWS)
def test_laws_are_those_of_scipy(name):
    """Density at 0, tails, and which side of a threshold is the smaller one."""
    law, reference = _LAWS[name]
    assert law.density == pytest.approx(reference.pdf(0.0))
    small, is_above = law.smaller_side(_PLACES)
    for place, probability, above in zip(_PLACES.tolist(), small.tolist(), is_above.tolist(), strict=True):
        assert law.above(place) == pytest.approx(reference.sf(place), rel=1e-12, abs=1e-300)
        expected = reference.sf(place) if above else reference.cdf(place)
        assert probability == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert probability <= 0.5


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_far_thresholds_are_moved_in(name):
    """Beyond the clip the probability stays, so it is never too small for 128 bits."""
    law = named_law(name, 0.3)
    far = np.array([CLIP[name] * 0.3, 1e3, 1e300, -1e300])
    small, is_above = law.smaller_side(far)
    assert small[0] > 2.0**-60
    assert (small == small[0]).all()
    assert is_above.tolist() == [True, True, True, False]


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_probabilities_are_within_the_accountants_rounding(name):
    """Of doubles, against mpmath: the relative error is below what the accountant adds."""
    law = named_law(name, 1.0)
    places = np.linspace(0.0, CLIP[name], 997)
    small, _ = law.smaller_side(places)
    bound = {"laplace": 2.0**-44, "gaussian": 2.0**-41}[name]
    with mpmath.workdps(40):
        for place, probability in zip(places.tolist(), small.tolist(), strict=True):
            exact = mpmath.exp(-place) / 2 if name == "laplace" else mpmath.ncdf(-place)
            assert abs(mpmath.mpf(probability) / exact - 1) < bound


@pytest.mark.parametrize("name", ["laplace", "gaussian", "uniform"])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_scales_are_checked(name, scale):
    """A scale must be above 0 and finite."""
    with pytest.raises(InputError, match="noise scale"):
        named_law(name, scale)


def test_frozen_laws_need_a_density_at_zero():
    """Else no bit would tell anything near the estimate."""
    with pytest.raises(InputError, match="noise density at 0"):
        frozen_law(scipy.stats.uniform(loc=1.0))


def _words(count, seed=1):
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


@pytest.mark.parametrize("name", _LAWS)
def test_bits_have_the_laws_frequency(name):
    """Above, below and at the exact answer; and a law of another scale would be noticed."""
    law, reference = _LAWS[name]
    database = np.array([0.5, 1.0, 0.25])
    query = np.array([1.0, 0.5, 1.0])
    count = 40_000
    for shift in (-0.6, 0.0, 0.3):
        oracle = BinaryThresholdOracle(database, law, most_bits=count)
        bits = oracle.ask(np.tile(query, (count, 1)), np.full(count, query @ database + shift), _words(count))
        expected = reference.sf(shift / 3.0)
        deviation = 5.0 * math.sqrt(expected * (1.0 - expected) / count)
        assert abs(bits.mean() - expected) <= deviation
        if shift:
            assert abs(bits.mean() - reference.sf(shift / 6.0)) > deviation


def test_bits_are_functions_of_their_words():
    """The same words give the same bits, in any batch; U just below and at the probability decides exactly."""
    oracle = BinaryThresholdOracle(np.array([0.5]), named_law("uniform", 1.0), most_bits=100)
    queries, thresholds = np.ones((3, 1)), np.full(3, 1.0)  # P(E > 1/2) = 1/4
    quarter = 1 << 62
    words = np.array([[quarter - 1, 2**64 - 1], [quarter, 0], [0, 0]], dtype=np.uint64)
    assert oracle.ask(queries, thresholds, words).tolist() == [True, False, True]
    assert [bool(oracle.ask(queries[:1], thresholds[:1], words[i : i + 1])[0]) for i in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("law", "unit", "cost"),
    [
        (named_law("laplace", 0.5), "zcdp", [0.5 * (0.5 / 0.5) ** 2, 0.5 * (0.125 / 0.5) ** 2]),
        (named_law("gaussian", 0.5), "zcdp", [0.5 * (0.5 / 0.5) ** 2, 0.5 * (0.125 / 0.5) ** 2]),
        (named_law("uniform", 0.5), "total-variation", [0.5, 0.125]),
        (frozen_law(scipy.stats.norm()), "none", [math.inf, math.inf]),
    ],
)
def test_the_ledger_adds_up(law, unit, cost):
    """Each bit costs what its largest weight moves the answer by, over D; a law without a theorem claims nothing."""
    oracle = BinaryThresholdOracle(np.array([0.5, 0.5]), law, most_bits=9)
    assert oracle.ledger == BitLedger(0, 0.0, unit)
    oracle.ask(np.array([[1.0, 0.2]]), np.zeros(1), _words(1))
    oracle.ask(np.array([[0.0, 0.25]]), np.zeros(1), _words(1))
    assert oracle.ledger == BitLedger(2, sum(cost), unit)


def test_the_ledger_does_not_depend_on_the_cut():
    """Bit for bit."""
    queries = np.random.default_rng(4).random((100, 2))
    whole, parts = (
        BinaryThresholdOracle(np.array([0.5, 0.5]), named_law("laplace", 0.1), most_bits=100) for _ in range(2)
    )
    whole.ask(queries, np.zeros(100), _words(100))
    for start in range(0, 100, 7):
        parts.ask(queries[start : start + 7], np.zeros(len(queries[start : start + 7])), _words(100)[start : start + 7])
    assert parts.ledger == whole.ledger


def test_no_bit_is_given_that_may_not_be():
    """Queries out of range, and bits beyond the most: refused whole, and nothing is counted."""
    oracle = BinaryThresholdOracle(np.array([0.5, 0.5]), named_law("laplace", 0.5), most_bits=2)
    for bad in (-1e-9, 1.0 + 1e-9, math.nan):
        with pytest.raises(InputError, match="query"):
            oracle.ask(np.array([[0.5, 0.5], [bad, 0.5]]), np.zeros(2), _words(2))
    with pytest.raises(RefusedError, match="2 bits in all"):
        oracle.ask(np.full((3, 2), 0.5), np.zeros(3), _words(3))
    assert oracle.ledger.bits == 0
    oracle.ask(np.full((2, 2), 0.5), np.zeros(2), _words(2))
    with pytest.raises(RefusedError):
        oracle.ask(np.full((1, 2), 0.5), np.zeros(1), _words(1))


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_databases_are_checked(value):
    """w* is in [0, 1]^D, and never quoted."""
    with pytest.raises(InputError, match=r"^database: "):
        BinaryThresholdOracle(np.array([0.5, value]), named_law("laplace", 0.5), most_bits=1)
