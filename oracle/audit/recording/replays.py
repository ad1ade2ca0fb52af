"""A run on D, and runs on its neighbours with the outputs of all mechanisms frozen (see `tape.py`)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import SideRearmed
from oracle.audit.recording.listening import Listener
from oracle.audit.recording.tape import Address, Change, Divergence, Tape
from oracle.audit.recording.work import Work, worked_on
from oracle.errors import DataError
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.predictors.base import Answers, Predictor, PublicFacts, StateArrays
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.kinds import new_trainer, points_beyond, restore_predictor

__all__ = [
    "PARTS",
    "Forms",
    "Moved",
    "Other",
    "Recorded",
    "Replayed",
    "World",
    "forms_of",
    "phase_of",
    "record",
    "replay",
]

PARTS: Final = 3
"""Batches that rows come in."""

_BATCHES: Final = (1, 38, 3, 57, 2, 19)

_PRIVATE: Final = {
    "rectangles": {"points", "mediums", "collected", "harvest"},
    "stumps": {"points", "mediums", "collected", "harvest"},
    "ensemble": {"life", "next", "teachers", "answers", "counters"},
    "bisection": {"database"},
    "statistics": {"cells"},
    "sparse-vector": {"cells"},
    "distribution": {"rows"},
    "classical": set[str](),
}
"""How names of arrays begin that may depend on records otherwise than by what mechanisms told; others are public."""


_SHOWN: Final = ("facts", "others")
Forms = Mapping[str, tuple[str, tuple[int, ...]]]
_TOLD: Final = ("labels", "phases", "values", "paid", "verified", "found")


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


class Other(NamedTuple):
    """A neighbour D' of D.

    Attributes:
        world: D'.
        round: Whose query is another one, there or not; None where a training row is.
        row: Which training row is another one.
        records: How many are there in one of both and not in the other.
        forced: What the query is answered in D' (see `Tape`).
    """

    world: World
    round: int | None = None
    row: int | None = None
    records: int = 1
    forced: Callable[[Address], int | None] = lambda _: None


class Moved(NamedTuple):
    """A change, and where it showed.

    Attributes:
        change: The change.
        phase: 0 while the predictor was trained.
        life: Of a side, or of an ensemble: how many began before.
    """

    change: Change
    phase: int
    life: int


class Recorded(NamedTuple):
    """A run on D, in batches, each by a predictor restored from the state before it.

    Attributes:
        world: D.
        facts: What was public at the end of each batch.
        cuts: Rounds before which batches begin, and the last one's end.
        tapes: Uses of mechanisms in training, then in each batch.
        margin: What is released of the points, if anything.
        states: Before each batch, and behind the last.
        answers: To each batch.
        lives: (side, round) of each life that began in a phase, or of an ensemble's at all but the first.
        shown: What else anybody may be told of the first state.
        work: What was done for each batch's answers; nothing where it was not looked at.
    """

    world: World
    facts: Sequence[PublicFacts]
    cuts: Sequence[int]
    tapes: Sequence[Tape]
    margin: int | None
    states: Sequence[StateArrays]
    answers: Sequence[Answers]
    lives: Sequence[tuple[int, int]]
    shown: Sequence[Any]
    work: Sequence[Work] = ()


class Replayed(NamedTuple):
    """A run on D'.

    Attributes:
        moved: What inputs differed.
        wrong: What else differed, if anything.
        until: The first cut at which the state was that of D again; past the last one where it never was.
        refused: Whether D' has a row that none may be, and was refused.
    """

    moved: Sequence[Moved]
    wrong: str | None
    until: int
    refused: bool = False


def _trained(world: World, listener: Listener, tape: Tape) -> tuple[StateArrays, int | None, list[Any]]:
    """Return a state, what was released of its points, and what else anybody may be told of it."""
    trainer = new_trainer(world.plan, world.secret)
    listener.tape = tape
    try:
        for part in np.array_split(np.arange(len(world.rows)), PARTS):
            trainer.add(world.rows[part], world.labels[part])
        predictor = trainer.finish()
    finally:
        listener.tape = None
    shown = [getattr(predictor, name)() for name in _SHOWN if hasattr(predictor, name)]
    return predictor.export(), points_beyond(trainer), shown


def _answered(  # noqa: PLR0913, PLR0917 -- who plays, and who looks
    world: World, state: StateArrays, rows: slice, listener: Listener, tape: Tape, work: Work | None = None
) -> tuple[Answers, Predictor]:
    predictor = restore_predictor(world.plan, {name: array.copy() for name, array in state.items()})
    listener.tape = tape
    try:
        with nullcontext() if work is None else worked_on(work):
            answers = predictor.answer(world.queries[rows], world.present[rows])
    finally:
        listener.tape = None
    return answers, predictor


def record(world: World, listener: Listener, *, worked: bool = False) -> Recorded:
    """Play the run on D, in batches of all sizes, one of which ends with each phase.

    Args:
        world: D.
        listener: Who hears.
        worked: Whether runs on D' must also do the same work.
    """
    count = len(world.queries)
    ends = np.cumsum([min(phase.rounds, count) for phase in world.plan.phases])
    cuts = sorted(
        {0, *(cut for cut in accumulate(_BATCHES * count) if cut < count), *ends[ends < count].tolist(), count}
    )
    tapes, given, lives = [Tape()], list[Answers](), list[tuple[int, int]]()
    state, margin, shown = _trained(world, listener, tapes[0])
    states, facts, work = [state], list[PublicFacts](), list[Work]()
    for start, stop in pairwise(cuts):
        tapes.append(Tape())
        work += [Work()] if worked else []
        mine = work[-1] if worked else None
        answers, predictor = _answered(world, states[-1], slice(start, stop), listener, tapes[-1], mine)
        given.append(answers)
        states.append(predictor.export())
        facts.append(predictor.facts())
        lives += [(event.side, event.round) for event in answers.events if isinstance(event, SideRearmed)]
        if isinstance(predictor, Ensemble) and predictor.lives > len(lives) + 1:  # one begins with a phase
            lives.append((0, stop))
    return Recorded(world, facts, cuts, tapes, margin, states, given, lives, shown, work)


def replay(run: Recorded, listener: Listener, other: Other) -> Replayed:
    """Play the run on D'.

    Args:
        run: What was recorded on D.
        listener: Who hears.
        other: D'.
    """
    moved: list[Moved] = []
    try:
        until = _replayed(run, listener, other, moved)
    except Divergence as exc:
        return Replayed(moved, str(exc), run.cuts[-1] + 1)
    except DataError:
        refused = _out_of_range(other.world)
        return Replayed([], None if refused else "rows are refused: it follows from the data", 0, refused)
    return Replayed(moved, None, until)


def _out_of_range(world: World) -> bool:
    """Return whether a row may be refused, as of OnlineBisection: of other predictors any number may be in one."""
    return isinstance(world.plan, BisectionPlan) and not ((world.rows >= 0.0) & (world.rows <= 1.0)).all()


def _replayed(run: Recorded, listener: Listener, other: Other, moved: list[Moved]) -> int:
    world, first, state = other.world, 0, run.states[0]
    if other.round is None:
        tape = Tape(run.tapes[0])
        state, margin, shown = _trained(world, listener, tape)
        moved += [Moved(change, 0, 0) for change in tape.changes(frozenset())]
        if margin is not None and run.margin is not None and margin != run.margin:
            moved.append(Moved(Change("margin", None, 0, float(margin - run.margin)), 0, 0))
        unlike = _unlike(world.plan, state, run.states[0]) or ("what is shown" if shown != run.shown else None)
        if unlike:
            raise Divergence(f"{unlike}: it follows from the rows")
        if _equal(state, run.states[0]):
            return 0
        world = world._replace(plan=run.world.plan)  # D' may declare one row more
    else:
        first = int(np.searchsorted(run.cuts, other.round, side="right")) - 1
        state = run.states[first]
    for batch in range(first, len(run.answers)):
        start, stop = run.cuts[batch : batch + 2]
        there = other.round is not None and start <= other.round < stop
        phase = phase_of(world.plan, start)
        begun = world.plan.first_round(phase)
        own = other.round - begun if there and other.round is not None else None
        tape = Tape(run.tapes[batch + 1], own, other.forced)
        work = Work() if run.work else None
        answers, predictor = _answered(world, state, slice(start, stop), listener, tape, work)
        halted = {(side, at - begun) for side, at in run.lives}
        moved += [Moved(one, phase, _life(run, begun, one.address)) for one in tape.changes(halted)]
        told = _same(answers, run.answers[batch], None if own is None else own + begun - start)
        if not told or predictor.facts() != run.facts[batch]:
            raise Divergence("what is told follows from the data")
        _compare(world.plan, state := predictor.export(), run, batch, work)
        if _equal(state, run.states[batch + 1]):
            return stop
    return run.cuts[-1] + 1


def _compare(plan: Plan, state: StateArrays, run: Recorded, batch: int, work: Work | None) -> None:
    """Refuse a state behind a batch, or what was done for it, that follows from the data."""
    if work is not None and (place := work.unlike(run.work[batch])):
        raise Divergence(f"{place}: the work that is done follows from the data")
    unlike = _unlike(plan, state, run.states[batch + 1])
    if unlike:
        raise Divergence(f"{unlike}: it follows from the data")


def phase_of(plan: Plan, number: int) -> int:
    """Return which phase a round is in."""
    ends = np.cumsum([phase.rounds for phase in plan.phases], dtype=np.float64)
    return 1 + int(np.searchsorted(ends, number, side="right"))


def _life(run: Recorded, begun: int, address: Address | None) -> int:
    """Return how many lives of a side began before, of an ensemble in all; Stoppers are asked a round later."""
    if address is None or not isinstance(run.world.plan, BoxPlan | EnsemblePlan):
        return 0
    number = begun + address.round - (address.purpose.name == "STOPPER")
    ours = isinstance(run.world.plan, EnsemblePlan)
    return sum(at <= number and (ours or (side == address.side and at >= begun)) for side, at in run.lives)


def _unlike(plan: Plan, state: StateArrays, other: StateArrays) -> str | None:
    """Return the name of a public array that differs, or of a private one whose size does, if there is one."""
    hidden = _PRIVATE[plan.predictor]
    if forms_of(state) != forms_of(other):
        return "sizes of arrays"
    return next((name for name in state if name.split("_")[0] not in hidden and not _alike(state, other, name)), None)


def forms_of(arrays: StateArrays) -> Forms:
    """Return type and shape of each array of a state: all that a snapshot's length follows from."""
    return {name: (array.dtype.str, array.shape) for name, array in arrays.items()}


def _alike(state: StateArrays, other: StateArrays, name: str) -> bool:
    one, its = state[name], other.get(name)
    return its is not None and one.shape == its.shape and one.tobytes() == its.tobytes()


def _equal(state: StateArrays, other: StateArrays) -> bool:
    return state.keys() == other.keys() and all(_alike(state, other, name) for name in state)


def _same(answers: Answers, other: Answers, left_out: int | None) -> bool:
    """Return whether all is told alike, but of one row; tags are not told, and have the queries' hashes in them."""
    pairs = [(getattr(answers, name), getattr(other, name)) for name in _TOLD]
    if answers.events != other.events or any((one is None) != (its is None) for one, its in pairs):
        return False
    rows = np.arange(len(answers.labels)) != left_out
    return all(one is None or np.array_equal(np.nan_to_num(one[rows]), np.nan_to_num(its[rows])) for one, its in pairs)
