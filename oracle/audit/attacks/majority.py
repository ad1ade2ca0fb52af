"""The majority attack: from many noisy copies of the same bits to the bits.

Bun, Steinke and Ullman (2017), Section 4.3; docs/explanation/separations.md, Proposition 5. Each answer is somewhat
correlated with the secret bits, and as little as that allows with the answers before: so these are wrong in different
places, and their sum is right.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Correlations", "agreement_bound", "correlations", "majority"]

Floats = NDArray[np.float64]


class Correlations(NamedTuple):
    """How answers go together, in signs (1 and -1 for 1 and 0), as shares of n.

    Attributes:
        least: a, of any answer with the bits, at least.
        most: b, of any two answers, at most; 0 of one answer.
        own: Of any answer with itself, at most; 1 where all are bits.
    """

    least: float
    most: float
    own: float


def majority(answers: Floats) -> Floats:
    """Return a score for each bit: float64[n], above 0 for 1.

    Args:
        answers: float64[k, n], each near its bit, 0 or 1.
    """
    scores: Floats = (2.0 * answers - 1.0).sum(axis=0)
    return scores


def correlations(answers: Floats, bits: NDArray[np.bool_]) -> Correlations:
    """Measure what `agreement_bound` asks for.

    Args:
        answers: float64[k, n].
        bits: bool[n].
    """
    signs = 2.0 * answers - 1.0
    products = signs @ signs.T / signs.shape[1]
    others = products[~np.eye(len(products), dtype=np.bool_)]
    with_bits = signs @ np.where(bits, 1.0, -1.0) / signs.shape[1]
    return Correlations(float(with_bits.min()), float(others.max(initial=0.0)), float(np.diag(products).max()))


def agreement_bound(found: Correlations, answers: int) -> float:
    """Return the least share of bits that the majority of so many answers gets right (Proposition 5).

    >>> round(agreement_bound(Correlations(0.4, 0.16, 1.0), 40), 3)
    0.884
    """
    a, b, own = found
    return max(a * a / (own / answers + (1.0 - 1.0 / answers) * b), 0.0) if a > 0.0 else 0.0
