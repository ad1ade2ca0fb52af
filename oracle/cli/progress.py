"""Progress with an estimate of what is left: a bar on a terminal, now and then a plain line elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

__all__ = ["Progress"]

_QUIET: Final = 2.0
"""Seconds before anything is shown."""

_INTERVAL: Final = 5.0
"""Seconds between plain lines."""

_LEAST_PART: Final = 0.1
"""Part of the work that must be done before the rest is estimated."""


class Progress:
    """Shows how far a piece of work has come, if it takes longer than two seconds.

    Args:
        total: Units in all; None where it is not known (then nothing is shown).
    """

    def __init__(
        self,
        what: str,
        total: int | None,
        unit: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._stream = stream or sys.stderr
        self._clock = clock
        self._started = clock()
        self._shown = self._started
        self._first: tuple[float, int] | None = None
        self._bar: RichProgress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int) -> None:
        """Say how many units are done."""
        now = self._clock()
        self._first = self._first or (now, done)
        if not self._total or now - self._started < _QUIET:
            return
        if self._stream.isatty():
            self._draw(done)
        elif now - self._shown >= _INTERVAL or (self._shown == self._started and done < self._total):
            line = f"{self._what}: {done:,} of {self._total:,} {self._unit}{self._left(now, done, self._total)}"
            print(line, file=self._stream, flush=True)
            self._shown = now

    def _left(self, now: float, done: int, total: int) -> str:
        """Say how long the rest takes at the pace since the first unit; what came before it, came once."""
        since, before = self._first or (now, done)
        measured = done - before
        if measured < _LEAST_PART * total:
            return ""
        return f", about {(now - since) * (total - done) / measured:.0f} s left"

    def _draw(self, done: int) -> None:
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = RichProgress(*columns, console=Console(file=self._stream), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._total, completed=done)
        self._bar.update(self._task, completed=done)
