"""A predictor with all that a daemon puts around it: messages in, replies and a ledger out, snapshots and restarts."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

from connectors.base import Deliveries, Delivery
from oracle.planning.plan import Plan
from oracle.predictors.base import Predictor, StateArrays
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot, decode, encode

__all__ = ["Served"]

_MASTER_KEY: Final = bytes(range(32))


class Served:
    """A predictor served by one shard after the other.

    Args:
        plan: The plan.
        predictor: At its beginning.
    """

    def __init__(self, plan: Plan, predictor: Predictor) -> None:
        self._plan = plan
        self._kept = encode(Snapshot.first(plan.digest, predictor.export()), _MASTER_KEY)
        self._shard = self._restored()
        self._behind: list[Delivery] = []
        self._position = 0
        self.replies: list[bytes] = []
        self.ledger: list[bytes] = []

    def send(self, bodies: Sequence[bytes | None]) -> list[bytes]:
        """Have one batch of messages answered, and return the replies."""
        given = [Delivery(position, body) for position, body in enumerate(bodies, self._position + 1)]
        commit = self._shard.process(self._shard.decode(Deliveries.of(given))).commit
        replies = list(commit.replies.bodies)
        self._behind += given
        self._position += len(given)
        self.replies += replies
        self.ledger += commit.ledger
        return replies

    def turns(
        self, bodies: Sequence[bytes | None], cuts: Sequence[int], restarts: Collection[int] = ()
    ) -> Iterator[int]:
        """Send messages in batches that end at some cuts, with snapshots and restarts between them; yield each cut.

        Args:
            bodies: The messages.
            cuts: How many come before the end of each batch but the last.
            restarts: More of these, with a snapshot that the predictor is restored from there.
        """
        for turn, (start, stop) in enumerate(pairwise([0, *sorted({*cuts, *restarts}), len(bodies)])):
            self.send(bodies[start:stop])
            if turn % 2 == 0 or stop in restarts:
                self.checkpoint()
            if turn % 3 or stop in restarts:
                self.restart()
            yield stop

    @property
    def mark(self) -> tuple[int, int]:
        """Return how many rounds were answered, and the running tag, 128 bits."""
        mark = self._shard.mark
        return mark.round, int.from_bytes(mark.tag, "little")

    def state(self) -> StateArrays:
        """Return the state, as it is now."""
        return self._shard.snapshot().arrays

    def checkpoint(self) -> None:
        """Write a snapshot, from which the next restart is."""
        self._kept, self._behind = encode(self._shard.snapshot(), _MASTER_KEY), []

    def restart(self) -> None:
        """Go on from the last snapshot, and answer again what came behind it.

        Raises:
            LogDivergedError: It is not the state that was left.
        """
        mark = self._shard.mark
        self._shard = self._restored()
        if self._behind:
            self._shard.repeat(self._shard.decode(Deliveries.of(self._behind)))
        self._shard.check(mark)

    def kept(self) -> Snapshot:
        """Return the last snapshot, as whoever has the key reads it."""
        return decode(self._kept, _MASTER_KEY, self._plan.digest)

    def _restored(self) -> Shard:
        return Shard(self._plan, self.kept())
