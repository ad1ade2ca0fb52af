"""One trial: the real predictor under a throw-away key, trained and asked as a daemon would be."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from oracle.errors import DataError
from oracle.mechanisms.orders import last_key, load_keys
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import Labels, Predictor
from oracle.predictors.kinds import new_trainer, points_beyond
from oracle.predictors.sides import Geometry

__all__ = ["ClassSeen", "Seen", "Side", "Table", "Trial", "interval", "order_of", "run_trial"]

_BATCH: Final = 16_384
_WORD: Final = 8
_COVERED: Final = 0.95
_STRETCHES: Final = 10
_SHORTEST: Final = 30
"""Rounds of a stretch, at least: the interval of fewer says nothing."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Table:
    """Labelled rows. Private: nothing of them is to be published.

    Attributes:
        features: float64[n, D].
        labels: bool[n], or int8[n], places in `Plan.labels`.
    """

    features: Rows
    labels: Labels


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a box was armed with.

    Attributes:
        name: "NAME:lower" or "NAME:upper".
        held: Training rows that it was given, or None where it keeps none.
        needed: Those that it is planned for.
        outside: Part of all training rows that are labelled 1 and lie further out than the innermost of these, or than
            the edge that was learned: what the side may get wrong.
        stripe: What the plan allows it.
    """

    name: str
    held: int | None
    needed: int | None
    outside: float
    stripe: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The errors of some rounds.

    Attributes:
        rounds: How many.
        error: Part of the answers that is wrong.
        phase: The phase that answered the first of them.
        low: The lower end of its interval (`interval`), by the test rows that the queries were made of.
        high: The upper end.
        first: The first of these rounds, from 0.
    """

    rounds: int
    error: float
    phase: int
    low: float = 0.0
    high: float = 1.0
    first: int = 0


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """What was seen of one class.

    Attributes:
        name: What it is called.
        share: Part of the rows asked that are of it.
        given: Part of the answers that say it.
        missed: Part of all answers that say another one and should say it.
    """

    name: str | int
    share: float
    given: float
    missed: float


@dataclass(frozen=True, slots=True)
class Trial:
    """Answers beside the truth, in the order of rounds.

    Attributes:
        labels: bool[n], the answers; or int8[n], places in `Plan.labels`.
        truth: The same, as it is.
        phases: int64[n], the phase that gave each.
        rows: intp[n], the test row that was asked.
        sides: Of boxes, what each side was armed with at the start; else empty.
        trained: Training rows that were used.
        beyond: By how many points the side that holds the least exceeds what it needs, as `init` counts them with
            noise; None of a plan without this check.
        resting: Further rounds that the model rested in, without an answer.
    """

    labels: Labels
    truth: Labels
    phases: NDArray[np.int64]
    rows: NDArray[np.int64]
    sides: tuple[Side, ...]
    trained: int
    beyond: int | None = None
    resting: int = 0

    @property
    def binary(self) -> bool:
        """Whether labels are 0 and 1."""
        return self.truth.dtype == np.bool_

    @property
    def distinct(self) -> int:
        """Test rows that were asked at least once."""
        return len(np.unique(self.rows))

    @property
    def whole(self) -> Seen:
        """The errors of all rounds."""
        return self._seen(np.arange(len(self.labels)))

    @property
    def false_positives(self) -> float | None:
        """Part of the answers that say 1 and should say 0; None where labels are others."""
        return float((self.labels > self.truth).mean()) if self.binary else None

    @property
    def false_negatives(self) -> float | None:
        """Part of the answers that say 0 and should say 1; None where labels are others."""
        return float((self.labels < self.truth).mean()) if self.binary else None

    def classes(self, names: Sequence[str | int]) -> list[ClassSeen]:
        """Return what was seen of each class, by its number's name."""
        return [
            ClassSeen(
                name,
                float((self.truth == number).mean()),
                float((self.labels == number).mean()),
                float(((self.truth == number) & (self.labels != number)).mean()),
            )
            for number, name in enumerate(names)
        ]

    @property
    def by_phase(self) -> list[Seen]:
        """The errors of each phase that answered, in order."""
        return [self._seen(np.flatnonzero(self.phases == phase)) for phase in np.unique(self.phases)]

    @property
    def stretches(self) -> list[Seen]:
        """The errors of tenths of the rounds, in order; of fewer parts where these would be short."""
        parts = min(_STRETCHES, len(self.labels) // _SHORTEST)
        return [self._seen(part) for part in np.array_split(np.arange(len(self.labels)), max(parts, 1))]

    def _seen(self, rounds: NDArray[np.int64]) -> Seen:
        error = float((self.labels[rounds] != self.truth[rounds]).mean())
        low, high = interval(error, len(np.unique(self.rows[rounds])))
        return Seen(len(rounds), error, int(self.phases[rounds[0]]), low, high, int(rounds[0]))


def interval(error: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of Clopper and Pearson (1934) for a share that was seen in so many independent rows."""
    wrong, miss = error * count, (1.0 - _COVERED) / 2.0
    low = float(scipy.stats.beta.ppf(miss, wrong, count - wrong + 1.0)) if wrong > 0.0 else 0.0
    high = float(scipy.stats.beta.isf(miss, wrong + 1.0, count - wrong)) if wrong < count else 1.0
    return low, high


def order_of(count: int, rounds: int, seed: bytes, *, resampled: bool) -> NDArray[np.int64]:
    """Return which test row is asked in each round: intp[rounds].

    Args:
        count: Test rows.
        rounds: Rounds.
        seed: What resampling follows from.
        resampled: Drawn with replacement; otherwise in the file's order, and again from its beginning.
    """
    if not resampled:
        return np.arange(rounds, dtype=np.int64) % count
    words = hashlib.shake_256(b"evaluate: resample" + seed).digest(_WORD * rounds)
    return (np.frombuffer(words, dtype="<u8") % np.uint64(count)).astype(np.int64)


def run_trial(
    plan: Plan,
    secret: bytes,
    tables: tuple[Table, Table],
    order: NDArray[np.int64],
    *,
    progress: Callable[[int], None] = lambda _rounds: None,
) -> Trial:
    """Train and ask.

    Args:
        plan: Of a predictor whose answers are labels.
        secret: 32 bytes, the genesis key; it must never be a state's.
        tables: The training rows, of which those beyond the declared number are not used, and the test rows.
        order: intp[rounds], the test row that is asked in each round.
        progress: Called with the rounds done.

    Raises:
        DataError: There are too few training rows, no test row, or a value is not finite.
        PlanExhaustedError: The plan has fewer rounds.
    """
    train, test = tables
    if not len(test.labels):
        raise DataError("data: there are no test rows")
    trainer = new_trainer(plan, secret)
    for start in range(0, len(train.labels), _BATCH):
        rows = slice(start, start + _BATCH)
        trainer.add(np.ascontiguousarray(train.features[rows]), train.labels[rows])
    predictor = trainer.finish()
    sides = _sides(plan, predictor, train)
    labels, phases = np.empty(len(order), dtype=test.labels.dtype), np.empty(len(order), dtype=np.int64)
    answered = np.ones(len(order), dtype=np.bool_)
    for start in range(0, len(order), _BATCH):
        part = slice(start, start + _BATCH)
        asked = order[part]
        answers = predictor.answer(test.features[asked], np.ones(len(asked), dtype=np.bool_))
        labels[part] = answers.labels
        phases[part] = answers.phases
        if answers.verified is not None:
            answered[part] = answers.verified
        predictor.settle()
        progress(start + len(asked))
    if not answered.any():
        raise DataError("data: the model rested in every round: model.contested is too small for these rows")
    trained, beyond = min(plan.declared, len(train.labels)), points_beyond(trainer)
    resting = len(order) - int(answered.sum())
    truth = test.labels[order]
    seen = (labels[answered], truth[answered], phases[answered], order[answered])
    return Trial(*seen, sides, trained, beyond, resting)


def _sides(plan: Plan, predictor: Predictor, train: Table) -> tuple[Side, ...]:
    """Return what the predictor itself holds of each side of a box."""
    if isinstance(plan, ClassicalPlan) and plan.concept == "box":
        return _edges(plan, predictor, train)
    if not isinstance(plan, BoxPlan) or isinstance(plan, StumpsPlan):
        return ()
    geometry = Geometry(plan)
    keys = geometry.keys(train.features[train.labels] + 0.0)
    first = plan.phases[0]
    points = load_keys(predictor.export()["points"][:, : first.start.points], geometry.kind)
    sides: list[Side] = []
    for name, mine, all_of_it in zip(plan.sides, points, keys, strict=True):
        held = int(np.count_nonzero(mine != last_key(geometry.kind)))
        outside = int(np.count_nonzero(all_of_it < mine[held - 1])) if held else 0
        others = len(sides) if plan.slicing == "sequential" else 0  # these have taken theirs first
        stripe = (others + 1) * first.alpha / len(plan.sides)
        sides.append(Side(name, held, first.start.points, outside / len(train.labels), stripe))
    return tuple(sides)


def _edges(plan: ClassicalPlan, predictor: Predictor, train: Table) -> tuple[Side, ...]:
    """Return what each edge that was learned cuts off: of a learner that keeps no rows."""
    inside, state = train.features[train.labels], predictor.export()
    names = [feature.name for feature in plan.features]
    sides = []
    for side in plan.sides:
        name, way = side.rsplit(":", 1)
        number = names.index(name)
        edge = state[way][number]
        cut = inside[:, number] < edge if way == "lower" else inside[:, number] > edge
        stripe = plan.expected_error / len(plan.sides)
        sides.append(Side(side, None, None, float(cut.sum()) / len(train.labels), stripe))
    return tuple(sides)
