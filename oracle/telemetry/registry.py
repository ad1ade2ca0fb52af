"""`Registry`: the records of all shards that a process serves, and what befell it; observers read nothing else."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from oracle.errors import BusError
from oracle.planning.plan import Plan
from oracle.planning.promise import promise_of
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import Mishap, ProcessTelemetry, State, Timing, whole
from oracle.telemetry.reporter import Reporter

__all__ = ["Registry"]

_MISHAPS: Final = 20
"""How many of the last ones are kept."""


class Registry:
    """Where a process's shards are watched from.

    Args:
        plan: The plan of each shard.
        log: Where the log lines go.
        version: The software's version.
        shards: How many the state has, whoever serves them.
        grouped: Whether a consumer group says which shards are ours; each then has log lines of its own.
        now: Seconds since 1970.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        plan: Plan,
        log: PublicLog,
        *,
        version: str,
        shards: int = 1,
        grouped: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._promise = promise_of(plan)
        self._schedule = tuple((phase.rounds, phase.delta) for phase in plan.phases)
        self._log = log
        self._version = version
        self._planned = shards
        self._grouped = grouped
        self._now = now
        self._started = whole(now())
        self._joined = not grouped
        self._bus_failures = 0
        self._strangers: str | None = None
        self._draining = False
        self._watches: dict[int, Reporter] = {}
        self._ours: set[int] = set()
        self._mishaps: deque[Mishap] = deque(maxlen=_MISHAPS)
        self._listeners: list[Callable[[Timing], None]] = []

    @property
    def telemetry(self) -> ProcessTelemetry:
        """The record as of now."""
        return ProcessTelemetry(
            version=self._version,
            model=self._plan.name,
            profile=self._plan.profile,
            predictor=self._plan.predictor,
            alpha=self._plan.alpha,
            promise=self._promise,
            schedule=self._schedule,
            declared=self._plan.declared,
            nominal=self._plan.nominal,
            protects_queries=self._plan.protects_queries,
            released=self._plan.released,
            epsilon=self._plan.epsilon,
            started=self._started,
            joined=self._joined,
            planned=self._planned,
            bus_failures=self._bus_failures,
            strangers=self._strangers is not None,
            shards=tuple(self._watches[shard].telemetry for shard in sorted(self._ours)),
            mishaps=tuple(self._mishaps),
        )

    def listen(self, listener: Callable[[Timing], None]) -> None:
        """Have a function called with every timing from now on."""
        self._listeners.append(listener)

    def shard(self, number: int) -> Reporter:
        """Return the watch of a shard; one that nobody has spoken of before is ours from now on."""
        if number not in self._watches:
            self._begin(number)
        return self._watches[number]

    def assigned(self, number: int) -> None:
        """A shard is ours from now on, with a new watch: what the one before is still told of is not shown."""
        self._begin(number)
        self._watches[number].assigned()

    def revoked(self, watch: Reporter) -> None:
        """A shard is ours no more, unless it was assigned again since."""
        watch.revoked()
        number = watch.telemetry.shard
        if self._watches[number] is watch:
            self._ours.discard(number)

    def folder_tried(self, number: int, *, writable: bool) -> None:
        """The folder of a shard's snapshots was tried."""
        self._watches[number].folder_tried(writable=writable)

    def _begin(self, number: int) -> None:
        before = self._watches.get(number)
        self._ours.add(number)
        self._watches[number] = Reporter(
            self._plan,
            self._log.of(number) if self._grouped else self._log,
            number,
            before=None if before is None else before.telemetry,
            on_mishap=lambda event, text: self._mishap(number, event, text),
            on_timing=self._timed,
        )

    def joined(self) -> None:
        """The consumer group counts us in."""
        self._joined = True

    def bus_failed(self, error: BusError) -> None:
        """The bus does not let us take part; it will be tried again."""
        self._joined = not self._grouped
        self._bus_failures += 1
        self._log.warning("bus.unavailable", error=str(error))
        self._mishap(None, "bus.unavailable", str(error))

    def strangers(self, text: str | None) -> None:
        """Somebody else is in the consumer group; None: nobody is."""
        if text is not None and text != self._strangers:
            self._log.warning("group.stranger", error=text)
            self._mishap(None, "group.stranger", text)
        self._strangers = text

    def draining(self, signal: str) -> None:
        """A signal has asked for a clean stop."""
        self._draining = True
        self._log.info("daemon.draining", signal=signal)

    @property
    def is_draining(self) -> bool:
        """Whether a signal has asked for a clean stop of all shards."""
        return self._draining

    def failed(self, error: Exception) -> None:
        """The process cannot go on; shards of which this was told already are let be."""
        for number in sorted(self._ours):
            if self._watches[number].telemetry.state is not State.FAILED:
                self._watches[number].failed(error)

    def _mishap(self, shard: int | None, event: str, text: str) -> None:
        self._mishaps.appendleft(Mishap(whole(self._now()), shard, event, text))

    def _timed(self, timing: Timing) -> None:
        for listener in self._listeners:
            listener(timing)
