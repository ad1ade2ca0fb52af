"""Neighbouring worlds: the same key, the same public view, and one record that differs.

A *record* is one training row or one query (PRIVACY.md, Definition 1). The transcript is what the guarantee bounds and
the leak test therefore leaves out: the answer of every round but the hidden one's own, the rounds that rest, those in
which a side was armed afresh, and the phases' ends. Two worlds whose transcripts part are cut, both, right before the
first message at which they do; what is left of them has one transcript, so whatever else differs is a leak. What that
means for each predictor, `subjects.py` says; what brings two tables to one transcript, `coupling.py`.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, MarginalsReleased, PhaseEnded, SideRearmed
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Answers, Predictor, StateArrays
from oracle.predictors.kinds import new_trainer
from tests.leaks.coupling import Apart, couple
from tests.leaks.questions import as_cells, questions_in
from tests.leaks.spelling import as_column, as_numbers
from tests.leaks.subjects import BAD, SUBJECTS, Kind, Message, leak_plan
from tests.leaks.tokens import Tokens

CHUNK = 64
"""Messages between two looks."""

_CHUNKS = 5


@dataclass(frozen=True, eq=False)
class World:
    """All that goes into a run.

    Attributes:
        subject: The predictor, by its name among the subjects.
        rows: float64[n, 2], the training rows.
        labels: bool[n].
        messages: Queries, rounds with no query (None) and `BAD` ones.
        apart: Of the second world where questions are public: where the row that differs stands in the first one, and
            here.
    """

    subject: str
    rows: NDArray[np.float64]
    labels: NDArray[np.bool_]
    messages: tuple[Message, ...]
    apart: Apart | None = None

    def cut(self, count: int) -> "World":
        """Return the world whose stream ends after so many messages."""
        return dataclasses.replace(self, messages=self.messages[:count])


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbours with one transcript.

    Attributes:
        kind: What differs.
        worlds: The two.
        hidden: The message that the record is; None where the queries are the same, or nothing is.
        left_out: The messages whose answers are no part of the transcript.
        whole: Whether nothing had to be cut.
    """

    kind: Kind
    worlds: tuple[World, World]
    hidden: int | None
    left_out: range
    whole: bool

    @property
    def tag_differs(self) -> bool:
        """Whether the worlds' queries differ."""
        return self.kind != "training row"

    def cut(self, count: int) -> "Pair":
        """Return the pair whose streams end after so many messages."""
        left, right = (world.cut(count) for world in self.worlds)
        return dataclasses.replace(self, worlds=(left, right), whole=count >= len(self.worlds[0].messages))


def table_of(subject: str, messages: Sequence[Message]) -> pa.Table:
    """Return messages as rows: nulls are a round with no query, and NaN is rejected."""
    columns: list[list[float | None]] = [[], []]
    for message in messages:
        values = message if isinstance(message, tuple) else (None, None) if message is None else (np.nan, np.nan)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    features = zip(leak_plan(subject).features, columns, strict=True)
    return pa.table(
        {"id": ["q"] * len(messages), **{feature.name: as_column(feature, column) for feature, column in features}}
    )


def trained(world: World) -> Predictor:
    """Return the world's predictor as `perpetua init` makes it under the key of `Tokens`."""
    plan = leak_plan(world.subject)
    trainer = new_trainer(plan, Tokens().token_bytes(32))
    rows = as_cells(plan, world.rows) if isinstance(plan, QuestionPlan) else as_numbers(plan.features, world.rows)
    trainer.add(rows, world.labels)
    return trainer.finish()


def _queries(subject: str, message: Message) -> NDArray[np.float64]:
    """Return what a predictor takes of a message: float64[rounds, D], NaN in a round with no query."""
    plan = leak_plan(subject)
    if message == BAD:
        return np.empty((0, plan.width))
    if not isinstance(message, tuple):
        return np.full((1, plan.width), np.nan)
    if isinstance(plan, QuestionPlan):
        return questions_in(plan, message)
    return as_numbers(plan.features, np.array([message]))


def rounds_of(world: World, count: int) -> int:
    """Return how many rounds so many messages take."""
    return sum(len(_queries(world.subject, message)) for message in world.messages[:count])


def answered(world: World, count: int) -> tuple[Predictor, Answers | None]:
    """Return a world's predictor behind so many messages, and its answers, if there are any."""
    queries = [_queries(world.subject, message) for message in world.messages[:count]]
    with pytest.MonkeyPatch.context() as patch:
        if world.apart is not None:
            plan = leak_plan(world.subject)
            assert isinstance(plan, QuestionPlan)
            couple(patch, plan, world.apart)
        predictor = trained(world)
        if not sum(map(len, queries)):
            return predictor, None
        features = np.concatenate(queries)
        present = ~np.isnan(features[:, 0])
        return predictor, predictor.answer(np.where(present[:, None], features, 0.0), present)


def transcript(world: World, left_out: range) -> list[tuple[int, object]]:
    """Return what the guarantee bounds, as (message, what happened there), in order."""
    asked = [
        number for number, message in enumerate(world.messages) for _ in range(len(_queries(world.subject, message)))
    ]
    answers = answered(world, len(world.messages))[1]
    if answers is None:
        return []
    outcomes: list[object] = list(map(int, answers.labels))
    if answers.values is not None:
        outcomes = list(map(str, answers.values))
    if answers.found is not None:
        outcomes = list(zip(outcomes, map(str, answers.found), strict=True))
    shown = [(number, outcome) for number, outcome in zip(asked, outcomes, strict=True) if number not in left_out]
    if leak_plan(world.subject).rests and answers.verified is not None:
        shown += [(asked[number], "rests") for number in np.flatnonzero(~answers.verified).tolist()]
    for event in answers.events:
        if isinstance(event, SideRearmed):
            shown.append((asked[event.round], ("re-arm", event.side)))
        elif isinstance(event, AnswerPaid):
            shown.append((asked[event.round], ("paid", event.paid, event.count, event.above)))
        elif isinstance(event, MarginalsReleased):
            shown.append((asked[event.round], ("marginals", event.counts)))
        elif isinstance(event, PhaseEnded):
            shown.append((asked[event.round - 1], ("phase ended", event.phase, event.rearms)))
    return sorted(shown, key=lambda entry: entry[0])


def state_after(world: World, count: int) -> StateArrays:
    """Return the private state behind so many messages."""
    return answered(world, count)[0].export()


def _common(pair: Pair) -> int:
    """Return how many messages come before the transcripts part, up to the last that takes a round."""
    left, right = (transcript(world, pair.left_out) for world in pair.worlds)
    parted = (min(one[0], other[0]) for one, other in zip(left, right, strict=False) if one != other)
    messages = pair.worlds[0].messages
    count = next(parted, len(messages))
    while count and messages[count - 1] == BAD:
        count -= 1
    return count


def random_pair(subject: str, kind: Kind, seed: int) -> Pair:
    """Return neighbours drawn from a seed, cut to what their transcripts have in common."""
    source = np.random.default_rng(seed)
    world = _world(subject, source)
    messages = world.messages
    if kind == "training row":
        pair = Pair(kind, (world, _blanked(world, source)), None, range(0), whole=True)
    elif kind == "everything":
        pair = Pair(kind, (world, _world(subject, source)), None, range(len(messages)), whole=True)
    else:
        asked = [number for number, message in enumerate(messages[:CHUNK]) if isinstance(message, tuple)]
        hidden = int(source.choice(asked[CHUNK // 4 :]))
        two = SUBJECTS[subject].hide(kind, source)
        left, right = (
            dataclasses.replace(world, messages=(*messages[:hidden], choice, *messages[hidden + 1 :])) for choice in two
        )
        parts = SUBJECTS[subject].parts_from_hidden and kind == "query"
        left_out = range(hidden, len(messages) if parts else hidden + 1)
        pair = Pair(kind, (left, right), hidden, left_out, whole=True)
    return pair.cut(_common(pair))


def _world(subject: str, source: np.random.Generator) -> World:
    """Draw training rows and a stream; six decimals, so that JSON says all."""
    chosen = SUBJECTS[subject]
    rows = np.round(source.random((leak_plan(subject).declared, 2)), 6)
    labels = chosen.label(rows)
    messages: list[Message] = [(row[0], row[1]) for row in np.round(chosen.ask(source, _CHUNKS * CHUNK), 6).tolist()]
    messages[5::16] = [None] * len(messages[5::16])
    messages[9::32] = ["bad"] * len(messages[9::32])
    return World(subject, rows, labels, tuple(messages))


def _blanked(world: World, source: np.random.Generator) -> World:
    """Return the world without one of the rows that matter most."""
    nearness = SUBJECTS[world.subject].nearness(world.rows, world.labels)
    row = int(source.choice(np.argsort(nearness)[-40:]))
    rows, labels = world.rows.copy(), world.labels.copy()
    plan = leak_plan(world.subject)
    if isinstance(plan, QuestionPlan):  # all its rows are there, so it is one whose values are missing, or others
        rows[row] = np.nan if isinstance(plan, TablePlan) else np.round(rows[row] / 2.0, 6)
        here, there = (tuple(as_cells(plan, numbers)[row].tolist()) for numbers in (world.rows, rows))
        return dataclasses.replace(world, rows=rows, apart=(here, there))
    rows[row], labels[row] = 0.0, False
    return dataclasses.replace(world, rows=rows, labels=labels)
