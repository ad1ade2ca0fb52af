"""One shard: one totally ordered stream with one predictor state. The only place that knows both worlds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from connectors.base import Commit, Deliveries
from oracle.accounting.ledger import LedgerEvent, MessageSkipped, encode
from oracle.codec.cuts import Cuts
from oracle.codec.decoded import DecodedBatch
from oracle.codec.events import EventCodec
from oracle.codec.guarded import Codec, Failure, GuardedCodec, short_of_resources
from oracle.codec.kinds import codec_of
from oracle.codec.rejections import Reason, Rejection
from oracle.errors import (
    CorruptSnapshotError,
    LogDivergedError,
    MessageError,
    PerpetuaError,
    PlanExhaustedError,
    ResourceError,
)
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, Predictor, PublicFacts, StateArrays, phase_started
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.marks import CommitMark, Passed
from oracle.state.format import Snapshot

__all__ = ["Outcome", "Restore", "Shard"]

_COMMITTED: Final = frozenset({"answered again", "brought into the state"})
"""What is done with messages whose answers are durable, or may be."""

_Scalar = TypeVar("_Scalar", bound=np.generic)

_REPEATED: Final = 16_384
"""Rows of one call of a predictor that repeats what it answered before."""

Restore = Callable[[Plan, StateArrays], Predictor]
"""What makes a predictor of a plan and a snapshot's arrays."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call of `Shard.process` asks its caller to do.

    Attributes:
        commit: To be made durable as a whole, before anything else is processed.
        rejections: Reason of each wholly rejected delivery.
        phase_ended: True if a phase ended in it: snapshot soon, so that the old key can go.
        failures: Position of each delivery that was rejected as `internal`, and the error's class.
    """

    commit: Commit
    rounds: int
    rejections: Sequence[Reason]
    phase_ended: bool
    failures: Sequence[tuple[int, str]] = ()


class Shard:
    """A predictor with its place in the stream and its running tag. No I/O, no clock: decide here, act outside.

    Formal guarantees:
        * `process` is deterministic: the same snapshot and deliveries give the same replies and ledger, byte for byte,
          for any batch cut.
        * Re-executing up to a commit restores the very state that made it, or `check` raises.

    Args:
        number: The shard's number, for errors.

    Raises:
        CorruptSnapshotError: The snapshot's parts disagree.
    """

    def __init__(
        self,
        plan: Plan,
        snapshot: Snapshot,
        restore: Restore = restore_predictor,
        codec: Callable[[Plan], Codec] = codec_of,
        number: int = 0,
    ) -> None:
        self._plan = plan
        self._number = number
        self._codec = GuardedCodec(EventCodec(codec(plan), plan))
        self._cuts = Cuts(plan)
        self._passed = Passed()
        self._reasons: dict[int, Reason] = {}
        self._predictor = restore(plan, snapshot.arrays)
        self._tag = np.frombuffer(snapshot.tag, dtype="<u8").copy()
        self._position = snapshot.position
        self._reached = 0
        self._generation = snapshot.generation
        self._origin = snapshot.origin
        facts = self._predictor.facts()
        stated = (snapshot.round, snapshot.phase, snapshot.rearms, snapshot.paid)
        rests = (snapshot.rested, snapshot.rest_left)  # snapshots of version 2 and 3 have none
        if (facts.round, facts.phase, facts.rearms, facts.paid) != stated or (
            any(rests) and (facts.rested, facts.rest_left) != rests
        ):
            raise CorruptSnapshotError("snapshot: its header and its state disagree")

    @property
    def number(self) -> int:
        """The shard's number."""
        return self._number

    @property
    def position(self) -> int:
        """Position after the last delivery that was processed; 0 before the first."""
        return self._position

    @property
    def round(self) -> int:
        """Rounds answered up to there."""
        return self._predictor.facts().round

    @property
    def mark(self) -> CommitMark:
        """What a commit at this position carries."""
        return CommitMark(self._predictor.facts().round, self._tag.tobytes(), self._passed)

    def learn(self, passed: Passed) -> None:
        """Take over from the last commit which messages take no round; before anything is decoded."""
        self._passed = passed
        self._reasons = dict.fromkeys(passed.internal, Reason.INTERNAL) | dict.fromkeys(passed.skipped, Reason.SKIPPED)

    def facts(self) -> PublicFacts:
        """Return what is public."""
        return self._predictor.facts()

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries for `process`. It looks at no state: it may be done ahead, and in another thread.

        Raises:
            MessageError: It fails, and it is not safe to reject a message for that.
            ResourceError: Memory, threads or files ran out.
        """
        if not deliveries:
            return self._codec.decode(deliveries, self._reasons)
        with self._over("decoded", deliveries):
            return self._codec.decode(deliveries, self._reasons)

    def decode_leading(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode as many of the leading deliveries as may be held together (at least one), as `decode` would."""
        return self.decode(deliveries.part(0, self._cuts.leading(deliveries)))

    def process(self, batch: DecodedBatch) -> Outcome:
        """Answer deliveries in order.

        Args:
            batch: What `decode` made of them: at least one, the first one right behind `position`.

        Raises:
            PlanExhaustedError: The plan has no round left for the first of them. (If it has for some, these are
                answered, and the next call raises.)
            MessageError: It failed; the shard is of no use any more, and a new one of the last snapshot goes on.
            ResourceError: As of `decode`; the shard is of no use any more.
        """
        batch, answers, before = self._execute(batch)
        after = self._predictor.facts()
        ledger = [encode(event) for event in answers.events]
        mark = self.mark.pack()
        with self._over("encoded", batch.deliveries):
            replies = self._codec.encode(batch, answers)
        return Outcome(
            Commit(replies, ledger, self._position, mark),
            len(batch.features),
            batch.rejections,
            after.phase != before.phase,
            _failures(batch),
        )

    def repeat(self, given: DecodedBatch) -> int:
        """Answer again deliveries whose answers are durable already, and make no replies of them; return the rounds.

        Raises:
            PlanExhaustedError: The plan has not enough rounds for all of them.
            MessageError: As of `process`.
            ResourceError: As of `process`.
        """
        batch = self._fitting(given)
        for start in range(0, len(batch.features), _REPEATED):  # nobody waits: so that all stays in cache
            rows = slice(start, start + _REPEATED)
            with self._over("answered again", batch.deliveries):
                self._tag ^= self._predictor.answer(batch.features[rows], batch.present[rows]).tag
        self._reach(batch)
        if batch is not given:
            raise PlanExhaustedError(f"round {self._plan.rounds}: the plan's last phase has ended")
        return len(batch.features)

    def _execute(self, batch: DecodedBatch) -> tuple[DecodedBatch, Answers, PublicFacts]:
        """Answer the leading deliveries whose rounds the plan still has; return the public facts before them too."""
        batch = self._fitting(batch)
        before = self._predictor.facts()
        with self._over("answered", batch.deliveries):
            answers = self._answered(batch)
        self._tag ^= answers.tag
        self._reach(batch)
        return batch, answers, before

    def _answered(self, batch: DecodedBatch) -> Answers:
        """Answer a batch, in pieces where messages were skipped, whose events stand in the ledger where they stood."""
        skips = _skips(batch) if self._passed.skipped else []
        bounds = [0, *(row for row, _ in skips), len(batch.features)]
        pieces = []
        for (start, stop), skip in zip(pairwise(bounds), [None, *skips], strict=True):
            before = self._predictor.facts().round
            piece = self._predictor.answer(batch.features[start:stop], batch.present[start:stop])
            events: list[LedgerEvent] = [] if skip is None else [MessageSkipped(before, skip[1])]
            if before == 0 and self._predictor.facts().round > 0:
                events.append(phase_started(self._plan, 1))
            pieces.append(replace(piece, events=[*events, *piece.events]) if events else piece)
        return reduce(_both, pieces)

    def _reach(self, batch: DecodedBatch) -> None:
        self._position = batch.deliveries.positions[-1]
        self._reached = len(batch.deliveries)
        failures = _failures(batch)
        if failures:
            self._passed = self._passed.and_internal(position for position, _ in failures)

    def _over(self, done: str, deliveries: Deliveries) -> AbstractContextManager[None]:
        return self._named(done, deliveries.positions[0], deliveries.positions[-1], len(deliveries))

    @contextmanager
    def _named(self, done: str, first: int, last: int, count: int) -> Iterator[None]:
        """Say of an error that nobody foresaw where it happened, and of the error itself no more than its class."""
        try:
            yield
        except PerpetuaError:
            raise
        except Exception as exc:
            where, kind = self._where(first, last), type(exc).__name__
            if short_of_resources(exc):
                raise ResourceError(
                    f"{where}: cannot be {done} for want of memory, threads or files ({kind}); what was committed "
                    "stands, and a restart goes on"
                ) from exc
            alone = count == 1 or done in _COMMITTED  # nothing is gained by smaller steps
            raise MessageError(f"{where}: {self._advice(done, last, count, kind)}", alone=alone) from exc

    def _where(self, first: int, last: int) -> str:
        return f"partition {self._number}, position{f's {first} to' if first < last else ''} {last}"

    def _advice(self, done: str, last: int, count: int, kind: str) -> str:
        if done in _COMMITTED:
            return (
                f"what was answered there cannot be {done} (internal error: {kind}), and as it was answered it cannot "
                "be passed over; report it, and go on with a Perpetua that can do it"
            )
        if count > 1:
            return (
                f"one of the {count} messages that end there cannot be {done} (internal error: {kind}); the shard goes "
                "on from its last commit in smaller steps until it is known which (on a stream that does not go back: "
                "start it again)"
            )
        return (
            f"the message that ends there (on Kafka: the record at offset {last - 1}) cannot be {done} (internal "
            f"error: {kind}); nothing of it was committed, and what is behind it waits; report it, and to pass the "
            f"message over: perpetua skip CONFIG --partition {self._number} --position {last}"
        )

    def settle(self) -> None:
        """Do the bookkeeping of what was answered; call it when nothing waits and the answers have left.

        Otherwise a later `process` does it first: under load, while the commit of those answers is under way.

        Raises:
            MessageError: It failed; the shard is of no use any more.
            ResourceError: As of `decode`; the shard is of no use any more.
        """
        with self._named("brought into the state", self._position, self._position, self._reached):
            self._predictor.settle()

    def _fitting(self, batch: DecodedBatch) -> DecodedBatch:
        """Return the leading deliveries whose rounds the plan still has."""
        left = self._plan.rounds - self._predictor.facts().round
        if len(batch.features) <= left:
            return batch
        fitting = int(np.searchsorted(batch.ends, left, side="right"))
        if fitting == 0:
            raise PlanExhaustedError(
                f"round {self._plan.rounds}: the plan's last phase has ended; make a new plan and state"
            )
        return self.decode(batch.deliveries.part(0, fitting))

    def check(self, mark: CommitMark) -> None:
        """Compare this state with what was committed at its position.

        Raises:
            LogDivergedError: The rounds or the tags differ: the log is not the one that was answered.
        """
        mine = self.mark
        if mine.round != mark.round:
            raise LogDivergedError(
                f"log diverged: {mark.round} rounds were committed here, re-execution took {mine.round}"
            )
        if mine.tag != mark.tag:
            raise LogDivergedError(
                f"log diverged: the queries before round {mark.round} are not the ones that were answered (or an "
                "ensemble's teachers, fitted to them again, come out otherwise here)"
            )

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the next generation. It holds raw private points and keys."""
        facts = self._predictor.facts()
        self._generation += 1
        return Snapshot(
            plan_digest=self._plan.digest,
            generation=self._generation,
            position=self._position,
            round=facts.round,
            phase=facts.phase,
            rearms=facts.rearms,
            tag=self._tag.tobytes(),
            arrays=self._predictor.export(),
            origin=self._origin,
            paid=facts.paid,
            rested=facts.rested,
            rest_left=facts.rest_left,
        )


def _failures(batch: DecodedBatch) -> list[tuple[int, str]]:
    """Return position and error of each delivery that was rejected as `internal`."""
    if batch.plain:
        return []
    found = zip(batch.deliveries.positions, batch.parts, strict=True)
    return [(position, part.error) for position, part in found if isinstance(part, Failure)]


def _skips(batch: DecodedBatch) -> list[tuple[int, int]]:
    """Return of each delivery that an operator passed over how many rows are before it, and its position."""
    found = zip(batch.ends, batch.deliveries.positions, batch.parts, strict=True)
    return [
        (end, position)
        for end, position, part in found
        if isinstance(part, Rejection) and part.reason is Reason.SKIPPED
    ]


def _both(first: Answers, second: Answers) -> Answers:
    """Return the answers to two batches as those to one."""
    return Answers(
        labels=np.concatenate([first.labels, second.labels]),
        first_round=first.first_round,
        phases=np.concatenate([first.phases, second.phases]),
        tag=first.tag ^ second.tag,
        events=[*first.events, *second.events],
        values=_joined(first.values, second.values),
        paid=_joined(first.paid, second.paid),
        verified=_joined(first.verified, second.verified),
        found=_joined(first.found, second.found),
    )


def _joined(first: NDArray[_Scalar] | None, second: NDArray[_Scalar] | None) -> NDArray[_Scalar] | None:
    return None if first is None or second is None else np.concatenate([first, second])
