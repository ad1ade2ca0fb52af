"""`Reporter`: turns the events of one shard into its record and its log lines."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from connectors.base import Lag
from oracle.codec.rejections import Reason
from oracle.errors import BusError, LogDivergedError, MessageError, PerpetuaError, RefusedError
from oracle.planning.plan import Plan
from oracle.predictors.base import PublicFacts
from oracle.telemetry.log import PublicLog, public_text
from oracle.telemetry.records import (
    BatchTelemetry,
    ShardTelemetry,
    Timing,
    Work,
    initial_record,
    public_fields,
    whole_seconds,
)
from oracle.telemetry.states import Event, Lifecycle

__all__ = ["Reporter"]


def _ignore(*_args: object) -> None:
    """Do nothing."""


def _whole(seconds: float | None) -> float | None:
    return None if seconds is None else whole_seconds(seconds)


class Reporter:
    """Takes one shard's events from its daemon, and gives its record to observers.

    Not thread-safe. It decides nothing, so no answer can depend on it.

    Args:
        before: The record of an earlier reporter of the shard; the counters go on from there.
        on_incident: Called with the log's event and a text.
        on_batch: Called with each batch; None where nobody follows them.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        plan: Plan,
        log: PublicLog,
        shard: int = 0,
        *,
        before: ShardTelemetry | None = None,
        on_incident: Callable[[str, str], None] = _ignore,
        on_timing: Callable[[Timing], None] = _ignore,
        on_batch: Callable[[BatchTelemetry], None] | None = None,
    ) -> None:
        self._plan = plan
        self._log = log
        self._on_incident = on_incident
        self._on_timing = on_timing
        self.on_batch = on_batch
        self._record = before or initial_record(plan, shard)
        self._lifecycle = Lifecycle(unsaved=self._record.snapshot_failing)
        self._lag: Callable[[], Lag | None] | None = None

    @property
    def telemetry(self) -> ShardTelemetry:
        """The record as of now."""
        return self._record if self._lag is None else replace(self._record, lag=self._lag())

    def assigned(self) -> None:
        """The shard is ours."""
        self._move(Event.ASSIGNED)
        self._log.info("shard.assigned")

    def revoked(self) -> None:
        """The shard is no longer ours."""
        self._lag = None
        self._move(Event.REVOKED)
        self._log.info("shard.revoked")

    def restoring(self, lag: Callable[[], Lag | None]) -> None:
        """The snapshot is about to be read, and then the source; `lag` can be called from now on."""
        self._lag = lag
        self._move(Event.RESTORING)

    def snapshot_read(self, facts: PublicFacts, written: float | None, size: int | None) -> None:
        """The snapshot was opened (written at a Unix time, of `size` bytes); re-execution starts after it."""
        self._reach(facts, snapshot_at=_whole(written), snapshot_bytes=size)

    def restored(self, facts: PublicFacts, rounds: int, seconds: float, position: int = 0) -> None:
        """The shard has caught up with its commits, up to `position`, by re-executing so many rounds."""
        self._move(Event.RESTORED, **public_fields(self._plan, facts))
        if rounds == 0:
            self._move(Event.SAVED)  # the newest snapshot is where the commits are, whoever has written it
        record = self._record
        bound = self.took(Work.RESTORE, seconds)
        self._log.info(
            "daemon.recovered",
            round=record.round,
            phase=record.phase,
            rounds=rounds,
            seconds=bound,
            position=position,
        )

    def serving(self) -> None:
        """The shard answers queries from now on."""
        self._move(Event.SERVING, begun=self._record.batches)
        record = self._record
        rest = {"rest_left": record.rest_left} if record.rest_left else {}
        self._log.info("daemon.serving", round=record.round, phase=record.phase, **rest, **record.promise)

    def paused(self, *, paused: bool) -> None:
        """An operator has the shard wait, and all that it answered is durable; or no more."""
        if paused == self._lifecycle.paused:
            return
        self._move(Event.PAUSED if paused else Event.RESUMED)
        self._log.info("daemon.paused" if paused else "daemon.resumed", round=self._record.round)

    def begun(self) -> None:
        """A batch is about to be answered."""
        self._set(begun=self._record.begun + 1)

    def committed(self, facts: PublicFacts, rejections: Sequence[Reason], *, phase_ended: bool) -> None:
        """The answers to a batch are durable; `facts` are the public facts right after it."""
        found = Counter(rejections)
        counts = self._record.rejections
        if found:
            counts = MappingProxyType({reason: count + found[reason] for reason, count in counts.items()})
        before = self._record
        self._reach(facts, batches=before.batches + 1, rejections=counts)
        if before.paid_left and self._record.paid_left == 0:
            self._spent()
        self._rested(before)
        for reason, count in found.items():
            self._log.warning("queries.rejected", reason=reason, count=count)
        if phase_ended:
            record = self._record
            self._log.info(
                "phase.started",
                phase=record.phase,
                round=record.round - record.phase_round,
                rearms=record.rearms,
                **record.promise,
            )

    def _spent(self) -> None:
        record = self._record
        self._log.warning("answers.spent", paid=record.paid, round=record.round)
        self._on_incident("answers.spent", f"all {record.paid:,} answers that the data pay for were given")

    def _rested(self, before: ShardTelemetry) -> None:
        """Tell of a rest that ended in a batch, and of one that began: several at once are told as one."""
        record = self._record
        found = {"round": record.round, "rested": record.rested}
        went_on = min(before.rest_left, record.round - before.round)
        if went_on and went_on == before.rest_left:
            self._log.info("rest.ended", **found)
        if record.rested == before.rested + went_on:
            return
        self._log.warning("rest.started", rest_left=record.rest_left, **found)
        self._on_incident(
            "rest.started", "a life was spent early: queries get no answer until its least rounds are over"
        )
        if not record.rest_left:
            self._log.info("rest.ended", **found)

    def rejected_internally(self, failures: Sequence[tuple[int, str]]) -> None:
        """Messages were rejected as `internal`: their positions, and the class of the error of each."""
        if not failures:
            return
        position, error = failures[0]
        self._log.error("message.failed", position=position, error=error, count=len(failures))
        self._on_incident("message.failed", f"position {position}: rejected as internal: {error}")

    def message_failed(self, error: MessageError) -> None:
        """One of several messages could not be processed; the shard is reopened to find out which."""
        self._move(Event.ASSIGNED)  # its run begins anew
        self._incident(self._log.error, "message.failed", str(error))

    def took(self, work: Work, seconds: float, count: int = 1) -> float:
        """Record how long so many pieces of work took; return the public figure (s), as `Timing` rounds it."""
        timing = Timing(self._record.shard, work, seconds, count)
        self._on_timing(timing)
        return timing.seconds

    def source_ended(self) -> None:
        """The stream has ended for good."""
        self._log.info("source.ended", round=self._record.round)

    def snapshot_written(self, facts: PublicFacts, written: float | None, size: int | None, seconds: float) -> None:
        """A snapshot with these facts is durable, written at a Unix time and of `size` bytes."""
        self._move(Event.SAVED, snapshot_at=_whole(written), snapshot_bytes=size)
        bound = self.took(Work.SNAPSHOT, seconds)
        self._log.info("snapshot.written", round=facts.round, phase=facts.phase, seconds=bound)

    def snapshot_failed(self, error: PerpetuaError) -> None:
        """A snapshot could not be written; the older one and the log are enough."""
        self._move(Event.UNSAVED, snapshot_failures=self._record.snapshot_failures + 1)
        self._incident(self._log.error, "snapshot.failed", str(error), round=self._record.round)

    def draining(self, signal: str) -> None:
        """A signal has asked for a clean stop."""
        self._log.info("daemon.draining", signal=signal)

    def stopped(self) -> None:
        """The daemon has stopped as asked, or at the end of its stream."""
        self._move(Event.STOPPED)

    def fenced(self) -> None:
        """Another process has taken the shard over."""
        self._move(Event.FENCED, bus_failures=self._record.bus_failures + 1)
        self._log.warning("shard.fenced")
        self._on_incident("shard.fenced", "another process has taken it over")

    def bus_failed(self, error: PerpetuaError) -> None:
        """The bus failed; the shard will be reopened."""
        self._bus_away(Event.BUS_FAILED, error)

    def link_awaited(self) -> None:
        """The bus has a link of its own (MQTT), which is not up yet."""
        self._move(Event.LINK_AWAITED)

    def link_lost(self, error: BusError) -> None:
        """The link to the bus is down; it is retried while the shard goes on."""
        self._bus_away(Event.LINK_LOST, error)

    def link_refused(self, error: RefusedError) -> None:
        """The broker refuses us; the link is retried, but an operator must look."""
        failures = self._record.bus_failures + 1
        self._move(Event.LINK_REFUSED, refusal=str(error), bus_failures=failures)
        self._incident(self._log.error, "bus.refused", str(error))

    def link_found(self) -> None:
        """The link to the bus is up."""
        self._move(Event.LINK_FOUND, refusal=None)

    def folder_tried(self, *, writable: bool) -> None:
        """The snapshot folder was tested."""
        self._move(Event.WRITABLE if writable else Event.UNWRITABLE)

    def disturbed(self, text: str) -> None:
        """Somebody else has changed the group's offset on Kafka."""
        self._set(disturbances=self._record.disturbances + 1)
        self._incident(self._log.warning, "group.stranger", text)

    def unmarked(self, text: str) -> None:
        """No marks can be kept on Kafka: others could change the shard's committed offset unnoticed."""
        self._incident(self._log.warning, "marks.unkept", text)

    def withheld(self, text: str) -> None:
        """A reply topic takes no answers."""
        self._incident(self._log.warning, "answers.undelivered", text)

    def undelivered(self, count: int) -> None:
        """So many answers were given up because their reply topics refuse them."""
        self._set(undelivered=self._record.undelivered + count)

    def failed(self, error: Exception) -> None:
        """The shard needs an operator."""
        self._lag = None
        diverged = self._record.divergences + isinstance(error, LogDivergedError)
        self._move(Event.FAILED, divergences=diverged)
        self._incident(self._log.error, "shard.failed", public_text(error))

    def _incident(self, log: Callable[..., None], event: str, text: str, **fields: float) -> None:
        log(event, error=text, **fields)
        self._on_incident(event, text)

    def _reach(self, facts: PublicFacts, **fields: Any) -> None:  # noqa: ANN401 -- fields of the record
        self._set(**public_fields(self._plan, facts), **fields)

    def _bus_away(self, event: Event, error: PerpetuaError) -> None:
        self._move(event, refusal=None, bus_failures=self._record.bus_failures + 1)
        self._incident(self._log.warning, "bus.unavailable", str(error))

    def _move(self, event: Event, **fields: Any) -> None:  # noqa: ANN401 -- fields of the record
        """Apply an event; nothing else changes the shard's state."""
        lifecycle = self._lifecycle = self._lifecycle.after(event)
        self._set(state=lifecycle.state, restored=lifecycle.restored, snapshot_failing=lifecycle.unsaved, **fields)

    def _set(self, **fields: Any) -> None:  # noqa: ANN401 -- fields of the record
        self._record = replace(self._record, **fields)
