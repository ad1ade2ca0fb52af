"""The tracing attack: from shares of a data set's rows, question by question, to who is among them.

Bun, Steinke and Ullman (2017), Section 3.2; docs/explanation/separations.md, Propositions 2 and 3. Candidates have a
bit for each question, and the answer is about the share of the rows whose bit is 1. A fair coin decided for each pair
of candidates which of the two is a row, or for each single one whether it is.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.randomness import Draws

__all__ = ["Design", "draw_design", "predicted_share", "trace"]

Bits = NDArray[np.uint8]
Floats = NDArray[np.float64]


class Design(NamedTuple):
    """Who may be in the data set, and who is.

    Attributes:
        bits: uint8[n, 2, k] of pairs, uint8[n, 1, k] of single candidates; public.
        coins: bool[n], whether the second of a pair, or the single candidate, is a row; secret.
    """

    bits: Bits
    coins: NDArray[np.bool_]

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which candidates are rows: bool[n, 2] or bool[n, 1]."""
        return np.stack([~self.coins, self.coins], axis=1)[:, 2 - self.bits.shape[1] :]

    @property
    def rows(self) -> Bits:
        """The data set: uint8[rows, k]."""
        return self.bits[self.present]

    @property
    def exact(self) -> Floats:
        """What is asked for: float64[k], the shares of the rows whose bit is 1."""
        shares: Floats = self.rows.mean(axis=0, dtype=np.float64)
        return shares


def draw_design(draws: Draws, coins: int, questions: int, *, pairs: bool = True) -> Design:
    """Draw candidates: of each question a share, uniform between 0 and 1, and bits of that mean; and toss the coins.

    Args:
        draws: Where all of it comes from.
        coins: Pairs, or single candidates.
        questions: k.
        pairs: Whether there are two candidates a coin.
    """
    shares, each = draws.uniform(questions), 2 if pairs else 1
    made = [(draws.uniform(questions) < shares).astype(np.uint8) for _ in range(coins * each)]
    return Design(np.stack(made).reshape(coins, each, questions), draws.uniform(coins) < 0.5)  # noqa: PLR2004 -- fair


def trace(bits: Bits, answers: Floats) -> Floats:
    """Return a score for each coin, made of public things only: float64[n], above 0 for the second of a pair.

    The score of a pair is sum_j r_j (c'_j - c_j), of a single candidate sum_j r_j (c_j - m_j): m_j is the candidates'
    mean, and r_j what is left of the answer after the best straight line in m_j. The line takes away what answers owe
    to everybody, so that the score's noise is that of the errors; a fixed line would take nothing, on average, from the
    paper's statistic, sum_j a_j (c_j - p_j).

    Args:
        bits: As of a `Design`.
        answers: float64[k], NaN where there was none.
    """
    asked = np.flatnonzero(np.isfinite(answers))
    if not asked.size:
        return np.zeros(len(bits))
    left = _residuals(bits, answers)[asked]
    return np.concatenate([one[:, asked] @ left for one in _contrasts(bits)])


def predicted_share(bits: Bits, answers: Floats, rows: int) -> float:
    """Return the share of coins that is guessed right where errors are normal: Phi(sqrt(sum_j d_j^2)/(2 rows s)).

    Here s is the deviation of what `trace` has left of the answers.

    Args:
        bits: As of a `Design`; d_j is a coin's contrast, 1 or -1 or 0 for a pair.
        answers: As of `trace`.
        rows: Of the data set.
    """
    asked = np.flatnonzero(np.isfinite(answers))
    spread = float(np.sqrt(np.mean(_residuals(bits, answers)[asked] ** 2))) if asked.size else math.inf
    if spread == 0.0:
        return 0.5  # nothing is left of the answers
    lengths = np.concatenate([np.sqrt((one[:, asked] ** 2).sum(axis=1)) for one in _contrasts(bits)])
    steps = lengths / (2.0 * rows * spread * math.sqrt(2.0))
    return float(np.mean([(1.0 + math.erf(step)) / 2.0 for step in steps]))


def _residuals(bits: Bits, answers: Floats) -> Floats:
    """Return what is left of the answers after the best straight line in the candidates' means: float64[k]."""
    means = bits.mean(axis=(0, 1), dtype=np.float64)
    asked = np.isfinite(answers)
    line = np.column_stack([means, np.ones(len(means))])
    fitted = np.linalg.lstsq(line[asked], answers[asked], rcond=None)[0]
    left: Floats = answers - line @ fitted
    return left


def _contrasts(bits: Bits) -> Iterator[Floats]:
    """Yield what coins change of each question, some coins at a time: float64[some, k]."""
    means = bits.mean(axis=(0, 1), dtype=np.float64)
    for start in range(0, len(bits), 64):
        some = bits[start : start + 64].astype(np.float64)
        yield some[:, 1] - some[:, 0] if bits.shape[1] == 2 else some[:, 0] - means  # noqa: PLR2004 -- pairs
