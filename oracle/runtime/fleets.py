"""Many models in one process, each with a fleet of its own: what ends one of them does not end the others.

A model that cannot be opened, or whose shards have all stopped for good, is tried again, with growing pauses, while
another one goes on. Where none does, the process ends, so that whoever watches over it sees it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from connectors.retry import Backoff
from oracle.errors import (
    BusError,
    LogDivergedError,
    PerpetuaError,
    RefusedError,
    ResourceError,
    SourceError,
    StateError,
    StorageError,
)
from oracle.runtime.fleet import Fleet, Membership
from oracle.runtime.signals import install_signals
from oracle.telemetry.models import Models

__all__ = ["Fleets", "Open"]

_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 300.0
"""Seconds before a model is tried again."""

_FAMILIES: Final = (LogDivergedError, RefusedError, StateError, StorageError, SourceError, BusError, ResourceError)
"""What callers tell errors apart by."""

Open = Callable[[], Awaitable[tuple[Fleet, Membership]]]
"""Opens a model's state; returns its fleet and what tells it which partitions are ours, neither running yet."""


class Fleets:
    """Serves models until each has ended, or none can go on, or `stop` is called.

    Args:
        opens: By the models' names.
        models: Is told what becomes of them.
        drain_seconds: Most time for a clean stop of each, all at once; see `Fleet`.
        close: Lets go of what all shards share, behind the last of them.
        pauses: Makes the pauses before a model is tried again.
    """

    def __init__(
        self,
        opens: Mapping[str, Open],
        models: Models,
        *,
        drain_seconds: float,
        close: Callable[[], Awaitable[None]] | None = None,
        pauses: Callable[[], Backoff] = lambda: Backoff(_FIRST_PAUSE, _LONGEST_PAUSE),
    ) -> None:
        self._opens = opens
        self._models = models
        self._drain_seconds = drain_seconds
        self._close = close
        self._pauses = pauses
        self._fleets: dict[str, Fleet] = {}
        self._failed: dict[str, Exception] = {}
        self._ended: set[str] = set()
        self._stopping = asyncio.Event()
        self._finished = asyncio.Event()
        self._drained: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Ask for a clean stop of everything."""
        self._stopping.set()

    async def run(self, group: Membership) -> None:
        """Serve; `group` is what all of them take part in.

        Raises:
            PerpetuaError: The group does not let us in; or no model can go on; or some could not, to be told at the
                end. It is the first one's in their order, and names it where there are many.
        """
        member = asyncio.create_task(group.run(self._models.bus_failed))
        waits = [asyncio.create_task(event.wait()) for event in (self._stopping, self._finished)]
        tasks = {name: asyncio.create_task(self._serve(name)) for name in self._opens}
        try:
            await asyncio.wait([member, *waits], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            for name, task in tasks.items():
                fleet = self._fleets.get(name)
                if fleet is None:  # it is being opened, or waits to be tried again
                    task.cancel()
                else:
                    fleet.stop()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            for other in (member, *waits):
                other.cancel()
            outcome, *_ = await asyncio.gather(member, *waits, return_exceptions=True)
            if self._close is not None:
                await self._close()
            self._drained()
        if isinstance(outcome, Exception):
            raise outcome
        failed = {name: self._failed[name] for name in self._opens if name in self._failed}
        if failed:
            raise self._told(failed)

    async def _serve(self, name: str) -> None:
        """Serve a model until it ends, and again after whatever has ended it before that."""
        clock, pauses = asyncio.get_running_loop().time, self._pauses()
        while True:
            began = clock()
            try:
                fleet, membership = await self._opens[name]()
                self._fleets[name] = fleet
                await fleet.run(membership)
            except Exception as exc:  # noqa: BLE001 -- also what nobody thought of; `run` raises it
                self._failed[name] = exc
                self._models.failed(name, exc)
                if isinstance(exc, ResourceError):  # a restart mends it, for all
                    self._finished.set()
            else:
                self._ended.add(name)
            finally:
                self._fleets.pop(name, None)
            if self._failed.keys() | self._ended == self._opens.keys():
                self._finished.set()
            if name in self._ended or self._stopping.is_set() or self._finished.is_set():
                return
            await asyncio.sleep(pauses.pause(clock() - began))
            del self._failed[name]

    def _told(self, failed: Mapping[str, Exception]) -> Exception:
        """Return what to raise of what has ended some models: the first, and the names of the others."""
        (name, first), *others = failed.items()
        if len(self._opens) == 1 or not isinstance(first, PerpetuaError):
            return first
        family = next((kind for kind in _FAMILIES if isinstance(first, kind)), PerpetuaError)
        also = (
            f"; model{'s' * (len(others) > 1)} {', '.join(other for other, _ in others)} failed too" if others else ""
        )
        told = family(f"model {name}: {first}{also}")
        told.__cause__ = first
        return told

    def install_signals(self, exit_now: Callable[[int], None]) -> None:
        """Stop cleanly at SIGTERM or SIGINT within twice `drain_seconds`; exit at the second one."""

        def begin_stop(signal: str) -> bool:
            if self._stopping.is_set():
                return False
            self._models.draining(signal)
            self.stop()
            return True

        self._drained = install_signals(begin_stop=begin_stop, exit_now=exit_now, drain_seconds=2 * self._drain_seconds)
