"""The daemon: fetch, answer, commit, snapshot, until the stream ends or a signal says stop.

The order in which things become durable, and why a kill -9 between any two of them is harmless:

    1. the answers, the ledger and the position, in one commit of the sink;
    2. a snapshot at a committed position (from time to time, at each phase's end, and at a clean stop; under load it is
       taken before its position is committed, and written behind that, while answering goes on);
    3. the older snapshot, and with it the older phase key, is erased.

Before 1, re-execution gives the same answers. Between 1 and 2 the older snapshot is re-executed up to the commit. The
snapshot is never ahead of the commits.

What is answered while a commit is under way goes into the next one together. The predictor's bookkeeping of a batch's
answers keeps none of them waiting: under load it runs while their commit, or the one before it, is under way, as part
of answering the next batch; with nothing waiting, when they are durable.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from connectors.base import Commit, Delivery, Sink, Source
from oracle.accounting.ledger import LedgerEvent, encode
from oracle.codec.batches import BatchCodec, DecodedBatch
from oracle.codec.guarded import Codec
from oracle.errors import MessageError, PlanExhaustedError, SourceError, StorageError
from oracle.planning.plan import Plan
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.checkpoints import Checkpoints, Retention
from oracle.runtime.commit_queue import CommitQueue, Done
from oracle.runtime.prefetch import Prefetch
from oracle.runtime.recovery import catch_up, repeat_in_doubt
from oracle.runtime.shard import Outcome, Restore, Shard
from oracle.runtime.signals import install_signals
from oracle.state.format import Snapshot
from oracle.state.store import Store
from oracle.telemetry.records import ShardTelemetry, Work
from oracle.telemetry.reporter import Reporter

__all__ = ["Announce", "Daemon", "DaemonSettings"]

_IDLE: Final = 0.2
"""Seconds to wait for a first delivery before looking at the clock and the signals again."""


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """How the daemon goes about it; nothing here can change an answer.

    Attributes:
        batch_rows: Most deliveries answered and committed at once.
        snapshot_rounds: A snapshot is due after so many rounds.
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
        ...


class Daemon:
    """Serves one shard.

    Formal guarantees:
        * What the sink shows after any number of crashes equals what one uninterrupted run shows, byte for byte.
        * A snapshot is only ever taken at a committed position.

    Args:
        plan: The plan.
        store: Holds at least the first snapshot.
        source: Not yet open.
        sink: Not yet open.
        watch: Told of all that happens.
        settings: See `DaemonSettings`.
        clock: Seconds, monotone.
        on_progress: Called with the position after every commit, and while catching up.
        announce: Makes ledger events of the beginning and the end of serving; None for a ledger that depends on the
            queries only.
        retention: Told of each snapshot; None where the bus keeps deliveries by itself.
        restore: Makes the predictor of the plan and a snapshot's arrays.
        codec: Makes what decodes and encodes.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        *,
        plan: Plan,
        store: Store,
        source: Source,
        sink: Sink,
        watch: Reporter,
        settings: DaemonSettings | None = None,
        clock: Callable[[], float],
        on_progress: Callable[[int], None] = lambda _position: None,
        announce: Announce | None = None,
        retention: Retention | None = None,
        restore: Restore = restore_predictor,
        codec: Callable[[Plan], Codec] = BatchCodec,
    ) -> None:
        self._plan = plan
        self._store = store
        self._source = source
        self._sink = sink
        self._watch = watch
        self._settings = settings or DaemonSettings()
        self._clock = clock
        self._on_progress = on_progress
        self._announce = announce
        self._checkpoints = Checkpoints(
            store,
            watch,
            rounds=self._settings.snapshot_rounds,
            seconds=self._settings.snapshot_seconds,
            clock=clock,
            retention=retention,
        )
        self._restore = restore
        self._codec = codec
        self._stopping = asyncio.Event()
        self._serving = False
        self._small_first = False
        self._drained: Callable[[], None] = lambda: None
        self._committed_at = 0.0

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
            shard, waiting = await self._recover()
            while (failed := await self._until_failed(shard, waiting)) is not None:
                shard, waiting = await self._recover_after(failed)
        finally:
            try:
                await self._source.close()
            finally:
                await self._sink.close()
                self._drained()
        self._watch.stopped()
        return shard.facts().round

    async def _until_failed(self, shard: Shard, waiting: Sequence[Delivery]) -> MessageError | None:
        """Serve; return the error of a batch of which some message, nobody knows which, could not be processed."""
        try:
            await self._serve(shard, waiting)
        except MessageError as exc:
            if exc.alone or self._stopping.is_set():
                raise
            return exc
        return None

    async def _recover_after(self, failed: MessageError) -> tuple[Shard, Sequence[Delivery]]:
        """Go back to the last commit, from where batches are small at first: the first is one message.

        So each time at least one message more is answered, until the one that cannot be is alone in its batch.

        Raises:
            MessageError: The source cannot be opened again.
        """
        self._serving = False
        self._watch.message_failed(failed)
        await self._source.close()
        await self._sink.close()
        try:
            shard, waiting = await self._recover()
        except SourceError as exc:
            raise failed from exc
        self._small_first = True
        return shard, waiting

    async def _recover(self) -> tuple[Shard, Sequence[Delivery]]:
        started = self._clock()
        self._watch.restoring(self._source.lag)
        snapshot = await asyncio.to_thread(self._store.load_latest, self._plan.digest)
        if snapshot is None:
            msg = "state: it holds no snapshot; make one with `perpetua init`"
            raise StorageError(msg)
        shard = await asyncio.to_thread(self._make_shard, snapshot)
        self._watch.snapshot_read(shard.facts(), *await asyncio.to_thread(self._checkpoints.newest))
        self._checkpoints.begin(snapshot)
        rounds, waiting = await catch_up(shard, self._source, await self._sink.open(), self._on_progress)
        waiting = await repeat_in_doubt(shard, self._source, self._sink, waiting)
        self._checkpoints.reached(shard.position)
        facts = shard.facts()
        self._watch.restored(facts, rounds, self._clock() - started, shard.position)
        if facts.phase != snapshot.phase:
            await self._checkpoints.write(shard)  # a crash came between the commit that ended a phase and its snapshot
        return shard, waiting

    def _make_shard(self, snapshot: Snapshot) -> Shard:
        return Shard(self._plan, snapshot, self._restore, self._codec, self._watch.telemetry.shard)

    async def _serve(self, shard: Shard, waiting: Sequence[Delivery]) -> None:
        self._serving = True  # before it is said: who has read it may ask for a clean stop
        self._watch.serving()
        await self._say(shard, started=True)
        commits = CommitQueue(self._sink)
        try:
            first = 1 if self._small_first else None
            async with Prefetch(self._source, shard, self._settings.batch_rows, _IDLE, waiting, first) as prefetch:
                exhausted = await self._answer(shard, prefetch, commits)
            await self._checkpoints.finish()
        finally:
            try:
                await commits.close()
            finally:
                await self._checkpoints.close()
        await self._say(shard, started=False)
        await self._write_last(shard)
        if exhausted:
            msg = f"round {self._plan.rounds}: the plan's last phase has ended; make a new plan and state"
            raise PlanExhaustedError(msg)

    async def _write_last(self, shard: Shard) -> None:
        try:
            await self._checkpoints.write_last(shard)
        except StorageError as exc:
            self._watch.snapshot_failed(exc)
            msg = f"{exc}; every answer stands, but not the last snapshot: a restart re-executes from the one before"
            raise StorageError(msg) from exc

    async def _answer(self, shard: Shard, prefetch: Prefetch, commits: CommitQueue) -> bool:
        """Answer until the stream ends, a stop is asked for, or the plan has ended; return whether that was it.

        While batches are being committed, the next ones are fetched, decoded and answered.
        """
        exhausted = False
        while not self._stopping.is_set() and not exhausted:
            if await commits.ends_before(prefetch.begin()):
                await self._finish(shard, commits)
            batch = await prefetch.next()
            if batch is None:
                await self._finish(shard, commits)
                if self._source.exhausted:
                    self._watch.source_ended()
                    break
                await self._snapshot_if_due(shard)
                await self._rest(shard)
                continue
            prefetch.begin()
            await self._snapshot_under_load(shard, commits)
            try:
                outcome = await self._process(shard, batch)
            except PlanExhaustedError:
                exhausted = True
                break
            exhausted = len(outcome.commit.replies) < len(batch.deliveries)  # the plan ends within the batch
            self._report(await commits.add(outcome, shard.facts()))
            if prefetch.careful:
                await self._finish(shard, commits)
        await self._finish(shard, commits)
        return exhausted

    async def _process(self, shard: Shard, batch: DecodedBatch) -> Outcome:
        """Answer a batch, and time what its askers wait for.

        The bookkeeping of the batch before is done first and is not timed, and neither is a batch in which a side was
        armed afresh or a phase ended: how long these take depends on private sets.
        """

        def answer() -> tuple[Outcome, float]:
            shard.settle()
            started = time.perf_counter()
            outcome = shard.process(batch)
            return outcome, time.perf_counter() - started

        rearms = shard.facts().rearms
        self._watch.begun()
        outcome, seconds = await asyncio.to_thread(answer)
        if shard.facts().rearms == rearms and not outcome.phase_ended:
            self._watch.took(Work.ANSWER, seconds)
        return outcome

    async def _finish(self, shard: Shard, commits: CommitQueue) -> None:
        """Wait until all answers are durable; then do their bookkeeping, as far as answering more has not done it."""
        done = await commits.finish()  # 1.
        self._checkpoints.look()
        if not done:
            return
        await asyncio.to_thread(shard.settle)
        self._report(done)
        await self._snapshot_if_due(shard, ended=done[-1].outcome.phase_ended)  # 2. and 3.

    async def _snapshot_if_due(self, shard: Shard, *, ended: bool = False) -> None:
        """Write a snapshot where all is durable; answering goes on meanwhile if it may."""
        if await self._checkpoints.take_if_due(shard, ended=ended):
            await self._checkpoints.write(shard)

    async def _snapshot_under_load(self, shard: Shard, commits: CommitQueue) -> None:
        """Take a snapshot though not all is durable; wait until it is only if the snapshot must come first."""
        last = commits.outcome  # None where all is durable: `_finish` has looked
        if last is not None and await self._checkpoints.take_if_due(shard, ended=last.phase_ended):
            await self._finish(shard, commits)

    async def _say(self, shard: Shard, *, started: bool) -> None:
        """Commit the ledger event of the beginning or the end, at the position reached."""
        if self._announce is not None:
            event = self._announce(self._watch.telemetry, started=started)
            await self._sink.commit(Commit([], [encode(event)], shard.position, shard.mark.pack()))
        self._committed_at = self._clock()

    async def _rest(self, shard: Shard) -> None:
        """Commit the position again when nothing has come for long: a bus keeps with it how far the source has looked.

        Where the ledger is to depend on the queries only, the sink is let be.
        """
        if self._announce is None or self._clock() - self._committed_at < self._settings.snapshot_seconds:
            return
        await self._sink.commit(Commit([], [], shard.position, shard.mark.pack()))
        self._committed_at = self._clock()

    def _report(self, done: Sequence[Done]) -> None:
        """Tell of batches whose answers are durable."""
        if done:
            self._committed_at = self._clock()
            self._checkpoints.reached(done[-1].outcome.commit.position)
        for one in done:
            if one.seconds is not None:
                self._watch.took(Work.COMMIT, one.seconds)
            self._watch.committed(one.facts, one.outcome.rejections, phase_ended=one.outcome.phase_ended)
            self._watch.rejected_internally(one.outcome.failures)
            self._on_progress(one.outcome.commit.position)

    def install_signals(self, exit_now: Callable[[int], None]) -> None:
        """Stop cleanly at SIGTERM or SIGINT within `drain_seconds`; exit at the second one.

        Args:
            exit_now: Ends the process at once (a crash is always safe).
        """

        def begin_stop(signal: str) -> bool:
            if self._stopping.is_set() or not self._serving:  # while recovering there is nothing to drain
                return False
            self._watch.draining(signal)
            self.stop()
            return True

        self._drained = install_signals(
            begin_stop=begin_stop, exit_now=exit_now, drain_seconds=self._settings.drain_seconds
        )
