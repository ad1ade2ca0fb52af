"""The classical learner: a box or a stump learned once by the exponential mechanism over all float64 edges.

Sources: McSherry and Talwar (2007); Smith (2011), "Privacy-preserving statistical estimation with optimal convergence
rates", for the loss of a rank; PRIVACY.md, Theorem 12. What is learned is a private
release: it may be known to everyone for ever. Answers follow from it and from nothing else, so they cost nothing, no
query is kept, and there is one phase without an end.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.choice.edges import best_cuts, cut_candidates, side_candidates
from oracle.mechanisms.choice.exponential import Candidates, KeyedBits, choose_exactly
from oracle.mechanisms.grid import mirror, number_at, positions_of
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.slicing import Faces
from oracle.planning.classical.model import ClassicalPlan
from oracle.predictors.base import StateArrays, Trainer
from oracle.predictors.phased import PhasedPredictor, Segment

__all__ = ["ClassicalPredictor", "ClassicalTrainer", "Hypothesis"]

_ONE_SIDE: Final = np.zeros(1, dtype=np.uint64)


class Hypothesis(NamedTuple):
    """What was learned: 1 where lower_j <= x_j <= upper_j for every feature. A stump has one finite bound.

    Attributes:
        lower: float64[d]; -inf where there is no such side, +inf where nothing is labelled 1.
        upper: float64[d]; the other way round.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class ClassicalTrainer(Trainer[ClassicalPlan, "ClassicalPredictor"]):
    """Takes the labelled examples in, in any number of batches, and learns from them.

    Formal guarantees:
        * *Privacy.* (epsilon, 0) for each row, there or not (one that is not there still counts to the declared number,
          and no other row takes its place), and what is learned is all that is released. A side of a box is one choice
          whose losses change by amounts within 2 of each other (`edges.side_candidates`), so it pays 2 e; under `faces`
          a row is shown to one side only, under `whole` to S of them at e = epsilon/(2S). A stump is one choice whose
          losses rise by 0 or 1 (`edges.cut_candidates`), so it pays e = epsilon. Each choice has exactly the law of the
          exponential mechanism (`choose_exactly`), so delta is 0 and no float's rounding is in it.
        * *Not there, or another row.* For a box a row labelled 0 is as good as none. For a stump it is a row of its
          own: to blank one out as a row labelled 0 is to exchange it, and exchanging a row for another one, with either
          concept, is taking one away and adding one, at 2 epsilon.
        * The utility bounds are those of `oracle.planning.classical.tight`.
    """

    def __init__(self, plan: ClassicalPlan, secret: bytes) -> None:
        super().__init__(plan, secret)
        names = [feature.name for feature in plan.features]
        split = [side.rsplit(":", 1) for side in plan.sides]
        self._sides = [(names.index(name), side == "lower") for name, side in split]
        self._faces = self._rule() if plan.coin > 0.0 else None
        self._columns: list[NDArray[np.float64]] = []
        self._labels: list[NDArray[np.bool_]] = []
        self._shown: list[NDArray[np.intp]] = []

    def _rule(self) -> Faces:
        bounds = [self._plan.features[column].bounds or (-1.0, 1.0) for column, _ in self._sides]
        signs = np.array([1.0 if lower else -1.0 for _, lower in self._sides])
        centers = np.array([(low + high) / 2.0 for low, high in bounds])
        scales = np.array([(high - low) / 2.0 for low, high in bounds])
        return Faces(centers * signs, scales, self._plan.coin)

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        columns, labels = np.ascontiguousarray(features.T), labels.copy()
        rows = np.arange(self._rows, self._rows + len(labels), dtype=np.uint64)
        if self._plan.concept == "box":  # rows labelled 0 change nothing
            columns, rows, labels = columns[:, labels], rows[labels], labels[labels]
        if self._faces is not None:
            coins = self._addresses.words(Purpose.COIN, rows, _ONE_SIDE, self._hashes(columns))[0]
            keys = np.stack([columns[column] if lower else 0.0 - columns[column] for column, lower in self._sides])
            self._shown.append(self._faces.choose(keys, coins))
        self._columns.append(columns)
        self._labels.append(labels)

    def _hashes(self, columns: NDArray[np.float64]) -> NDArray[np.uint64]:
        return self._addresses.hashes(np.ascontiguousarray(columns.T), np.ones(columns.shape[1], dtype=np.bool_))

    def _make(self) -> "ClassicalPredictor":
        hypothesis = self._box() if self._plan.concept == "box" else self._stump()
        for part in (*self._columns, *self._labels):
            part.fill(0)
        for kept in (self._columns, self._labels, self._shown):
            kept.clear()
        return ClassicalPredictor(self._plan, self._key.ratchet(), hypothesis)

    def _column(self, number: int) -> NDArray[np.float64]:
        return np.concatenate([columns[number] for columns in self._columns])

    def _choose(self, side: int, near: Callable[[int], Candidates]) -> tuple[int, int]:
        return choose_exactly(self._plan.scale, near, KeyedBits(self._addresses, side))

    def _box(self) -> Hypothesis:
        hypothesis = _unbounded(len(self._plan.features))
        shown = np.concatenate(self._shown) if self._shown else None
        for side, (column, lower) in enumerate(self._sides):
            records = positions_of(self._column(column) if shown is None else self._column(column)[shown == side])
            near = partial(side_candidates, records if lower else mirror(records), self._plan.rank)
            _, position = self._choose(side, near)
            _bound(hypothesis, column, position, lower=lower)
        return hypothesis

    def _stump(self) -> Hypothesis:
        hypothesis = _unbounded(len(self._plan.features))
        stump, position = self._choose(0, lambda reach: best_cuts(self._cuts(), reach))
        column, lower = self._sides[stump]
        _bound(hypothesis, column, position, lower=lower)
        return hypothesis

    def _cuts(self) -> Iterator[Candidates]:
        labels = np.concatenate(self._labels)
        for number, feature in enumerate(self._plan.features):
            if feature.sides == "none":
                continue
            column = self._column(number)
            order = column.argsort()
            records, ranked = positions_of(column[order]), labels[order]
            for stump, (mine, lower) in enumerate(self._sides):
                if mine == number:
                    yield (
                        cut_candidates(records, ranked, stump)
                        if lower
                        else cut_candidates(mirror(records)[::-1], ranked[::-1], stump)
                    )


def _unbounded(dimension: int) -> Hypothesis:
    return Hypothesis(np.full(dimension, -np.inf), np.full(dimension, np.inf))


def _bound(hypothesis: Hypothesis, column: int, position: int, *, lower: bool) -> None:
    """Set one bound, from the position of an edge; an upper one was chosen among negated numbers."""
    if lower:
        hypothesis.lower[column] = number_at(position)
    else:
        hypothesis.upper[column] = 0.0 - number_at(position)


class ClassicalPredictor(PhasedPredictor[ClassicalPlan]):
    """One shard's classical predictor (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, 0) for the training rows (`ClassicalTrainer`), at any number of rounds: answers are a function of
          what was released and of the query. So no other record's answer depends on a query: its epsilon is 0.
        * The state is the hypothesis, the round and a key, from which only query hashes and tags follow.

    Made by `ClassicalTrainer.finish` or by `restore`.

    Args:
        plan: The plan.
        key: What hashes and tags are made with.
        hypothesis: What was learned.
        done: Rounds answered so far.
    """

    def __init__(self, plan: ClassicalPlan, key: PhaseKey, hypothesis: Hypothesis, done: int = 0) -> None:
        super().__init__(plan, key, phase=1)
        self._hypothesis = hypothesis
        self._round = self._phase_round = done

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.bool_]:  # noqa: ARG002 -- none happen
        inside = segment.present.copy()
        for column, low, high in zip(segment.features.T, *self._hypothesis, strict=True):
            inside &= (column >= low) & (column <= high)
        return inside

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        return {
            **self._header(self._round),
            "lower": self._hypothesis.lower.copy(),
            "upper": self._hypothesis.upper.copy(),
        }

    @classmethod
    def restore(cls, plan: ClassicalPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It has no bounds of the plan's features.
        """
        bounds = [arrays.get(name) for name in Hypothesis._fields]
        shape = (len(plan.features),)
        found = [np.array(bound, dtype=np.float64) for bound in bounds if bound is not None and bound.shape == shape]
        if len(found) < len(bounds) or any(np.isnan(bound).any() for bound in found):
            raise CorruptSnapshotError("snapshot: it has no hypothesis of its plan")
        key = PhaseKey(arrays["key"].tobytes())
        return cls(plan, key, Hypothesis(found[0], found[1]), int(arrays["counters"][0]))
