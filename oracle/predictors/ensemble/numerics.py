"""What a fit depends on beside its rows: threads, versions and kernels."""

import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions, version
from threading import Lock, local
from typing import Any, Final, cast

import numpy as np

__all__ = ["apart", "hush", "libraries"]


class _Blas:
    """Holds BLAS at one thread while anybody wants it so: its number of threads is the whole process's."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._before: list[int] = []

    def hold(self) -> None:
        with self._lock:
            if not self._holders:
                self._before = [pool.num_threads for pool in _pools()]
            self._holders += 1
            _limit([1] * len(self._before))

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                _limit(self._before)


def _pools() -> list[Any]:
    pools: list[Any] = _controller().select(user_api="blas").lib_controllers
    return pools


def _limit(counts: Sequence[int]) -> None:
    for pool, count in zip(_pools(), counts, strict=True):
        # Later versions of threadpoolctl let only the first thread that ever set the number do so; `_Blas` has a lock.
        getattr(pool, "clear_controlling_thread", dict)(force=True)
        pool.set_num_threads(count)


_BLAS = _Blas()


@cache
def _controller() -> Any:  # noqa: ANN401 -- threadpoolctl has no types
    import_module("sklearn.utils")  # brings along what is to be limited
    return import_module("threadpoolctl").ThreadpoolController()


@contextmanager
def apart(*, finite: bool) -> Iterator[None]:
    """Fit or predict so that the number of cores changes nothing, and numpy tells nothing of the data.

    Sums over several threads depend on how many there are. Parameters have been checked before.

    Args:
        finite: Whether all numbers are known to be finite.
    """
    context = import_module("sklearn").config_context
    _BLAS.hold()
    _APART.depth += 1
    try:
        # OpenMP's number of threads and both of these contexts are the calling thread's own.
        with (
            _controller().select(user_api="openmp").limit(limits=1),
            context(assume_finite=finite, skip_parameter_validation=True),
            np.errstate(all="ignore"),
        ):
            yield
    finally:
        _APART.depth -= 1
        _BLAS.release()


class _Apart(local):
    """A filter of warnings that matches those of a thread that is `apart`; others it does not touch.

    `warnings.catch_warnings` is no help beside other threads: filters are the whole process's.
    """

    depth = 0

    def match(self, _said: str) -> bool:
        """Tell whether to ignore a warning, whatever it says."""
        return self.depth > 0


_APART: Final = _Apart()


def hush() -> None:
    """Have this thread warn of nothing while it is `apart`: warnings end in logs, and tell of private rows.

    To be called again before each fit, as other threads may change the filters meanwhile.
    """
    silence = ("ignore", _APART, Warning, None, 0)
    filters = cast("list[tuple[object, ...]]", warnings.filters)
    if filters[:1] != [silence]:
        filters.insert(0, silence)


def libraries(*paths: str) -> dict[str, str]:
    """Return what may change what a learner says of the same rows, by name: versions, machine, kernels.

    Neither Python's patches nor the C library are there: numpy, BLAS and scikit-learn bring their own arithmetic along,
    and learners that a state holds in full are compared as they are.

    Args:
        paths: Import paths of the learner and of the transformers.
    """
    pools = _controller().select(user_api="blas").info()
    kernels = {f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip() for pool in pools}
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    found = {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": f"{platform.system()} {platform.machine()}",
        "simd": " ".join(simd.get("found", [])),
        "blas": ", ".join(sorted(kernels)),
    }
    roots = {"numpy", "scipy", "sklearn", *(path.partition(".")[0] for path in paths)}
    return found | {name: number for root in sorted(roots) for name, number in _versions(root)}


@cache
def _versions(root: str) -> tuple[tuple[str, str], ...]:
    """Return the distributions that a package is of, and their versions: slow to find, and the same for a process."""
    return tuple((name, version(name)) for name in sorted(set(_distributions().get(root, ()))))


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()
