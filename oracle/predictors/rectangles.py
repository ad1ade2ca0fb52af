"""RectanglesPERP: axis-aligned boxes, everlasting and robust.

Source: Stemmer (2024), Algorithm 5 and Theorem 4.6. A plan of the `tight` profile runs it with exact accounting
(PRIVACY.md, Theorem 11); one of the `paper` profile runs it as written, with a nominal epsilon.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, SideRearmed
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import sample
from oracle.mechanisms.orders import Keys, blank_keys, load_keys, plain_keys
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.mechanisms.thresholds.paid import HIGH, PAID
from oracle.mechanisms.windows import Window
from oracle.planning.plan import BoxPlan, PhasePlan
from oracle.predictors.base import StateArrays, Trainer
from oracle.predictors.phased import PhasedPredictor, Segment
from oracle.predictors.positives import Positives
from oracle.predictors.sides import Geometry, Harvest, SideBank

__all__ = ["RectanglesPERP", "RectanglesTrainer"]

_EDGES: Final = "edges"
"""Name of the learned edges among a predictor's arrays."""

_FIRST: Final = np.zeros(1, dtype=np.uint64)

_POSITIVE: Final = -1
_NOWHERE: Final = -2
"""In place of the side that decided: none, as every side said "high"; and where a query leaves no mark."""


class RectanglesTrainer(Trainer[BoxPlan, "RectanglesPERP"]):
    """Takes the labelled examples in, in any number of batches, and arms the first phase.

    Formal guarantees:
        * A training record sits in the start instances of phase 1 and nowhere else (Theorem 4.6 of Stemmer, 2024).
          Before, it pays for what the plan has released: the edges of `faces` (`oracle.predictors.positives`), which
          decide who gets it, and `margin`, one noisy count of what the sides got (`guarantees.released_event`).
    """

    def __init__(self, plan: BoxPlan, secret: bytes) -> None:
        super().__init__(plan, secret)
        self._geometry = Geometry(plan)
        self._harvest = Harvest(plan, self._geometry, plan.phases[0])
        self._positives = None if plan.scale is UNSET else Positives(plan, plan.scale, self._addresses)
        self._ones = 0
        self.margin: int | None = None
        """Once it is finished, if the plan has a check: by how many points the side that holds the least exceeds what
        it needs, with noise; a private release, `plan.check` says at what cost. Below 0 a side starves."""

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        keys = self._geometry.keys(features)
        rows = np.flatnonzero(labels & self._harvest.near(keys))
        hashes = self._addresses.hashes(features[rows], np.ones(len(rows), dtype=np.bool_))
        records = (rows + self._rows).astype(np.uint64)
        if self._positives is None:
            self._harvest.add(self._addresses, keys.take(rows, axis=1), records, hashes)
        else:  # nothing was harvested yet, so all of them are near
            self._positives.add(features[rows], records, hashes)
        self._ones += int(np.count_nonzero(labels))

    def _make(self) -> "RectanglesPERP":
        edges, harvest, beyond = self._assigned()
        self.margin = self._confirmed(beyond)
        predictor = RectanglesPERP(self._plan, self._key.ratchet(), phase=1, edges=edges)
        predictor.arm(harvest.slices(self._addresses))
        for window in harvest.windows:
            window.clear()
        return predictor

    def _assigned(self) -> tuple[NDArray[np.uint64] | None, Harvest, int]:
        """Return the edges, what the sides got, and the least number of points that one holds beyond what it needs.

        One record more changes that number by at most 1, given the edges: so it does each side's count
        (`stripes.Outermost`). Without edges all positive rows are counted: sides that take theirs one after another
        need S times as many, and a single side sees them all.
        """
        check = self._plan.check
        needed = 0 if check is UNSET else check.needed
        if self._positives is None:
            return None, self._harvest, self._ones - needed * self._geometry.sides
        edges, harvest, held = self._positives.assign(1 if check is UNSET else check.stripe)
        return edges, harvest, min(held) - needed

    def _confirmed(self, beyond: int) -> int | None:
        if self._plan.check is UNSET:
            return None
        words = self._addresses.words(Purpose.THRESHOLD, _FIRST, _FIRST, None)[0]  # of the genesis key: no other has it
        return beyond + int(sample("discrete-laplace", self._plan.check.epsilon, words)[0])


class _Decided(NamedTuple):
    """Answered rows whose bookkeeping is still to be done, without their keys: these are made again of few.

    Attributes:
        numbers: float64[n, ...], what `Geometry.looked_at` returned.
        rounds: uint64[n], rounds of the phase.
        hashes: uint64[n].
        sides: int16[n], the side that decided "medium", `_POSITIVE` or `_NOWHERE`.
    """

    numbers: NDArray[np.float64]
    rounds: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    sides: NDArray[np.int16]


class RectanglesPERP(PhasedPredictor[BoxPlan]):
    """One shard's box predictor (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, delta_p) for every record of phase p, sum of delta at most `plan.delta` (Definition 3.9 of Stemmer,
          2024; `oracle.planning.guarantees` states the events), unless the plan says that it is `nominal`.
        * A query leaves its mark in at most one place: one side's collected mediums, or the harvest.

    Made by `RectanglesTrainer.finish` or by `restore`.

    Args:
        plan: The plan.
        key: The phase's key.
        phase: The phase.
        sides: What the sides look at, where the plan does not know it (`oracle.predictors.stumps`).
        edges: uint64[S], the learned edges of `faces`, where the plan has them learned.
    """

    def __init__(
        self,
        plan: BoxPlan,
        key: PhaseKey,
        *,
        phase: int,
        sides: Sequence[str] | None = None,
        edges: NDArray[np.uint64] | None = None,
    ) -> None:
        self._geometry = Geometry(plan, sides, edges)
        self._side_numbers = np.arange(self._geometry.sides, dtype=np.uint64)
        self._pending: list[_Decided] = []
        super().__init__(plan, key, phase=phase)

    def _enter(self, key: PhaseKey, phase: int) -> None:
        """Take the phase's key and sizes; the sides are armed by `arm` or `restore`."""
        super()._enter(key, phase)
        following = self._plan.phases[min(phase, len(self._plan.phases) - 1)]
        self._harvest = Harvest(self._plan, self._geometry, following)

    @property
    def _current(self) -> PhasePlan:
        return self._plan.phases[self._phase - 1]

    @property
    def sides(self) -> SideBank:
        """The armed sides that answer now, for who audits them. Private: they hold points and noisy thresholds."""
        return self._bank

    def arm(self, slices: list[Keys]) -> None:
        """Arm every side for the current phase."""
        self._bank = SideBank.begin(self._current, self._addresses, slices)

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.bool_]:
        """Steps a, b and e to i of Stemmer (2024), Alg. 5, for all rows at once.

        All sides answer all rows, the first side that does not say high decides; where a Stopper halts, the rows before
        it stand, the side is armed afresh, and the rest is decided again with the same noise.
        """
        bank, count = self._bank, len(segment)
        labels = np.empty(count, dtype=np.bool_)
        numbers = self._geometry.looked_at(segment.features)
        keys = self._geometry.keys_of_numbers(numbers)
        rounds, hashes = segment.rounds, segment.hashes
        depth_words = self._addresses.words(Purpose.DEPTH, rounds, self._side_numbers, hashes)
        stop_words = self._addresses.words(Purpose.STOPPER, rounds, self._side_numbers, None)
        outcomes = np.empty((self._geometry.sides, count), dtype=np.int8)
        for side, armed in enumerate(bank.armed):
            outcomes[side] = armed.answers(keys[side], depth_words[side])
        start = 0
        while True:
            rest = slice(start, None)
            mediums, positive = _decide(outcomes[:, rest], segment.present[rest])
            halts = [
                armed.first_halt(mediums[side], rounds[rest], stop_words[side, rest])
                for side, armed in enumerate(bank.armed)
            ]
            reached = min((row for row in halts if row is not None), default=count - start)
            stop = start + reached
            rows = slice(start, stop)
            labels[rows] = positive[:reached]
            sides = _deciding(mediums[:, :reached], positive[:reached])
            self._keep(_Decided(numbers[rows], rounds[rows], hashes[rows], sides))
            if stop == count:
                break
            self.settle()
            for side, row in enumerate(halts):
                if row == reached:
                    self._rearm(side, int(rounds[stop]), events, count_before=stop)
                    outcomes[side, stop:] = bank.armed[side].answers(keys[side, stop:], depth_words[side, stop:])
            start = stop
        return labels

    def _keep(self, decided: "_Decided") -> None:
        """Count the mediums, and remember what `settle` has to put where it belongs."""
        for side, armed in enumerate(self._bank.armed):
            armed.mediums += int(np.count_nonzero(decided.sides == side))
        self._pending.append(decided)

    def _settle(self) -> None:
        """Put every answered query where it belongs: one side's mediums, or the harvest, or nowhere (steps f, h)."""
        if not self._pending:
            return
        decided = self._pending[0]
        if len(self._pending) > 1:
            decided = _Decided(*(np.concatenate(column) for column in zip(*self._pending, strict=True)))
        self._pending.clear()
        marked = np.flatnonzero(decided.sides != _NOWHERE)
        keys, sides = self._geometry.keys_of_numbers(decided.numbers[marked]), decided.sides[marked]
        rounds, hashes = decided.rounds[marked], decided.hashes[marked]
        for side, window in enumerate(self._bank.collected):
            mine = np.flatnonzero(sides == side)
            mine = mine[window.near(keys[side, mine])]
            window.add(keys[side, mine], rounds[mine].astype(np.int64))
        won = np.flatnonzero((sides == _POSITIVE) & self._harvest.near(keys))
        self._harvest.add(self._addresses, keys.take(won, axis=1), rounds[won], hashes[won])

    def _rearm(self, side: int, phase_round: int, events: list[LedgerEvent], *, count_before: int) -> None:
        self._bank.rearm(self._addresses, side, phase_round)
        self._rearms += 1
        self._phase_rearms += 1
        events.append(SideRearmed(round=self._round + count_before, phase=self._phase, side=side))

    def _begin_next(self) -> None:
        """Step j: start the next phase on what was harvested."""
        slices = self._harvest.slices(self._addresses)
        for window in (*self._harvest.windows, *self._bank.collected):
            window.clear()
        super()._begin_next()
        self.arm(slices)

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan and the phase only."""
        self.settle()
        bank = self._bank
        size = max(bank.start.points, bank.rearmed.points)
        points = np.stack([blank_keys(size, self._geometry.kind) for _ in bank.armed])
        for side, armed in enumerate(bank.armed):
            points[side, : len(armed.points)] = armed.points
        arrays = {
            **self._header(self._round, self._phase, self._phase_round, self._rearms, self._phase_rearms),
            "points": plain_keys(points),
            "mediums": np.array([armed.mediums for armed in bank.armed], dtype=np.int64),
            "armed": np.array([armed.armed for armed in bank.armed], dtype=np.int64),
            "fresh": np.array([armed.thresholds is bank.rearmed for armed in bank.armed], dtype=np.int64),
        }
        for name, windows in (("collected", bank.collected), ("harvest", self._harvest.windows)):
            counts = []
            for side, window in enumerate(windows):
                keys, records, kept = window.export()
                arrays[f"{name}_keys_{side}"] = plain_keys(keys)
                arrays[f"{name}_records_{side}"] = records
                counts.append(kept)
            arrays[f"{name}_counts"] = np.array(counts, dtype=np.int64)
        return arrays if self._geometry.edges is None else {**arrays, _EDGES: self._geometry.edges.copy()}

    @classmethod
    def restore(cls, plan: BoxPlan, arrays: StateArrays, sides: Sequence[str] | None = None) -> Self:
        """Take back what `export` returned, under the same plan and sides."""
        rounds, phase, phase_round, rearms, phase_rearms = (int(value) for value in arrays["counters"])
        edges = _edges(plan, arrays)
        predictor = cls(plan, PhaseKey(arrays["key"].tobytes()), phase=phase, sides=sides, edges=edges)
        predictor._round, predictor._phase_round = rounds, phase_round
        predictor._rearms, predictor._phase_rearms = rearms, phase_rearms
        predictor._restore_bank(arrays)
        return predictor

    def _restore_bank(self, arrays: StateArrays) -> None:
        kind_of_keys = self._geometry.kind
        empty = [blank_keys(self._current.start.points, kind_of_keys) for _ in range(self._geometry.sides)]
        self.arm(empty)
        bank = self._bank
        for side in range(self._geometry.sides):
            kind = bank.rearmed if arrays["fresh"][side] else bank.start
            armed = int(arrays["armed"][side])  # -1 where Alg. 2 is asked before round 0 too
            points = load_keys(arrays["points"][side, : kind.points], kind_of_keys)
            level = bank.level(self._addresses, side, armed)
            bank.armed[side] = ArmedSide(kind, bank.stopper, points, int(arrays["mediums"][side]), level, armed)
        for name, windows in (("collected", bank.collected), ("harvest", self._harvest.windows)):
            _restore_windows(arrays, name, windows, kind_of_keys)


def _edges(plan: BoxPlan, arrays: StateArrays) -> NDArray[np.uint64] | None:
    """Return a state's learned edges, None where its plan has none learned.

    Raises:
        CorruptSnapshotError: It has not one for each side of its plan.
    """
    if plan.scale is UNSET:
        return None
    found = arrays.get(_EDGES)
    if found is None or found.dtype != np.uint64 or found.shape != (len(plan.sides),):
        raise CorruptSnapshotError("snapshot: it has no edges of its plan")
    return found.astype(np.uint64)


def _restore_windows(
    arrays: Mapping[str, NDArray[np.generic]], name: str, windows: list[Window], kind: "np.dtype[Any]"
) -> None:
    for side, window in enumerate(windows):
        window.restore(
            load_keys(arrays[f"{name}_keys_{side}"], kind),
            arrays[f"{name}_records_{side}"].astype(np.int64),
            int(arrays[f"{name}_counts"][side]),
        )


def _decide(outcomes: NDArray[np.int8], present: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each side where it decided "medium", and where every side said "high" (queries only)."""
    mediums = np.empty(outcomes.shape, dtype=np.bool_)
    undecided = present.copy()
    for side, outcome in enumerate(outcomes):
        mediums[side] = undecided & (outcome == PAID)
        undecided &= outcome == HIGH
    return mediums, undecided


def _deciding(mediums: NDArray[np.bool_], positive: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Return what `_Decided.sides` is, by arithmetic that takes as long whoever decided."""
    sides = positive * np.int16(_POSITIVE - _NOWHERE) + np.int16(_NOWHERE)
    for side, mine in enumerate(mediums):
        sides += mine * np.int16(side - _NOWHERE)
    return sides
