"""How the process keeps its memory: a matter of speed only."""

import ctypes
import gc
from typing import Final

__all__ = ["settle_memory"]

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Names of two settings in glibc's malloc.h."""

_LARGEST_KEPT: Final = 32 << 20
_MOST_KEPT: Final = 256 << 20


def settle_memory() -> None:
    """Keep freed arrays for the next batch, and leave what is there out of the collector's rounds.

    A batch takes and frees arrays of about a megabyte over and over; given back to the system each time, their pages
    cost as much as the work on them. And it makes some 100,000 objects without a cycle, which the collector need not
    look through again and again. Elsewhere than on glibc only the latter is done.
    """
    gc.freeze()
    gc.set_threshold(1_000_000)
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    adjust(_MMAP_THRESHOLD, _LARGEST_KEPT)
    adjust(_TRIM_THRESHOLD, _MOST_KEPT)
