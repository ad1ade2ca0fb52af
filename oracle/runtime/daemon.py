"""The daemon: fetch, answer, commit, snapshot, until the stream ends or a signal says stop.

The order in which things become durable, and why a kill -9 between any two of them is harmless:

    1. the answers, the ledger and the position, in one commit of the sink;
    2. a snapshot at a committed position (from time to time, at each phase's end, and at a clean stop; under load it is
       taken before its position is committed, and written behind that, while answering goes on);
    3. the older snapshot, and with it the older phase key, is erased.

Before 1, re-execution gives the same answers. Between 1 and 2 the older snapshot is re-executed up to the commit. The
snapshot is never ahead of the commits.

`oracle.runtime.pipeline` says how fetching, answering and committing go on side by side.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from connectors.base import Commit, Deliveries, Replies, Sink, Source
from oracle.accounting.ledger import LedgerEvent, encode
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.errors import MessageError, PlanExhaustedError, SourceError, StateError, StorageError
from oracle.planning.plan import BoxPlan, Plan
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.checkpoints import Checkpoints, Retention, Saved
from oracle.runtime.pipeline import Pipeline
from oracle.runtime.recovery import catch_up, repeat_in_doubt
from oracle.runtime.shard import Restore, Shard
from oracle.runtime.signals import install_signals
from oracle.runtime.together import Together
from oracle.state.format import PublicHeader, Snapshot
from oracle.state.store import Store
from oracle.telemetry.records import ShardTelemetry
from oracle.telemetry.reporter import Reporter

__all__ = ["Announce", "Daemon", "DaemonSettings"]

_PATIENCE: Final = 1.0
"""Seconds that a batch of paid answers may take, before others get theirs (`Pipeline`)."""


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """How the daemon goes about it; nothing here can change an answer.

    Attributes:
        snapshot_seconds: A snapshot is due after so many seconds with a new delivery, rejected ones too: what is
            behind the snapshot may be deleted from the log only when a later one does not need it.
        drain_seconds: After the first signal, how long the running batch and the last snapshot may take.
    """

    batch_rows: int = 16_384
    snapshot_rounds: int = 2_000_000
    snapshot_seconds: float = 60.0
    drain_seconds: float = 30.0


class Announce(Protocol):
    """Makes the ledger event of a shard's beginning (`started`) or end from its record."""

    def __call__(self, record: ShardTelemetry, *, started: bool) -> LedgerEvent:
        """Return the event."""


class Daemon:
    """Serves one shard.

    Formal guarantees:
        * What the sink shows after any number of crashes equals what one uninterrupted run shows, byte for byte.
        * A snapshot is only ever written at a committed position.

    Args:
        store: Holds at least the first snapshot.
        source: Not yet open.
        sink: Not yet open.
        clock: Seconds, monotone.
        on_progress: Called with the position after every commit, and while catching up.
        announce: Makes ledger events of the beginning and the end of serving; None for a ledger that depends on the
            queries only.
        retention: Told of each snapshot; None where the bus keeps deliveries by itself.
        paused: Whether it is to fetch nothing just now: it restores, commits what was answered, and waits.
        together: The process's, where it has several shards.
        warm: Returns a shard that is near its last commit already, if there is one; asked once.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        *,
        plan: Plan,
        store: Store,
        source: Source,
        sink: Sink,
        reporter: Reporter,
        settings: DaemonSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_progress: Callable[[int], None] = lambda _position: None,
        announce: Announce | None = None,
        retention: Retention | None = None,
        restore: Restore = restore_predictor,
        codec: Callable[[Plan], Codec] = codec_of,
        paused: Callable[[], bool] = lambda: False,
        together: Together | None = None,
        warm: Callable[[], Awaitable[Shard | None]] | None = None,
    ) -> None:
        self._plan = plan
        self._store = store
        self._source = source
        self._sink = sink
        self._reporter = reporter
        self._settings = settings or DaemonSettings()
        self._clock = clock
        self._on_progress = on_progress
        self._announce = announce
        self._checkpoints = Checkpoints(
            store,
            reporter,
            rounds=self._settings.snapshot_rounds,
            seconds=self._settings.snapshot_seconds,
            clock=clock,
            retention=retention,
        )
        self._restore = restore
        self._codec = codec
        self._paused = paused
        self._together = together or Together()
        self._warm = warm
        self._stopping = asyncio.Event()
        self._serving = False
        self._drained: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Ask for a clean stop: finish the running batch, commit it, snapshot, return."""
        self._stopping.set()

    @property
    def serving(self) -> bool:
        """True once it answers; before, there is nothing to drain."""
        return self._serving

    async def run(self) -> int:
        """Serve until the stream ends or `stop` is called; return the rounds answered in all.

        Raises:
            PerpetuaError: See `catch_up`, `Sink.commit`, `Shard.process`. What was committed stands.
        """
        try:
            shard, fetched = await self._recover()
            first_rows = None
            while (failed := await self._until_failed(shard, fetched, first_rows)) is not None:
                shard, fetched = await self._recover_after(failed)
                first_rows = 1  # each time at least one message more is answered, until it is alone in its batch
        finally:
            try:
                await self._source.close()
            finally:
                await self._sink.close()
                self._drained()
        self._reporter.stopped()
        return shard.facts().round

    async def _until_failed(self, shard: Shard, fetched: Deliveries, first_rows: int | None) -> MessageError | None:
        """Serve; return the error of a batch of which some message, nobody knows which, could not be processed."""
        try:
            await self._serve(shard, fetched, first_rows)
        except MessageError as exc:
            if exc.alone or self._stopping.is_set():
                raise
            return exc
        return None

    async def _recover_after(self, failed: MessageError) -> tuple[Shard, Deliveries]:
        self._serving = False
        self._reporter.message_failed(failed)
        await self._source.close()
        await self._sink.close()
        try:
            return await self._recover()
        except SourceError as exc:
            raise failed from exc

    async def _recover(self) -> tuple[Shard, Deliveries]:
        started = self._clock()
        self._reporter.restoring(self._source.lag)
        warm = await self._take_warm()
        if warm is not None:
            try:
                return await self._caught_up(*warm, started)
            except StateError:  # whether it was the shard or the log, its snapshot tells
                await self._source.close()
                await self._sink.close()
        snapshot = await asyncio.to_thread(self._store.load_latest, self._plan.digest)
        if snapshot is None:
            raise StorageError("state: it holds no snapshot; make one with `perpetua init`")
        return await self._caught_up(await asyncio.to_thread(self._make_shard, snapshot), snapshot, started)

    async def _take_warm(self) -> tuple[Shard, PublicHeader] | None:
        """Return a shard that is past the newest snapshot already, and that snapshot's header."""
        take, self._warm = self._warm, None
        shard = None if take is None else await take()
        header = None if shard is None else await asyncio.to_thread(self._store.peek)
        if shard is None or header is None or header.plan_digest != self._plan.digest:
            return None
        return None if header.position > shard.position or header.round > shard.round else (shard, header)

    async def _caught_up(self, shard: Shard, saved: Saved, started: float) -> tuple[Shard, Deliveries]:
        """Bring a shard to its last commit; `saved` is the newest snapshot, or its header."""
        self._reporter.snapshot_read(shard.facts(), *await asyncio.to_thread(self._checkpoints.newest))
        self._checkpoints.begin(saved)
        rounds, fetched = await catch_up(shard, self._source, await self._sink.open(), self._on_progress)
        fetched = await repeat_in_doubt(shard, self._source, self._sink, fetched)
        self._checkpoints.reached(shard.position)
        facts = shard.facts()
        self._reporter.restored(facts, rounds, self._clock() - started, shard.position)
        if facts.phase != saved.phase:  # a crash came between the commit that ended a phase and its snapshot
            taken = await self._checkpoints.take_if_due(shard)
            if taken is not None:
                await self._checkpoints.write(taken)
        return shard, fetched

    def _make_shard(self, snapshot: Snapshot) -> Shard:
        return Shard(self._plan, snapshot, self._restore, self._codec, self._reporter.telemetry.shard)

    async def _serve(self, shard: Shard, fetched: Deliveries, first_rows: int | None) -> None:
        self._serving = True  # before it is said: who has read it may ask for a clean stop
        self._reporter.serving()
        await self._announce_in_ledger(shard, started=True)
        pipeline = Pipeline(
            shard,
            self._source,
            self._sink,
            self._checkpoints,
            self._reporter,
            on_progress=self._on_progress,
            batch_rows=self._settings.batch_rows,
            patience=None if self._plan.paid_limit is None else _PATIENCE,
            brief=isinstance(self._plan, BoxPlan),
            stopping=self._stopping,
            paused=self._paused,
            together=self._together,
            refresh_seconds=None if self._announce is None else self._settings.snapshot_seconds,
            clock=self._clock,
        )
        exhausted = await pipeline.run(fetched, first_rows)
        await self._announce_in_ledger(shard, started=False)
        await self._write_last(shard)
        if exhausted:
            raise PlanExhaustedError(
                f"round {self._plan.rounds}: the plan's last phase has ended; make a new plan and state"
            )

    async def _write_last(self, shard: Shard) -> None:
        try:
            await self._checkpoints.write_last(shard)
        except StorageError as exc:
            self._reporter.snapshot_failed(exc)
            raise StorageError(
                f"{exc}; every answer stands, but not the last snapshot: a restart re-executes from the one before"
            ) from exc

    async def _announce_in_ledger(self, shard: Shard, *, started: bool) -> None:
        """Commit the ledger event of the beginning or the end, at the position reached."""
        if self._announce is not None:
            event = self._announce(self._reporter.telemetry, started=started)
            await self._sink.commit(Commit(Replies(), [encode(event)], shard.position, shard.mark.pack()))

    def install_signals(self, exit_now: Callable[[int], None]) -> None:
        """Stop cleanly at SIGTERM or SIGINT within `drain_seconds`; exit at the second one."""

        def begin_stop(signal: str) -> bool:
            if self._stopping.is_set() or not self._serving:  # while recovering there is nothing to drain
                return False
            self._reporter.draining(signal)
            self.stop()
            return True

        self._drained = install_signals(
            begin_stop=begin_stop, exit_now=exit_now, drain_seconds=self._settings.drain_seconds
        )
