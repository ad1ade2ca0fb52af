"""DecisionPERP: decision stumps, everlasting and robust.

Source: Stemmer (2024), Definition 4.16, Algorithm 7 and Theorem 4.17. A feature and a direction are chosen privately,
then how many of the examples are labelled 1; these are relabelled, and what predicts from there on is RectanglesPERP
over that one feature. Theorem 4.17 is for realizable labels, where the positive rows may be counted; for any others
that number must be chosen by its errors, as `tight` does (PRIVACY.md, Theorem 10). The text of Algorithm 7 sorts
ascending for sigma = +1, but Definition 4.16 makes the *largest* values positive there: the definition is what is done
here.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice.exponential import CHOICE_WORDS, choose
from oracle.mechanisms.choice.stumps import cut_losses, least_losses, ranking
from oracle.mechanisms.noise.tables import sample
from oracle.mechanisms.orders import Keys
from oracle.planning.boxes.model import side_names
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import Answers, PublicFacts, StateArrays, Trainer
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.sides import Geometry, Harvest, SideBank
from oracle.predictors.values import Values

__all__ = ["Stump", "StumpsPERP", "StumpsTrainer", "candidates"]

_STUMP: Final = "stump"
"""Name of the chosen pair among a predictor's arrays."""

_SORTERS: Final = 4
"""Columns that are sorted at once, each in memory of its own."""

_SEGMENT: Final = 65_536
"""Coins that are made at once."""

_ONE_SIDE: Final = np.zeros(1, dtype=np.uint64)


class Stump(NamedTuple):
    """A feature and a direction.

    Attributes:
        column: Number of the feature.
        upward: True for sigma = +1: the largest values are labelled 1.
    """

    column: int
    upward: bool

    def sides(self, plan: StumpsPlan) -> tuple[str, ...]:
        """Return the sides that look at it: its edge, or, in the `paper` profile, both ends of its feature."""
        name = plan.features[self.column].name
        edge = ("lower",) if self.upward else ("upper",)
        return tuple(f"{name}:{side}" for side in (edge if len(plan.sides) == 1 else ("lower", "upper")))


def candidates(plan: StumpsPlan) -> list[Stump]:
    """Return the pairs that a plan's features allow, in a fixed order."""
    names = [feature.name for feature in plan.features]
    split = (side.rsplit(":", 1) for side in side_names(plan))
    return [Stump(names.index(name), side == "lower") for name, side in split]


class StumpsTrainer(Trainer[StumpsPlan, "StumpsPERP"]):
    """Takes the labelled examples in, in any number of batches, chooses the stump and arms the first phase.

    Formal guarantees:
        * `tight`: a record pays (eps_sel, 0) for the pair (`least_losses`: all losses rise by 0 or 1), and then half
          of eps_cut and the instance's price, together, for the number p-hat of records labelled 1 and for the side,
          which holds the records ranked p-hat - M + 1, ..., p-hat. p-hat alone is not private: one more record is one
          more candidate. But cuts of the two worlds can be paired so that every depth of a pair's sides differs by at
          most 1 (PRIVACY.md, Theorem 10). Plans charge all of eps_cut.
        * `paper`: Algorithm 7 as written, with nominal parameters.
        * A row keeps the coin that ties in value go by: it is its number's.
    """

    def __init__(self, plan: StumpsPlan, secret: bytes) -> None:
        super().__init__(plan, secret)
        self._values = Values(plan.features)
        self._columns: list[NDArray[np.float64]] = []
        self._labels: list[NDArray[np.bool_]] = []

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        self._columns.append(np.ascontiguousarray(features.T))
        self._labels.append(labels.copy())

    def _make(self) -> "StumpsPERP":
        addresses = self._addresses
        words = addresses.words(
            Purpose.CHOICE, np.arange(CHOICE_WORDS // 2, dtype=np.uint64), np.arange(2, dtype=np.uint64), None
        ).reshape(2, CHOICE_WORDS)
        labels = np.concatenate(self._labels)
        stump = self._choose(labels, words[0])
        column = self._column(stump.column)
        ranked = ranking(column, upward=stump.upward, coins=_coins(addresses, len(column)))
        inside = ranked[: self._count(labels[ranked], words[1])]
        sides = stump.sides(self._plan)
        geometry = Geometry(self._plan, sides)
        harvest = Harvest(self._plan, geometry, self._plan.phases[0])
        records = inside.astype(np.uint64)
        harvest.add(addresses, geometry.keys_of(column[inside]), records, np.zeros_like(records))
        boxes = RectanglesPERP(self._plan, self._key.ratchet(), phase=1, sides=sides)
        boxes.arm(harvest.slices(addresses))
        self._forget(harvest)
        return StumpsPERP(self._plan, stump, boxes)

    def _column(self, number: int) -> Keys:
        return np.concatenate([self._values.column(columns.T, number) for columns in self._columns])

    def _choose(self, labels: NDArray[np.bool_], words: NDArray[np.uint64]) -> Stump:
        allowed = candidates(self._plan)
        used = sorted({stump.column for stump in allowed})
        with ThreadPoolExecutor(_SORTERS) as pool:  # sorting needs no lock of the interpreter's
            losses = np.concatenate(list(pool.map(lambda number: least_losses([self._column(number)], labels), used)))
        row_of = {number: row for row, number in enumerate(used)}
        mine = np.array([losses[row_of[stump.column], 0 if stump.upward else 1] for stump in allowed])
        return allowed[choose(self._plan.selection.scale, mine, words)]

    def _count(self, ranked: NDArray[np.bool_], words: NDArray[np.uint64]) -> int:
        """Return p-hat, clipped to the number of records."""
        selection = self._plan.selection
        if selection.cut_law == "choice":
            return choose(selection.cut_scale, cut_losses(ranked), words)
        noise = int(sample("laplace", selection.cut_scale, words[:2].reshape(1, 2))[0])
        return min(max(int(np.count_nonzero(ranked)) + noise, 0), len(ranked))

    def _forget(self, harvest: Harvest) -> None:
        for part in (*self._columns, *self._labels):
            part.fill(0)
        self._columns.clear()
        self._labels.clear()
        for window in harvest.windows:
            window.clear()


def _coins(addresses: Addresses, count: int) -> NDArray[np.uint64]:
    """Return a coin for each row number: uint64[count]."""
    coins = np.empty(count, dtype=np.uint64)
    for start in range(0, count, _SEGMENT):
        numbers = np.arange(start, min(start + _SEGMENT, count), dtype=np.uint64)
        coins[start : start + _SEGMENT] = addresses.words(Purpose.COIN, numbers, _ONE_SIDE, None)[0, :, 0]
    return coins


class StumpsPERP:
    """One shard's stump predictor (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * Those of `RectanglesPERP`, with `StumpsTrainer`'s for the training records.
        * The chosen pair is a private release, so nothing follows from it; it stays in the state all the same.
        * Hash, noise and tag of a round are those of the whole query, not of the chosen feature alone.

    Made by `StumpsTrainer.finish` or by `restore`.
    """

    def __init__(self, plan: StumpsPlan, stump: Stump, boxes: RectanglesPERP) -> None:
        self._plan = plan
        self._stump = stump
        self._boxes = boxes

    @property
    def sides(self) -> SideBank:
        """The armed sides of the stump (see `RectanglesPERP.sides`)."""
        return self._boxes.sides

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        return self._boxes.answer(features, present)

    def settle(self) -> None:
        """Do the bookkeeping of the answers given so far."""
        self._boxes.settle()

    def facts(self) -> PublicFacts:
        """Return what is public."""
        return self._boxes.facts()

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan and the phase only."""
        stump = np.array([self._stump.column, self._stump.upward], dtype=np.int64)
        return {**self._boxes.export(), _STUMP: stump}

    @classmethod
    def restore(cls, plan: StumpsPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It has no stump that the plan allows.
        """
        found = arrays.get(_STUMP)
        stump = None if found is None else Stump(int(found[0]), bool(found[1]))
        if stump is None or stump not in candidates(plan):
            raise CorruptSnapshotError("snapshot: it has no stump of its plan")
        return cls(plan, stump, RectanglesPERP.restore(plan, arrays, stump.sides(plan)))
