"""A plain reference of RectanglesPERP in the `tight` profile: one query at a time, sorted lists, no array logic.

Written from the algorithm (Stemmer, 2024, Alg. 5, steps a to j), with addressed draws in place of fresh ones:

* a round's draws are addressed by its number within the phase, and by the keyed hash of the query where it has one;
* the threshold of a side's life is addressed by the round before whose query the side was armed. A side armed before
  a round is first asked to stop before the next one, so the lives of a side have different addresses.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence

import numpy as np

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import Law, sample
from oracle.planning.plan import BoxPlan, InstancePlan

__all__ = ["Reference"]

Point = tuple[float, int]
"""An oriented key (the outermost is the smallest) and the record's number, which breaks ties."""


class _Draws:
    """One phase's addressed draws, one integer or one pair of words at a time."""

    def __init__(self, key: PhaseKey, dimension: int) -> None:
        self._addresses = Addresses(key, dimension)

    def query_hash(self, query: Sequence[float]) -> int:
        return int(self._addresses.hashes(np.array([query]), np.array([True]))[0])

    def words(self, purpose: Purpose, number: int, side: int, query_hash: int | None) -> tuple[int, int]:
        hashes = None if query_hash is None else np.array([query_hash], dtype=np.uint64)
        words = self._addresses.words(
            purpose, np.array([number], dtype=np.uint64), np.array([side], dtype=np.uint64), hashes
        )
        return int(words[0, 0, 0]), int(words[0, 0, 1])

    def noise(  # noqa: PLR0913, PLR0917 -- a law and an address
        self, law: Law, scale: float, purpose: Purpose, number: int, side: int, query_hash: int | None
    ) -> int:
        words = np.array([self.words(purpose, number, side, query_hash)], dtype=np.uint64)
        return int(sample(law, scale, words)[0])


class _Life:
    """One ChallengeBT: its sorted points, its thresholds, its count of mediums and its noisy level."""

    def __init__(self, instance: InstancePlan, keys: Sequence[float], level: int, armed: int) -> None:
        self.instance = instance
        self.keys = sorted(keys)
        self.level = level
        self.armed = armed
        self.mediums = 0


class Reference:
    """A predictor that answers one query at a time.

    Attributes:
        rearms: (global round, side) of every re-arm.
        changes: The global round at which each phase after the first began.
    """

    def __init__(
        self, plan: BoxPlan, secret: bytes, examples: Sequence[Sequence[float]], positive: Sequence[bool]
    ) -> None:
        self._plan = plan
        self._key = PhaseKey(secret)
        self._names = [feature.name for feature in plan.features]
        self._draws = _Draws(self._key, plan.width)
        self.rearms: list[tuple[int, int]] = []
        self.changes: list[int] = []
        self._round = 0
        self._phase = 0
        self._empty()
        for row, (example, label) in enumerate(zip(examples, positive, strict=True)):
            if label:
                clean = [value + 0.0 for value in example]
                self._harvest(clean, row, self._draws.query_hash(clean))
        self._begin()

    def _empty(self) -> None:
        self._data: list[list[Point]] = [[] for _ in self._plan.sides]  # D, as each side was given it

    def _oriented(self, query: Sequence[float], side: int) -> float:
        name, end = self._plan.sides[side].rsplit(":", 1)
        value = query[self._names.index(name)]
        return value if end == "lower" else 0.0 - value

    def _harvest(self, query: Sequence[float], number: int, query_hash: int) -> None:
        """Step h: put a positive record into D."""
        sides = range(len(self._plan.sides))
        chosen = sides if self._plan.slicing == "sequential" else [self._face(query, number, query_hash)]
        for side in chosen:
            insort(self._data[side], (self._oriented(query, side), number))

    def _face(self, query: Sequence[float], number: int, query_hash: int) -> int:
        """The rule `faces`: a random side with the coin's probability, else one of those nearest to the outside."""
        count = len(self._plan.sides)
        outward = []
        for side in range(count):
            name, end = self._plan.sides[side].rsplit(":", 1)
            bounds = self._plan.features[self._names.index(name)].bounds
            low, high = (-1.0, 1.0) if bounds is None else bounds
            score = (query[self._names.index(name)] - (low + high) / 2.0) / ((high - low) / 2.0)
            outward.append(score if end == "upper" else -score)
        best = max(outward)
        near = [side for side in range(count) if outward[side] >= best - 0.1 * abs(best)]
        first, second = self._draws.words(Purpose.COIN, number, 0, query_hash)
        part = second >> 32  # uniform on 0 .. 2^32 - 1
        if count > 1 and first < int(self._plan.coin * 2.0**64):
            return (part * count) >> 32
        return near[(part * len(near)) >> 32]

    def _slices(self, instance: InstancePlan) -> list[list[float]]:
        """Step 3, with the rules of the tight profile: skip `trim`, keep the next M."""
        taken: set[int] = set()
        slices = []
        for points in self._data:
            free = [point for point in points if point[1] not in taken]
            outermost = free[: instance.trim + instance.points]
            if self._plan.slicing == "sequential":
                taken.update(number for _, number in outermost)
            slices.append([key for key, _ in outermost[instance.trim :]])
        return slices

    def _begin(self) -> None:
        """Steps 3, 4 and j: the next phase on what D holds, under the next key."""
        current = self._plan.phases[self._phase]
        slices = self._slices(current.start)
        self._phase += 1
        self._key = self._key.ratchet()
        self._draws = _Draws(self._key, self._plan.width)
        self._empty()
        self._phase_round = 0
        self._lives = [
            _Life(current.start, keys, self._level(side, armed=0), armed=0) for side, keys in enumerate(slices)
        ]
        self._collected: list[list[Point]] = [[] for _ in slices]

    def _level(self, side: int, armed: int) -> int:
        stopper = self._plan.phases[self._phase - 1].stopper
        rho = self._draws.noise("discrete-laplace", stopper.epsilon, Purpose.THRESHOLD, armed, side, None)
        return stopper.threshold + rho

    def _stop_and_rearm(self) -> None:
        """Steps a and b."""
        current = self._plan.phases[self._phase - 1]
        for side, life in enumerate(self._lives):
            if life.armed == self._phase_round:
                continue
            nu = self._draws.noise(
                "discrete-laplace", current.stopper.epsilon, Purpose.STOPPER, self._phase_round, side, None
            )
            if life.mediums + nu >= life.level:
                outermost = sorted(self._collected[side])[: current.rearmed.points]
                self._collected[side] = []
                level = self._level(side, armed=self._phase_round)
                self._lives[side] = _Life(current.rearmed, [key for key, _ in outermost], level, self._phase_round)
                self.rearms.append((self._round, side))

    def _ask(self, query: Sequence[float]) -> int:
        """Steps f, g and h."""
        query_hash = self._draws.query_hash(query)
        for side, life in enumerate(self._lives):
            key, instance = self._oriented(query, side), life.instance
            depth = bisect_right(life.keys, key)
            noisy = depth + self._draws.noise(
                instance.law, instance.scale, Purpose.DEPTH, self._phase_round, side, query_hash
            )
            if noisy > instance.high:
                continue
            if noisy >= instance.low:
                life.mediums += 1
                self._collected[side].append((key, self._phase_round))
            return 0
        self._harvest(query, self._phase_round, query_hash)
        return 1

    def answer(self, query: Sequence[float] | None) -> int | None:
        """Answer the next round's query, or None where it has none."""
        self._stop_and_rearm()
        label = None if query is None else self._ask([value + 0.0 for value in query])
        self._round += 1
        self._phase_round += 1
        phase = self._plan.phases[self._phase - 1]
        if self._phase_round == phase.rounds and self._phase < len(self._plan.phases):
            self._begin()
            self.changes.append(self._round)
        return label
