"""`Observers`: what is seen of a process's models: of each its records, its health and its metrics."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from oracle.telemetry.collector import RecordCollector
from oracle.telemetry.health import Health, NotReady
from oracle.telemetry.metrics import Metrics
from oracle.telemetry.models import Models
from oracle.telemetry.registry import Registry

__all__ = ["Observed", "Observers"]

_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Observed:
    """One model as it is seen."""

    registry: Registry
    health: Health
    metrics: Metrics


class Observers:
    """Looks at each model of a process whose state is open.

    Args:
        stall_seconds: As of `Health`.
        clock: Seconds, monotone.
        now: Seconds since 1970.
    """

    def __init__(
        self,
        models: Models,
        stall_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.models = models
        self._stall_seconds = stall_seconds
        self._clock = clock
        self.now = now
        self._observed: dict[str, Observed] = {}
        models.watch(self.of)  # from the first timing on
        for name in models.all_opened:
            self.of(name)

    async def run(self) -> None:
        """Look once a second until cancelled."""
        try:
            while True:
                self.look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for one in self._observed.values():
                one.health.close()

    def look(self) -> None:
        """Look once; it waits for nothing."""
        for _, one in self._all():
            one.health.look()

    def of(self, name: str) -> Observed | None:
        """Return what is seen of a model; None where its state was never opened."""
        opened = self.models.all_opened.get(name)
        if opened is None:
            return None
        found = self._observed.get(name)
        if found is None or found.registry is not opened.registry:
            if found is not None:
                found.health.close()
            health = Health(opened.registry, opened.folder_of, self._stall_seconds, clock=self._clock, now=self.now)
            metrics = Metrics(opened.registry, unready=health.unready, now=self.now)
            found = self._observed[name] = Observed(opened.registry, health, metrics)
        return found

    def _all(self) -> Iterator[tuple[str, Observed]]:
        for name in self.models.names:
            one = self.of(name)
            if one is not None:
                yield name, one

    def not_ready(self) -> tuple[NotReady, ...]:
        """Return every reason not to be ready, by model and shard."""
        found = [(name, reason) for name in self.models.names for reason in self.not_ready_of(name)]
        if not self.models.are_many:
            return tuple(reason for _, reason in found)
        return tuple(replace(reason, text=f"model {name}: {reason.text}", model=name) for name, reason in found)

    def is_ready(self, name: str) -> bool:
        """Return whether a model is."""
        return not self.not_ready_of(name)

    def not_ready_of(self, name: str) -> list[NotReady]:
        """Return every reason why a model is not ready, by shard."""
        down, one = self.models.all_down.get(name), self.of(name)
        found: list[NotReady] = []
        if down is not None:
            found.append(NotReady(None, "model", down.text))
        elif one is None:
            found.append(NotReady(None, "restored", "its state is being opened"))
        if one is not None:
            found += one.health.not_ready()
        return found

    def summary(self) -> str:
        """Return what a ready process is doing, in words."""
        found = [(name, one.health.summary()) for name, one in self._all()]
        return "; ".join(f"model {name}: {text}" if self.models.are_many else text for name, text in found)

    def collector(self) -> RecordCollector:
        """Return the collector of this moment's metrics, for any thread."""
        moments = tuple(one.metrics.moment() for _, one in self._all())
        down = {name: name in self.models.all_down for name in self.models.names}
        return RecordCollector(moments, down, self.models.version, self.now())
