"""Boolean functions of some public bits and the secret one, whose sums over all rows are published.

Kasiviswanathan, Rudelson and Smith (2013), Section 3; docs/explanation/reconstruction.md, Proposition 1. A function of
k public bits and the secret one is its table of values, of shape (2, ..., 2), the secret bit last.
"""

from collections.abc import Callable
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "Linear", "summed", "table_of"]

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]


class Linear(NamedTuple):
    """Numbers that are linear in the secret counts: `offset` + `matrix` times these.

    Attributes:
        matrix: float64[m, g].
        offset: float64[m].
        shapes: Of the whole tables that the numbers are the cells of, one after the other; none if they are not.
    """

    matrix: Floats
    offset: Floats
    shapes: tuple[tuple[int, ...], ...] = ()

    def release(self, counts: Floats, noise: Floats) -> Floats:
        """Return the numbers with noise: float64[m]."""
        numbers: Floats = self.offset + self.matrix @ counts + noise
        return numbers

    def equations(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the matrix, and what it comes to."""
        return self.matrix, numbers - self.offset


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "and": lambda *bits: all(bits),
    "or": lambda *bits: any(bits),
    "parity": lambda *bits: sum(bits) % 2,
    "majority": lambda *bits: 2 * sum(bits) > len(bits),
    "error": lambda *bits: all(bits[:-1]) != bits[-1],
    "tree": lambda *bits: all(bits[1:]) if bits[0] else bits[-1],
}
"""What may be published: AND is a marginal; "error" counts where the rule "all of them, so 1" is wrong of the secret
bit, and "tree" asks one bit whether the others are to be looked at."""


def table_of(name: str, public: int) -> Bits:
    """Return the values of one of `FUNCTIONS`: int64[2, ..., 2].

    >>> table_of("and", 1).tolist()
    [[0, 0], [0, 1]]
    """
    function = FUNCTIONS[name]
    values = [int(bool(function(*bits))) for bits in product((0, 1), repeat=public + 1)]
    return np.array(values).reshape((2,) * (public + 1))


def summed(values: Bits, bits: Bits, chosen: Bits, sizes: Floats) -> Linear:
    """Return the sums of a function over all rows, for each choice of public bits (Proposition 1).

    Args:
        values: The function's.
        bits: int64[g, D], public.
        chosen: int64[m, k], places of the bits.
        sizes: float64[g], rows that look alike.
    """
    without, change = values[..., 0], values[..., 1] - values[..., 0]
    places = tuple(bits[:, column].T for column in chosen.T)
    return Linear(change[places].astype(np.float64), without[places] @ sizes)
