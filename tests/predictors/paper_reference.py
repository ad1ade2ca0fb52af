"""RectanglesPERP as Stemmer (2024) writes it: Algorithms 1 to 5, step by step, in plain Python.

Written from the paper's steps, and from nothing else but what the bodies that its text has lost must have
been, by its proofs. Whatever is random comes from a `Chance`, so that a run can be told what its noise is.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Query = tuple[float, ...]


class Chance(Protocol):
    """Where the noise comes from.

    A copy of ChallengeBT is known by its side; a round by its number within the phase, from 0.
    """

    def stopping(self, side: int, number: int, scale: float) -> float:
        """Return Lap(scale) for a Stopper's answer."""

    def depth(self, side: int, number: int, query: Query, scale: float) -> float:
        """Return Lap(scale) for the answer of BetweenThresholds."""

    def slice(self, side: int, parameter: float) -> int:
        """Return Geom0(1 - exp(-parameter)) for RSC."""

    def next_phase(self) -> None:
        """A phase ends."""


class PaperPhase(NamedTuple):
    """The parameters of one phase: t_p, delta_p, m_p, and t_l (t_h is m_p - t_l)."""

    rounds: int
    delta: float
    points: int
    low: int


class _Stopper:
    """Algorithm 2."""

    def __init__(self, epsilon: float, delta: float, threshold: int) -> None:
        self.scale = 8.0 / epsilon * math.log(2.0 / delta)
        self.threshold = threshold
        self.bits: list[int] = []

    def update(self, bit: int) -> None:
        self.bits.append(bit)  # step 1

    def query(self, noise: float) -> bool:
        return noise + sum(self.bits) >= self.threshold  # step 2


class _BetweenThresholds:
    """Algorithm 3, modified by step 2 of Algorithm 4: it never halts, so it keeps no counter."""

    def __init__(
        self, data: Sequence[Query], privacy: tuple[float, float], mediums: int, zone: tuple[int, int]
    ) -> None:
        epsilon, delta = privacy
        self.data = data
        self.scale = 4.0 / epsilon * math.sqrt(mediums * math.log(2.0 / delta))
        self.low, self.high = zone

    def query(self, function: Callable[[Sequence[Query]], int], noise: float) -> str:
        noisy = function(self.data) + noise  # step 2a
        return "low" if noisy < self.low else "high" if noisy > self.high else "medium"


class _ChallengeBT:
    """Algorithm 4."""

    def __init__(self, data: Sequence[Query], epsilon: float, delta: float, phase: PaperPhase) -> None:
        k = 2 * phase.points
        self.stopper = _Stopper(epsilon, delta, k)  # step 1
        more = math.ceil(8.0 / epsilon * math.log(2.0 / delta) * math.log(phase.rounds / delta))
        zone = (phase.low, phase.points - phase.low)
        self.thresholds = _BetweenThresholds(data, (epsilon, delta / 2.0), k + more, zone)  # step 2
        self.flag = True  # step 3

    def stopping_query(self, noise: float) -> bool:
        self.flag = True  # step 4a
        return self.stopper.query(noise)

    def bt_query(self, function: Callable[[Sequence[Query]], int], noise: float) -> str:
        assert self.flag
        self.flag = False  # step 4b
        answer = self.thresholds.query(function, noise)
        self.stopper.update(int(answer == "medium"))
        return answer


class _Side(NamedTuple):
    """Left or right of one coordinate: the order of its points, outermost first, and its depth function."""

    coordinate: int
    left: bool

    def outwardness(self, point: Query) -> float:
        return point[self.coordinate] if self.left else -point[self.coordinate]

    def depth(self, query: Query) -> Callable[[Sequence[Query]], int]:
        value = query[self.coordinate]
        if self.left:
            return lambda points: sum(point[self.coordinate] <= value for point in points)
        return lambda points: sum(point[self.coordinate] >= value for point in points)


class PaperReference:
    """Algorithm 5, its phases' constants given.

    Attributes:
        restarts: (global round, side) of every copy that was started afresh in step 5b.
    """

    def __init__(
        self,
        epsilon: float,
        phases: Sequence[PaperPhase],
        sides: Sequence[tuple[int, bool]],
        chance: Chance,
        examples: Sequence[tuple[Query, bool]],
    ) -> None:
        self.epsilon, self.phases, self.chance = epsilon, list(phases), chance
        self.sides = [_Side(*side) for side in sides]
        self.restarts: list[tuple[int, int]] = []
        self.round = 0
        self.p = 0  # step 1
        self.D = list(examples)  # step 2
        self._step_3()

    def _privacy(self) -> tuple[float, float]:
        """Return what one copy runs at: Theorem 4.1 turned round, as Definition 4.11 has it."""
        delta = self.phases[self.p].delta
        return self.epsilon / math.log(1.0 / delta), 2.0 * delta / len(self.sides)

    def _step_3(self) -> None:
        """RSC (Algorithm 1) over the positively labelled points, then step 4: D is empty."""
        phase = self.phases[self.p]
        epsilon, delta = self._privacy()
        rest = [point for point, label in self.D if label]
        self.copies = []
        for number, side in enumerate(self.sides):
            size = phase.points + self.chance.slice(number, self.epsilon / math.log(1.0 / phase.delta))
            order = sorted(range(len(rest)), key=lambda place, side=side: side.outwardness(rest[place]))  # type: ignore[misc]
            taken = set(order[:size])  # ties: who came first
            self.copies.append(_ChallengeBT([rest[place] for place in order[:size]], epsilon, delta, phase))
            rest = [point for place, point in enumerate(rest) if place not in taken]
        self.D = []
        self.collected: list[list[Query]] = [[] for _ in self.sides]
        self.number = 0
        self.chance.next_phase()

    def answer(self, query: Query | None) -> int | None:
        """Steps 5a to 5j for one query, or for no query."""
        phase, (epsilon, delta) = self.phases[self.p], self._privacy()
        halted = [
            copy.stopping_query(self.chance.stopping(number, self.number, copy.stopper.scale))
            for number, copy in enumerate(self.copies)
        ]  # step a
        for number in [number for number, stop in enumerate(halted) if stop]:  # step b
            self.copies[number] = _ChallengeBT(self.collected[number], epsilon, delta, phase)
            self.collected[number] = []
            self.restarts.append((self.round, number))
        label = None if query is None else self._steps_c_to_h(query)
        self.round += 1
        self.number += 1
        if self.number == phase.rounds:  # step j
            self.p += 1
            if self.p < len(self.phases):
                self._step_3()
        return label

    def _steps_c_to_h(self, query: Query) -> int:
        for number, (side, copy) in enumerate(zip(self.sides, self.copies, strict=True)):  # step f
            noise = self.chance.depth(number, self.number, query, copy.thresholds.scale)
            match copy.bt_query(side.depth(query), noise):
                case "medium":
                    self.collected[number].append(query)
                    return 0
                case "low":
                    self.D.append((query, False))  # step h
                    return 0
        self.D.append((query, True))  # steps g, h
        return 1
