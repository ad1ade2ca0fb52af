"""How far one record moves what goes into every mechanism: as far as the proofs charge for, in the places they name.

A run on D is recorded, and replayed with all outputs of mechanisms frozen on neighbours of D: with a training row more
or less, and, where queries are protected, with the query of a round taken away, put there, or exchanged
(`neighbours.py`). What may differ is said here, by the theorems of `oracle/accounting/PRIVACY.md`; no figure
of it is taken from the code that is looked at.

What this shows: on these data, with these outputs, every number that noise is compared with or added to differs by the
declared sensitivity at most; it differs only in the instances that composition charges the record for; thresholds,
noise and its bits are the same; and nothing else that is told differs. Sensitivity is a property of all data and all
outputs, so a check can refute it, and does not prove it.

What it does not show: that mechanisms have the noise of the plan, and the plan enough of it (`oracle.audit.runs.whole`,
`oracle.audit.due`); what time tells; anything of queries that a plan does not protect, or of profiles `paper` but those
of boxes and bisection. An ensemble's cap, at which a life ends without noise, is charged to delta; none is reached.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET

from oracle.audit.due.live import Life
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.listening import listening
from oracle.audit.recording.neighbours import neighbours_of, worlds_of
from oracle.audit.recording.replays import Moved, Other, Recorded, Replayed, World, phase_of, record, replay
from oracle.audit.runs.courses import missing_lives
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import StatisticsPlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["sensitivity"]


_AGAIN: Final[Life] = "again"
_ROUNDED: Final = 1e-9
"""Of numbers that were not rounded alike."""

_EDGE_LOSSES: Final = 2.0
"""Theorem 12, Theorem 15: a loss changes by -1, 0 or 1."""

_STUMP_LOSSES: Final = 1.0
"""Theorems 10 and 12: all rise, by 0 or 1."""

_CUT_LOSSES: Final = 2.0
"""Section 9: by -1, 0 or 1, or by 0, 1 or 2; what `Plans charge 2 e_cut` is for."""

_STAYS: Final = {"rectangles": (1, 1), "stumps": (1, 1), "bisection": (1, 0), "ensemble": (2, 3)}
"""Phases in which a training row may be in the state, and behind a query's own one a query: Theorems 11 and 29 (e)."""


def sensitivity(plan: Plan, randomness: Randomness) -> Seen:
    """One record moves inputs of mechanisms as far, and where, its epsilon is charged for: else it pays too little.

    All mechanisms' outputs are frozen, and the record is taken away or put there, through re-arms and ends of phases.
    Nothing else that is told may follow from it. And the plan charges for as much. In one run every row has its turn,
    and every query; in each phase sides, or lives, are armed again.
    """
    wrong = _short(plan)
    if wrong is not None:
        return False, f"the plan charges for less than a record may move: {wrong}"
    looked = _Looked()
    lives = set[tuple[int, Life]]()
    with listening() as listener:
        for number, world in enumerate(worlds_of(plan, randomness)):
            run = record(world, listener)
            lives |= _lives_of(run)
            wrong = _side_not_rearmed(run)
            if wrong is not None:
                return False, f"run {number}: {wrong}, so no record was looked at there"
            looked.begin(world)
            for other in neighbours_of(run, Draws(randomness, 1 + number), every=number == 0):
                found = replay(run, listener, other)
                wrong = found.wrong or _excess(world.plan, found.moved, other) or _outlives(run, found, other)
                if wrong is not None:
                    whose = "a row" if other.round is None else f"the query of round {other.round}"
                    return False, f"run {number}: without or with {whose}: {wrong}"
                looked.at(other, found)
    missing = missing_lives(world.plan, lives) if isinstance(world.plan, EnsemblePlan) else None
    if missing is not None:
        return False, f"{missing}, in any run, so no record was looked at there"
    return looked.verdict()


class _Looked:
    """What was looked at, in one run of which every record is, and in others."""

    def __init__(self) -> None:
        self._rows, self._queries = list[set[int]](), list[set[int]]()
        self._of: list[tuple[int, int]] = []
        self._refused = 0
        self._shown: dict[str, float] = {}

    def begin(self, world: World) -> None:
        """Another run comes."""
        self._rows.append(set())
        self._queries.append(set())
        self._of.append((len(world.rows), len(world.queries) if world.plan.protects_queries else 0))

    def at(self, other: Other, found: Replayed) -> None:
        """A neighbour was looked at."""
        self._refused += found.refused
        if other.round is not None:
            self._queries[-1].add(other.round)
        elif other.row is not None:
            self._rows[-1].add(other.row)
        for one in found.moved:
            self._shown[_name(one)] = max(self._shown.get(_name(one), 0.0), abs(one.change.by))

    def verdict(self) -> Seen:
        """Return whether any input moved, and what was seen."""
        if not self._shown:
            return False, "no record moves any input: nothing is learned, or nothing was seen"
        moved = ", ".join(f"{name} {most:.3g}" for name, most in sorted(self._shown.items()))
        out = f", and {self._refused} out of range were refused" if self._refused else ""
        most = f"moved no input further than is declared: {moved} at most{out}"
        return True, f"of one run {self._counted(0, 1)}, of {len(self._of) - 1} others {self._counted(1, None)}, {most}"

    def _counted(self, first: int, stop: int | None) -> str:
        """Return how many records of some runs were looked at."""
        runs = slice(first, stop)
        rows, queries = (sum(map(len, one[runs])) for one in (self._rows, self._queries))
        said = f"{rows} of {sum(count for count, _ in self._of[runs])} rows"
        rounds = sum(count for _, count in self._of[runs])
        return f"{said} and {queries} of {rounds} rounds' queries" if rounds else said


def _side_not_rearmed(run: Recorded) -> str | None:
    """Return in which phase of a run that is played to its end no side was armed again, if there is one."""
    plan = run.world.plan
    if not isinstance(plan, BoxPlan) or len(run.world.queries) < plan.rounds:
        return None
    seen = {phase_of(plan, at) for _, at in run.lives}
    return next((f"phase {one.phase}: no side is armed again" for one in plan.phases if one.phase not in seen), None)


def _lives_of(run: Recorded) -> set[tuple[int, Life]]:
    """Return which lives of an ensemble were asked in which phases."""
    plan = run.world.plan
    if not isinstance(plan, EnsemblePlan):
        return set()
    begun = {at for _, at in run.lives}
    found = {(phase_of(plan, at), _AGAIN) for at in begun if at != plan.first_round(phase_of(plan, at))}
    for phase in plan.phases:
        at = plan.first_round(phase.phase)
        if at < len(run.world.queries):
            found.add((phase.phase, "first" if at == 0 or at in begun else "before"))
    return found


def _name(one: Moved) -> str:
    """Return what an input belongs to."""
    address = one.change.address
    if address is None:
        return one.change.kind
    return address.purpose.name.lower() if one.phase else "start"


def _excess(plan: Plan, moved: Sequence[Moved], other: Other) -> str | None:
    """Return what of a record shows further, or elsewhere, than PRIVACY.md charges for, if anything."""
    for one in moved:
        most = other.records * _most(plan, one) * (1.0 + _ROUNDED)
        if abs(one.change.by) > most:
            return f"{_name(one)}: an input moves by {abs(one.change.by):.4g}, and {most:.4g} is declared"
    if other.round is None:
        return _row_elsewhere(plan, moved)
    if isinstance(plan, EnsemblePlan):
        return _ensemble_elsewhere(moved, other)
    if isinstance(plan, BoxPlan):
        return _box_elsewhere(plan, moved, other)
    return "a query is used" if moved else None  # of classical learners, whose answers follow from what they learned


def _most(plan: Plan, one: Moved) -> float:
    """Return by how much a record may move an input."""
    if one.change.kind == "bit":  # in units of D: D coordinates move by 1/n each, times at most 1 (Theorem 12)
        return 1.0 / plan.declared
    if one.change.kind != "choice":  # Lemma 3; Theorems 7, 15, 23, 29 and 30
        return 1.0
    if isinstance(plan, StumpsPlan):
        return _STUMP_LOSSES if one.change.number == 0 else _CUT_LOSSES
    return _STUMP_LOSSES if isinstance(plan, ClassicalPlan) and plan.concept == "stump" else _EDGE_LOSSES


def _row_elsewhere(plan: Plan, moved: Sequence[Moved]) -> str | None:
    """A training row shows while it is trained, in start instances, and nowhere else."""
    may: dict[str, int] = {}
    if isinstance(plan, StumpsPlan):
        may = {"choice": 2, "depth": 1}
    elif isinstance(plan, BoxPlan):
        learned = plan.scale is not UNSET
        may = {"choice": len(plan.sides) * learned, "margin": plan.check is not UNSET, "depth": _instances(plan)}
    elif isinstance(plan, ClassicalPlan):
        may = {"choice": _choices(plan)}
    elif isinstance(plan, EnsemblePlan):
        may = {"start": 1, "margin": 1, "teachers": 1, "question": 1}
    elif plan.predictor == "bisection":
        may = {"bit": 1}
    else:
        may = {"question": 1, "start": len(plan.start) if isinstance(plan, StatisticsPlan) else 0}
    for name, places in _places(moved).items():
        if len(places) > may.get(name, 0):
            return f"{name}: a row shows in {len(places)} of these, and {may.get(name, 0)} are charged for"
    late = {(one.phase, one.life) for one in moved if one.change.address is not None and one.phase} - {(1, 0)}
    if isinstance(plan, BoxPlan) and late:
        return f"a row shows behind its first life: in (phase, life) {sorted(late)}"
    if isinstance(plan, EnsemblePlan) and any(life for _, life in late):
        return "a row shows behind its first life"
    return None


def _instances(plan: BoxPlan) -> int:
    """Return in how many sides of a phase a record may be (Lemma 3)."""
    return 1 if plan.slicing == "faces" else len(plan.sides)


def _choices(plan: ClassicalPlan) -> int:
    """Return how many choices are shown a row (Theorem 12)."""
    return len(plan.sides) if plan.concept == "box" and plan.slicing == "whole" else 1


def _places(moved: Iterable[Moved]) -> dict[str, set[tuple[int, ...]]]:
    """Return the instances that a record shows in, by what they belong to."""
    places: dict[str, set[tuple[int, ...]]] = {}
    for one in moved:
        address, name = one.change.address, _name(one)
        match name:
            case "choice" if address is not None:  # an ensemble's block
                where: tuple[int, ...] = (one.phase, address.round)
            case "question":
                where = (one.life,)
            case "start" if address is not None:  # counts of classes, or of a marginal's cells
                where = (address.side, address.round)
            case "depth" | "stopper" if address is not None:
                where = (one.phase, address.side, one.life)
            case "bit":
                where = ()
            case _:
                where = (one.phase, one.change.number)
        places.setdefault(name, set()).add(where)
    return places


def _box_elsewhere(plan: BoxPlan, moved: Sequence[Moved], other: Other) -> str | None:
    """A query is a bit of one Stopper, and perhaps in the side's next life; or in start instances of the next phase."""
    phase, places = _phase_of(plan, other), _places(moved)
    stoppers, depths = places.pop("stopper", set()), places.pop("depth", set())
    again = {one for one in depths if one[0] == phase}
    signs = {one.change.by > 0 for one in moved if _name(one) == "stopper"}
    lives = {side: life + 1 for _, side, life in stoppers}
    alike = other.records > 1 and not stoppers  # two queries, of which one Stopper counts either
    elsewhere = not alike and any(life != lives.get(side) for _, side, life in again)
    if (
        places
        or {(one[0], one[2]) for one in depths - again} - {(phase + 1, 0)}
        or {one[0] for one in stoppers} - {phase}
    ):
        return f"a query of phase {phase} shows elsewhere: {sorted([*places, *stoppers, *depths], key=str)}"
    if len(stoppers) > other.records or len(again) > len(stoppers) + alike or elsewhere:
        return f"a query is a bit of the Stoppers {sorted(stoppers)}, and in the lives {sorted(again)} of its phase"
    if other.records == 1 and len(signs) > 1:
        return "stopper: a bit more is a bit less later"
    if len(depths - again) > (other.records - len(stoppers)) * _instances(plan):
        return f"a query is a bit of {len(stoppers)} Stoppers, and in {len(depths - again)} sides of the next phase"
    return None


def _ensemble_elsewhere(moved: Sequence[Moved], other: Other) -> str | None:
    """A query is one bit of one Stopper, or in the teachers of one life; and it is counted in one block."""
    places = _places(moved)
    blocks, bits = places.pop("choice", set()), {life for _, _, life in places.pop("stopper", set())}
    members = max(len(places.pop("teachers", set())), len(places.pop("question", set())))
    if places:
        return f"it shows in another mechanism: {sorted(places)}"
    if len(blocks) > other.records:
        return f"it is counted in {len(blocks)} blocks"
    classes = {(one.phase, one.change.address) for one in moved if _name(one) == "choice"}
    if len(classes) > other.records:
        return f"it is counted for {len(classes)} classes"
    if len(bits) + members > other.records:
        return f"it shows in {len(bits)} Stoppers, and in teachers of {members} lives"
    return None


def _phase_of(plan: Plan, other: Other) -> int:
    return next(one.phase for one in reversed(plan.phases) if plan.first_round(one.phase) <= (other.round or 0))


def _outlives(run: Recorded, found: Replayed, other: Other) -> str | None:
    """Return that a state still tells of a record when the last phase that may need it is over, if it does."""
    plan = run.world.plan
    stays = _STAYS.get(plan.predictor)
    if stays is None:
        return None
    last = stays[0] if other.round is None else _phase_of(plan, other) + stays[1]
    if last >= len(plan.phases) or found.until <= plan.first_round(last + 1):
        return None
    return f"its state tells of it until round {found.until}, in phase {last + 1} or later"


def _short(plan: Plan) -> str | None:
    """Return what a plan of the profile `tight` charges less for than the theorems have it, if anything."""
    charged: list[tuple[str, float, float]] = []
    if plan.profile != "tight":
        return None
    if isinstance(plan, StumpsPlan):
        chosen = plan.selection
        charged.append(("a stump", chosen.epsilon, _STUMP_LOSSES * chosen.scale))
        charged.append(("a cut", chosen.cut_epsilon, _CUT_LOSSES * chosen.cut_scale))
    if isinstance(plan, BoxPlan):
        for phase in plan.phases:
            charged.append(("mediums of a start", phase.start.mediums, _instances(plan) * phase.stopper.cap))
            charged.append(("mediums", phase.rearmed.mediums, phase.stopper.cap))
    elif isinstance(plan, ClassicalPlan):
        spread = _STUMP_LOSSES if plan.concept == "stump" else _EDGE_LOSSES
        charged.append(("choices", plan.epsilon, plan.scale * spread * _choices(plan)))
    elif isinstance(plan, EnsemblePlan):
        asked = min(2, len(plan.classes) - 1)
        charged += [("paid questions", phase.paid, asked * phase.stopper.cap) for phase in plan.phases]
    wrong = (f"{name}: {has:.6g}, and {due:.6g} is due" for name, has, due in charged if has < due * (1.0 - _ROUNDED))
    return next(wrong, None)
