"""Runs of predictors about tables through all that a daemon puts around them: messages in, replies and a ledger out.

A run is decoded, answered and encoded by shards, in batches of all sizes; between them the state goes through encrypted
snapshots, of which some are older than the last answer, so that what lies between is answered again.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.audit.randomness import Draws, Randomness
from oracle.planning.attributes import Attribute
from oracle.planning.kinds import decode_plan
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.base import Predictor
from oracle.predictors.kinds import new_trainer
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot, decode, encode

__all__ = ["Run", "Served", "eager", "play"]

_REPEATED: Final = 0.15
_SILENT: Final = 0.05
_WRONG: Final = 0.05
_BY: Final = 0.1
_NAMED: Final = 0.7
_BATCHES: Final = 7
_MASTER_KEY: Final = bytes(range(32))

Cells = NDArray[np.int64]


class Run(NamedTuple):
    """What came of a run.

    Attributes:
        plan: As it stands in the state folder.
        cells: int64[n, A], the rows, which the auditor knows.
        deliveries: The messages.
        replies: The reply to each.
        ledger: The ledger's lines.
    """

    plan: TablePlan
    cells: Cells
    deliveries: Sequence[Delivery]
    replies: Sequence[bytes]
    ledger: Sequence[bytes]


class Served:
    """A predictor served by one shard after the other.

    Args:
        plan: The plan.
        predictor: At its beginning.
    """

    def __init__(self, plan: TablePlan, predictor: Predictor) -> None:
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

    def checkpoint(self, *, forget: bool = False) -> None:
        """Write a snapshot, from which the next restart is.

        Args:
            forget: Whether the answers to earlier questions are not in it, as if many others had come behind them.
        """
        snapshot = self._shard.snapshot()
        if forget:
            nothing = {"repeated_added": np.zeros(1, dtype=np.int64)}
            snapshot = replace(snapshot, arrays={**snapshot.arrays, **nothing})
        self._kept, self._behind = encode(snapshot, _MASTER_KEY), []

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


def eager(plan: TablePlan) -> TablePlan:
    """Return a plan by which much is paid for; its errors are larger, and its privacy is the same."""
    return msgspec.structs.replace(plan, first_margin=1, margin=1) if isinstance(plan, StatisticsPlan) else plan


def play(plan: TablePlan, randomness: Randomness, number: int, questions: int, *, alone: bool = False) -> Run:
    """Play a run of random rows and messages.

    Args:
        plan: The plan.
        randomness: Of the predictor's key, and of what is asked.
        number: Of the run.
        questions: How many messages.
        alone: Whether each is one question in a batch of its own, and earlier ones are forgotten.
    """
    served_plan = decode_plan(plan.encode())
    if not isinstance(served_plan, TablePlan):
        raise TypeError
    secret = randomness.secret(number)
    draws = Draws(randomness, number)
    cells = _rows(plan, draws)
    trainer = new_trainer(served_plan, secret)
    trainer.add(cells.astype(np.float64), np.ones(len(cells), dtype=np.bool_))
    served = Served(served_plan, trainer.finish())
    bodies = _messages(plan, draws, questions, by=0.0 if alone else _BY)
    cuts = [0, *(1 + cut for cut in draws.some(_BATCHES, questions - 1)), questions]
    for turn, (start, stop) in enumerate(pairwise(range(questions + 1) if alone else cuts)):
        served.send(bodies[start:stop])
        if alone or turn % 2 == 0:
            served.checkpoint(forget=alone)
        if alone or turn % 3:
            served.restart()
    deliveries = [Delivery(position, body) for position, body in enumerate(bodies, 1)]
    return Run(served_plan, cells, deliveries, served.replies, served.ledger)


def _rows(plan: TablePlan, draws: Draws) -> Cells:
    """Return as many rows as the plan declares, more of them in the first cells."""
    cells = np.floor(draws.uniform(plan.declared) ** 2 * plan.layout.size).astype(np.int64)
    return np.stack(np.unravel_index(cells, plan.layout.shape), axis=1).astype(np.int64)


def _messages(plan: TablePlan, draws: Draws, count: int, *, by: float) -> list[bytes | None]:
    """Return questions, some of them again, some with `by`, some that are none, and some rounds with no question."""
    bodies: list[bytes | None] = []
    for number in range(count):
        kind = draws.one()
        if kind < _WRONG:
            bodies.append(b'{"id":"w","where":{"nobody":[1]}}')
        elif kind < _WRONG + _SILENT:
            bodies.append(None)
        elif number and kind < _WRONG + _SILENT + _REPEATED:
            bodies.append(bodies[draws.below(number)])
        else:
            bodies.append(_question(plan, draws, f"q{number}", by))
    return bodies


def _question(plan: TablePlan, draws: Draws, identifier: str, by: float) -> bytes:
    attributes = plan.attributes
    where = {one.name: _some(one, draws) for one in attributes if len(attributes) == 1 or draws.one() < _NAMED}
    message: dict[str, object] = {"id": identifier, "where": where}
    if draws.one() < by:
        name = attributes[draws.below(len(attributes))].name
        where.pop(name, None)
        message["by"] = [name]
    if isinstance(plan, SparseVectorPlan):
        message["above"] = round(draws.one(), 3)
    return json.dumps(message).encode()


def _some(attribute: Attribute, draws: Draws) -> list[object]:
    """Return what a question says of an attribute: some categories, or a range."""
    if attribute.kind == "category":
        chosen = draws.some(1 + draws.below(attribute.cells - 1), attribute.cells)
        return [attribute.labels[cell] for cell in chosen]
    low, high = draws.some(2, len(attribute.edges))
    return [attribute.edges[low], attribute.edges[high]]
