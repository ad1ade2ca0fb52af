"""Which rows are kept, who gets them, and what share each class has: by number and key, or by noisy counts."""

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.planning.ensemble.model import EnsemblePlan

__all__ = ["chosen", "owners_of", "shares_of"]

_ONE = np.zeros(1, dtype=np.uint64)


def chosen(addresses: Addresses, rounds: NDArray[np.uint64], keep: float) -> NDArray[np.bool_]:
    """Return which rounds have a slot, whatever came in them: bool[n], each True with probability `keep`."""
    if keep >= 1.0:
        return np.ones(len(rounds), dtype=np.bool_)
    words = addresses.words(Purpose.COIN, rounds, _ONE, None)[0, :, 0]
    taken: NDArray[np.bool_] = words < np.uint64(int(keep * 2.0**64))
    return taken


def owners_of(addresses: Addresses, numbers: NDArray[np.uint64], teachers: int) -> NDArray[np.int32]:
    """Return the teacher that each row belongs to, by its number alone: int32[n]."""
    words = addresses.words(Purpose.SLICE, numbers, _ONE, None)[0, :, 0]
    return (words % np.uint64(teachers)).astype(np.int32)


def shares_of(plan: EnsemblePlan, counts: NDArray[np.int64]) -> tuple[float, ...]:
    """Return the share of each class: declared, or by its noisy count, which is public."""
    if plan.shares is not UNSET:
        return plan.shares
    shares = np.clip(counts / plan.declared, 0.0, 1.0)
    return tuple(shares.tolist())
