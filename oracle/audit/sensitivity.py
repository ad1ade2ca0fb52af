"""How far one training row moves a predictor's depths: the proofs charge for a step of one."""

from itertools import product
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.audit.randomness import Randomness
from oracle.audit.trials import rows
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.stripes import Outermost
from oracle.mechanisms.choice.stumps import cut_losses, least_losses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.plan import BoxPlan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import Predictor, Trainer
from oracle.predictors.kinds import new_trainer
from oracle.predictors.sides import Geometry, Harvest
from oracle.predictors.stumps import Stump, StumpsTrainer

__all__ = ["sensitivity"]

_STEP = 3
_KEYS = 4001

Floats = NDArray[np.float64]
Labels = NDArray[np.bool_]
Seen = tuple[bool, str]


def sensitivity(plan: BoxPlan, randomness: Randomness) -> Seen:
    """One training row changes every depth by at most 1: else each answer tells twice as much as it is charged.

    Of stumps this holds given the pair and the cut, which are chosen privately; there, one row must change the losses
    that these are chosen by as the choice's proofs say. Where edges are learned it holds given these, and also of how
    many rows the side that has the least got.
    """
    if not isinstance(plan, StumpsPlan):
        most = _of_box(plan, randomness.secret(0))
        return most <= 1, f"one row changes a depth by {most} at most"
    most, least, cut = 0, 0, 0
    for number, share in enumerate((0.3, 0.5, 0.7)):
        values, labels = _noisy_rows(plan.declared, share, randomness.words(number, plan.declared))
        counts = _counts(labels)
        for row in range(0, plan.declared, _STEP):
            order = np.append(np.delete(np.arange(plan.declared), row), row)
            pair = values[order], labels[order]
            for upward, count in product((True, False), counts):
                most = max(most, _of_stump(plan, randomness.secret(number), *pair, Stump(0, upward), count))
            least = max(least, _of_least_losses(*pair))
            cut = max(cut, _of_cut_losses(*pair))
    says = f"one row changes a depth by {most} at most, losses of pairs by 0 to {least}, losses of cuts within {cut}"
    return most <= 1 and least <= 1 and cut <= 2, says  # noqa: PLR2004 -- as `cut_losses` proves


def _of_box(plan: BoxPlan, secret: bytes) -> int:
    values, labels = rows(plan)
    edges = None
    if plan.scale is not UNSET:
        trainer = new_trainer(plan, secret)
        trainer.add(values[:, None], labels)
        edges = trainer.finish().export()["edges"].astype(np.uint64)

    def points(there: Floats, marks: Labels) -> tuple[Floats, int]:
        if edges is None:
            return _points(new_trainer(plan, secret), there, marks), 0
        return _assigned(plan, secret, edges, there[marks], np.flatnonzero(marks).astype(np.uint64))

    whole, held = points(values, labels)
    most = 0
    for row in range(0, plan.declared, _STEP):
        there, marks = values.copy(), labels.copy()
        there[row], marks[row] = 0.0, False
        others, fewer = points(there, marks)
        most = max(most, _apart(whole, others), abs(held - fewer))
    return most


def _assigned(
    plan: BoxPlan, secret: bytes, edges: NDArray[np.uint64], values: Floats, records: NDArray[np.uint64]
) -> tuple[Floats, int]:
    """Return what the sides get by given edges, and how many of its outermost rows the one with the least of these."""
    addresses, geometry = Addresses(PhaseKey(secret), plan.width), Geometry(plan, edges=edges)
    features = values[:, None] + 0.0
    hashes = addresses.hashes(features, np.ones(len(values), dtype=np.bool_))
    keys, harvest = geometry.keys(features), Harvest(plan, geometry, plan.phases[0])
    sides = geometry.assign(addresses, keys, records, hashes)
    harvest.give(keys, records, sides)
    held = []
    for side, mine in enumerate(keys):
        positions = geometry.positions(addresses, mine, side, records, hashes)
        counted = Outermost(positions, plan.phases[0].start.points)
        counted.count(positions, sides == side)
        held.append(counted.held)
    return np.stack(harvest.slices(addresses)).astype(np.float64), min(held)


def _noisy_rows(count: int, share: float, words: NDArray[np.uint64]) -> tuple[Floats, Labels]:
    """Return values with ties, and labels of a cut of which every eighth is wrong."""
    values = np.round(np.linspace(-0.9, 0.9, count), 2)
    return values, (values > 1.8 * share - 0.9) ^ (words[:, 0] % np.uint64(8) == 0)


def _counts(labels: Labels) -> tuple[int, ...]:
    """Return numbers of records labelled 1 that may be chosen: none, few, about the true one, all."""
    there = int(np.count_nonzero(labels))
    return 0, 3, there - 5, there, len(labels) - 1


class _Given(StumpsTrainer):
    """Trains with a pair and a number of records labelled 1 that were chosen before."""

    def given(self, stump: Stump, count: int) -> "_Given":
        self._stump, self._cut = stump, count
        return self

    def _choose(self, labels: Labels, words: NDArray[np.uint64]) -> Stump:  # noqa: ARG002 -- chosen before
        return self._stump

    def _count(self, ranked: Labels, words: NDArray[np.uint64]) -> int:  # noqa: ARG002
        return min(self._cut, len(ranked))


def _of_stump(plan: StumpsPlan, secret: bytes, values: Floats, labels: Labels, stump: Stump, count: int) -> int:  # noqa: PLR0913, PLR0917 -- what a game is made of
    """Return by how much the last row changes a depth, given pair and number."""
    whole = _points(_Given(plan, secret).given(stump, count), values, labels)
    fewer = msgspec.structs.replace(plan, declared=plan.declared - 1)
    return _apart(whole, _points(_Given(fewer, secret).given(stump, count), values[:-1], labels[:-1]))


def _points(trainer: Trainer[Any, Predictor], values: Floats, labels: Labels) -> Floats:
    trainer.add(values[:, None], labels)
    points: Floats = trainer.finish().export()["points"].astype(np.float64)
    return points


def _apart(points: Floats, others: Floats) -> int:
    """Return the largest difference of depths that some query has among them, side by side."""
    keys = np.linspace(-1.0, 1.0, _KEYS)
    depths = [np.array([side.searchsorted(keys, side="right") for side in world]) for world in (points, others)]
    return int(np.abs(depths[0] - depths[1]).max())


def _of_least_losses(values: Floats, labels: Labels) -> int:
    """Return by how much the last row raises the losses of a feature's two directions; 2 if it lowers one."""
    change = least_losses([values], labels) - least_losses([values[:-1]], labels[:-1])
    return int(change.max()) if change.min() >= 0 else 2


def _of_cut_losses(values: Floats, labels: Labels) -> int:
    """Return how far apart the last row's changes of the cuts' losses are; beyond all records no cut has other ones."""
    whole = cut_losses(labels[np.argsort(values, kind="stable")])
    without = cut_losses(labels[:-1][np.argsort(values[:-1], kind="stable")])
    change = whole - np.append(without, without[-1])
    return int(change.max() - change.min())
