"""Serving in three stages, side by side, joined by bounded queues.

    source -> decode -> (one batch) -> answer -> (three batches, or twelve small ones) -> commit -> sink

Each stage is one task that takes batch after batch in order: decoding looks at no state, only the answer stage works on
the shard, and only the commit stage on the sink. What is answered while a commit is under way goes into the next one
together. Few messages, and where answering is brief all of a batch that is not large, are decoded as part of answering
them.

The predictor's bookkeeping of a batch keeps none of its answers waiting: under load it runs while their commit, or the
one before it, is under way, as part of answering the next batch; with nothing waiting, when they are durable. Where a
few answers are brief, it waits for that of more, or until nothing has come for a while.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from itertools import chain
from typing import Final

from connectors.base import Commit, Deliveries, Replies, Sink, Source
from oracle.codec.decoded import DecodedBatch
from oracle.errors import PlanExhaustedError
from oracle.predictors.base import SETTLED_TOGETHER, PublicFacts
from oracle.runtime.checkpoints import Checkpoints
from oracle.runtime.courses import Course, told
from oracle.runtime.shard import Outcome, Shard
from oracle.runtime.together import InFlight, Together
from oracle.telemetry.records import Work
from oracle.telemetry.reporter import Reporter

__all__ = ["Answered", "OutcomeQueue", "Pipeline", "weight"]

_IDLE: Final = 0.2
"""Seconds to wait for a first delivery before looking at the clock and the signals again."""

_FEW: Final = 256
"""Deliveries of a first batch whose answers may each take long."""

_MOST_WEIGHT: Final = 12
_LARGE: Final = 4
"""Weights of what waits for a commit: three large batches, or twelve of the smallest, which weigh 1 each.

Under load a batch is what came in some milliseconds, and a commit takes several times as long: with room for three, the
next batches would be answered too late for the next commit, and wait for the one behind it.
"""

_MESSAGES: Final = 4096
_BYTES: Final = 256 << 10
"""What weighs 1, up to the weight of a large batch: small ones take no more memory together than three large ones."""

_MOST_OF_FEW: Final = 64
"""Messages that are decoded where they are answered; all of a batch that is not large, where answering is brief."""

_ASKING: Final = 8
"""Rounds of the event loop, behind a commit, in which the source asks for more before the bookkeeping begins."""

_MOST_ROUNDS: Final = 1 << 17
"""Of all batches that wait for a commit; from then on no other joins them. An answer takes some 50 bytes."""


class _Notice(Enum):
    """What the answer stage is told between batches."""

    IDLE = auto()
    """The source has nothing just now."""
    DURABLE = auto()
    """All that was answered is."""
    END = auto()
    """The source has ended."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A batch with its answers, and what is public right behind it.

    Attributes:
        weight: What it counts for while it waits.
        course: How it fared.
        in_flight: What is told once its answers are durable, if anything.
    """

    outcome: Outcome
    facts: PublicFacts
    course: Course
    weight: int = _LARGE
    in_flight: InFlight | None = None

    @property
    def quiet(self) -> bool:
        """Whether how long it took may be told: no side was armed afresh in it, and no phase ended."""
        return self.course.answering is not None


def weight(deliveries: Deliveries) -> int:
    """Return what a batch counts for while it waits for its commit; it goes by numbers and sizes of messages only."""
    by_messages = math.ceil(len(deliveries) / _MESSAGES)
    if by_messages >= _LARGE:
        return _LARGE
    kept = (value for headers in filter(None, deliveries.headers) for _, value in headers)
    texts = filter(None, chain(deliveries.bodies, deliveries.keys, kept))
    return min(max(by_messages, math.ceil(sum(map(len, texts)) / _BYTES), 1), _LARGE)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """A batch that can be answered, and how it fared so far.

    Attributes:
        in_flight: As of `Answered`.
        fetched: When it was handed over (seconds of `time.perf_counter`).
        decoding: Seconds.
    """

    batch: DecodedBatch
    in_flight: InFlight | None
    fetched: float
    decoding: float

    def both(self) -> tuple[DecodedBatch, float]:
        """Return the batch, and how long it took to decode (seconds)."""
        return self.batch, self.decoding


@dataclass(frozen=True, slots=True)
class _Few:
    """Messages that are decoded where they are answered: few, as to change threads takes longer than to decode them.

    Where answering is brief they are a batch that is not large: short of a backlog there is nothing else to decode
    until it is durable.

    Attributes:
        weight: As of `Answered`, of all of them, and of each part.
        in_flight: As of `Answered`.
        fetched: As of `_Decoded`.
    """

    deliveries: Deliveries
    weight: int
    in_flight: InFlight | None
    fetched: float


class OutcomeQueue(asyncio.Queue[Answered]):
    """What waits to be committed: twelve of the smallest batches, three large ones, or fewer of many rounds."""

    def __init__(self) -> None:
        super().__init__()
        self._rounds = self._weight = 0

    def full(self) -> bool:
        """Return whether no other batch may wait."""
        return self._weight >= _MOST_WEIGHT or (not self.empty() and self._rounds >= _MOST_ROUNDS)

    def _put(self, item: Answered) -> None:
        self._rounds += item.outcome.rounds
        self._weight += item.weight
        super()._put(item)

    def _get(self) -> Answered:
        item = super()._get()
        self._rounds -= item.outcome.rounds
        self._weight -= item.weight
        return item

    async def get_all(self) -> list[Answered]:
        """Wait for the next batch, and return it with all that wait behind it."""
        found = [await self.get()]
        while not self.empty():
            found.append(self.get_nowait())
        return found


class Pipeline:
    """One stretch of serving, from a position that was reached up to an end, a stop or an error.

    Formal guarantees:
        * Replies, ledger and position become durable in the stream's order, and nothing behind a commit that failed.
        * Whatever decoding or answering fails on: all that was answered before is durable when `run` raises.
        * When it is cancelled, the commit under way is cancelled too, but a snapshot is written to its end.

    Args:
        shard: At the sink's last commit.
        source: Open behind it.
        sink: Open.
        on_progress: Called with the position after every commit.
        batch_rows: Most deliveries of a batch.
        patience: Seconds that a batch may take, where how long answers take tells nothing private: one that takes
            longer is followed by smaller ones, and the first is small. None for batches as large as they may be.
        brief: Whether to answer few messages is brief, whatever they are, but at a phase's end. Then it is done
            together with others, and the bookkeeping of a few answers waits for that of more.
        stopping: Set when no other batch is to be answered.
        paused: Whether nothing is to be fetched just now.
        together: What others of the process have in flight; who answers few messages.
        refresh_seconds: After so long without a commit the position is committed again; None for never. A bus keeps
            with it how far the source has looked.
        clock: Seconds, monotone.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        shard: Shard,
        source: Source,
        sink: Sink,
        checkpoints: Checkpoints,
        reporter: Reporter,
        *,
        on_progress: Callable[[int], None],
        batch_rows: int,
        patience: float | None,
        brief: bool,
        stopping: asyncio.Event,
        paused: Callable[[], bool],
        together: Together,
        refresh_seconds: float | None,
        clock: Callable[[], float],
    ) -> None:
        self._shard = shard
        self._source = source
        self._sink = sink
        self._checkpoints = checkpoints
        self._reporter = reporter
        self._on_progress = on_progress
        self._batch_rows = self._next_rows = batch_rows
        self._patience = patience
        self._brief = brief
        self._stopping = stopping
        self._paused = paused
        self._together = together
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._batches: asyncio.Queue[_Decoded | _Few | _Notice | Exception] = asyncio.Queue(1)
        self._outcomes = OutcomeQueue()
        self._committed_at = clock()
        self._settled = shard.position
        self._unsettled = SETTLED_TOGETHER

    async def run(self, fetched: Deliveries, first_rows: int | None = None) -> bool:
        """Serve until the stream ends, a stop is asked for, or the plan has ended; return whether the plan has.

        The first batch has at most `first_rows` deliveries; each may have twice as many as the last.

        Raises:
            PerpetuaError: See `Source.fetch`, `Shard.process`, `Sink.commit`, `Checkpoints.write`.
        """
        few = self._batch_rows if self._patience is None else min(_FEW, self._batch_rows)
        self._next_rows = first_rows or few
        try:
            async with asyncio.TaskGroup() as stages:
                others = (
                    stages.create_task(self._decode(fetched)),
                    stages.create_task(self._commit()),
                )
                try:
                    exhausted = await self._answer(stages)
                except Exception:
                    await self._outcomes.join()
                    raise
                await self._outcomes.join()
                for task in others:
                    task.cancel()
                await self._settle(stages)
        except BaseExceptionGroup as group:
            failure = group.exceptions[0]
        else:
            return exhausted
        raise failure

    async def _decode(self, fetched: Deliveries) -> None:
        """Fetch and decode, one batch ahead of the one that is being answered."""
        handed = time.perf_counter()
        most_of_few, heaviest_few = (self._batch_rows, _LARGE - 1) if self._brief else (_MOST_OF_FEW, 1)
        try:
            while True:
                if self._paused():
                    await self._pause()
                    continue
                self._reporter.paused(paused=False)
                if not fetched:
                    fetched = await self._source.fetch(self._batch_rows, _IDLE)
                    handed = time.perf_counter() if fetched else handed
                if not fetched and self._source.exhausted:
                    await self._hand_over(_Notice.END)
                    return
                if not fetched:
                    await self._hand_over(_Notice.IDLE)
                    continue
                in_flight = self._together.begin(self) if self._brief else None
                rows = self._next_rows
                self._next_rows = min(2 * rows, self._batch_rows)
                if len(fetched) <= min(rows, most_of_few) and (heavy := weight(fetched)) <= heaviest_few:
                    few, fetched = _Few(fetched, heavy, in_flight, handed), Deliveries()
                    await self._hand_over(few)
                    continue
                batch, seconds = await asyncio.to_thread(self._decoded, fetched.part(0, rows))
                self._reporter.took(Work.DECODE, seconds)
                fetched = fetched.part(len(batch.deliveries))
                await self._hand_over(_Decoded(batch, in_flight, handed, seconds))
        except Exception as exc:  # noqa: BLE001 -- raised by the answer stage, behind the batches before it
            await self._batches.put(exc)

    def _decoded(self, deliveries: Deliveries) -> tuple[DecodedBatch, float]:
        """Decode the leading ones; return how long it took (seconds) too."""
        started = time.perf_counter()
        batch = self._shard.decode_leading(deliveries)
        return batch, time.perf_counter() - started

    async def _pause(self) -> None:
        """Wait a little, and tell it once all that was answered is durable."""
        await asyncio.sleep(_IDLE)
        await self._hand_over(_Notice.IDLE)
        if self._checkpoints.durable >= self._shard.position:
            self._reporter.paused(paused=True)

    async def _hand_over(self, item: "_Decoded | _Few | _Notice") -> None:
        await self._batches.put(item)
        await self._batches.join()

    async def _answer(self, stages: asyncio.TaskGroup) -> bool:
        """Answer until there is nothing more to answer; return whether that is because the plan has ended."""
        while not self._stopping.is_set():
            item = await self._batches.get()
            if not isinstance(item, _Few):
                self._batches.task_done()
            match item:
                case Exception():
                    raise item
                case _Notice.END:
                    await self._outcomes.join()
                    self._reporter.source_ended()
                    return False
                case _Notice.IDLE | _Notice.DURABLE:
                    await self._look_after(stages, item)
                case _Few():
                    if await self._answer_few(item, stages):
                        return True
                case _Decoded():
                    await self._snapshot_if_due(stages)
                    if await self._hand_on(await self._answered(item.both, item)):
                        return True
        return False

    async def _answer_few(self, few: _Few, stages: asyncio.TaskGroup) -> bool:
        """Decode and answer a few messages, with those of others where that is brief; return as `_hand_on`."""
        left, is_first = few.deliveries, True
        while left and (is_first or not self._stopping.is_set()):
            await self._snapshot_if_due(stages)
            answered = await self._answered(partial(self._decoded, left), few)
            if is_first:
                self._batches.task_done()  # only now is the next fetched: all that came meanwhile, together
            is_first = False
            if answered is not None:
                self._reporter.took(Work.DECODE, answered.course.decoding)
                left = left.part(len(answered.course.positions))
                answered = replace(answered, in_flight=answered.in_flight if not left else None)
            if await self._hand_on(answered):
                return True
        return False

    async def _hand_on(self, answered: Answered | None) -> bool:
        """Have a batch committed, if there is one; return whether the plan ended before or within it."""
        if answered is None:
            return True
        await self._outcomes.put(answered)
        if self._batch_rows == 1:
            await self._outcomes.join()  # so the next message is the one that ends the process, if one does
        return len(answered.outcome.commit.replies) < len(answered.course.positions)

    async def _answered(
        self, decoded: Callable[[], tuple[DecodedBatch, float]], item: _Decoded | _Few
    ) -> Answered | None:
        """Answer a batch, and time what its askers wait for; None if the plan ended before it.

        The bookkeeping of what was answered before is done first, once it is worth it. It is not timed, and neither is
        a batch in which a side was armed afresh or a phase ended: how long these take depends on private sets.
        """
        shard = self._shard

        def answer() -> tuple[DecodedBatch, float, Outcome, float]:
            batch, decoding = decoded()
            if not self._brief or self._unsettled >= SETTLED_TOGETHER:
                shard.settle()
                self._unsettled = 0
            started = time.perf_counter()
            outcome = shard.process(batch)
            seconds = time.perf_counter() - started
            self._unsettled += outcome.rounds
            return batch, decoding, outcome, seconds

        rearms = shard.facts().rearms
        self._reporter.begun()
        try:
            in_flight = item.in_flight
            batch, decoding, outcome, seconds = await (
                asyncio.to_thread(answer) if in_flight is None or isinstance(item, _Decoded) else in_flight.run(answer)
            )
            if in_flight is not None:
                in_flight.answered()
        except PlanExhaustedError:
            return None
        if self._patience is not None and seconds > self._patience:
            self._next_rows = max(min(self._next_rows, len(batch.deliveries)) // 2, 1)
        quiet = shard.facts().rearms == rearms and not outcome.phase_ended
        if quiet:
            self._reporter.took(Work.ANSWER, seconds)
        course = Course(shard.number, batch.deliveries.positions, item.fetched, decoding, seconds if quiet else None)
        counts = weight(batch.deliveries) if isinstance(item, _Decoded) else item.weight
        return Answered(outcome, shard.facts(), course, counts, in_flight)

    async def _look_after(self, stages: asyncio.TaskGroup, notice: _Notice) -> None:
        """Do what waits until nothing is to be answered, if all that was answered is durable."""
        if self._checkpoints.durable < self._shard.position:
            return  # there will be a notice when it is
        if notice is _Notice.IDLE or not self._brief or self._unsettled >= SETTLED_TOGETHER:
            await self._settle(stages)
        else:
            await self._snapshot_if_due(stages)
        seconds = self._refresh_seconds
        if notice is _Notice.IDLE and seconds is not None and self._clock() - self._committed_at >= seconds:
            await self._sink.commit(Commit(Replies(), [], self._shard.position, self._shard.mark.pack()))
            self._committed_at = self._clock()

    async def _settle(self, stages: asyncio.TaskGroup) -> None:
        if self._settled != self._shard.position:
            await asyncio.to_thread(self._shard.settle)
            self._unsettled = 0
            self._settled = self._shard.position
        await self._snapshot_if_due(stages)

    async def _snapshot_if_due(self, stages: asyncio.TaskGroup) -> None:
        """Take a snapshot if one is due; it is written when all before it is durable, while answering goes on."""
        taken = await self._checkpoints.take_if_due(self._shard)
        if taken is not None:
            stages.create_task(self._checkpoints.write(taken))

    async def _commit(self) -> None:
        """Commit in order, all that waits together."""
        while True:
            together = await self._outcomes.get_all()
            waited = self._waited()
            started = time.perf_counter()
            await self._sink.commit(Commit.joined([one.outcome.commit for one in together]))
            self._report(together, time.perf_counter() - started, waited)
            for one in together:
                self._outcomes.task_done()
                if one.in_flight is not None:
                    one.in_flight.end()
            if await self._has_rest():
                self._batches.put_nowait(_Notice.DURABLE)

    async def _has_rest(self) -> bool:
        """Return whether nothing is to be answered or committed, nor comes while the source asks for more."""
        for _ in range(_ASKING):
            if not (self._outcomes.empty() and self._batches.empty()):
                return False
            await asyncio.sleep(0)
        return self._outcomes.empty() and self._batches.empty()

    def _waited(self) -> float | None:
        """Return the age of the oldest message that is not committed; None where there is none, or nobody knows."""
        lag = self._source.lag()
        return lag.seconds if lag is not None and lag.records else None

    def _report(self, together: Sequence[Answered], seconds: float, waited: float | None) -> None:
        """Tell of a commit, and of how old its messages were, at most, when it was durable.

        That is left out, as of answering, where a side was armed afresh or a phase ended. Who reads the bus sees when
        each answer came, so this hides nothing from them; but not everybody who reads metrics may read the bus.
        """
        self._committed_at = self._clock()
        self._reporter.took(Work.COMMIT, seconds)
        if waited is not None and all(one.quiet for one in together):
            messages = sum(len(one.outcome.commit.replies) for one in together)
            self._reporter.took(Work.LATENCY, waited + seconds, messages)
        follower = self._reporter.on_batch
        if follower is not None:
            ended, now = time.perf_counter(), time.time()
            for one in together:
                if one.quiet:
                    follower(told(one.course, one.outcome, seconds, ended, now))
        for one in together:
            outcome = one.outcome
            self._reporter.committed(one.facts, outcome.rejections, phase_ended=outcome.phase_ended)
            self._reporter.rejected_internally(outcome.failures)
            self._on_progress(outcome.commit.position)
        self._checkpoints.reached(together[-1].outcome.commit.position)
