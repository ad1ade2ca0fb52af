"""How many examples stumps get wrong: what the choice of a feature, a direction and a cut is made by.

Source: Stemmer (2024), Definition 4.16 and Algorithm 7. A stump (j, sigma, t) says 1 where sigma (x_j - t) >= 0: for
sigma = +1 to the largest values, for sigma = -1 to the smallest.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import Keys, mirrored

__all__ = ["cut_losses", "least_losses", "ranking"]


def least_losses(columns: Iterable[Keys], labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the least number of examples that any threshold gets wrong, for each feature and direction.

    With the labels in the order of a column, the threshold behind the first i of them gets, for sigma = +1, the walk
    W_i = |{y = 0}| + sum over k <= i of (2 y_k - 1) examples wrong, and n - W_i for sigma = -1. Thresholds part no
    equal values, so only the ends of runs of equal values count.

    Formal guarantees:
        * Adding a record raises the number of errors of every threshold by 0 or 1, and so every least number: the
          losses of all candidates change monotonely, by at most 1.

    Args:
        columns: Of each feature [n] keys, none the last one.
        labels: bool[n].

    Returns:
        int64[d, 2]: for sigma = +1 and sigma = -1.
    """
    return np.array([_least_pair(column, labels) for column in columns], dtype=np.int64).reshape(-1, 2)


def _least_pair(column: Keys, labels: NDArray[np.bool_]) -> tuple[int, int]:
    order = np.argsort(column)
    ranked, steps = column[order], labels[order] * np.int8(2) - np.int8(1)
    ends = np.flatnonzero(ranked[1:] != ranked[:-1])
    zeros = len(labels) - int(np.count_nonzero(labels))
    walk = zeros + np.cumsum(steps, dtype=np.int64)[np.append(ends, len(labels) - 1)] if len(labels) else np.empty(0)
    return int(walk.min(initial=zeros)), len(labels) - int(walk.max(initial=zeros))


def ranking(column: Keys, *, upward: bool, coins: NDArray[np.uint64] | None = None) -> NDArray[np.intp]:
    """Return the records in the order in which a stump takes them in: largest values first if `upward`.

    Ties go by the record's coin, where it has one, and then by its number, so one record more moves every other one by
    at most one rank. With coins the labels among equal values come in a random order, whatever order the rows have:
    else, in a file that is sorted by label, a cut could part equal values by their labels, as no stump can.

    Args:
        column: [n] keys, none the last one.
        upward: True for sigma = +1.
        coins: uint64[n], uniform, functions of the records' numbers alone.
    """
    keys = mirrored(column) if upward else column
    return np.argsort(keys, kind="stable") if coins is None else np.lexsort((coins, keys))


def cut_losses(ranked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of errors if the first c records of a ranking are labelled 1, for c = 0, ..., n.

    Formal guarantees:
        * Adding a record changes all these numbers by amounts that lie within 2 of each other, and adds one number.
          (Because of that a choice among them is not private alone: PRIVACY.md, Theorem 10.) Let it have rank r and
          label y. For c < r the same records are labelled 1, and the number rises by y. For c >= r the record that was
          the c-th is labelled 0 now, which costs 2 y_c - 1 (nothing where c was beyond the last), and the new one is
          labelled 1, which costs 1 - y. So the changes are in {-1, 0, 1} if y = 1 and in {0, 1, 2} if y = 0.

    Args:
        ranked: bool[n], the labels in the order of the ranking.

    >>> cut_losses(np.array([True, False, True]))
    array([2, 1, 2, 1])
    """
    gains = np.cumsum(1 - 2 * ranked.astype(np.int64))
    return np.concatenate([[0], gains]) + int(np.count_nonzero(ranked))
