"""How far one record moves what goes into every mechanism: as far as the proofs charge for, in the places they name.

A run on D is recorded, and replayed with all outputs of mechanisms frozen on neighbours of D: for every training row,
and, where queries are protected, for every round, whose query is taken away, put there, or exchanged. (Of ensembles
every fourth round, of statistics some 30 kinds of rows: more would take long.) Batches end in between, states are
restored there, sides are armed again and phases end, by plans in which no two numbers are equal
(`oracle.audit.uneven_runs`).

What this shows: on these data, with these outputs, every input of every use of a mechanism differs by the declared
sensitivity at most; it differs only in the lives that composition charges the record for; thresholds, noise and its
bits are the same; and nothing else that is told differs. Sensitivity is a property of all data and all outputs, so a
check can refute it, and does not prove it.

What it does not show: that mechanisms have the noise of the plan, and the plan enough of it (`oracle.audit.whole_runs`,
`oracle.audit.due`); what answers tell of others' noise; what time tells; anything of queries that a plan does not
protect, or of profile `paper` of boxes, stumps, statistics and distributions. An ensemble's cap, at which a life ends
without noise, is charged to delta, so none is reached in these runs. Inputs are seen where a mechanism takes them, not
what it makes of them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from oracle.audit.distribution_reference import count_of, row_of
from oracle.audit.distribution_runs import TYPES, uneven_distribution
from oracle.audit.ensemble_runs import random_rows, uneven_plan
from oracle.audit.plain_values import numbers_of
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording import Place
from oracle.audit.replays import Recorded, Replayed, World, record, replay
from oracle.audit.table_runs import eager, random_cells
from oracle.audit.trials import stream
from oracle.audit.whole_checks import run_of
from oracle.audit.whole_runs import Run
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.distribution.base import AT

__all__ = ["sensitivity"]

Seen = tuple[bool, str]
Moved = Mapping[Place, tuple[float, float]]

_BATCH: Final = 40
_REPLACED: Final = 8
"""Of so many queries one is exchanged for another, too."""

_KINDS: Final = 32
_STEP: Final = 4
"""Of so many rounds of ensembles, which fit teachers again and again, the query of one is another one."""

_SILENT, _BLANK, _QUANTILE = 0.08, 0.1, 0.3
_CLASSES: Final = (3, 5)
_MESSAGES: Final = 40
_NEVER: Final = 1 << 30
_ROUNDED: Final = 1e-12
"""Of numbers near 1 that were not rounded alike."""


class _Kind(NamedTuple):
    """What a neighbour is: a training row more or less (round None), or a query more or less, or `records` of them."""

    round: int | None = None
    records: int = 1


def sensitivity(plan: Plan, randomness: Randomness) -> Seen:
    """One record moves inputs of mechanisms as far, and where, its epsilon is charged for: else it pays too little.

    All mechanisms' outputs are frozen, and the record is taken away or put there: every training row, and every query
    that is protected, through re-arms and ends of phases. Nothing else that is told may follow from it.
    """
    rows = queries = 0
    shown: dict[str, float] = {}
    for number, world in enumerate(_worlds(plan, randomness)):
        run = record(world, _cuts(world))
        for kind, other in _neighbours(world, Draws(randomness, number)):
            found = replay(run, other, kind.round)
            wrong = found.wrong or _excess(world.plan, found.moved, kind) or _outlives(run, found, kind)
            if wrong is not None:
                whose = "a row" if kind.round is None else f"the query of round {kind.round}"
                return False, f"run {number}: without or with {whose}: {wrong}"
            rows, queries = rows + (kind.round is None), queries + (kind.round is not None)
            for place, (low, high) in found.moved.items():
                shown[place.mechanism] = max(shown.get(place.mechanism, 0.0), -low, high)
    moved = ", ".join(f"{name} {most:.3g}" for name, most in sorted(shown.items()))
    if not shown:
        return False, "no record moves any input: nothing is learned, or nothing was seen"
    return True, f"{rows} rows and {queries} queries moved no input further than is declared: {moved} at most"


def _excess(plan: Plan, moved: Moved, kind: _Kind) -> str | None:
    """Return what of a record shows further, or elsewhere, than is charged for, if anything."""
    for place, (low, high) in moved.items():
        most = kind.records * _declared(plan, place) * (1.0 + _ROUNDED)
        if max(-low, high) > most or (place.mechanism == "stopper" and high - low > most):
            return f"{place.mechanism}: an input moves by {max(-low, high):.4g}, and {most:.4g} is declared"
    if kind.round is None:
        return _row_elsewhere(plan, moved)
    if isinstance(plan, EnsemblePlan):
        return _ensemble_elsewhere(moved, kind)
    if isinstance(plan, BoxPlan):
        return _box_elsewhere(plan, moved, kind)
    return "a query is used" if moved else None  # of classical learners, whose answers follow from what they learned


def _declared(plan: Plan, place: Place) -> float:
    """Return by how much a record may move an input."""
    if place.mechanism in {"bit", "mean"}:  # in units of D: D coordinates move by 1/n each, times at most 1
        return 1.0 / plan.declared
    if place.mechanism != "choice":
        return 1.0
    if isinstance(plan, StumpsPlan):
        selection = plan.selection
        costs = ((selection.epsilon, selection.scale), (selection.cut_epsilon, selection.cut_scale))
        epsilon, scale = costs[place.instance[0]]
        return epsilon / scale
    return float(plan.spread) if isinstance(plan, ClassicalPlan) else 2.0


def _row_elsewhere(plan: Plan, moved: Moved) -> str | None:
    """A training row shows before the first round, in its start instances, and nowhere else."""
    most: dict[str, float] = {"choice": math.inf, "margin": 1, "question": 1}
    if isinstance(plan, BoxPlan):
        most |= {"depth": _instances(plan)}
    elif isinstance(plan, EnsemblePlan):
        most |= {"count": 1, "teacher": 1}
    elif isinstance(plan, ClassicalPlan):
        most |= {"choice": plan.choices}
    else:
        most |= {"bit": 1, "mean": 1, "count": len(plan.start) if isinstance(plan, StatisticsPlan) else 0}
    for name, count in _counted(moved).items():
        if count > most.get(name, 0):
            return f"{name}: it shows in {count} of these"
    late = [place for place in moved if _is_late(plan, place)]
    return f"{late[0].mechanism} {late[0].instance}: it shows behind its first life" if late else None


def _is_late(plan: Plan, place: Place) -> bool:
    """Return whether a training row shows where none may any more."""
    if isinstance(plan, EnsemblePlan):
        return place.instance != ((0,) if place.mechanism == "count" else (1,)) and place.mechanism != "margin"
    return place.mechanism == "depth" and (place.instance[0], place.instance[2]) != (1, 0)


def _instances(plan: BoxPlan) -> int:
    """Return in how many sides of a phase a record may be."""
    return len(plan.sides) if plan.slicing == "sequential" else 1


def _counted(moved: Moved) -> dict[str, int]:
    names = [place.mechanism for place in moved]
    return {name: names.count(name) for name in names}


def _box_elsewhere(plan: BoxPlan, moved: Moved, kind: _Kind) -> str | None:
    """A query is a bit of one Stopper, and perhaps in the side's next life; or in start instances of the next phase."""
    phase = _phase_of(plan, kind)
    stoppers = [place.instance for place in moved if place.mechanism == "stopper"]
    again = [place.instance for place in moved if place.mechanism == "depth" and place.instance[0] == phase]
    later = [place.instance for place in moved if place.mechanism == "depth" and place.instance[0] != phase]
    if {place.mechanism for place in moved} - {"stopper", "depth"}:
        return "it shows in another mechanism"
    if len(stoppers) > kind.records or any(one[0] != phase for one in stoppers):
        return f"stopper: it shows in {stoppers}"
    lives = {one[1]: one[2] for one in stoppers}
    alike = kind.records > 1 and not stoppers  # two queries, of which one Stopper counts either
    none = 0 if alike else math.inf
    if len(again) > len(stoppers) + alike or any(one[2] <= lives.get(one[1], none) for one in again):
        return f"depth: it shows in the lives {again} of its phase"
    if any((one[0], one[2]) != (phase + 1, 0) for one in later):
        return f"depth: it shows in {later}, it was in phase {phase}"
    left = kind.records - len(stoppers)
    if len(later) > left * _instances(plan):
        return f"depth: it shows in {len(stoppers)} Stoppers and in {len(later)} sides of the next phase"
    return None


def _ensemble_elsewhere(moved: Moved, kind: _Kind) -> str | None:
    """A query is one bit of one Stopper, or in the teachers of one life; and it is counted in one block."""
    shown = _counted(moved)
    if shown.get("count", 0) > kind.records:
        return "count: it shows in more than one block"
    lives = {place.instance for place in moved if place.mechanism in {"question", "teacher"}}
    if shown.get("stopper", 0) + len(lives) > kind.records:
        return f"it shows in {shown.get('stopper', 0)} Stoppers, and in teachers of {len(lives)} lives"
    return None if shown.keys() <= {"count", "stopper", "question", "teacher"} else "it shows in another mechanism"


def _phase_of(plan: Plan, kind: _Kind) -> int:
    ends = np.cumsum([phase.rounds for phase in plan.phases])
    return 1 + int(np.searchsorted(ends, kind.round or 0, side="right"))


def _outlives(run: Recorded, found: Replayed, kind: _Kind) -> str | None:
    """Return that a box's state still tells of a record when its last phase is over, if it does."""
    plan = run.world.plan
    if not isinstance(plan, BoxPlan):
        return None
    last = 1 if kind.round is None else _phase_of(plan, kind) + 1
    if last >= len(plan.phases) or found.until <= plan.first_round(last + 1):
        return None
    return f"its state tells of it until round {found.until}, in phase {last + 1} or later"


def _cuts(world: World) -> list[int]:
    """Return where batches end: in between, and where phases do."""
    ends = np.cumsum([min(phase.rounds, len(world.queries)) for phase in world.plan.phases])
    return sorted({*ends[ends < len(world.queries)].tolist(), *range(0, len(world.queries), _BATCH)})


def _neighbours(world: World, draws: Draws) -> Iterator[tuple[_Kind, World]]:
    """Yield D' for every training row, and, where they are protected, for rounds."""
    for row in _rows_of(world):
        label = int(world.labels[row])
        yield _Kind(), _with_row(world, row) if _counts_labels(world.plan) else _blanked(world, row, label)
    if not world.plan.protects_queries:
        return
    there = np.flatnonzero(world.present)
    step = _STEP if isinstance(world.plan, EnsemblePlan) else 1
    for number in range(draws.below(step), len(world.present), step):
        present = bool(world.present[number])
        other = world.present.copy()
        other[number] = not present
        drawn = world.queries.copy()
        drawn[number] = world.queries[there[draws.below(len(there))]]
        yield _Kind(number), world._replace(present=other) if present else world._replace(present=other, queries=drawn)
        if present and draws.below(_REPLACED) == 0:
            yield _Kind(number, records=2), world._replace(queries=drawn)


def _rows_of(world: World) -> list[int]:
    """Return the rows to leave out: all; of a table the first, the last and one of many kinds, as each takes long."""
    if not isinstance(world.plan, StatisticsPlan):
        return list(range(len(world.rows)))
    kinds = np.unique(np.column_stack([world.rows, world.labels]), axis=0, return_index=True)[1]
    return sorted({0, len(world.rows) - 1, *kinds[:: -(-len(kinds) // _KINDS)].tolist()})


def _counts_labels(plan: Plan) -> bool:
    """Return whether a row labelled 0 is a record too, so that one that is not there has no label."""
    return isinstance(plan, StumpsPlan) or (isinstance(plan, ClassicalPlan) and plan.concept == "stump")


def _with_row(world: World, row: int) -> World:
    """Return D and one row more, the last one, that says what another one does."""
    rows, labels = (np.concatenate([part, part[row : row + 1]]) for part in (world.rows, world.labels))
    return world._replace(plan=replace(world.plan, declared=world.plan.declared + 1), rows=rows, labels=labels)


def _blanked(world: World, row: int, label: int) -> World:
    """Return D without a row, which still has its number; or with it, where it is blanked."""
    labels = world.labels.copy()
    if isinstance(world.plan, EnsemblePlan):
        labels[row] = NO_LABEL if label != NO_LABEL else row % len(world.plan.classes)
    else:
        labels[row] = not label
    return world._replace(labels=labels)


def _worlds(plan: Plan, randomness: Randomness) -> Iterator[World]:
    """Yield the data of runs of the kind that a plan is of."""
    draws = Draws(randomness, 1 << 16)
    if isinstance(plan, TablePlan):
        yield _table(plan, randomness, draws)
    elif isinstance(plan, DistributionPlan):
        yield from (_distribution(number, randomness, draws) for number in range(len(TYPES)))
    elif isinstance(plan, EnsemblePlan):
        yield from (_ensemble(number, randomness, draws) for number in range(len(_CLASSES)))
    else:
        yield _of_run(run_of(plan, draws, 0), randomness.secret(0))


def _of_run(run: Run, secret: bytes) -> World:
    features, declared = run.plan.features, run.plan.declared
    rows = np.array([numbers_of(features, row) for row in run.rows[:declared]])
    asked = [message for message in run.messages if message != ()]
    queries = np.array([numbers_of(features, one) if one is not None else [0.0] * rows.shape[1] for one in asked])
    there = np.array([one is not None for one in asked])
    labels = np.array(run.labels[:declared], dtype=np.bool_)
    if isinstance(run.plan, BisectionPlan):  # rows, and queries, that move as much as any may
        rows[::4] = rows[-1] = queries[::4] = 1.0
        labels[-1] = True
    return World(run.plan, secret, rows, labels, queries, there)


def _table(plan: TablePlan, randomness: Randomness, draws: Draws) -> World:
    queries = stream(plan, _MESSAGES)
    there = draws.uniform(plan.declared) >= _BLANK
    return World(
        eager(plan),
        randomness.secret(0),
        random_cells(plan, draws).astype(np.float64),
        there,
        queries,
        draws.uniform(_MESSAGES) >= _SILENT,
    )


def _distribution(number: int, randomness: Randomness, draws: Draws) -> World:
    plan = uneven_distribution(draws, TYPES[number])
    values = [[row_of(plan.feature, draws.below(count_of(plan.feature)))] for _ in range(plan.declared + _MESSAGES)]
    rows, asked = np.array(values[: plan.declared]), np.array(values[plan.declared :])
    shares = np.where(draws.uniform(_MESSAGES) < _QUANTILE, draws.uniform(_MESSAGES), AT)
    there = draws.uniform(plan.declared) >= _BLANK
    queries = np.column_stack([asked, shares])
    return World(plan, randomness.secret(number), rows, there, queries, draws.uniform(_MESSAGES) >= _SILENT)


def _ensemble(number: int, randomness: Randomness, draws: Draws) -> World:
    plan = uneven_plan(draws, _CLASSES[number], resting=number % 2 == 1)
    phases = tuple(replace(phase, stopper=replace(phase.stopper, cap=_NEVER)) for phase in plan.phases)
    plan = replace(plan, phases=phases)
    rows, labels = random_rows(draws, plan.declared, len(plan.classes))
    labels[draws.uniform(plan.declared) < _BLANK] = NO_LABEL
    queries, _ = random_rows(draws, plan.rounds, len(plan.classes))
    return World(plan, randomness.secret(number), rows, labels, queries, draws.uniform(plan.rounds) >= _SILENT)
