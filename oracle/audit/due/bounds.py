"""What parts of a plan owe, by sums, integrals and fractions: overflow, tables, bits, and long races."""

import math
from fractions import Fraction
from typing import Final

import mpmath
import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.audit.due.game import Game

__all__ = [
    "answer_tables",
    "comparisons_tables",
    "draw_tables",
    "few_successes",
    "laplace_bits",
    "normal_bits",
    "one_way",
    "overflow",
    "potential",
]

Floats = NDArray[np.float64]

_ULP: Final = Fraction(1, 2**128)
_TAIL: Final = 90.0
_TIMES: Final = 501
_WIDE: Final = 14.0
"""Standard deviations about what a sum is mostly made of."""

_SEARCHED: Final = 12
_REFINED: Final = 12


def overflow(slope: float, threshold: int, cap: int) -> float:
    """Return the chance that a Stopper lets `cap` bits pass, each count before asked about once: Theorem 7.

    For each threshold k + rho it goes on at count c with probability P(nu < k + rho - c), c from 1 to the cap.
    """
    reach = math.ceil(_TAIL / slope)
    rho = np.arange(-reach, reach + 1)
    at = np.arange(threshold - cap - reach, threshold + reach)  # all of k + rho - c
    size = np.exp(-slope * np.abs(at + np.where(at <= 0, -1, 0))) / (1.0 + math.exp(-slope))
    going_on = np.where(at <= 0, np.log(np.maximum(size, 1e-300)), np.log1p(-np.minimum(size, 1.0 - 1e-16)))
    sums = np.concatenate(([0.0], np.cumsum(going_on)))
    first = threshold + rho - cap - at[0]
    passed = np.exp(np.minimum(sums[first + cap] - sums[first], 0.0))
    law = math.tanh(slope / 2.0) * np.exp(-slope * np.abs(rho))
    return float(law @ passed) + math.exp(-slope * (reach + 1))


def comparisons_tables(comparisons: int, epsilon: float) -> float:
    """Return delta of so many comparisons with edges within 2^-128: Theorem 8b, and in fractions."""
    return float((1 + Fraction(math.exp(epsilon))) * comparisons * _ULP)


def draw_tables(slope: float, draws: int, epsilon: float) -> float:
    """Return delta of so many draws from a table of all edges that 128 bits can tell apart: Lemma 21."""
    ends = Fraction(math.ceil(128 * math.log(2.0) / slope) + 3)
    return float((1 + Fraction(math.exp(epsilon))) * draws * (2 * ends + 3) * _ULP)


def answer_tables(slope: float, answers: int, outcomes: int = 3) -> float:
    """Return the factor on delta of answers that are all likely: Lemma 6, or of four outcomes Lemma 27."""
    each = 1.02 * outcomes * 2.0**-127 * (1.0 + 2.0 / slope) * math.exp(1.0 + slope)
    return math.exp(min(answers * each, 700.0))


def _race(game: Game, paid: int) -> tuple[Floats, Floats]:
    """Return log weights under P and losses ln(P/Q) of races to the K-th paid arrival, by thinning.

    Paid arrivals come at the rate 1 - c, so their time T is a gamma variable, and meanwhile a Poisson number is free.
    """
    free = 0.0 if game.gap is None else math.exp(-game.slope * (game.gap + 1))
    growth = math.expm1(game.slope)
    mean, spread = paid / (1.0 - free), math.sqrt(paid) / (1.0 - free)
    wide = _WIDE + (game.epsilon / game.slope + 6.0 * math.sqrt(paid)) / math.sqrt(paid / (1.0 - free))
    times = np.linspace(max(mean - _WIDE * spread, mean * 1e-6), mean + wide * spread, _TIMES)
    log_time = paid * math.log1p(-free) + (paid - 1.0) * np.log(times) - (1.0 - free) * times - math.lgamma(paid)
    log_time += math.log(float(times[1] - times[0]))
    if not free:
        return log_time[:, None], (growth * times - game.slope * paid)[:, None]
    low, high = free * times[0], free * times[-1]
    step = max(1, math.ceil((high - low) / 400))
    counts = np.arange(
        max(0, math.floor(low - _WIDE * math.sqrt(low + 1.0))), high + _WIDE * math.sqrt(high + 1.0), step
    )
    log_count = counts * np.log(free * times)[:, None] - free * times[:, None] - scipy.special.gammaln(counts + 1.0)
    losses = growth * times[:, None] - game.slope * (paid + counts)
    return log_time[:, None] + log_count + math.log(step), losses


def one_way(game: Game) -> float:
    """Return what an adversary reaches who never changes sign: less is no bound, whatever anybody proves."""
    weights, losses = _race(game, game.paid)
    return float(np.sum(np.exp(weights) * np.maximum(-np.expm1(np.minimum(game.epsilon - losses, 0.0)), 0.0)))


def potential(game: Game) -> float:
    """Return Theorem 26's bound, summed up over races for K + 1: the mean of (l - s)_+^2/l over 4 (e^epsilon - s)."""
    weights, losses = _race(game, game.paid + 1)

    def bound(log_part: float) -> float:
        level = game.epsilon + math.log1p(-math.exp(log_part))  # ln s
        above = np.where(losses > level, -np.expm1(np.minimum(level - losses, 0.0)), 0.0)
        logs = weights + losses - game.epsilon - log_part  # exp(epsilon) - s = exp(epsilon + log_part)
        return float(np.sum(np.exp(np.minimum(logs, 700.0)) * above**2)) / 4.0

    step = 7.0 / _SEARCHED
    best, found = min((bound(-step * part), -step * part) for part in range(1, _SEARCHED + 1))
    for _ in range(_REFINED):
        step /= 2.0
        best, found = min((best, found), *((bound(at), at) for at in (found - step, min(found + step, -1e-3))))
    return best


def laplace_bits(slope: float, bits: int, epsilon: float) -> float:
    """Return delta of so many bits of slope nats each: as many randomized responses (Kairouz, Oh and Viswanath)."""
    ups = np.arange(bits + 1.0)
    logs = (
        scipy.special.gammaln(bits + 1.0) - scipy.special.gammaln(ups + 1.0) - scipy.special.gammaln(bits - ups + 1.0)
    )
    logs += slope * ups - bits * math.log1p(math.exp(slope))
    losses = slope * (2.0 * ups - bits)
    return float(np.exp(logs) @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0))


def normal_bits(slope: float, bits: int, epsilon: float) -> float:
    """Return delta of so many bits of normal noise of deviation 1/slope: one normal draw, exactly."""
    mean = slope * math.sqrt(bits)
    first, second = (scipy.special.log_ndtr(sign * mean / 2.0 - epsilon / mean) for sign in (1.0, -1.0))
    return float(max(math.exp(first) - math.exp(min(epsilon + second, 700.0)), 0.0))


def few_successes(trials: int, chance: float, wanted: int) -> float:
    """Return P(Bin(trials, chance) < wanted): its largest terms, each from the one before."""
    if chance >= 1.0:
        return 0.0 if trials >= wanted else 1.0
    most = min(wanted - 1, trials)
    if most < 0 or most >= trials * chance:
        return 0.0 if most < 0 else 1.0
    with mpmath.workdps(50):  # of so many trials factorials have more digits than a float
        first = mpmath.loggamma(trials + 1) - mpmath.loggamma(most + 1) - mpmath.loggamma(trials - most + 1)
        first += most * mpmath.log(mpmath.mpf(chance)) + (trials - most) * mpmath.log1p(-mpmath.mpf(chance))
        largest = float(mpmath.exp(first))
    width = math.ceil(40.0 * math.sqrt(trials * chance)) + 40
    fewer = np.arange(most, max(most - width, 0), -1.0)
    ratios = fewer * (1.0 - chance) / ((trials - fewer + 1.0) * chance)
    return largest * (1.0 + float(np.sum(np.cumprod(ratios))))
