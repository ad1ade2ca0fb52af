"""Runs of predictors about tables through all that a daemon puts around them: messages in, replies and a ledger out.

A run is decoded, answered and encoded by shards, in batches of all sizes; between them the state goes through encrypted
snapshots, of which some are older than the last answer, so that what lies between is answered again.
"""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Delivery
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.served import Served
from oracle.planning.attributes import Attribute
from oracle.planning.kinds import decode_plan
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.kinds import new_trainer

__all__ = ["Run", "eager", "play", "random_cells"]

_REPEATED: Final = 0.15
_SILENT: Final = 0.05
_WRONG: Final = 0.05
_BY: Final = 0.1
_NAMED: Final = 0.7
_BATCHES: Final = 7

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


def eager(plan: TablePlan) -> TablePlan:
    """Return a plan by which much is paid for; its errors are larger, and its privacy is the same."""
    return msgspec.structs.replace(plan, first_margin=1, margin=1) if isinstance(plan, StatisticsPlan) else plan


def play(plan: TablePlan, randomness: Randomness, number: int, questions: int) -> Run:
    """Play a run of random rows and messages.

    Args:
        plan: The plan.
        randomness: Of the predictor's key, and of what is asked.
        number: Of the run.
        questions: How many messages.
    """
    served_plan = decode_plan(plan.encode())
    if not isinstance(served_plan, TablePlan):
        raise TypeError
    secret = randomness.secret(number)
    draws = Draws(randomness, number)
    cells = random_cells(plan, draws)
    trainer = new_trainer(served_plan, secret)
    trainer.add(cells.astype(np.float64), np.ones(len(cells), dtype=np.bool_))
    served = Served(served_plan, trainer.finish())
    bodies = _messages(plan, draws, questions)
    list(served.turns(bodies, [1 + cut for cut in draws.some(_BATCHES, questions - 1)]))
    deliveries = [Delivery(position, body) for position, body in enumerate(bodies, 1)]
    return Run(served_plan, cells, deliveries, served.replies, served.ledger)


def random_cells(plan: TablePlan, draws: Draws) -> Cells:
    """Return as many rows as the plan declares, more of them in the first cells."""
    cells = np.floor(draws.uniform(plan.declared) ** 2 * plan.layout.size).astype(np.int64)
    return np.stack(np.unravel_index(cells, plan.layout.shape), axis=1).astype(np.int64)


def _messages(plan: TablePlan, draws: Draws, count: int) -> list[bytes | None]:
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
            bodies.append(_question(plan, draws, f"q{number}"))
    return bodies


def _question(plan: TablePlan, draws: Draws, identifier: str) -> bytes:
    attributes = plan.attributes
    where = {one.name: _some(one, draws) for one in attributes if len(attributes) == 1 or draws.one() < _NAMED}
    message: dict[str, object] = {"id": identifier, "where": where}
    if draws.one() < _BY:
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
