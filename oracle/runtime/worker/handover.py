"""A predictor that moves into a process of its own as soon as that pays."""

import os
from collections.abc import Callable
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.errors import EngineLostError, PerpetuaError
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, Predictor, PublicFacts, StateArrays
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.worker.client import RemotePredictor, WorkerProcess
from oracle.runtime.worker.protocol import Hello
from oracle.runtime.worker.version import build

__all__ = ["MANY_ROWS", "Engine"]

MANY_ROWS: Final = 65_536
"""Rows of a batch from which on a process of its own pays: the two then work side by side for tens of milliseconds."""


_BUILD: Final = build()
"""Of the code that this process has loaded."""


class Engine:
    """Where one shard's predictor runs: first here; from its first large batch on, a process is started for it.

    It moves as soon as that process is up, behind its bookkeeping, which is timed with no answer; not while answers are
    only repeated (a recovery does nothing beside). If the process does not come up, or is of other code than ours (a
    newer Perpetua was installed meanwhile), it stays here for good.

    `restore` is what a `Daemon` is given; `close` comes last.

    Args:
        on_moved: Told when the predictor has moved.
        many_rows: Rows of a batch that is large.
        stays: Whether it is to stay here whatever comes.
    """

    def __init__(
        self, on_moved: Callable[[], None] = lambda: None, *, many_rows: int = MANY_ROWS, stays: bool = False
    ) -> None:
        self._on_moved = on_moved
        self._many_rows = many_rows
        self._stays = stays or not hasattr(os, "memfd_create")
        self._process: WorkerProcess | None = None
        self._lock = Lock()  # a thread may be at work for a daemon that was cut off, and is closed

    def restore(self, plan: Plan, arrays: StateArrays) -> Predictor:
        """Return the predictor whose state `Predictor.export` returned, under the same plan; only once."""
        predictor = restore_predictor(plan, arrays)
        return predictor if self._stays else _Moving(self, plan, predictor)

    def begin(self, plan: Plan, rows: int) -> None:
        """Start the process if a batch of so many rows is a reason to."""
        with self._lock:
            if rows < self._many_rows or self._stays or self._process is not None:
                return
            try:
                self._process = WorkerProcess(plan.width)
            except OSError:
                self._stays = True

    def moved(self, plan: Plan, predictor: Predictor) -> Predictor | None:
        """Return the predictor that goes on in the process, if that is up."""
        with self._lock:
            process = self._process
            if process is None or not process.has_spoken:
                return None
        try:
            if process.hear(Hello).build != _BUILD:
                raise EngineLostError("engine: its process is of other code")
            apart = RemotePredictor(plan, process, predictor.export())
        except PerpetuaError:  # the predictor is as it was
            self.close()
            return None
        self._on_moved()
        return apart

    def close(self) -> None:
        """End the process, if there is one; no other is started."""
        with self._lock:
            self._stays = True
            process, self._process = self._process, None
        if process is not None:
            process.close()


class _Moving:
    """The predictor that `Engine` hands out (see `oracle.predictors.base.Predictor`)."""

    def __init__(self, engine: Engine, plan: Plan, predictor: Predictor) -> None:
        self._engine = engine
        self._plan = plan
        self._predictor = predictor
        self._rows = 0  # of the last batch
        self._has_moved = False

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        self._rows = len(features)
        return self._predictor.answer(features, present)

    def settle(self) -> None:
        self._predictor.settle()
        if self._has_moved:
            return
        self._engine.begin(self._plan, self._rows)
        moved = self._engine.moved(self._plan, self._predictor)
        if moved is not None:
            self._predictor, self._has_moved = moved, True

    def export(self) -> StateArrays:
        return self._predictor.export()

    def facts(self) -> PublicFacts:
        return self._predictor.facts()
