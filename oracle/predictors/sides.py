"""The armed sides of one phase, and the windows that the next ones are cut from: the state of a box predictor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice.stripes import choose_sides, split_positions
from oracle.mechanisms.noise.tables import geometric
from oracle.mechanisms.orders import NUMBERS, Keys, mirrored
from oracle.mechanisms.slicing import Faces, cut_window, noisy_slices, sequential_slices
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.mechanisms.windows import Window
from oracle.planning.features import columns_of, key_bytes
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan, StopperPlan
from oracle.predictors.values import Values

__all__ = ["Geometry", "Harvest", "SideBank"]

_NO_SIDE: Final = np.zeros(1, dtype=np.uint64)


def _thresholds(instance: InstancePlan) -> BetweenThresholds:
    return BetweenThresholds(instance.law, instance.scale, instance.low, instance.high, instance.points)


def _stopper(stopper: StopperPlan) -> Stopper:
    scale = stopper.epsilon if stopper.scale is UNSET else stopper.scale
    return Stopper(scale, stopper.threshold, "discrete-laplace" if stopper.law is UNSET else stopper.law)


class Geometry:
    """Which feature each side looks at, and which way: turns features into oriented keys.

    Args:
        plan: The plan.
        sides: The sides that are used, "NAME:lower" or "NAME:upper"; the plan's, if it knows them.
        edges: uint64[S], the learned edges of `faces`, if the plan has them learned and they are known.
    """

    def __init__(
        self, plan: BoxPlan, sides: Sequence[str] | None = None, edges: NDArray[np.uint64] | None = None
    ) -> None:
        names = [feature.name for feature in plan.features]
        split = [side.rsplit(":", 1) for side in (plan.sides if sides is None else sides)]
        numbers = [names.index(name) for name, _ in split]
        used = sorted(set(numbers))
        starts = columns_of(plan.features)
        self._used = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in used])
        self._uses_all = len(self._used) == plan.width
        self._values = Values([plan.features[number] for number in used], key_bytes(plan.features))
        self.kind = self._values.kind
        self._features = [used.index(number) for number in numbers]
        self._columns = np.array([self._values.starts[number] for number in self._features], dtype=np.intp)
        self._signs = np.array([1.0 if side == "lower" else -1.0 for _, side in split])
        self.sides = len(split)
        bounds = [plan.features[number].bounds or (-1.0, 1.0) for number in numbers]
        centers = np.array([(low + high) / 2.0 for low, high in bounds])
        scales = np.array([(high - low) / 2.0 for low, high in bounds])
        self.faces = Faces(centers * self._signs, scales, plan.coin)
        self.edges = edges

    def looked_at(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numbers of the features that sides look at: all that their keys are made of, and less than these.

        Args:
            features: float64[n, D].
        """
        return features if self._uses_all else features[:, self._used]

    def keys(self, features: NDArray[np.float64]) -> Keys:
        """Return [S, n] keys: x_j for a lower side, -x_j for an upper one; never -0.0; outermost is smallest.

        Where a side of the model looks at a string, keys are bytes in the same order (`oracle.mechanisms.orders`).

        Args:
            features: float64[n, D], without -0.0.
        """
        return self.keys_of_numbers(self.looked_at(features))

    def key_of_numbers(self, numbers: NDArray[np.float64], side: int) -> NDArray[np.float64]:
        """Return one side's keys, float64[n], of what `looked_at` returned; all keys are numbers."""
        keys: NDArray[np.float64] = numbers[:, self._columns[side]] * self._signs[side] + 0.0
        return keys

    def keys_of_numbers(self, numbers: NDArray[np.float64]) -> Keys:
        """Return what `keys` does, of what `looked_at` returned."""
        if self.kind == NUMBERS:
            columns = numbers.T[self._columns]
            columns *= self._signs[:, None]
            columns += 0.0
            return columns
        codes = {number: self._values.codes(numbers, number) for number in set(self._features)}
        return self._oriented([codes[number] for number in self._features], len(numbers))

    def positions(
        self, addresses: Addresses, keys: Keys, side: int, records: NDArray[np.uint64], hashes: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """Return the positions of a side's keys that its edge is learned among and compared with: uint64[n].

        Args:
            addresses: The phase's keyed functions (for the coins).
            keys: float64[n], oriented keys.
            side: The side.
            records: uint64[n], as for `assign`.
            hashes: uint64[n].
        """
        feature = np.array([self._features[side]], dtype=np.uint64)
        coins = addresses.words(Purpose.COIN, records, feature, hashes)[0, :, 0]
        return split_positions(keys, coins, lower=bool(self._signs[side] > 0.0))

    def assign(
        self, addresses: Addresses, keys: Keys, records: NDArray[np.uint64], hashes: NDArray[np.uint64]
    ) -> NDArray[np.intp]:
        """Return which side gets each positive record under `faces`: intp[n].

        Args:
            addresses: The phase's keyed functions (for the coins).
            keys: float64[S, n], oriented keys.
            records: uint64[n], rounds of the phase, or row numbers of the training set.
            hashes: uint64[n], keyed hashes of the records.
        """
        if self.edges is None:
            return self.faces.choose(keys, addresses.words(Purpose.COIN, records, _NO_SIDE, hashes)[0])
        picks = addresses.words(Purpose.COIN, records, _NO_SIDE, hashes)[0, :, 1]
        positions = [self.positions(addresses, mine, side, records, hashes) for side, mine in enumerate(keys)]
        return choose_sides(self.edges, np.stack(positions), picks)

    def keys_of(self, values: Keys) -> Keys:
        """Return [S, n] keys as `keys` does, where all sides look at one feature, of its `Values.column`."""
        if self.kind == NUMBERS:
            keys: Keys = values * self._signs[:, None] + 0.0
            return keys
        return self._oriented([self._values.widened(values)] * self.sides, len(values))

    def _oriented(self, codes: Sequence[Keys], count: int) -> Keys:
        keys: Keys = np.empty((self.sides, count), dtype=self.kind)
        for side, (code, sign) in enumerate(zip(codes, self._signs, strict=True)):
            keys[side] = code if sign > 0.0 else mirrored(code)
        return keys


class Harvest:
    """The positively labelled records of a phase, as far as the next phase's sides can need them.

    Args:
        plan: The plan.
        geometry: Its geometry.
        following: The phase whose start instances are cut from this harvest.
    """

    def __init__(self, plan: BoxPlan, geometry: Geometry, following: PhasePlan) -> None:
        self._geometry = geometry
        self._one_after_another = plan.slicing != "faces"
        self._start = following.start
        keep = self._start.points + self._start.trim
        sizes = [keep * (side + 1 if self._one_after_another else 1) for side in range(geometry.sides)]
        self.windows = [Window(size, geometry.kind) for size in sizes]

    def near(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which records some side could still keep; the others are kept by none, whichever they are sent to.

        Args:
            keys: [S, n] oriented keys.
        """
        near = np.zeros(keys.shape[1], dtype=np.bool_)
        for window, column in zip(self.windows, keys, strict=True):
            near |= window.near(column)
        return near

    def add(
        self,
        addresses: Addresses,
        keys: Keys,
        records: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
    ) -> None:
        """Add positive records; those that are not `near` may be left out.

        Args:
            addresses: The phase's keyed functions (for the coins of `faces`).
            keys: [S, n] oriented keys.
            records: uint64[n], rounds of the phase, or row numbers of the training set.
            hashes: uint64[n], keyed hashes of the records.
        """
        numbers = records.astype(np.int64)
        if self._one_after_another:
            for window, column in zip(self.windows, keys, strict=True):
                window.add(column, numbers)
            return
        if len(self.windows) == 1:
            self.windows[0].add(keys[0], numbers)
            return
        self.give(keys, records, self._geometry.assign(addresses, keys, records, hashes))

    def give(self, keys: Keys, records: NDArray[np.uint64], sides: NDArray[np.intp]) -> None:
        """Add assigned positive records: [S, n] oriented keys, uint64[n] numbers, and intp[n], each one's side."""
        numbers = records.astype(np.int64)
        for side, window in enumerate(self.windows):
            mine = sides == side
            window.add(keys[side, mine], numbers[mine])

    def slices(self, addresses: Addresses) -> list[Keys]:
        """Return each side's start points: M keys, sorted and padded with the last one (+inf).

        Args:
            addresses: The keyed functions of the phase that ends here (for the sizes of noisy slices).
        """
        points, trim = self._start.points, self._start.trim
        if not self._one_after_another:
            return [cut_window(window.ordered()[0], points, trim) for window in self.windows]
        if self._start.base is UNSET or self._start.slice_scale is UNSET:
            return sequential_slices(self.windows, points, trim)
        sides = np.arange(len(self.windows), dtype=np.uint64)
        words = addresses.words(Purpose.SLICE, np.zeros(1, dtype=np.uint64), sides, None)[:, 0]
        sizes = self._start.base + geometric(self._start.slice_scale, words)
        return noisy_slices(self.windows, sizes.tolist(), points)


@dataclass(slots=True)
class SideBank:
    """All armed sides of a phase and the mediums each has collected.

    Attributes:
        start: Public parameters of the instances armed at the phase's beginning.
        rearmed: Public parameters of those armed afresh.
        stopper: Public parameters of the Stoppers.
        armed: One armed side for each side.
        collected: The medium queries each side was given since it was armed.
    """

    start: BetweenThresholds
    rearmed: BetweenThresholds
    stopper: Stopper
    armed: list[ArmedSide]
    collected: list[Window]

    @classmethod
    def begin(cls, phase: PhasePlan, addresses: Addresses, slices: list[Keys]) -> "SideBank":
        """Arm every side on its slice, before round 0 of the phase."""
        bank = cls(
            _thresholds(phase.start),
            _thresholds(phase.rearmed),
            _stopper(phase.stopper),
            [],
            [Window(phase.rearmed.points, points.dtype) for points in slices],
        )
        # Alg. 2 as written asks its first question before round 0; see `ArmedSide.first_halt` for the other
        armed = 0 if bank.stopper.noisy_threshold else -1
        for side, points in enumerate(slices):
            level = bank.level(addresses, side, armed)
            bank.armed.append(ArmedSide(bank.start, bank.stopper, points, 0, level, armed))
        return bank

    def level(self, addresses: Addresses, side: int, armed: int) -> int:
        """Return k + rho of the life of `side` that was armed before round `armed`, or k where there is no rho."""
        if not self.stopper.noisy_threshold:
            return self.stopper.threshold
        words = addresses.words(
            Purpose.THRESHOLD, np.array([armed], dtype=np.uint64), np.array([side], dtype=np.uint64), None
        )
        return self.stopper.level(words[0, 0])

    def rearm(self, addresses: Addresses, side: int, armed: int) -> None:
        """Arm `side` afresh, before the query of round `armed`, on the mediums it collected; they are emptied."""
        window = self.collected[side]
        points = cut_window(window.ordered()[0], self.rearmed.points, 0)
        window.clear()
        level = self.level(addresses, side, armed)
        self.armed[side] = ArmedSide(self.rearmed, self.stopper, points, 0, level, armed)
