"""A plain re-implementation of boxes, round by round, slow and meant to be read.

Written from Stemmer (2024), Algorithms 5 and 7, as PRIVACY.md, sections 3 to 10, has them: one query, one side, one
draw at a time, points in sorted lists. A round's draws go by its number within the phase, and depths' by the query's
keyed hash too; a life's threshold by the round before whose query the side was armed.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from msgspec import UNSET

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PhaseStarted, PlanEnded, SideRearmed
from oracle.audit.references.choices import choose_edge, side_runs
from oracle.audit.references.keyed import Keyed, discrete_laplace, laplace, logistic
from oracle.audit.references.values import PLACES, Key, Row, key_size, numbers_of, oriented, place_of
from oracle.mechanisms.addresses import Purpose
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan

__all__ = ["PlainBoxes", "Point", "Side"]

_COINED: Final = 10
"""Last bits of a place that are a coin's, where edges are learned."""

_LAWS: Final = {"logistic": logistic, "discrete-laplace": discrete_laplace, "laplace": laplace}

Point = tuple[Key, int]
"""A key, and the record's number, which parts ties."""


@dataclass
class _Life:
    """One ChallengeBT: its points, its thresholds, its mediums, and where it halts.

    Attributes:
        instance: What it is armed with.
        keys: Points, the outermost first.
        level: Its Stopper's noisy threshold.
        armed: The round of the phase before whose query it was armed.
        again: Whether within the phase.
        mediums: So far.
    """

    instance: InstancePlan
    keys: list[Key]
    level: int
    armed: int
    again: bool
    mediums: int = 0


@dataclass(frozen=True)
class Side:
    """Which feature a side looks at, its number among those that are looked at, and from where."""

    column: int
    used: int
    lower: bool


@dataclass
class _Phase:
    """What a phase gathers: the mediums of each side, and D as each side is given it."""

    collected: list[list[Point]] = field(default_factory=list)
    given: list[list[Point]] = field(default_factory=list)


class PlainBoxes:
    """One shard of boxes.

    Args:
        plan: The plan.
        secret: The genesis key.
        rows: As many as the plan declares.
        labels: Their labels.

    Attributes:
        events: What the ledger must say.
        round: Rounds so far.
        tag: The running tag, 128 bits.
        margin: What was released of the points when the state was made, if anything.
    """

    _armed_at_start = 0
    """The round before whose query the sides of a phase's start were armed: the Stopper is first asked behind it."""

    def __init__(self, plan: BoxPlan, secret: bytes, rows: Sequence[Row], labels: Sequence[bool]) -> None:
        self._plan = plan
        self._size = key_size(plan.features)
        self._keyed = Keyed(secret)
        self.margin: int | None = None
        self.tag = self.round = self._rearms = self._phase = 0
        self.events: list[LedgerEvent] = []
        self._edges: list[int] = []
        self._begin(self._trained(rows, labels))

    def _trained(self, rows: Sequence[Row], labels: Sequence[bool]) -> list[list[Point]]:
        """Give the rows labelled 1 to the sides; learn edges and count, where the plan has it."""
        plan = self._plan
        self._sides = self._sides_of(plan.sides)
        positive = [number for number, label in enumerate(labels) if label]
        hashes = {number: self._keyed.hash(numbers_of(plan.features, rows[number])) for number in positive}
        beyond = len(positive)
        places: list[list[tuple[int, int]]] = []
        if plan.scale is not UNSET:
            places = [
                sorted((self._place(rows[number], side, number, hashes[number]), number) for number in positive)
                for side in range(len(self._sides))
            ]
            for side, mine in enumerate(places):
                runs = side_runs([place for place, _ in mine], plan.scale.rank)
                self._edges.append(choose_edge(self._keyed, side, plan.scale.scale, runs)[1])
        given: list[list[Point]] = [[] for _ in self._sides]
        for number in positive:
            self._give(given, rows[number], number, hashes[number])
        if plan.check is not UNSET:
            if places:
                records = [{number for _, number in mine} for mine in given]
                held = (
                    sum(number in mine for _, number in outer[: plan.check.stripe])
                    for mine, outer in zip(records, places, strict=True)
                )
                beyond = min(held) - plan.check.needed
            else:
                beyond -= plan.check.needed * len(self._sides)
            self.margin = beyond + discrete_laplace(plan.check.epsilon, self._keyed.word(Purpose.THRESHOLD, 0))
        return given

    def _sides_of(self, names: Sequence[str]) -> list[Side]:
        features = [feature.name for feature in self._plan.features]
        split = [name.rsplit(":", 1) for name in names]
        used = [name for name in features if name in {mine for mine, _ in split}]
        return [Side(features.index(name), used.index(name), end == "lower") for name, end in split]

    def _key(self, row: Row, side: int) -> Key:
        at = self._sides[side]
        return oriented(self._plan.features[at.column], row[at.column], self._size, lower=at.lower)

    def _place(self, row: Row, side: int, number: int, hashed: int) -> int:
        """Return a record's place at a side, its last bits a coin of the record's, one for each feature."""
        at = self._sides[side]
        coin = self._keyed.halves(Purpose.COIN, number, at.used, hashed)[0] >> (64 - _COINED)
        place = place_of(float(self._key(row, side)))
        last = (1 << _COINED) - 1
        return min(place - (place & last) + (coin if at.lower else last - coin), PLACES - 2)

    def _give(self, given: list[list[Point]], row: Row, number: int, hashed: int) -> None:
        """Step h: put a positive record into D, at the sides that may have it."""
        sides = range(len(self._sides))
        for side in sides if self._plan.slicing != "faces" else [self._face(row, number, hashed)]:
            insort(given[side], (self._key(row, side), number))

    def _face(self, row: Row, number: int, hashed: int) -> int:
        """Return the one side that a record goes to under `faces`."""
        count = len(self._sides)
        if count == 1:
            return 0
        first, second = self._keyed.halves(Purpose.COIN, number, 0, hashed)
        pick = second >> 32
        if self._edges:
            places = [self._place(row, side, number, hashed) for side in range(count)]
            near = [side for side in range(count) if places[side] <= self._edges[side]] or list(range(count))
        else:
            outward = [self._outward(row, side) for side in range(count)]
            most = max(outward)
            near = [side for side in range(count) if outward[side] >= most - 0.1 * abs(most)]
            if Fraction(first, 1 << 64) < Fraction(self._plan.coin):
                near = list(range(count))
        return near[(pick * len(near)) >> 32]

    def _outward(self, row: Row, side: int) -> float:
        at = self._sides[side]
        low, high = self._plan.features[at.column].bounds or (-1.0, 1.0)
        centre = (low + high) / 2.0
        key = float(self._key(row, side))
        return ((centre if at.lower else 0.0 - centre) - key) / ((high - low) / 2.0)

    def _begin(self, given: list[list[Point]]) -> None:
        """Steps 3, 4 and j: arm every side, with the next phase's sizes, noise and key."""
        self._phase += 1
        start = self._sizes.start
        sizes = [self._taken(start, side) for side in range(len(given))]
        self._keyed = self._keyed.ratchet()
        self._phase_round = self._phase_rearms = 0
        taken: set[int] = set()
        self._lives = []
        for side, mine in enumerate(given):
            left = [point for point in mine if point[1] not in taken][: sizes[side]]
            if self._plan.slicing != "faces":
                taken.update(number for _, number in left)
            keys = [key for key, _ in left[start.trim :][: start.points]]
            self._lives.append(_Life(start, keys, self._level(side), self._armed_at_start, again=False))
        self._now = _Phase([[] for _ in given], [[] for _ in given])
        before = sum(phase.rounds * phase.delta for phase in self._plan.phases[: self._phase - 1])
        self.events.append(
            PhaseStarted(
                round=self.round,
                phase=self._phase,
                rounds=self._sizes.rounds,
                epsilon=self._plan.epsilon,
                delta=self._sizes.delta,
                delta_spent=self._plan.declared * self._plan.phases[0].delta + before,
                nominal=True if self._plan.profile == "paper" else UNSET,
            )
        )

    def _taken(self, start: InstancePlan, side: int) -> int:  # noqa: ARG002 -- of RSC it is
        """Return how many records a side takes of those that are left, by the key of the phase that ends."""
        return start.trim + start.points

    @property
    def drawn(self) -> list[tuple[int, int]]:
        """All words that were drawn."""
        return self._keyed.drawn

    @property
    def _sizes(self) -> PhasePlan:
        return self._plan.phases[self._phase - 1]

    def _level(self, side: int) -> int:
        stopper = self._sizes.stopper
        return stopper.threshold + discrete_laplace(
            stopper.epsilon, self._keyed.word(Purpose.THRESHOLD, self._phase_round, side)
        )

    def answer(self, query: Row | None) -> int | None:
        """Answer a round."""
        self._stop()
        label, hashed = None, None
        if query is not None:
            hashed = self._keyed.hash(numbers_of(self._plan.features, query))
            label = self._ask(query, hashed)
        self.tag ^= self._keyed.tag(self._phase_round, hashed)
        self.round += 1
        self._phase_round += 1
        if self._phase_round == self._sizes.rounds:
            self._end()
        return label

    def _stop(self) -> None:
        """Steps a and b: ask every Stopper but those of this round's lives; arm afresh where one halts."""
        for side, life in enumerate(self._lives):
            if life.armed == self._phase_round:
                continue
            if life.mediums + self._nu(self._keyed.word(Purpose.STOPPER, self._phase_round, side)) >= life.level:
                again = self._sizes.rearmed
                outer = self._now.collected[side][again.trim : again.trim + again.points]
                keys = [key for key, _ in outer]
                self._lives[side] = _Life(again, keys, self._level(side), self._phase_round, again=True)
                self._now.collected[side] = []
                self._rearms += 1
                self._phase_rearms += 1
                self.events.append(SideRearmed(round=self.round, phase=self._phase, side=side))

    def _nu(self, word: int) -> int:
        return discrete_laplace(self._sizes.stopper.epsilon, word)

    def _most(self, instance: InstancePlan) -> int:
        """Return the most that is medium."""
        return instance.high

    def _ask(self, query: Row, hashed: int) -> int:
        """Steps f, g and h: the first side that does not say high decides."""
        side, medium = self._decides(self._keyed, query, hashed)
        if side is None:
            self._give(self._now.given, query, self._phase_round, hashed)
            return 1
        if medium:
            self._lives[side].mediums += 1
            insort(self._now.collected[side], (self._key(query, side), self._phase_round))
        return 0

    def _decides(self, keyed: Keyed, query: Row, hashed: int) -> tuple[int | None, bool]:
        """Return the first side that does not say high, if any, and whether it says medium."""
        for side, life in enumerate(self._lives):
            instance = life.instance
            word = keyed.word(Purpose.DEPTH, self._phase_round, side, hashed)
            noisy = self.depth(query, side) + _LAWS[instance.law](instance.scale, word)
            if noisy <= self._most(instance):
                return side, noisy >= instance.low
        return None, False

    def would(self, query: Row) -> tuple[int | None, bool]:
        """Return which side would decide a query in the round that comes, if any, and whether medium; nothing changes.

        Unless a side is armed again before it, which only its round tells.
        """
        aside = Keyed(self._keyed.secret)  # what is drawn is for nothing
        return self._decides(aside, query, aside.hash(numbers_of(self._plan.features, query)))

    def depth(self, query: Row, side: int) -> int:
        """Return how many of a side's points a query reaches past."""
        return bisect_right(self._lives[side].keys, self._key(query, side))

    def zone(self, side: int) -> tuple[int, int]:
        """Return the depths between which a side says medium without noise."""
        return self._lives[side].instance.low, self._most(self._lives[side].instance)

    @property
    def phase(self) -> int:
        """The phase of the round that comes; the last one where there is none."""
        return self._phase

    @property
    def columns(self) -> Sequence[int]:
        """The feature that each side looks at."""
        return [side.column for side in self._sides]

    def _end(self) -> None:
        self.events.append(PhaseEnded(round=self.round, phase=self._phase, rearms=self._phase_rearms))
        if self._phase == len(self._plan.phases):
            self.events.append(PlanEnded(round=self.round))
        else:
            self._begin(self._now.given)

    def _needed(self, side: int) -> int:
        """Return how many positive records a side keeps: all that the next phase may take, of it or of those before."""
        following = self._plan.phases[min(self._phase, len(self._plan.phases) - 1)].start
        return (following.trim + following.points) * (side + 1 if self._plan.slicing != "faces" else 1)

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold, as `oracle.audit.runs.whole` reads it."""
        lives, kept = self._lives, self._sizes.rearmed.trim + self._sizes.rearmed.points
        state: dict[str, Any] = {
            "key": self._keyed.secret,
            "counters": (self.round, self._phase, self._phase_round, self._rearms, self._phase_rearms),
            "points": tuple(tuple(life.keys) for life in lives),
            "mediums": tuple(life.mediums for life in lives),
            "armed": tuple(life.armed for life in lives),
            "fresh": tuple(int(life.again) for life in lives),
            "collected": tuple(tuple(points[:kept]) for points in self._now.collected),
            "harvest": tuple(tuple(points[: self._needed(side)]) for side, points in enumerate(self._now.given)),
        }
        return state | ({"edges": tuple(self._edges)} if self._edges else {})
