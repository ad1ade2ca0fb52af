"""Teachers: learners fitted on rows of their own, whose votes are counted.

Formal guarantees:
    * A teacher is a function of its number, the seed and its own rows, in the order that they are given in; so one row
      moves one teacher, and a vote count of a class by at most 1.
    * A query's votes are a function of the teachers and the query: no batch, no other query changes them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.predictors.ensemble.encoding import Encoder
from oracle.predictors.ensemble.learner import Fitted, Learner, Settings
from oracle.predictors.ensemble.linear import Coefficients, Linears, coefficients
from oracle.predictors.ensemble.numerics import apart, hush
from oracle.predictors.ensemble.others import Others
from oracle.predictors.ensemble.trees import Forest, is_small_tree

__all__ = ["Teachers", "fit_teachers"]

_BLOCK: Final = 4_096
"""Queries that are encoded at once."""

_PROBE: Final = 256
"""Rows by which teachers of no known kind are told apart."""


class Voters(Protocol):
    """Some of the teachers."""

    def parts(self) -> Iterator[NDArray[np.generic]]:
        """Yield all that their votes follow from."""

    def votes(self, code: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return how many vote for each class: int32[n, C] of float64[n, E]."""


class Teachers:
    """Fitted teachers.

    Args:
        encoder: The code of rows.
        constant: int32[C], votes of those that say the same of every query.
        voters: All others.
    """

    def __init__(self, encoder: Encoder, constant: NDArray[np.int32], voters: Sequence[Voters]) -> None:
        self._encoder = encoder
        self._constant = constant
        self._voters = voters

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all that votes follow from: teachers that have the same one vote alike. It tells of private rows.

        Of a learner that is neither a small tree nor linear: what it says of some rows, and its libraries.
        """
        digest = sha256(self._constant.tobytes())
        for voters in self._voters:
            for part in voters.parts():
                digest.update(f"{type(voters).__name__} {part.dtype.str} {part.shape}".encode())
                digest.update(part.tobytes())
        return digest.digest()

    def votes(self, rows: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return how many teachers vote for each class: int32[n, C] of float64[n, D]."""
        votes = np.tile(self._constant, (len(rows), 1))
        for start in range(0, len(rows), _BLOCK):
            code = self._encoder.encode(rows[start : start + _BLOCK])
            for some in self._voters:
                votes[start : start + _BLOCK] += some.votes(code)
        return votes


def fit_teachers(  # noqa: PLR0913 -- rows, labels and owners are one table
    settings: Settings,
    rows: NDArray[np.float64],
    labels: NDArray[np.int8],
    owners: NDArray[np.integer[Any]],
    seed: int,
    *,
    between: Callable[[], object] = bool,
) -> Teachers:
    """Fit a teacher on the rows of each owner.

    A teacher without rows votes for no class; one whose rows have one class, or whose learner fails, for the class that
    most of its rows have (of several, the one with the least number).

    Args:
        settings: Of the model or the plan.
        rows: float64[n, D], as `Encoder.encode` takes them; a teacher's rows in the order of their numbers.
        labels: int8[n], numbers of classes; rows below 0 are left out.
        owners: int[n], the number of each row's teacher.
        seed: What learners' coins follow from.
        between: Called before each teacher is fitted; may wait, to let other threads run, or raise, to stop.

    Raises:
        InputError: The learner is refused (see `Learner`).
        MemoryError: There is not enough: the teachers would not be those of another machine.
    """
    learner, encoder = Learner(settings), Encoder(settings.features)
    kinds = _Kinds(len(settings.classes), encoder.encode(rows[:_PROBE]), learner.paths)
    with apart(finite=learner.plain):
        for owner, mine in _shares(labels, owners):
            between()
            kinds.fit(learner, encoder.encode(rows[mine]), labels[mine].astype(np.int64), seed + owner)
    return Teachers(encoder, kinds.constant, kinds.voters())


class _Kinds:
    """Fitted teachers, by how they are evaluated.

    Args:
        classes: C.
        probe: float64[m, E] (see `Others`).
        paths: As there.
    """

    def __init__(self, classes: int, probe: NDArray[np.float64], paths: Sequence[str]) -> None:
        self.constant = np.zeros(classes, dtype=np.int32)
        self._probe, self._paths = probe, paths
        self._trees: list[Any] = []
        self._linears: list[Coefficients] = []
        self._others: list[tuple[Fitted, int]] = []

    def voters(self) -> list[Voters]:
        """Return all but those that say the same of every query."""
        classes = len(self.constant)
        voters: list[Voters] = [Forest(self._trees, classes)] if self._trees else []
        voters += [Linears(self._linears, classes)] if self._linears else []
        return [*voters, Others(self._others, classes, self._probe, self._paths)] if self._others else voters

    def fit(self, learner: Learner, code: NDArray[np.float64], labels: NDArray[np.int64], seed: int) -> None:
        """Fit one on float64[n, E] and int64[n]; where its learner fails, its own rows alone decide that."""
        most = int(np.bincount(labels).argmax())
        try:
            if (labels == most).all():
                self.constant[most] += 1
            else:
                hush()
                self._add(learner.fit(code, labels, seed), most, code)
        except MemoryError:
            raise
        except (Exception, SystemExit):  # noqa: BLE001 -- any learner, any rows: what it says may tell of them
            self.constant[most] += 1

    def _add(self, teacher: Fitted, most: int, code: NDArray[np.float64]) -> None:
        if not teacher.steps and is_small_tree(teacher.classifier):
            self._trees.append(teacher.classifier)
        elif (model := coefficients(teacher.steps, teacher.classifier)) is not None:
            self._linears.append(model)
        else:
            teacher.predict(code)  # one that cannot predict has failed
            self._others.append((teacher, most))


def _shares(labels: NDArray[np.int8], owners: NDArray[np.integer[Any]]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each teacher that has rows, and these, in order."""
    used = np.flatnonzero(labels >= 0)
    order = used[np.argsort(owners[used], kind="stable")]
    numbers, counts = np.unique(owners[order], return_counts=True)
    for number, count, stop in zip(numbers.tolist(), counts.tolist(), np.cumsum(counts).tolist(), strict=True):
        yield number, order[stop - count : stop]
