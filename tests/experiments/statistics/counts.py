"""What is had for the same epsilon and delta by a Gaussian count for each question, with OpenDP's mechanism."""

import math
import warnings

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray
from scipy.special import ndtri


def _gaussian(scale: float) -> dp.Measurement:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dp.enable_features("contrib")
        return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale)


def opendp_scale(epsilon: float, delta: float) -> float:
    """Return the least standard deviation, for a sensitivity of 1, that OpenDP grants (by zCDP)."""

    def at(scale: float) -> dp.Measurement:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(_gaussian(scale)), delta)

    return float(dp.binary_search_param(at, 1.0, (epsilon, delta)))


def noise(scale: float, count: int) -> NDArray[np.int64]:
    """Draw OpenDP's discrete Gaussian noise for so many counts: all together have a sensitivity of sqrt(count)."""
    return np.array(_gaussian(scale * math.sqrt(count))([0] * count), dtype=np.int64)


def expected_mean(scale: float, counts: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Return the mean error of so many counts, as a share of the rows."""
    return scale * np.sqrt(counts) * math.sqrt(2.0 / math.pi) / rows


def expected_largest(scale: float, counts: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Return the median of the largest error of so many counts, as a share of the rows."""
    return scale * np.sqrt(counts) * -ndtri(-np.expm1(-math.log(2.0) / counts) / 2.0) / rows


def crossover(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> int | None:
    """Return from which number of questions on ours is smaller, to the end; None if it is not at the end.

    Args:
        ours: float64[k], the error of the first 1 to k questions.
        theirs: The same.
    """
    worse = np.flatnonzero(ours >= theirs)
    if not len(worse):
        return 1
    last = int(worse[-1]) + 2
    return last if last <= len(ours) else None
