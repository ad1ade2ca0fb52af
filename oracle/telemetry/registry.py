"""`Registry`: the records of a process and all its shards; observers read nothing else."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from oracle.errors import BusError
from oracle.planning.plan import Plan
from oracle.planning.promise import promise_of
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import BatchTelemetry, Incident, ProcessTelemetry, State, Timing, whole_seconds
from oracle.telemetry.reporter import Reporter

__all__ = ["Follower", "Registry"]

Follower = Callable[[BatchTelemetry], None]
"""Is told of batches."""

_INCIDENTS: Final = 20
"""How many of the last ones are kept."""


class Registry:
    """Keeps the reporters of a process's shards and its own record.

    Args:
        shards: How many have a partition, whoever serves them, as far as it is known.
        grouped: Whether a consumer group says which shards are ours; each then has log lines of its own.
        model: What the model is called; by default as its plan.
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
        model: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._model = plan.name if model is None else model
        self._promise = promise_of(plan)
        self._log = log
        self._version = version
        self._planned = shards
        self._grouped = grouped
        self._now = now
        self._started = whole_seconds(now())
        self._joined = not grouped
        self._bus_failures = 0
        self._strangers: str | None = None
        self._reporters: dict[int, Reporter] = {}
        self._ours: set[int] = set()
        self._incidents: deque[Incident] = deque(maxlen=_INCIDENTS)
        self._listeners: list[Callable[[Timing], None]] = []
        self._follower: Follower | None = None

    @property
    def telemetry(self) -> ProcessTelemetry:
        """The process's record as of now."""
        return ProcessTelemetry(
            version=self._version,
            model=self._model,
            plan=self._plan,
            promise=self._promise,
            started=self._started,
            joined=self._joined,
            planned=self._planned,
            bus_failures=self._bus_failures,
            strangers=self._strangers is not None,
            shards=tuple(self._reporters[shard].telemetry for shard in sorted(self._ours)),
            incidents=tuple(self._incidents),
        )

    def listen(self, listener: Callable[[Timing], None]) -> None:
        """Have a function called with every timing from now on."""
        self._listeners.append(listener)

    def follow(self, follower: Follower | None) -> None:
        """Have a function called with every batch from now on; None: nobody follows them any more."""
        self._follower = follower
        for reporter in self._reporters.values():
            reporter.on_batch = follower

    def shard(self, number: int) -> Reporter:
        """Return the reporter of a shard; a new one is ours from now on."""
        if number not in self._reporters:
            self._begin(number)
        return self._reporters[number]

    def assigned(self, number: int) -> None:
        """A shard is ours from now on, with a new reporter: late events of the previous one are not shown."""
        self._begin(number)
        self._reporters[number].assigned()

    def revoked(self, reporter: Reporter) -> None:
        """A shard is no longer ours, unless it was assigned again since."""
        reporter.revoked()
        number = reporter.telemetry.shard
        if self._reporters[number] is reporter:
            self._ours.discard(number)

    def folder_tried(self, number: int, *, writable: bool) -> None:
        """A shard's snapshot folder was tested."""
        self._reporters[number].folder_tried(writable=writable)

    def _begin(self, number: int) -> None:
        before = self._reporters.get(number)
        self._ours.add(number)
        self._reporters[number] = Reporter(
            self._plan,
            self._log.of(number) if self._grouped else self._log,
            number,
            before=None if before is None else before.telemetry,
            on_incident=lambda event, text: self._incident(number, event, text),
            on_timing=self._timed,
            on_batch=self._follower,
        )

    def followed(self, number: int) -> None:
        """A shard that another process serves was brought to where that has committed, to be taken over soon."""
        self._log.of(number).info("shard.followed")

    def partitions(self, count: int) -> None:
        """So many shards have a partition, whoever serves them; the others wait for one."""
        self._planned = count

    def joined(self) -> None:
        """The consumer group counts us in."""
        self._joined = True

    def bus_failed(self, error: BusError, *, logged: bool = False) -> None:
        """The bus does not let us take part; it will be retried. `logged` says whether that has a line already."""
        self._joined = not self._grouped
        self._bus_failures += 1
        if not logged:
            self._log.warning("bus.unavailable", error=str(error))
        self._incident(None, "bus.unavailable", str(error))

    def strangers(self, text: str | None) -> None:
        """Somebody else is in the consumer group; None: nobody is."""
        if text is not None and text != self._strangers:
            self._incident(None, "group.stranger", text)
        self._strangers = text

    def failed(self, error: Exception) -> None:
        """The process cannot go on; shards that have failed already keep their own error."""
        for number in sorted(self._ours):
            if self._reporters[number].telemetry.state is not State.FAILED:
                self._reporters[number].failed(error)

    def _incident(self, shard: int | None, event: str, text: str) -> None:
        self._incidents.appendleft(Incident(whole_seconds(self._now()), shard, event, text))

    def _timed(self, timing: Timing) -> None:
        for listener in self._listeners:
            listener(timing)
