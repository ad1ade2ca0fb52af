"""Whole runs of ensembles, from messages to replies and a ledger, beside a plain re-implementation of them.

Their plans are such in form only: every phase has a length, a slope, a zone, a Stopper and a pool of its own, so that a
number that is taken from another phase or life shows. Where lives end by their Stoppers, with rests and without, and
with phases, all within a few hundred rounds, no accountant would pass the noise.
"""

import json
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.ensembles import Given, Plain, Row
from oracle.audit.runs.courses import Course
from oracle.audit.runs.served import Served
from oracle.audit.runs.unique_noise import all_drawn, recorded
from oracle.planning.ensemble.model import MISSING, ControlPlan, EnsemblePhase, EnsemblePlan
from oracle.planning.model import Feature, Limits
from oracle.planning.plan import StopperPlan
from oracle.predictors.base import NO_LABEL, StateArrays
from oracle.predictors.kinds import new_trainer

__all__ = ["Run", "play", "random_rows", "uneven_plan"]

_FEATURES: Final = (Feature(name="a"), Feature(name="kind", categories=("x", "y", "z")))
_SILENT, _WRONG, _AGAIN, _MISSING = 0.08, 0.04, 0.2, 0.1
_NONE: Final = ()
"""What stands for a message that is no query."""

_BATCHES: Final = 12
_TURNS: Final = 16
_BLANK: Final = 0.05
_GRID: Final = 40


class Run(NamedTuple):
    """What came of a run, and what should have.

    Attributes:
        plan: The plan.
        replies: To all messages.
        ledger: What the ledger says.
        plain: The re-implementation, which has answered the same.
        given: What it answered to each message; None to one that is no query.
        held: Whether both had the same rows, of the same teachers, behind each batch, and drew the same words.
    """

    plan: EnsemblePlan
    replies: Sequence[bytes]
    ledger: Sequence[LedgerEvent]
    plain: Plain
    given: Sequence[Given | None]
    held: bool


def uneven_plan(draws: Draws, classes: int, *, resting: bool) -> EnsemblePlan:
    """Return a plan of three phases, no two numbers of which are equal where they need not be.

    Args:
        draws: Sizes are drawn.
        classes: C.
        resting: Whether lives are spent long before their least rounds.
    """
    teachers = 8 + draws.below(5)
    lengths = [60 + draws.below(30), 90 + draws.below(40), 130 + draws.below(40)]
    counted = draws.one() < 0.6  # noqa: PLR2004 -- else shares are declared
    shares = np.array([1.0 + draws.one() for _ in range(classes)])
    return EnsemblePlan(
        name="audited",
        predictor="ensemble",
        profile="tight",
        learner="sklearn.tree.DecisionTreeClassifier",
        parameters={"max_depth": 2, "max_features": 1},
        preprocessing=(),
        features=_FEATURES,
        classes=tuple(f"c{number}" for number in range(classes)) if classes > 2 else (0, 1),  # noqa: PLR2004 -- as models have it
        shares=UNSET if counted else tuple((shares / shares.sum()).tolist()),
        teachers=teachers,
        teacher_rows=5,
        contested=0.1,
        questions=min(2, classes - 1),
        epsilon=4.0,
        delta=0.1,
        alpha=0.1,
        beta=0.05,
        gamma=1.0,
        examples=5 * teachers,
        declared=5 * teachers + draws.below(5),
        share_slope=0.4 + draws.one() / 2.0 if counted else UNSET,
        control=ControlPlan(block_rounds=17 + draws.below(20), epsilon=0.3 + draws.one(), gain=0.4, leak=0.1),
        changed=0.1,
        limits=Limits(),
        phases=tuple(_uneven_phase(draws, number, rounds, classes, resting) for number, rounds in enumerate(lengths)),
        memory_bytes=0,
    )


def _uneven_phase(draws: Draws, number: int, rounds: int, classes: int, resting: bool) -> EnsemblePhase:  # noqa: FBT001
    threshold = 5 + 2 * number + draws.below(3) if resting else 8 + 3 * number
    threshold += 2 * max(classes - 3, 0)  # more of many classes' queries are paid for
    cap = threshold + draws.below(2)
    lag = 4 + 2 * number + draws.below(20)  # so that some lives are spent within it
    return EnsemblePhase(
        phase=number + 1,
        rounds=rounds,
        delta=1e-3 / (number + 1),
        delta_noise=0.0,
        slope=(2.8, 1.3, 2.0)[number] + draws.one() / 10.0,
        gap=(1, 3, 2)[number] + (classes > 3),  # noqa: PLR2004 -- of many
        paid=min(2, classes - 1) * cap,
        stopper=StopperPlan(epsilon=(0.8, 2.5, 1.2)[number], threshold=threshold, cap=cap, delta_cap=0.1),
        least_rounds=22 + draws.below(30) if resting else 19 + number,
        kept_rows=(24, 15, 27)[number] + draws.below(4),
        keep=(0.7, 1.0, 0.8)[number],
        lag=lag,
        memory_bytes=0,
    )


def play(plan: EnsemblePlan, randomness: Randomness, number: int) -> Run:
    """Play a run of random rows and messages to the plan's end, through shards, snapshots and restarts.

    Args:
        plan: The plan.
        randomness: Of the key, the rows and the messages.
        number: Of the run; the lives of an even one end with phases, those of an odd one go on in the next.
    """
    scripts = (_scripted(plan, randomness, number, turn) for turn in range(_TURNS))
    script = next((one for one in scripts if one.course.complete), None) or _scripted(plan, randomness, number, 0)
    queries = script.queries
    bodies = [_message(place, query) for place, query in enumerate(queries)]
    trainer = new_trainer(plan, script.secret)
    held = True
    with recorded() as words:
        trainer.add(script.rows, script.labels)
        served = Served(plan, trainer.finish())
        restarts = {place for place in script.course.restarts if place < len(bodies)}
        for stop in served.turns(bodies, script.cuts, restarts):
            state = served.state()
            held = held and script.held[stop] == (_rows_of(state, "life"), _rows_of(state, "next"))
    ledger = [msgspec.json.decode(line, type=LedgerEvent) for line in served.ledger]
    drawn = all_drawn(script.plain.drawn, words)
    return Run(plan, served.replies, ledger, script.plain, script.given, held and drawn)


class _Script(NamedTuple):
    """A run as the re-implementation has it.

    Attributes:
        secret: The genesis key.
        rows: Training rows.
        labels: Their labels.
        queries: What is asked.
        cuts: Where batches end.
        plain: The re-implementation, behind the last query.
        given: What it answered.
        held: The rows that it had behind each query, the first being none.
        course: Which lives came.
    """

    secret: bytes
    rows: NDArray[np.float64]
    labels: NDArray[np.int8]
    queries: Sequence[tuple[float, ...] | None]
    cuts: Sequence[int]
    plain: Plain
    given: Sequence[Given | None]
    held: Sequence[tuple[list[Row], list[Row]]]
    course: Course


def _scripted(plan: EnsemblePlan, randomness: Randomness, number: int, turn: int) -> _Script:
    """Return a run whose queries are such that lives come as they should; in some turns noise has it otherwise."""
    draws, secret = Draws(randomness, number + (turn << 16)), randomness.secret(number + (turn << 16))
    rows, labels = random_rows(draws, plan.declared, len(plan.classes))
    labels[draws.uniform(plan.declared) < _BLANK] = -1
    queries = _queries(draws, plan.rounds)
    cuts = [1 + cut for cut in draws.some(_BATCHES, len(queries) - 1)]
    plain = Plain(plan, secret, rows, labels)
    course = Course(plan, plain, goes_on=number % 2 == 1)
    given: list[Given | None] = []
    held = [plain.held]
    for place, query in enumerate(queries):
        if query and draws.one() >= _AGAIN:
            queries[place] = course.instead(query, lambda: _row(draws))
        given.append(None if query == _NONE else plain.answer(queries[place]))
        course.took(given[-1])
        held.append(plain.held)
    return _Script(secret, rows, labels, queries, cuts, plain, given, held, course)


def _rows_of(state: StateArrays, pool: str) -> list[Row]:
    """Return the rows that a state has in a pool's slots."""
    columns = (state[f"{pool}_{name}"].tolist() for name in ("features", "labels", "owners"))
    rows = (Row(tuple(features), label, owner) for features, label, owner in zip(*columns, strict=True))
    return [row for row in rows if row.label != NO_LABEL]


def random_rows(draws: Draws, count: int, classes: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return rows, and labels that follow from them but for some."""
    rows = np.array([_row(draws) for _ in range(count)])
    return rows, np.array([_label(row, classes, draws) for row in rows.tolist()], dtype=np.int8)


def _row(draws: Draws) -> tuple[float, ...]:
    """Return a row, some of whose values are missing; of few different ones, so that there are ties."""
    kind = draws.below(len(_FEATURES[1].categories or ()) + 1)
    value = draws.below(_GRID) / _GRID
    return tuple(MISSING if draws.one() < _MISSING else one for one in (value, float(kind)))


def _label(row: Sequence[float], classes: int, draws: Draws) -> int:
    """Return a class that follows from the row but for a tenth."""
    if draws.one() < 0.1:  # noqa: PLR2004 -- as said
        return draws.below(classes)
    score = sum(0.5 if one == MISSING else one / scale for one, scale in zip(row, (1.0, 4.0), strict=True)) / 2.0
    return min(math.floor(score * classes), classes - 1)


def _queries(draws: Draws, rounds: int) -> list[tuple[float, ...] | None]:
    """Return rows, of which some come again, rounds with no query, and what is no query and takes no round."""
    queries: list[tuple[float, ...] | None] = []
    while rounds:
        kind = draws.one()
        if kind < _WRONG:
            queries.append(_NONE)
        elif kind < _WRONG + _SILENT:
            queries.append(None)
        elif queries and kind < _WRONG + _SILENT + _AGAIN:
            queries.append(queries[draws.below(len(queries))])
        else:
            queries.append(_row(draws))
        rounds -= queries[-1] != _NONE
    return queries


def _message(place: int, query: tuple[float, ...] | None) -> bytes | None:
    """Return a query as a message, by names or without."""
    if query is None or query == _NONE:
        return None if query is None else b'{"id":"w","x":[1]}'
    names = [*(_FEATURES[1].categories or ()), "another"]
    value, kind = query
    said = {"a": None if value == MISSING else value, "kind": None if kind == MISSING else names[int(kind)]}
    return json.dumps({"id": str(place), **(said if place % 2 else {"x": list(said.values())})}).encode()
