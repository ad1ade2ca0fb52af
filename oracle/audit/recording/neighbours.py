"""Data that let a record move inputs as far as any may, and their neighbours (see `sensitivity.py`).

Plans are uneven (`oracle.audit.runs.uneven`): sides are armed again often, and phases end after a hundred rounds.
Queries are asked where points lie; each third round has none, so that one may be put there and answered anything.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.replays import PARTS, Other, Recorded, World
from oracle.audit.recording.tape import Address
from oracle.audit.references.distributions import count_of, row_of
from oracle.audit.references.ensembles import Plain
from oracle.audit.references.paper import PaperBoxes
from oracle.audit.references.values import numbers_of
from oracle.audit.runs.checks import run_of
from oracle.audit.runs.courses import Course
from oracle.audit.runs.distributions import TYPES, uneven_distribution
from oracle.audit.runs.ensembles import random_rows, uneven_plan
from oracle.audit.runs.steering import steered
from oracle.audit.runs.tables import eager, random_cells
from oracle.audit.runs.trials import stream
from oracle.audit.runs.whole import Run
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.noise.tables import tail_reach
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.features import columns_of
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import TablePlan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.distribution.base import AT
from oracle.predictors.kinds import new_trainer
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.sides import Geometry
from oracle.predictors.stumps import Stump, StumpsPERP

__all__ = ["neighbours_of", "worlds_of"]

Floats = NDArray[np.float64]

_SILENT: Final = 0.3
_NEAR: Final = 0.5
"""Queries that are asked where a point lies."""

_BESIDE: Final = 3
"""Ranks before a side's first point, and behind its last one."""

_REPLACED: Final = 8
"""Of so many queries one is exchanged for another, too."""

_ENOUGH: Final = 40
"""Rows, and rounds, that are looked at beside those where something ends, but in one run: more would take long."""

_BLANK, _QUANTILE = 0.1, 0.3
_CLASSES: Final = (5, 2, 3)
_WRONG: Final = 0.4
"""Labels of an ensemble's rows that follow from nothing, so that teachers disagree."""

_SLICE: Final = 9.0
_FEWER: Final = 2
"""Runs that are like another one, but for some rows, and end early."""

_MISSING, _SHORT, _TURNS = 5, 40, 40
_LAST, _LIVES = 4, 5
"""So many rounds before something ends queries are looked at; of so many lives."""

_MESSAGES: Final = 41
_NEVER: Final = 1 << 30
_FAR, _NOT_FAR = 1e9, 4
"""A number far from all others, which one of so many rows and queries has."""

_TOO_LARGE: Final = (1.5, -1.0, 1e300, np.inf, np.nan)
"""Values that no row of OnlineBisection may have."""


def worlds_of(plan: Plan, randomness: Randomness) -> Iterator[World]:
    """Yield the data of runs of the kind that a plan is of.

    Args:
        plan: Of tables it is played itself, of others a plan like it.
        randomness: All is drawn.
    """
    draws = Draws(randomness, 1 << 16)
    for world in _long_worlds(plan, randomness, draws):
        yield world
        for _ in range(_FEWER):
            yield _begun(world, draws)


def _long_worlds(plan: Plan, randomness: Randomness, draws: Draws) -> Iterator[World]:
    if isinstance(plan, TablePlan):
        yield _table(plan, randomness, draws)
    elif isinstance(plan, DistributionPlan):
        yield from (_distribution(number, randomness, draws) for number in range(len(TYPES)))
    elif isinstance(plan, EnsemblePlan):
        yield from (_ensemble(number, randomness, draws) for number in range(len(_CLASSES)))
    else:
        runs = [run_of(plan, draws, number) for number in range(2)]
        for number, run in enumerate(runs):
            yield _of_run(run.plan, run, randomness.secret(number), draws)
        if isinstance(plan, BoxPlan) and plan.slicing == "sequential":
            yield _of_run(_as_written(runs[0].plan), runs[0], randomness.secret(len(runs)), draws)


def _begun(world: World, draws: Draws) -> World:
    """Return the beginning of a run on some fewer rows, so that what follows from how many there are shows."""
    some, labels = draws.some(1 + draws.below(_MISSING), len(world.labels)), world.labels.copy()
    labels[some] = NO_LABEL if isinstance(world.plan, EnsemblePlan) else False
    return world._replace(labels=labels, queries=world.queries[:_SHORT], present=world.present[:_SHORT])


def _as_written(plan: Plan) -> BoxPlan:
    """Return a plan of Algorithms 1 to 5 of Stemmer (2024), with slices of noisy sizes and real noise."""
    if not isinstance(plan, BoxPlan):
        raise TypeError
    phases = []
    for phase in plan.phases:
        base, stopper = phase.start.points, replace(phase.stopper, law="laplace", scale=phase.stopper.epsilon)
        start = replace(
            phase.start, law="laplace", trim=0, base=base, slice_scale=_SLICE, points=base + tail_reach(_SLICE)
        )
        rearmed = replace(phase.rearmed, law="laplace")
        phases.append(replace(phase, start=start, rearmed=rearmed, stopper=stopper))
    return replace(plan, profile="paper", slicing="rsc", phases=tuple(phases), nominal_privacy=True)


def _of_run(plan: Plan, run: Run, secret: bytes, draws: Draws) -> World:
    features, declared = run.plan.features, run.plan.declared
    rows = np.array([numbers_of(features, row) for row in run.rows[:declared]])
    labels = np.array(run.labels[:declared], dtype=np.bool_)
    asked = [message for message in run.messages if message != ()]
    if isinstance(plan, BoxPlan):
        _ask_at_points(asked, run, World(plan, secret, rows, labels, rows[:0], labels[:0]), draws)
        asked = [
            None if silent else one for one, silent in zip(asked, draws.uniform(len(asked)) < _SILENT, strict=True)
        ]
        plain = run.plain if plan is run.plan else PaperBoxes  # the same, as Algorithms 1 to 5 have it
        asked = [*steered(run._replace(plan=plan, plain=plain, messages=asked), secret, draws).run.messages]
    queries = np.array([numbers_of(features, one) if one is not None else [0.0] * rows.shape[1] for one in asked])
    if isinstance(plan, BisectionPlan):  # rows, and queries, that move as much as any may
        rows[::4] = rows[-1] = queries[::4] = 1.0
        labels[-1] = True
        if plan.profile == "paper":
            part = 3.0**-0.5
            plan = replace(plan, basis=((part, part, part), (0.5**0.5, -(0.5**0.5), 0.0))[: plan.directions])
    return World(plan, secret, rows, labels, queries, np.array([one is not None for one in asked]))


def _ask_at_points(asked: list[Any], run: Run, world: World, draws: Draws) -> None:
    """Move queries to where a side's points lie, in its own feature."""
    plan, trainer = world.plan, new_trainer(world.plan, world.secret)
    trainer.add(world.rows, world.labels)
    predictor = trainer.finish()
    if not isinstance(predictor, RectanglesPERP | StumpsPERP) or not isinstance(plan, BoxPlan):
        raise TypeError
    names = plan.sides
    if isinstance(plan, StumpsPlan):
        column, upward = predictor.export()["stump"].tolist()
        names = Stump(column, bool(upward)).sides(plan)
    known = [feature.name for feature in plan.features]
    near = []
    for keys, armed, name in zip(Geometry(plan, names).keys(world.rows), predictor.sides.armed, names, strict=True):
        order, number = np.argsort(keys), known.index(name.rsplit(":", 1)[0])
        last = armed.points[max(int(np.count_nonzero(armed.points < armed.points[-1])) - 1, 0)]
        ends = np.searchsorted(keys[order], np.array([armed.points[0], last]))
        near.append((number, order[max(ends[0] - _BESIDE, 0) : ends[1] + 1 + _BESIDE]))
    for place in np.flatnonzero(draws.uniform(len(asked)) < _NEAR).tolist():
        at, ranks = near[draws.below(len(near))]
        row = run.rows[ranks[draws.below(len(ranks))]]
        if asked[place]:
            asked[place] = (*asked[place][:at], row[at], *asked[place][at + 1 :])


def _table(plan: TablePlan, randomness: Randomness, draws: Draws) -> World:
    """Return data of a table; half of the questions are about the one cell that some row is in, or about all."""
    cells, there = random_cells(plan, draws).astype(np.float64), draws.uniform(plan.declared) >= _BLANK
    asked, queries = draws.uniform(_MESSAGES) >= _BLANK, stream(plan, _MESSAGES)
    for number in np.flatnonzero(draws.uniform(_MESSAGES) < _NEAR):
        one = cells[draws.below(len(cells))]
        queries[number, : cells.shape[1]] = 2.0**one if draws.below(4) else 2.0 ** np.array(plan.layout.shape) - 1.0
    return World(eager(plan), randomness.secret(0), cells, there, queries, asked)


def _distribution(number: int, randomness: Randomness, draws: Draws) -> World:
    plan = uneven_distribution(draws, TYPES[number])
    rows = np.array([[row_of(plan.feature, draws.below(count_of(plan.feature)))] for _ in range(plan.declared)])
    asked = np.array([rows[draws.below(len(rows))] for _ in range(_MESSAGES)])
    shares = np.where(draws.uniform(_MESSAGES) < _QUANTILE, draws.uniform(_MESSAGES), AT)
    there, present = draws.uniform(plan.declared) >= _BLANK, draws.uniform(_MESSAGES) >= _BLANK
    return World(plan, randomness.secret(number), rows, there, np.column_stack([asked, shares]), present)


def _ensemble(number: int, randomness: Randomness, draws: Draws) -> World:
    """Return data of teachers of few rows, who learn each of these by heart."""
    plan = uneven_plan(draws, _CLASSES[number], resting=number % 2 == 1)
    phases = tuple(
        replace(phase, stopper=replace(phase.stopper, cap=_NEVER), paid=2 * _NEVER, gap=1) for phase in plan.phases
    )
    plan = replace(plan, phases=phases, parameters={}, declared=2 * plan.teachers, examples=2 * plan.teachers)
    rows, labels = random_rows(draws, plan.declared, len(plan.classes))
    wrong = np.flatnonzero(draws.uniform(plan.declared) < _WRONG)
    labels[wrong] = [draws.below(len(plan.classes)) for _ in wrong]
    labels[draws.uniform(plan.declared) < _BLANK] = NO_LABEL
    world = World(plan, randomness.secret(number), rows, labels, rows[:0], np.zeros(0, dtype=np.bool_))
    for turn in range(_TURNS):
        world = world._replace(secret=randomness.secret(number + (turn << 16)))
        world, complete = _asked_for_lives(world, draws, goes_on=number % 2 == 1)
        if complete:
            break
    return world


def _asked_for_lives(world: World, draws: Draws, *, goes_on: bool) -> tuple[World, bool]:
    """Return queries by which lives of all kinds come, and whether they do."""
    plan = world.plan
    if not isinstance(plan, EnsemblePlan):
        raise TypeError
    queries, _ = random_rows(draws, plan.rounds, len(plan.classes))
    present = draws.uniform(plan.rounds) >= _SILENT
    plain = Plain(plan, world.secret, world.rows, world.labels)
    course = Course(plan, plain, goes_on=goes_on)
    known = [*world.rows.tolist(), *queries.tolist()]
    for number in np.flatnonzero(draws.uniform(plan.rounds) < _NEAR).tolist():
        queries[number] = known[draws.below(len(known))]
    for number, (query, there) in enumerate(zip(queries.tolist(), present.tolist(), strict=True)):
        if there:
            queries[number] = course.instead(tuple(query), lambda: tuple(known[draws.below(len(known))]))
        course.took(plain.answer(tuple(queries[number].tolist()) if there else None))
    return world._replace(queries=queries, present=present), course.complete


def neighbours_of(run: Recorded, draws: Draws, *, every: bool) -> Iterator[Other]:
    """Yield D' with a row more or less, and, where they are protected, a query.

    Args:
        run: On D.
        draws: What is left to choose is drawn.
        every: Whether each row and each round has its turn, and not only some.
    """
    world = run.world
    for row in range(len(world.rows)) if every else _rows_of(world, draws):
        yield from (Other(one, row=row) for one in _other_rows(world, row, draws))
    if world.plan.protects_queries:
        for number in range(len(world.queries)) if every else _rounds_of(run, draws):
            yield from _other_queries(world, number, draws)


def _rows_of(world: World, draws: Draws) -> list[int]:
    """Return rows to leave out, or to put in: where batches begin and end, the outermost ones, and some others."""
    rows = np.where((world.labels > 0)[:, None], world.rows, 0.0)
    known = {*rows.argmin(axis=0).tolist(), *rows.argmax(axis=0).tolist()}
    for part in np.array_split(np.arange(len(rows)), PARTS):
        known |= {int(part[0]), int(part[-1])}
    count = _ENOUGH // (1 + (len(world.queries) == _SHORT)) // (1 + isinstance(world.plan, TablePlan))
    return sorted({*known, *draws.some(min(count, len(rows)), len(rows))})


def _rounds_of(run: Recorded, draws: Draws) -> list[int]:
    """Return rounds whose queries are looked at: the last ones of phases, of lives and of pools, and some others."""
    plan, count = run.world.plan, len(run.world.present)
    ends = np.cumsum([phase.rounds for phase in plan.phases]).tolist()
    if isinstance(plan, EnsemblePlan):
        ends += [end - phase.lag for end, phase in zip(ends, plan.phases, strict=True)]
    ends += [run.lives[number][1] for number in draws.some(min(_LIVES, len(run.lives)), len(run.lives))]
    last = {number for end in ends for number in range(end - _LAST, end + 1) if 0 <= number < count}
    return sorted(last.union(draws.some(min(_ENOUGH, count), count)))


def _other_rows(world: World, row: int, draws: Draws) -> Iterator[World]:
    """Yield data with a row more or less than D has."""
    plan, rows, labels = world.plan, world.rows.copy(), world.labels.copy()
    if isinstance(plan, StumpsPlan) or (isinstance(plan, ClassicalPlan) and plan.concept == "stump"):
        more = np.concatenate([rows, rows[row : row + 1]]), np.append(labels, bool(draws.below(2)))
        yield world._replace(plan=replace(plan, declared=plan.declared + 1), rows=more[0], labels=more[1])
        return
    if isinstance(plan, EnsemblePlan):
        labels[row] = NO_LABEL if labels[row] != NO_LABEL else draws.below(len(plan.classes))
    else:
        labels[row] = not labels[row]
    rows[row] = _another(world, world.rows, draws)  # one that is none may be any
    yield world._replace(labels=labels, rows=rows)
    if isinstance(plan, BisectionPlan) and labels[row]:
        for value in _TOO_LARGE:
            wild = rows.copy()
            wild[row] = value
            yield world._replace(labels=labels, rows=wild)


def _other_queries(world: World, number: int, draws: Draws) -> Iterator[Other]:
    """Yield data without a round's query, with one, or with another one."""
    drawn, present = world.queries.copy(), world.present.copy()
    drawn[number] = _another(world, world.queries[world.present], draws)
    present[number] = not present[number]
    if world.present[number]:
        yield Other(world._replace(present=present, queries=drawn), number)
        if draws.below(_REPLACED) == 0:
            yield Other(world._replace(queries=drawn), number, records=2)
        return
    for forced in _outcomes(world.plan, draws):
        yield Other(world._replace(present=present, queries=drawn), number, forced=forced)


def _another(world: World, known: Floats, draws: Draws) -> Floats:
    """Return one of some rows or queries; at times with numbers that are far from all others'."""
    drawn: Floats = known[draws.below(len(known))].copy()
    if isinstance(world.plan, BisectionPlan | TablePlan) or draws.below(_NOT_FAR):
        return drawn
    if isinstance(world.plan, DistributionPlan):
        return np.append(row_of(world.plan.feature, draws.below(2) * (count_of(world.plan.feature) - 1)), drawn[1:])
    starts = columns_of(world.plan.features)
    for feature, start in zip(world.plan.features, starts, strict=False):
        if feature.kind == "number":
            drawn[start] = _FAR * (2 * draws.below(2) - 1)
    return drawn


def _outcomes(plan: Plan, draws: Draws) -> Iterator[Callable[[Address], int | None]]:
    """Yield what a query may be answered: as its noise says, between thresholds, or beyond all."""
    yield lambda _: None
    if isinstance(plan, BoxPlan):
        side = draws.below(len(plan.sides))
        yield lambda at: (2 if at.side < side else 1) if at.purpose == Purpose.DEPTH else None
        yield lambda at: 2 if at.purpose == Purpose.DEPTH else None
    elif isinstance(plan, EnsemblePlan):
        place = draws.below(len(plan.classes))
        yield lambda at: 1 if at.purpose == Purpose.QUESTION else None
        yield lambda at: 2 * (at.side == place) if at.purpose == Purpose.QUESTION else None
