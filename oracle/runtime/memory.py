"""How the process keeps its memory: to itself, and in a way that is quick."""

import ctypes
import gc
import os
import resource
from typing import Final

from oracle.errors import RefusedError

__all__ = ["close_memory", "settle_memory"]

_SET_DUMPABLE: Final = 4
"""PR_SET_DUMPABLE in Linux's prctl.h."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Names of two settings in glibc's malloc.h."""

_LARGEST_KEPT: Final = 32 << 20
_MOST_KEPT: Final = 256 << 20


def close_memory() -> None:
    """Let no core dump and no other process of this user have the memory, which holds keys and private points.

    What is started by `exec` must do it again; a fork inherits it. Root may still read the memory. From here on most of
    /proc/PID is root's.

    Raises:
        RefusedError: The system does not do it.
    """
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        done = ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    except AttributeError:  # no Linux: it has no such call
        return
    except OSError as exc:
        raise _not_closed(exc.errno) from exc
    if done != 0:
        raise _not_closed(ctypes.get_errno())


def _not_closed(number: int | None) -> RefusedError:
    reason = os.strerror(number or 0)
    return RefusedError(
        f"memory: cannot be closed to core dumps and other processes: {reason}; let the process call "
        "prctl(PR_SET_DUMPABLE) and prlimit(RLIMIT_CORE)"
    )


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
