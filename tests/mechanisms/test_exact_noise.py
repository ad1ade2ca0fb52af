import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from oracle.mechanisms.choice.exponential import exp_bounds
from oracle.mechanisms.noise.exact import discrete_laplace


class _Seeded:
    """Uniform bits of a test's generator."""

    def __init__(self, seed):
        self._generator = np.random.default_rng(seed)

    def take(self, count):
        return int.from_bytes(self._generator.bytes(-(-count // 8)), "big") >> (-count % 8)


class _Written:
    """Bits that a test has written down; it fails where more are asked for."""

    def __init__(self, *numbers):
        self._numbers = list(numbers)

    def take(self, count):
        number = self._numbers.pop(0)
        assert number < 1 << count
        return number


@pytest.mark.parametrize(("scale", "wrong"), [(0.1, 0.11), (1.0, 1.1), (3.0, 3.4)])
def test_law(scale, wrong):
    """A chi-squared test takes the law, and does not take one of another scale."""
    bits = _Seeded(7)
    samples = Counter(discrete_laplace(scale, bits) for _ in range(20_000))

    def fits(rate):
        law = {z: math.tanh(rate / 2) * math.exp(-rate * abs(z)) for z in range(-400, 401)}
        common = [z for z, chance in law.items() if 20_000 * chance > 5]
        seen = [samples[z] for z in common]
        expected = [20_000 * law[z] for z in common]
        seen.append(20_000 - sum(seen))
        expected.append(max(20_000 - sum(expected), 1e-9))
        return scipy.stats.chisquare(seen, expected, sum_check=False).pvalue

    assert fits(scale) > 1e-4
    assert fits(wrong) < 1e-4


def test_a_coin_looks_further_where_its_digits_do_not_decide():
    """Between the bounds on exp(-e) of 256 digits, 512 decide, to both sides; -0 is drawn again."""
    rate = Fraction(1, 2)
    low, high = exp_bounds(rate, 256)
    finer = exp_bounds(rate, 512)
    tails, heads = (1 << 256) - 1, 0
    undecided = finer[0] >> 256
    assert low <= undecided < high
    rest = finer[0] & tails
    assert discrete_laplace(0.5, _Written(0, undecided, rest - 1, tails)) == 1
    assert discrete_laplace(0.5, _Written(0, undecided, rest + 2**200)) == 0
    assert discrete_laplace(0.5, _Written(1, tails, 1, heads, heads, tails)) == -2
