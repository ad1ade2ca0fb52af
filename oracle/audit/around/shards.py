"""Checks that shards share no row, that of each person as few are used as is said, and that ledgers add up."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, NamedTuple, cast

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from oracle.audit.due.books import books_wrong, shards_wrong
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.partition import Partition
from oracle.mechanisms.persons import AtMost
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan
from oracle.predictors import split
from oracle.predictors.base import Labels

__all__ = ["booked", "parted", "persons_kept"]
Floats = NDArray[np.float64]

_SHARDS: Final = (2, 3, 7)
_EACH: Final = 211
"""Rows of a shard."""

_BEYOND: Final = 5
_BATCHES: Final = 9
_PERSONS: Final = 400
_ROWS: Final = 5
"""Rows of a person, at most."""

_OFTEN: Final = 6
"""Standard deviations by which no choice is more frequent than another one."""


class _Taken:
    """Takes rows as a trainer does, and keeps them."""

    def __init__(self) -> None:
        self.rows: list[tuple[Floats, Labels]] = []

    def add(self, features: Floats, labels: Labels) -> None:
        """See `Trainer`."""
        self.rows.append((features.copy(), labels.copy()))

    def finish(self) -> "_Taken":
        """See `Trainer`."""
        return self

    @property
    def whole(self) -> tuple[Floats, Labels]:
        """Return all rows."""
        features, labels = zip(*self.rows, strict=True)
        return np.concatenate(features), np.concatenate(labels)


class _Rows(NamedTuple):
    """Labelled rows, the first number of each its own."""

    features: Floats
    labels: NDArray[np.bool_]


@contextmanager
def _taking() -> Iterator[list[bytes]]:
    """Let trainers keep rows only; yield the keys that they are given."""
    keys, real = list[bytes](), vars(split)["new_trainer"]

    def new_trainer(_plan: Plan, secret: bytes) -> _Taken:
        keys.append(secret)
        return _Taken()

    vars(split)["new_trainer"] = new_trainer
    try:
        yield keys
    finally:
        vars(split)["new_trainer"] = real


def _split(
    plan: Plan, partition: Partition, rows: _Rows, cuts: Sequence[int], group: Sequence[int]
) -> Mapping[int, tuple[Floats, Labels]]:
    """Return what some shards get of rows that come in batches."""
    with _taking() as keys:
        trainer = split.SplitTrainer(plan, partition, {shard: bytes([shard]) * 32 for shard in group})
        for start, stop in pairwise([0, *cuts, len(rows.labels)]):
            trainer.add(rows.features[start:stop], rows.labels[start:stop])
        found = {shard: cast("_Taken", taken).whole for shard, taken, _ in trainer.finish()}
    return found if len(set(keys)) == len(group) else {}


def parted(plan: Plan, randomness: Randomness) -> Seen:
    """Shards share no row and leave none out, whatever rows hold; one row moves one shard; and their deltas add up.

    Else a row pays in two shards, or who gets a row tells of another one.
    """
    draws, seen = Draws(randomness, 512), 0
    plan = replace(plan, declared=_EACH)
    for shards in _SHARDS if not isinstance(plan, QuestionPlan) else ():
        count = shards * _EACH
        partition = Partition(PhaseKey(randomness.secret(shards)), shards)
        numbers = np.arange(count + _BEYOND, dtype=np.float64)[:, None]
        rows = _Rows(numbers / (2.0 * count) + np.zeros(plan.width), draws.uniform(len(numbers)) < 0.5)  # noqa: PLR2004
        whole = _split(plan, partition, rows, draws.some(_BATCHES, count), range(shards))
        held = [set(whole[shard][0][:, 0].tolist()) for shard in whole]
        together = set[float]().union(*held)
        if [len(whole[shard][1]) for shard in whole] != [_EACH] * shards or any(len(one) != _EACH for one in held):
            return False, f"of {shards} shards not each has as many rows as the plan declares"
        if together != set(rows.features[:count, 0].tolist()):
            return False, f"of {shards} shards two have one row, or none has it"
        row = draws.below(count)
        for other, moved in ((rows, 0), (_moved(rows, row), 1), (_blanked(rows, row), 1), (_blanked(rows), shards)):
            again = dict[int, tuple[Floats, Labels]]()
            for group in (range(0, shards, 2), range(1, shards, 2)):  # in several readings
                again |= _split(plan, partition, other, draws.some(_BATCHES, count), group)
            if sum(not _same(whole[shard], again[shard]) for shard in whole) > moved:
                return False, f"of {shards} shards others have other rows where one row is another one"
            alike = moved if other.features is not rows.features else 0
            if sum(not np.array_equal(whole[shard][0], again[shard][0]) for shard in whole) > alike:
                return False, f"who of {shards} shards gets a row follows from its label"
            seen += len(whole)
    wrong = shards_wrong(plan)
    if wrong is not None:
        return False, wrong
    return True, f"in {seen} parts each row is in one shard, by its number alone; deltas of shards add up"


def _moved(rows: _Rows, row: int) -> _Rows:
    features = rows.features.copy()
    features[row] = 0.75
    return rows._replace(features=features)


def _blanked(rows: _Rows, row: int | slice = slice(None)) -> _Rows:
    labels = rows.labels.copy()
    labels[row] = ~labels[row] if isinstance(row, int) else False
    return rows._replace(labels=labels)


def _same(one: tuple[Floats, Labels], other: tuple[Floats, Labels]) -> bool:
    return all(np.array_equal(mine, its) for mine, its in zip(one, other, strict=True))


def persons_kept(_plan: Plan, randomness: Randomness) -> Seen:
    """Of each person M rows are used at most, by that person's own rows alone, and each of them as often.

    Else somebody has more rows in than is paid for, or one person's rows decide which of another one are used.
    """
    draws = Draws(randomness, 1024)
    whose = np.array([draws.below(_PERSONS) for _ in range(_ROWS * _PERSONS // 2)])
    names = [b"person %d" % number for number in range(_PERSONS)]
    for most in range(1, _ROWS):
        choice = AtMost(PhaseKey(randomness.secret(2048 + most)), most)
        kept = choice.kept(names, whose)
        if (
            np.bincount(whose[kept], minlength=_PERSONS) != np.minimum(np.bincount(whose, minlength=_PERSONS), most)
        ).any():
            return False, f"of some person more than {most} rows are used, or fewer though there are as many"
        for person in (draws.below(_PERSONS), int(whose[0]), int(whose[-1])):
            others = whose != person
            if (choice.kept(names, whose[others]) != kept[others]).any():
                return False, "which rows of a person are used follows from somebody else's"
            mixed = np.argsort(draws.uniform(len(whose)), kind="stable")
            mine = [choice.kept(names, one)[one == person] for one in (whose, whose[mixed])]
            if (mine[0] != mine[1]).any():
                return False, "which rows of a person are used follows from where others' stand"
        order = np.roll(np.arange(_PERSONS), 1)
        if (choice.kept([names[one] for one in order], np.argsort(order)[whose]) != kept).any():
            return False, "which rows of a person are used follows from how many come before"
    return _evenly(AtMost(PhaseKey(randomness.secret(4096)), 2))


def _evenly(choice: AtMost) -> Seen:
    """Return whether each row of persons with as many is used as often."""
    kept = choice.kept([b"%d" % number for number in range(_PERSONS)], np.repeat(np.arange(_PERSONS), _ROWS))
    share = 2.0 / _ROWS
    used = kept.reshape(_PERSONS, _ROWS).sum(axis=0)
    spread = _OFTEN * float(np.sqrt(_PERSONS * share * (1.0 - share)))
    fine = bool((np.abs(used - _PERSONS * share) <= spread).all())
    return (
        fine,
        f"of {_PERSONS} persons M rows at most, by their own alone; the i-th of five: {used.tolist()} of {_PERSONS}",
    )


def booked(plan: Plan, randomness: Randomness) -> Seen:
    """What ledgers say of phases, persons, several models and forks is no less than what all of these cost together.

    Else somebody is told less than a record pays, or a budget lets more pass than it says.
    """
    wrong = books_wrong(plan, Draws(randomness, 8192))
    return wrong is None, wrong or "what is told of phases, persons, models, scores and forks adds up"
