"""A log of a world's queries by their numbers, and who answers it: for checks of forks, restarts and states."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.base import JSON, Commit, Committed, Deliveries, Delivery, Lag, Replies
from oracle.audit.recording.replays import World
from oracle.codec.decoded import DecodedBatch
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.predictors.base import Answers, Predictor
from oracle.predictors.kinds import new_trainer
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot, decode, encode

__all__ = ["NEAR", "Drawn", "Log", "Told", "drawn", "log_of", "opened", "predictor_of", "query_of", "snapshot_of"]

_MASTER_KEY: Final = bytes(range(32))

NEAR: Final = b"+"

Drawn = list[tuple[Purpose, frozenset[tuple[int, int]]]]


class _RowCodec:
    """Takes messages that are numbers of a world's queries.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """See `Codec`."""
        none, count = np.zeros(self._world.plan.width), len(deliveries)
        features = np.array([none if body is None else query_of(self._world, body) for body in deliveries.bodies])
        present = np.array([body is not None for body in deliveries.bodies])
        ends = list(range(1, count + 1))
        return DecodedBatch(features, present, deliveries, [None] * count, ends, plain=True)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """See `Codec`; replies say what was answered."""
        bodies = [b"%d" % label for label in answers.labels.tolist()]
        return batch.replies(bodies, [JSON] * len(bodies))


def query_of(world: World, body: bytes) -> NDArray[np.float64]:
    """Return the query that a message names; a world may have as many again, which `NEAR` behind the number names."""
    near = body.endswith(NEAR) * (len(world.queries) // 2)
    query: NDArray[np.float64] = world.queries[near + int(body.removesuffix(NEAR))]
    return query


def predictor_of(world: World) -> Predictor:
    """Return the predictor that a world's rows make."""
    trainer = new_trainer(world.plan, world.secret)
    trainer.add(world.rows, world.labels)
    predictor: Predictor = trainer.finish()
    return predictor


def opened(world: World, snapshot: Snapshot) -> Shard:
    """Return a shard that goes on from a snapshot, which was written and read."""
    plan = world.plan
    kept = decode(encode(snapshot, _MASTER_KEY), _MASTER_KEY, plan.digest)
    return Shard(plan, kept, codec=lambda _: _RowCodec(world))


def log_of(world: World, count: int) -> list[bytes | None]:
    """Return the messages of a world's first rounds."""
    return [b"%d" % row if there else None for row, there in enumerate(world.present[:count].tolist())]


class Log:
    """A source of messages, whose positions are their numbers from 1 on (see `Source`)."""

    def __init__(self, bodies: Sequence[bytes | None]) -> None:
        self._given = [Delivery(position, body) for position, body in enumerate(bodies, 1)]
        self._next = 0

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return self._next >= len(self._given)

    def part(self, start: int, stop: int) -> Deliveries:
        """Return some messages."""
        return Deliveries.of(self._given[start:stop])

    async def open(self, position: int | None) -> None:
        """See `Source`."""
        self._next = position or 0

    async def fetch(self, limit: int, wait: float) -> Deliveries:  # noqa: ARG002 -- all is there
        """See `Source`."""
        start, self._next = self._next, min(self._next + min(limit, 7), len(self._given))
        return Deliveries.of(self._given[start : self._next])

    def lag(self) -> Lag | None:
        """See `Source`."""
        return None

    async def close(self) -> None:
        """See `Source`."""


class Told:
    """A sink that keeps what is committed (see `Sink`).

    Args:
        in_doubt: What may have left before.
    """

    def __init__(self, in_doubt: Committed | None) -> None:
        self.in_doubt = in_doubt
        self.commits: list[Commit] = []

    async def open(self) -> Committed | None:
        """See `Sink`."""
        return None

    async def commit(self, commit: Commit) -> None:
        """See `Sink`."""
        self.commits.append(commit)

    async def close(self) -> None:
        """See `Sink`."""


@contextmanager
def drawn() -> Iterator[Drawn]:
    """Record all bits that are drawn meanwhile, with what each request is for."""
    found, real = Drawn(), Addresses.words

    def words(
        self: Addresses,
        purpose: Purpose,
        rounds: NDArray[np.uint64],
        sides: NDArray[np.uint64],
        hashes: NDArray[np.uint64] | None,
    ) -> NDArray[np.uint64]:
        made = real(self, purpose, rounds, sides, hashes)
        found.append((purpose, frozenset((high, low) for high, low in made.reshape(-1, 2).tolist())))
        return made

    Addresses.words = words  # type: ignore[method-assign]  # for as long as this lasts
    try:
        yield found
    finally:
        Addresses.words = real  # type: ignore[method-assign]


def snapshot_of(world: World, predictor: Predictor) -> Snapshot:
    """Return a snapshot of a predictor that has answered some rounds, one message each."""
    facts = predictor.facts()
    first = Snapshot.first(world.plan.digest, predictor.export())
    return replace(
        first,
        position=facts.round,
        round=facts.round,
        phase=facts.phase,
        rearms=facts.rearms,
        paid=facts.paid,
        rested=facts.rested,
        rest_left=facts.rest_left,
    )
