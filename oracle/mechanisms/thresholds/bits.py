"""The database's side of Choromanski, Rostamizadeh and Syed (2015), section 2: one noisy bit a query."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, RefusedError
from oracle.mechanisms.noise.laws import CostUnit, NoiseLaw
from oracle.mechanisms.sums import dots, running_sum

__all__ = ["BinaryThresholdOracle", "BitLedger"]


@dataclass(frozen=True, slots=True)
class BitLedger:
    """What an oracle's bits have cost, for a change of one coordinate of the database vector by at most 1.

    Attributes:
        bits: How many were given.
        cost: Sum of their costs. Of zCDP it adds up also where queries and thresholds were chosen by earlier bits (Bun
            and Steinke, 2016, Lemma 1.7), and so does total variation; but as the sum itself then depends on them, only
            a bound that holds whatever they are, like `most_bits` times the largest cost, is a guarantee.
        unit: What it is counted in.
    """

    bits: int
    cost: float
    unit: CostUnit


class BinaryThresholdOracle:
    """Holds w* in [0, 1]^D; answers whether w*.q + D E is above a threshold, one bit a query.

    Formal guarantees:
        * A bit costs a coordinate of w* that changes by at most 1 what the law says of a shift of max_i |q_i| / D
          (PRIVACY.md, Theorem 12): with Laplace(b) noise epsilon = max_i |q_i| / (D b).
        * A bit is a function of w*, q, the threshold and 128 uniform bits. The probability that these are compared
          with is computed in float64, so its last bits may be another machine's: there the bit is the same but with
          probability below 2^-40.
        * Never more than `most_bits` are given, and none for a query outside [0, 1]^D.

    Args:
        database: float64[D], w*, each value from 0 to 1.
        law: The law of E.
        most_bits: Bits that may be given in all.
        spent: (bits, cost) that were given before.

    >>> from oracle.mechanisms.noise.laws import named_law
    >>> oracle = BinaryThresholdOracle(np.array([1.0, 0.0]), named_law("laplace", 0.5), most_bits=10)
    >>> oracle.ask(np.array([[1.0, 1.0]]), np.array([-99.0]), np.array([[1 << 63, 0]], dtype=np.uint64)).tolist()
    [True]
    >>> oracle.ledger
    BitLedger(bits=1, cost=0.5, unit='zcdp')
    """

    def __init__(
        self,
        database: NDArray[np.float64],
        law: NoiseLaw,
        *,
        most_bits: int,
        spent: tuple[int, float] = (0, 0.0),
    ) -> None:
        if not ((database >= 0.0) & (database <= 1.0)).all():
            raise InputError("database", "...", "must be from 0 to 1 in every coordinate")
        self._database = database
        self._law = law
        self._most_bits = most_bits
        self._bits, self._cost = spent

    @property
    def ledger(self) -> BitLedger:
        """What the bits given so far have cost."""
        return BitLedger(self._bits, self._cost, self._law.cost_unit)

    def ask(
        self, queries: NDArray[np.float64], thresholds: NDArray[np.float64], words: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return for each query whether w*.q + D E is above its threshold.

        Args:
            queries: float64[n, D], from 0 to 1.
            thresholds: float64[n].
            words: uint64[n, 2], uniform bits that serve nothing else.

        Raises:
            InputError: A query is out of range; none was answered.
            RefusedError: They are more than may still be asked; none was answered.
        """
        if not ((queries >= 0.0) & (queries <= 1.0)).all():
            raise InputError("query", "...", "must be from 0 to 1 in every coordinate")
        if self._bits + len(queries) > self._most_bits:
            raise RefusedError(f"oracle: it gives {self._most_bits} bits in all")
        dimension = len(self._database)
        exact = dots(queries, self._database[None])[0]
        small, is_above = self._law.smaller_side((thresholds - exact) / dimension)
        shifts = queries.max(axis=1, initial=0.0) / dimension
        self._bits += len(queries)
        self._cost = float(running_sum(np.array([self._cost]), self._law.bit_cost(shifts)[:, None])[0])
        bits: NDArray[np.bool_] = _below(words, small) == is_above
        return bits


def _below(words: NDArray[np.uint64], probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return U < floor(2^128 p) for U of 128 bits and p at most 1/2: products with 2^64 are exact."""
    scaled = probabilities * 2.0**64
    high = np.floor(scaled)
    low = ((scaled - high) * 2.0**64).astype(np.uint64)
    edge = high.astype(np.uint64)
    below: NDArray[np.bool_] = (words[:, 0] < edge) | ((words[:, 0] == edge) & (words[:, 1] < low))
    return below
