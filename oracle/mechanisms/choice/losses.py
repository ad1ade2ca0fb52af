"""The exponential mechanism over integer losses, exact: one candidate, the likelier the smaller its loss.

Source: McSherry and Talwar (2007), "Mechanism design via differential privacy". P(i) is proportional to
exp(-e loss_i). The weights are integers of 320 fractional bits, and the choice is that of a uniform integer below their
sum, made of 512 keyed bits: no float but e itself, which is an exact dyadic rational.
"""

from typing import Final

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = ["CHOICE_WORDS", "choose"]

CHOICE_WORDS: Final = 8
"""64-bit words that one choice takes."""

_FRACTION: Final = 320
_NATS: Final = 178.0
"""Weights below exp(-178) < 2^-256 of the largest are left out."""

_SMALLEST_SCALE: Final = 2.0**-18
_LARGEST_SCALE: Final = 64.0


def choose(scale: float, losses: NDArray[np.int64], words: NDArray[np.uint64]) -> int:
    """Return the index of the chosen candidate.

    Formal guarantees:
        * If adding or removing a record changes the losses by amounts that all lie within `spread` of each other, the
          choice is (scale * spread, 0)-DP: P(i)/P'(i) = exp(e (loss'_i - loss_i)) times the mean under P' of
          exp(e (loss'_k - loss_k))^-1 over the candidates k, and both factors' exponents lie in one interval of
          length e * spread. (With all changes between 0 and 1, spread is 1: the monotone case, without a factor of 2.)
        * For at most 2^48 candidates it is within total variation 2^-128 (`noise.EDGE_DISTANCE`) of the ideal law:
          weights are rounded down by less than 2^-290 of the largest, what is left out weighs less than 2^-208 of it
          in all, and the uniform integer is within 2^-512 of each candidate's share.

    Args:
        scale: e (nats per unit of loss), in [2^-18, 64].
        losses: int64[n], at least one.
        words: uint64[8], uniform bits.

    Raises:
        InputError: The scale is outside its range.
    """
    if not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise InputError("choice scale", scale, f"must be from {_SMALLEST_SCALE:g} to {_LARGEST_SCALE:g}")
    excess = losses - losses.min()
    near = excess[excess <= int(_NATS / scale)]
    counts = np.bincount(near)
    weights = _weights(scale, len(counts))
    whole = sum(int(count) * weight for count, weight in zip(counts, weights, strict=True))
    uniform = int.from_bytes(np.ascontiguousarray(words, dtype="<u8").tobytes(), "little")
    left = (uniform * whole) >> (64 * CHOICE_WORDS)
    for level, (count, weight) in enumerate(zip(counts.tolist(), weights, strict=True)):
        if left < count * weight:
            return int(np.flatnonzero(excess == level)[left // weight])
        left -= count * weight
    msg = "choice: the weights do not sum to their sum"
    raise ArithmeticError(msg)


def _weights(scale: float, count: int) -> list[int]:
    """Return floor(2^320 exp(-e k)), about, for k = 0, 1, ..., count - 1."""
    with mpmath.workprec(_FRACTION + 64):
        ratio = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(scale)), _FRACTION)))
    weights = [1 << _FRACTION]
    while len(weights) < count:
        weights.append((weights[-1] * ratio) >> _FRACTION)
    return weights
