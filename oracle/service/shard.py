"""One shard: one totally ordered stream with one predictor state. The only place that knows both worlds."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from connectors.base import Commit, Delivery
from oracle.accounting.ledger import LedgerEvent, encode
from oracle.errors import CorruptSnapshotError, LogDivergedError, PlanExhaustedError
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, Predictor, PublicFacts, StateArrays, phase_started
from oracle.predictors.kinds import restore_predictor
from oracle.service.codec.batches import BatchCodec, DecodedBatch
from oracle.service.codec.rejections import Reason
from oracle.state.format import Snapshot

__all__ = ["CommitMark", "Outcome", "Restore", "Shard"]

_MARK: Final = struct.Struct("<4sQ16s")
_MAGIC: Final = b"PER1"


class CommitMark(NamedTuple):
    """What is committed with every position: how far the state had come, and over which queries.

    Attributes:
        round: Rounds answered up to the position.
        tag: The running tag, an XOR-MAC over (round, keyed hash of the query) of all of them; 16 bytes.
    """

    round: int
    tag: bytes

    def pack(self) -> bytes:
        """Return it as commit metadata: 28 bytes."""
        return _MARK.pack(_MAGIC, self.round, self.tag)

    @classmethod
    def unpack(cls, metadata: bytes) -> "CommitMark":
        """Read commit metadata.

        Raises:
            LogDivergedError: It was not written by a shard.
        """
        if len(metadata) != _MARK.size or not metadata.startswith(_MAGIC):
            msg = "commit metadata: not written by Perpetua; the sink belongs to something else"
            raise LogDivergedError(msg)
        _, rounds, tag = _MARK.unpack(metadata)
        return cls(rounds, tag)


_REPEATED: Final = 16_384
"""Rows of one call of a predictor that repeats what it answered before."""

Restore = Callable[[Plan, StateArrays], Predictor]
"""What makes a predictor of a plan and a snapshot's arrays."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call of `Shard.process` asks its caller to do.

    Attributes:
        commit: To be made durable as a whole, before anything else is processed.
        rounds: How many rounds it took.
        rejections: Reason of each wholly rejected delivery.
        phase_ended: True if a phase ended in it: snapshot soon, so that the old key can go.
    """

    commit: Commit
    rounds: int
    rejections: Sequence[Reason]
    phase_ended: bool


class Shard:
    """A predictor with its place in the stream and its running tag. No I/O, no clock: decide here, act outside.

    Formal guarantees:
        * `process` is deterministic: the same snapshot and deliveries give the same replies and ledger, byte for byte,
          for any batch cut.
        * Re-executing up to a commit restores the very state that made it, or `check` raises.

    Args:
        plan: The plan.
        snapshot: Where to go on from.
        restore: Makes the predictor of the plan and the snapshot's arrays.

    Raises:
        CorruptSnapshotError: The snapshot's parts disagree.
    """

    def __init__(self, plan: Plan, snapshot: Snapshot, restore: Restore = restore_predictor) -> None:
        self._plan = plan
        self._codec = BatchCodec(plan)
        self._predictor = restore(plan, snapshot.arrays)
        self._tag = np.frombuffer(snapshot.tag, dtype="<u8").copy()
        self._position = snapshot.position
        self._generation = snapshot.generation
        facts = self._predictor.facts()
        if (facts.round, facts.phase, facts.rearms) != (snapshot.round, snapshot.phase, snapshot.rearms):
            msg = "snapshot: its header and its state disagree"
            raise CorruptSnapshotError(msg)

    @property
    def position(self) -> int:
        """Position after the last delivery that was processed; 0 before the first."""
        return self._position

    @property
    def mark(self) -> CommitMark:
        """What a commit at this position carries."""
        return CommitMark(self._predictor.facts().round, self._tag.tobytes())

    def facts(self) -> PublicFacts:
        """Return what is public."""
        return self._predictor.facts()

    def decode(self, deliveries: Sequence[Delivery]) -> DecodedBatch:
        """Decode deliveries for `process`. It looks at no state: it may be done ahead, and in another thread."""
        return self._codec.decode(deliveries)

    def decode_leading(self, deliveries: Sequence[Delivery]) -> DecodedBatch:
        """Decode as many of the leading deliveries as one batch may have (at least one), as `decode` would."""
        return self._codec.decode_leading(deliveries)

    def process(self, deliveries: Sequence[Delivery] | DecodedBatch) -> Outcome:
        """Answer deliveries in order.

        Args:
            deliveries: At least one, in order, the first one right behind `position`; or what `decode` made of them.

        Raises:
            PlanExhaustedError: The plan has no round left for the first of them. (If it has for some, these are
                answered, and the next call raises.)
        """
        batch, answers, before = self._execute(deliveries)
        after = self._predictor.facts()
        events: list[LedgerEvent] = list(answers.events)
        if before.round == 0 and after.round > 0:
            events.insert(0, phase_started(self._plan, 1))
        commit = Commit(
            self._codec.encode(batch, answers), [encode(event) for event in events], self._position, self.mark.pack()
        )
        return Outcome(commit, len(batch.features), batch.rejections, after.phase != before.phase)

    def repeat(self, deliveries: Sequence[Delivery] | DecodedBatch) -> int:
        """Answer again deliveries whose answers are durable already, and make no replies of them; return the rounds.

        Args:
            deliveries: As `process` takes them.

        Raises:
            PlanExhaustedError: The plan has not enough rounds for all of them.
        """
        given = deliveries.deliveries if isinstance(deliveries, DecodedBatch) else deliveries
        batch = self._fitting(self._decoded(deliveries))
        for start in range(0, len(batch.features), _REPEATED):  # nobody waits: so that all stays in cache
            rows = slice(start, start + _REPEATED)
            self._tag ^= self._predictor.answer(batch.features[rows], batch.present[rows]).tag
        self._position = batch.deliveries[-1].position
        if len(batch.deliveries) < len(given):
            msg = f"round {self._plan.rounds}: the plan's last phase has ended"
            raise PlanExhaustedError(msg)
        return len(batch.features)

    def _execute(self, deliveries: Sequence[Delivery] | DecodedBatch) -> tuple[DecodedBatch, Answers, PublicFacts]:
        """Answer the leading deliveries whose rounds the plan still has; return the public facts before them too."""
        batch = self._fitting(self._decoded(deliveries))
        before = self._predictor.facts()
        answers = self._predictor.answer(batch.features, batch.present)
        self._tag ^= answers.tag
        self._position = batch.deliveries[-1].position
        return batch, answers, before

    def _decoded(self, deliveries: Sequence[Delivery] | DecodedBatch) -> DecodedBatch:
        return deliveries if isinstance(deliveries, DecodedBatch) else self._codec.decode(deliveries)

    def settle(self) -> None:
        """Do the bookkeeping of what was answered; call it when nothing waits and the answers have left.

        Otherwise the next `process` does it first: under load, while the commit of those answers is under way.
        """
        self._predictor.settle()

    def _fitting(self, batch: DecodedBatch) -> DecodedBatch:
        """Return the leading deliveries whose rounds the plan still has."""
        left = self._plan.rounds - self._predictor.facts().round
        if len(batch.features) <= left:
            return batch
        fitting = int(np.searchsorted(batch.ends, left, side="right"))
        if fitting == 0:
            msg = f"round {self._plan.rounds}: the plan's last phase has ended; make a new plan and state"
            raise PlanExhaustedError(msg)
        return self._codec.decode(batch.deliveries[:fitting])

    def check(self, mark: CommitMark) -> None:
        """Compare this state with what was committed at its position.

        Raises:
            LogDivergedError: The rounds or the tags differ: the log is not the one that was answered.
        """
        mine = self.mark
        if mine.round != mark.round:
            msg = f"log diverged: {mark.round} rounds were committed here, re-execution took {mine.round}"
            raise LogDivergedError(msg)
        if mine.tag != mark.tag:
            msg = f"log diverged: the queries before round {mark.round} are not the ones that were answered"
            raise LogDivergedError(msg)

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
        )
