"""A run on D, and runs on its neighbours with the outputs of all mechanisms frozen (see `oracle.audit.recording`)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.recording import Call, Divergence, Place, Tape, listening
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, Predictor, StateArrays
from oracle.predictors.kinds import new_trainer, points_beyond, restore_predictor

__all__ = ["MARGIN", "MEAN", "Recorded", "Replayed", "World", "record", "replay"]

MARGIN: Final = Place("margin", ())
"""What is released of the points of boxes, or of the rarest class: noise and all, as that is the same in both runs."""

MEAN: Final = Place("mean", ())
"""The vector that bits are asked about, each coordinate of which a row may move."""


class World(NamedTuple):
    """The data of a run.

    Attributes:
        plan: The plan.
        secret: The genesis key.
        rows: float64[n, D], as many as the plan declares.
        labels: Their labels.
        queries: float64[m, D].
        present: bool[m], False for a round with no query.
    """

    plan: Plan
    secret: bytes
    rows: NDArray[np.float64]
    labels: NDArray[Any]
    queries: NDArray[np.float64]
    present: NDArray[np.bool_]


class Recorded(NamedTuple):
    """A run on D, in batches.

    Attributes:
        world: D.
        cuts: Rounds before which batches begin, and the last one's end.
        calls: Uses of mechanisms in training, then in each batch.
        margin: What is released of the points, if anything.
        states: Before each batch, and behind the last.
        answers: To each batch.
    """

    world: World
    cuts: Sequence[int]
    calls: Sequence[Sequence[Call]]
    margin: int | None
    states: Sequence[StateArrays]
    answers: Sequence[Answers]


class Replayed(NamedTuple):
    """A run on D'.

    Attributes:
        moved: How far inputs were apart (`Tape.moved`).
        wrong: What else differed, if anything.
        until: The first cut at which the state was that of D again; past the last one where it never was.
    """

    moved: Mapping[Place, tuple[float, float]]
    wrong: str | None
    until: int


def _trained(world: World, tape: Tape) -> tuple[Predictor, int | None]:
    trainer = new_trainer(world.plan, world.secret)
    with listening(tape):
        for part in np.array_split(np.arange(len(world.rows)), 3):
            trainer.add(world.rows[part], world.labels[part])
        predictor = trainer.finish()
    tape.finish()
    return predictor, points_beyond(trainer)


def _answered(world: World, predictor: Predictor, rows: slice, tape: Tape) -> Answers:
    tape.predictor = predictor
    with listening(tape):
        answers = predictor.answer(world.queries[rows], world.present[rows])
    tape.finish()
    return answers


def record(world: World, cuts: Sequence[int]) -> Recorded:
    """Play the run on D.

    Args:
        world: D.
        cuts: Rounds at which batches are cut.
    """
    ends = sorted({0, *cuts, len(world.queries)})
    tapes = [Tape()]
    predictor, margin = _trained(world, tapes[0])
    states, given = [predictor.export()], []
    for start, stop in pairwise(ends):
        tapes.append(Tape())
        given.append(_answered(world, predictor, slice(start, stop), tapes[-1]))
        states.append(predictor.export())
    return Recorded(world, ends, [tape.calls for tape in tapes], margin, states, given)


def replay(run: Recorded, world: World, changed: int | None = None) -> Replayed:
    """Play the run on D'.

    Args:
        run: What was recorded on D.
        world: D'.
        changed: The round whose query is another one, there or not; None where a training row is.
    """
    moved: dict[Place, tuple[float, float]] = {}
    try:
        until = _replayed(run, world, changed, moved)
    except Divergence as exc:
        return Replayed(moved, str(exc), run.cuts[-1] + 1)
    return Replayed(moved, None, until)


def _replayed(run: Recorded, world: World, changed: int | None, moved: dict[Place, tuple[float, float]]) -> int:
    first = 0
    if changed is None:
        tape = Tape(run.calls[0])
        try:
            predictor, margin = _trained(world, tape)
        finally:
            _add(moved, tape)
        if margin is not None and run.margin is not None and margin != run.margin:
            moved[MARGIN] = min(0.0, margin - run.margin), max(0.0, margin - run.margin)
        state = predictor.export()
        if "database" in state:
            change = float(np.abs(np.subtract(state["database"], run.states[0]["database"])).max())
            moved |= {MEAN: (0.0, change)} if change else {}
        if _equal(state, run.states[0]):
            return 0
        if world.plan is not run.world.plan:  # it declares one row more
            predictor = restore_predictor(run.world.plan, state)
    else:
        first = int(np.searchsorted(run.cuts, changed, side="right")) - 1
        predictor = restore_predictor(world.plan, {name: array.copy() for name, array in run.states[first].items()})
    for batch in range(first, len(run.answers)):
        start, stop = run.cuts[batch : batch + 2]
        there = changed is not None and start <= changed < stop
        tape = Tape(run.calls[batch + 1], free=there)
        try:
            answers = _answered(world, predictor, slice(start, stop), tape)
        finally:
            _add(moved, tape)
        left_out = changed - start if there and changed is not None else None
        if not _same(answers, run.answers[batch], left_out):
            raise Divergence("what is told follows from the data")
        if _equal(predictor.export(), run.states[batch + 1]):
            return stop
    return run.cuts[-1] + 1


def _add(moved: dict[Place, tuple[float, float]], tape: Tape) -> None:
    for place, (low, high) in tape.moved.items():
        lowest, highest = moved.get(place, (0.0, 0.0))
        moved[place] = min(low, lowest), max(high, highest)


def _equal(state: StateArrays, other: StateArrays) -> bool:
    return state.keys() == other.keys() and all(
        array.shape == other[name].shape and array.tobytes() == other[name].tobytes() for name, array in state.items()
    )


def _same(answers: Answers, other: Answers, left_out: int | None) -> bool:
    """Return whether all is told alike, but of one row; tags are not told, and have the queries' hashes in them."""
    if answers.events != other.events:
        return False
    for name in ("labels", "phases", "values", "paid", "verified", "found"):
        one, its = getattr(answers, name), getattr(other, name)
        if one is None or its is None:
            if one is not its:
                return False
            continue
        if left_out is not None:
            one, its = np.delete(one, left_out, axis=0), np.delete(its, left_out, axis=0)
        if not np.array_equal(one, its, equal_nan=one.dtype.kind == "f"):
            return False
    return True
