"""`oracle.train`: from labelled rows to a predictor, in memory."""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import ArrayLike, NDArray

from oracle.accounting.ledger import StartChecked
from oracle.api.arrays import BATCH, as_features, as_values
from oracle.api.predictor import TrainedPredictor
from oracle.api.tables import as_cells
from oracle.codec.arrow.rows import labels_in_words
from oracle.errors import DataError, InputError, RefusedError
from oracle.mechanisms.keys import KEY_BYTES
from oracle.planning.boxes.edges import counted
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.tight import too_rare
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Labels
from oracle.predictors.kinds import new_trainer, points_beyond
from oracle.state.starts import start_event

__all__ = ["Training", "train"]


def train(plan: Plan, rows: Any, labels: ArrayLike | None = None, *, key: bytes | None = None) -> TrainedPredictor:  # noqa: ANN401 -- said below
    """Train a plan's predictor, as `perpetua init` does, but keep its state in memory.

    Formal guarantees:
        * Each row used, and each query answered later where `plan.protects_queries`, is
          (`plan.epsilon`, delta_p)-private, p its phase; the deltas sum to at most `plan.delta` (PRIVACY.md,
          Definition 1 and Theorem 11; Theorem 12 for the predictors `classical` and `bisection`). A plan of profile
          `paper` has nominal figures only.
        * Training again on the same rows under another key releases anew, and the rows pay again: epsilons and deltas
          of all trainings add up (basic composition, as in `oracle.accounting.budget`). So what is not saved when the
          process ends is lost, and what its rows have paid stays paid.

    Args:
        plan: The plan.
        rows: float64[n, D], finite, n at least `plan.declared`; rows beyond these are not used. Of an ensemble: values
            of any types, [n, D], or columns by their names (a mapping, an Arrow table, a data frame); NaN and None are
            missing. Of a table: columns by their names, or cells (`oracle.api.tables.as_cells`). Of a distribution:
            values, [n], or columns by their names.
        labels: bool[n], or 0 and 1; of an ensemble, its classes; None for a table and a distribution.
        key: 32 uniformly random bytes that nobody else knows; fresh ones by default. The same plan, key and rows give
            the same predictor. A key that is known, or used for other rows or another plan, voids the guarantees.

    Raises:
        InputError: A shape or a value is wrong.
        DataError: There are too few rows, all of them have the same label, or a column holds what it should not.
        RefusedError: A side of the box may hold too few points, by a count with noise, for which the rows have paid.
    """
    training = Training(plan, key)
    training.add(rows, labels)
    return training.finish()


class Training:
    """Takes labelled rows in, in any number of parts, then makes the predictor. `train` says what it guarantees.

    Args:
        plan: The plan.
        key: As in `train`.

    Raises:
        InputError: The key has another length.
    """

    def __init__(self, plan: Plan, key: bytes | None = None) -> None:
        self._plan = plan
        self._trainer = new_trainer(plan, secrets.token_bytes(KEY_BYTES) if key is None else key)
        self._labels: set[bool | int] = set()

    @property
    def missing(self) -> int:
        """Rows still wanted of the declared ones; 0 when no more are looked at."""
        return self._trainer.missing

    def add(self, rows: Any, labels: ArrayLike | None = None) -> None:  # noqa: ANN401 -- said in `train`
        """Take rows in; those beyond the declared number are not used.

        Args:
            rows: As in `train`.
            labels: As in `train`.

        Raises:
            InputError: A shape or a value is wrong; no row was taken.
            DataError: A column holds what it should not; no row was taken.
        """
        if isinstance(self._plan, TablePlan):
            features = as_cells(self._plan.attributes, rows)
            truth = _no_labels(labels, len(features))
        elif isinstance(self._plan, DistributionPlan):
            features = as_values(self._plan.features[0], rows)
            truth = _no_labels(labels, len(features))
        else:
            features = as_features(self._plan, "rows", rows)
            truth = _as_labels(labels, len(features), self._plan.labels)
        for start in range(0, min(len(truth), self.missing), BATCH):
            part = slice(start, start + BATCH)
            self._labels.update(truth[part][: self.missing].tolist())
            self._trainer.add(features[part], truth[part])

    def finish(self) -> TrainedPredictor:
        """Return the predictor, and forget the rows.

        Raises:
            DataError: There were too few rows, or all of them had the same label.
            RefusedError: See `train`.
        """
        if self.missing == 0 and self._plan.answers == "label" and len(self._labels) == 1:
            raise DataError("labels: all rows have the same label, so there is nothing to learn")
        predictor = self._trainer.finish()
        return TrainedPredictor.first(self._plan, predictor, self._checked())

    def _checked(self) -> StartChecked | None:
        """Return what was released of the sides' points, None if nothing was; refuse too few."""
        event, plan = start_event(self._plan, 0, points_beyond(self._trainer)), self._plan
        if event is not None and not event.passed:
            paid = f"The rows have paid epsilon = {event.epsilon:.3g}, delta = {event.delta:.2g} for this number"
            if isinstance(plan, EnsemblePlan):
                raise RefusedError(f"rows: no predictor was made: {too_rare(plan, event.beyond)}. {paid}")
            if isinstance(plan, BoxPlan) and plan.check is not UNSET:
                raise RefusedError(
                    f"rows: no predictor was made: {counted(plan.check, len(plan.sides), event.beyond)}, with noise; "
                    f"it takes {event.least:,} more than are needed. {paid}. Declare more examples, or fewer sides"
                )
        return event


def _no_labels(labels: ArrayLike | None, count: int) -> Labels:
    if labels is not None:
        raise InputError("labels", "...", "must be left out: questions are about the rows themselves")
    return np.ones(count, dtype=np.bool_)


def _as_labels(labels: ArrayLike | None, count: int, classes: Sequence[str | int]) -> Labels:
    if labels is None:
        raise InputError("labels", None, "must be the rows' labels")
    truth = np.asarray(labels)
    if truth.shape != (count,):
        raise InputError("labels: shape", truth.shape, f"must be ({count},), one for each row")
    if tuple(classes) != (0, 1):
        return _places(truth, classes)
    if truth.dtype != np.bool_ and not (truth.dtype.kind in "iuf" and np.isin(truth, (0, 1)).all()):
        raise InputError("labels", "...", "every label must be 0 or 1, or false or true")
    return truth.astype(np.bool_)


def _places(truth: NDArray[Any], classes: Sequence[str | int]) -> NDArray[np.int8]:
    """Return the place of each label among the classes."""
    known = {label: place for place, label in enumerate(classes)}
    try:
        return np.array([known[label] for label in truth.tolist()], dtype=np.int8)
    except (KeyError, TypeError) as exc:
        raise InputError("labels", "...", f"every label must be {labels_in_words(classes)}") from exc
