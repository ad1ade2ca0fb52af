"""A learner is tried out on made-up rows: one that all teachers would fail with is refused before there are any."""

import math
import random  # noqa: TID251 -- only to see that no learner draws from it
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.planning.ensemble.model import MISSING
from oracle.predictors.ensemble.encoding import Encoder
from oracle.predictors.ensemble.learner import Fitted, Learner, Settings
from oracle.predictors.ensemble.numerics import apart, hush

__all__ = ["check_learner"]

_MOST: Final = 256
"""Most made-up rows; and rows of a question, as of those that learners are asked later (see `Others`)."""

_PARTS: Final = 8
"""Blocks that the made-up rows are asked about in the second time, so that none is beside those of the first."""

_LARGE: Final = 1e15
"""A number of whose size no machine has an array."""

_MISSING: Final = 0.9
"""From here to 1 a made-up number stands for a missing value."""


def check_learner(settings: Settings) -> None:
    """Fit a teacher on made-up rows of as many classes as can be among them, twice, and ask both about the same rows.

    There are as many rows as most teachers have: theirs are dealt by chance, and a sixth of them have fewer.

    Raises:
        InputError: The learner is refused (see `Learner`), fails, or does not say the same again.
    """
    learner = Learner(settings)
    wanted = settings.teacher_rows
    rows = _made_up(settings, max(2, min(wanted - math.isqrt(wanted), _MOST)))
    labels = np.arange(len(rows)) % len(settings.classes)
    try:
        with apart(finite=learner.plain):
            hush()
            code = Encoder(settings.features).encode(rows)
            block = np.resize(code, (_MOST, code.shape[1]))
            said = learner.fit(code, labels, 0).predict(block)[: len(code)]
            before = _shared_generators()
            again = _asked_apart(learner.fit(code, labels, 0), code)
            drawn = _shared_generators() != before
    except (Exception, SystemExit) as fault:
        bound = f"fails on {len(rows)} made-up rows, as teachers would: {str(fault).strip() or type(fault).__name__}"
        raise InputError("model.learner", settings.learner, bound) from fault
    if not np.array_equal(said, again):
        bound = "must follow from its rows and random_state: fitted again, asked among other rows, it says otherwise"
        raise InputError("model.learner", settings.learner, bound)
    if drawn:
        bound = "draws from Python's or numpy's global generator, which all teachers share: take random_state instead"
        raise InputError("model.learner", settings.learner, bound)
    _check_memory(settings, learner, rows, labels)


def _asked_apart(teacher: Fitted, code: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return what a teacher says of float64[n, E], asked about few of the rows at a time, in blocks, the last first."""
    parts = np.array_split(code, min(len(code), _PARTS))
    blocks = (np.resize(part, (_MOST, code.shape[1])) for part in parts)
    said = (teacher.predict(block[::-1])[::-1] for block in blocks)
    return np.concatenate([some[: len(part)] for some, part in zip(said, parts, strict=True)])


def _shared_generators() -> tuple[object, ...]:
    """Return the states of the generators that all teachers of a process would share."""
    name, words, *rest = np.random.get_state()  # noqa: TID251, NPY002 -- nothing is drawn from it
    return random.getstate(), name, np.asarray(words).tobytes(), *rest


def _check_memory(settings: Settings, learner: Learner, rows: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
    """Fit on a number that anybody may send: what takes memory by its size, as `CategoricalNB` does, ends a daemon.

    Raises:
        InputError: There is not enough memory.
    """
    rows = np.where(rows == MISSING, MISSING, np.abs(rows))
    rows[0, [feature.kind != "category" for feature in settings.features]] = _LARGE
    try:
        with apart(finite=learner.plain):
            hush()
            learner.fit(Encoder(settings.features).encode(rows), labels, 0)
    except MemoryError as fault:
        bound = (
            f"takes memory as a feature's values are large, and any query may have {_LARGE:g}; list them as categories"
        )
        raise InputError("model.learner", settings.learner, bound) from fault
    except (Exception, SystemExit):  # noqa: BLE001, S110 -- a teacher with such a row may fail, alone
        pass


def _made_up(settings: Settings, count: int) -> NDArray[np.float64]:
    """Return float64[count, D], values of all kinds: numbers below and above 0, every category, and missing ones."""
    parts = np.sqrt(np.arange(2, 2 + len(settings.features))) + 2.0**-20  # no two the same
    rows = np.outer(np.arange(1, count + 1), parts) % 1.0
    for column, feature in enumerate(settings.features):
        whole = len(feature.categories) + 1 if feature.categories else 0
        value = np.floor(rows[:, column] / _MISSING * whole) if whole else rows[:, column] - _MISSING / 2.0
        rows[:, column] = np.where(rows[:, column] < _MISSING, value, MISSING)
    return rows
