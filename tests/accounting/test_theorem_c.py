"""PRIVACY.md, Theorem 7 (the Stopper): exact halting laws in fractions, its overflow, and the slacks."""

import math
from fractions import Fraction
from functools import cache
from itertools import accumulate, product

import mpmath
import numpy as np
import pytest

from oracle.accounting.stopper import cap_slack, early_slack, log_overflow
from oracle.errors import InputError

THRESHOLD = 2
LENGTH = 5
REACH = 40


@cache
def mass(ratio: Fraction, z: int) -> Fraction:
    """P(DLap = z) for exp(-e) = ratio."""
    return (1 - ratio) / (1 + ratio) * ratio ** abs(z)


@cache
def at_least(ratio: Fraction, z: int) -> Fraction:
    """P(DLap >= z)."""
    return ratio**z / (1 + ratio) if z >= 1 else 1 - ratio ** (1 - z) / (1 + ratio)


@cache
def halting_law(ratio: Fraction, bits: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Return P(halt before query i) for each i, and P(never): exact but for |rho| > REACH, at most 2 ratio^REACH."""
    counts = list(accumulate(bits, initial=0))[:-1]
    law = [Fraction(0)] * (len(bits) + 1)
    for rho in range(-REACH, REACH + 1):
        alive = mass(ratio, rho)
        for row, count in enumerate(counts):
            halt = at_least(ratio, THRESHOLD + rho - count)
            law[row] += alive * halt
            alive *= 1 - halt
        law[-1] += alive
    return tuple(law)


@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(1, 5)])
def test_one_bit_more_or_less_changes_no_probability_by_more_than_its_epsilon(ratio: Fraction) -> None:
    """Over all streams of five bits, both directions stay within exp(eps_S), and one pair comes near it."""
    cut = 2 * ratio**REACH
    nearest = Fraction(0)
    for bits in product((0, 1), repeat=LENGTH):
        for position in range(LENGTH):
            if bits[position]:
                continue
            other = (*bits[:position], 1, *bits[position + 1 :])
            for one, two in zip(halting_law(ratio, bits), halting_law(ratio, other), strict=True):
                assert one <= (two + cut) / ratio
                assert two <= (one + cut) / ratio
                nearest = max(nearest, one / two, two / one)
    assert nearest > Fraction(9, 10) / ratio


@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(1, 5)])
def test_a_changed_bit_would_break_a_smaller_epsilon(ratio: Fraction) -> None:
    """The enumeration can fail: nine tenths of the ratio is exceeded by some stream."""
    exceeded = [
        one > two * Fraction(9, 10) / ratio or two > one * Fraction(9, 10) / ratio
        for bits in product((0, 1), repeat=LENGTH)
        for one, two in zip(halting_law(ratio, bits), halting_law(ratio, (1, *bits[1:])), strict=True)
    ]
    assert any(exceeded)


def exact_overflow(ratio: Fraction, threshold: int, cap: int) -> Fraction:
    """E over rho of the product over all counts 1..cap of P(no halt), exact but for |rho| > REACH."""
    total = Fraction(0)
    for rho in range(-REACH, REACH + 1):
        alive = mass(ratio, rho)
        for count in range(1, cap + 1):
            alive *= 1 - at_least(ratio, threshold + rho - count)
        total += alive
    return total


@pytest.mark.parametrize(("threshold", "cap"), [(1, 1), (1, 4), (3, 3), (3, 6), (8, 14)])
@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(1, 5)])
def test_overflow_is_the_exact_probability_rounded_up(ratio: Fraction, threshold: int, cap: int) -> None:
    """The logarithm is above the exact one by the stated slack and no more."""
    exact = math.log(exact_overflow(ratio, threshold, cap))
    found = log_overflow(-math.log(ratio), threshold, cap)
    assert exact <= found <= exact + 1e-8


def test_no_stream_overflows_more_often() -> None:
    """Whatever order ones and zeros come in, the chance of no halt after `cap` ones is at most the bound."""
    ratio = Fraction(1, 2)
    bound = math.exp(log_overflow(math.log(2.0), THRESHOLD, 3))
    for bits in product((0, 1), repeat=LENGTH):
        if sum(bits) == 3:
            # the Stopper is asked once more after the last bit
            assert float(halting_law(ratio, (*bits, 0))[-1]) <= bound


@pytest.mark.parametrize(("epsilon", "threshold"), [(0.1, 1000), (0.02, 4000)])
def test_overflow_of_large_stoppers_agrees_with_high_precision(epsilon: float, threshold: int) -> None:
    """Thousands of factors are multiplied without losing more than 1e-7."""
    cap = threshold + cap_slack(epsilon, -28.0, threshold)
    found = log_overflow(epsilon, threshold, cap)
    with mpmath.workdps(30):
        e, slack, reach = mpmath.mpf(epsilon), cap - threshold, round(60.0 / epsilon)

        def log_below(z: int) -> mpmath.mpf:
            tail = mpmath.exp(-e * max(z, 1 - z)) / (1 + mpmath.exp(-e))
            return mpmath.log1p(-tail) if z >= 1 else mpmath.log(tail)

        first = -reach - slack
        sums = [mpmath.mpf(0), *accumulate(log_below(z) for z in range(first, reach - slack + cap))]
        exact = mpmath.log(
            sum(
                mpmath.tanh(e / 2)
                * mpmath.exp(-e * abs(rho) + sums[rho - slack - first + cap] - sums[rho - slack - first])
                for rho in range(-reach, reach + 1)
            )
        )
        assert exact <= found <= exact + mpmath.mpf(1e-7)


@pytest.mark.parametrize(("epsilon", "threshold", "target"), [(0.4, 1000, -25.0), (1.0, 1, -3.0), (0.05, 30, -10.0)])
def test_the_cap_is_the_least_that_meets_its_target(epsilon: float, threshold: int, target: float) -> None:
    """One medium less would overflow too often."""
    slack = cap_slack(epsilon, target, threshold)
    assert log_overflow(epsilon, threshold, threshold + slack) <= target
    assert slack == 1 or log_overflow(epsilon, threshold, threshold + slack - 1) > target


def test_a_cap_below_the_threshold_is_refused() -> None:
    """The message names the threshold."""
    with pytest.raises(InputError, match=r"stopper cap = 4: must be at least the threshold \(5\)"):
        log_overflow(1.0, 5, 4)


@pytest.mark.parametrize("epsilon", [0.05, 0.4, 2.0])
@pytest.mark.parametrize("rounds", [1, 1000, 10**9])
def test_early_slack_bounds_the_exact_convolution(epsilon: float, rounds: int) -> None:
    """Summed over the rounds, P(nu - rho > s') is at most the probability; at a third of s' it is not."""
    slack = early_slack(epsilon, rounds, 0.01)
    z = np.arange(-round(200 / epsilon), round(200 / epsilon) + 1)
    law = math.tanh(epsilon / 2.0) * np.exp(-epsilon * np.abs(z))

    def tail(beyond: int) -> float:
        # P(nu - rho > m) = sum over rho of P(rho) P(nu >= m + 1 + rho)
        reach = beyond + 1 + z
        outer = np.exp(-epsilon * np.maximum(reach, 1 - reach)) / (1.0 + math.exp(-epsilon))
        return float((law * np.where(reach >= 1, outer, 1.0 - outer)).sum())

    assert rounds * tail(slack) <= 0.01
    assert rounds * tail(slack // 3) > 0.01
