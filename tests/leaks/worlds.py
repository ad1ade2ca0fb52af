"""Neighbouring worlds: the same key, the same public view, and one record that differs.

A *record* is one training row or one query (the privacy document, section 1). The transcript is what the guarantee
bounds and the leak test therefore leaves out: the label of every round but the hidden one's own, the rounds in which a
side was armed afresh, and the phases' ends. Two worlds whose transcripts part are cut, both, right before the first
message at which they do; what is left of them has one transcript, so whatever else differs is a leak.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.accounting.ledger import PhaseEnded, SideRearmed
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from tests.leaks.tokens import Tokens
from tests.predictors.plans import feature, tiny_plan

__all__ = [
    "BAD",
    "CHUNK",
    "Kind",
    "Message",
    "Pair",
    "World",
    "leak_plan",
    "random_pair",
    "state_after",
    "table_of",
    "trained",
    "transcript",
]

Kind = Literal["training row", "query", "presence", "label"]
"""What differs: a training row that is there or blanked; the hidden query; whether it is there; its label too."""

BAD: str = "bad"
"""A message that is no query: it is rejected and takes no round."""

Message = tuple[float, float] | Literal["bad"] | None

CHUNK = 64
"""Messages between two looks."""

_CHUNKS = 5


@dataclass(frozen=True, eq=False)
class World:
    """All that goes into a run.

    Attributes:
        rows: float64[n, 2], the training rows.
        labels: bool[n].
        messages: Queries, rounds with no query (None) and `BAD` ones.
    """

    rows: NDArray[np.float64]
    labels: NDArray[np.bool_]
    messages: tuple[Message, ...]

    def cut(self, count: int) -> "World":
        """Return the world whose stream ends after so many messages."""
        return dataclasses.replace(self, messages=self.messages[:count])


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbours with one transcript.

    Attributes:
        kind: What differs.
        worlds: The two.
        hidden: The message that the record is, None for a training row.
        whole: Whether nothing had to be cut.
    """

    kind: Kind
    worlds: tuple[World, World]
    hidden: int | None
    whole: bool

    def cut(self, count: int) -> "Pair":
        """Return the pair whose streams end after so many messages."""
        left, right = (world.cut(count) for world in self.worlds)
        return dataclasses.replace(self, worlds=(left, right), whole=count >= len(self.worlds[0].messages))


@cache
def leak_plan() -> BoxPlan:
    """Return a plan in form only: phases of some 120 rounds, sides that are armed afresh within them."""
    return tiny_plan(
        [feature("a"), feature("b")], points=(12, 10, 11, 12, 10), rearmed=9, threshold=7, rounds=110, examples=300
    )


def table_of(messages: Sequence[Message]) -> pa.Table:
    """Return messages as rows: nulls are a round with no query, and NaN is rejected."""
    columns: list[list[float | None]] = [[], []]
    for message in messages:
        values = message if isinstance(message, tuple) else (None, None) if message is None else (np.nan, np.nan)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    number = pa.float64()
    return pa.table({"id": ["q"] * len(messages), "a": pa.array(columns[0], number), "b": pa.array(columns[1], number)})


def trained(world: World) -> RectanglesPERP:
    """Return the world's predictor as `perpetua init` makes it under the key of `Tokens`."""
    trainer = RectanglesTrainer(leak_plan(), Tokens().token_bytes(32))
    trainer.add(world.rows, world.labels)
    return trainer.finish()


def answered(predictor: RectanglesPERP, messages: Sequence[Message]) -> Answers:
    """Have messages answered that are all queries, or rounds with none."""
    present = np.array([message is not None for message in messages])
    features = np.array([message if isinstance(message, tuple) else (0.0, 0.0) for message in messages])
    return predictor.answer(features.reshape(-1, 2), present)


def transcript(world: World, hidden: int | None) -> list[tuple[int, object]]:
    """Return what the guarantee bounds, as (message, what happened there), in order."""
    asked = [number for number, message in enumerate(world.messages) if message != BAD]
    answers = answered(trained(world), [world.messages[number] for number in asked])
    shown: list[tuple[int, object]] = [
        (number, int(label)) for number, label in zip(asked, answers.labels, strict=True) if number != hidden
    ]
    for event in answers.events:
        if isinstance(event, SideRearmed):
            shown.append((asked[event.round], ("re-arm", event.side)))
        elif isinstance(event, PhaseEnded):
            shown.append((asked[event.round - 1], ("phase ended", event.phase, event.rearms)))
    return sorted(shown, key=lambda entry: entry[0])


def state_after(world: World, count: int) -> StateArrays:
    """Return the private state behind so many messages."""
    predictor = trained(world)
    messages = [message for message in world.messages[:count] if message != BAD]
    if messages:
        answered(predictor, messages)
    return predictor.export()


def _common(pair: Pair) -> int:
    """Return how many messages come before the transcripts part, up to the last that takes a round."""
    left, right = (transcript(world, pair.hidden) for world in pair.worlds)
    parted = (min(one[0], other[0]) for one, other in zip(left, right, strict=False) if one != other)
    messages = pair.worlds[0].messages
    count = next(parted, len(messages))
    while count and messages[count - 1] == BAD:
        count -= 1
    return count


def random_pair(kind: Kind, seed: int) -> Pair:
    """Return neighbours drawn from a seed, cut to what their transcripts have in common."""
    source = np.random.default_rng(seed)
    rows = np.round(source.random((leak_plan().declared, 2)), 6)
    labels = np.asarray(((rows > 0.03) & (rows < 0.97)).all(axis=1))
    messages = _stream(source)
    if kind == "training row":
        world = World(rows, labels, tuple(messages))
        pair = Pair(kind, (world, _blanked(world, source)), None, whole=True)
    else:
        asked = [number for number, message in enumerate(messages[:CHUNK]) if isinstance(message, tuple)]
        hidden = int(source.choice(asked[CHUNK // 4 :]))
        two = [(*messages[:hidden], choice, *messages[hidden + 1 :]) for choice in _hidden(kind, source)]
        pair = Pair(kind, (World(rows, labels, two[0]), World(rows, labels, two[1])), hidden, whole=True)
    common = _common(pair)
    return pair.cut(common)


def _stream(source: np.random.Generator) -> list[Message]:
    """Return messages of which most lie inside and a part near some side; six decimals, so that JSON says all."""
    count = _CHUNKS * CHUNK
    messages: list[Message] = [
        (row[0], row[1]) for row in np.round(source.uniform(-0.02, 1.02, (count, 2)), 6).tolist()
    ]
    messages[5::16] = [None] * len(messages[5::16])
    messages[9::32] = ["bad"] * len(messages[9::32])
    return messages


def _hidden(kind: Kind, source: np.random.Generator) -> tuple[Message, Message]:
    """Return the hidden message of both worlds."""
    along, depth, other = np.round(source.uniform((0.3, 0.02, 0.02), (0.7, 0.08, 0.08)), 6).tolist()
    if kind == "presence":
        return (along, depth), None
    if kind == "label":
        return (along, 0.3 + depth), (along, -other)
    return (along, depth), (other, along)


def _blanked(world: World, source: np.random.Generator) -> World:
    """Return the world without one of the positive rows next to a side."""
    outwardness = np.where(world.labels, np.abs(world.rows - 0.5).max(axis=1), 0.0)
    row = int(source.choice(np.argsort(outwardness)[-40:]))
    rows, labels = world.rows.copy(), world.labels.copy()
    rows[row], labels[row] = 0.0, False
    return World(rows, labels, world.messages)
