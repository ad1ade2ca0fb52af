"""`PerpetuaClassifier`: a scikit-learn estimator. It needs scikit-learn 1.5, which `perpetua[evaluate]` installs."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped] # it has no types
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped] # as above
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped] # as above

from oracle.api.planning import plan
from oracle.api.training import train
from oracle.errors import InputError, PlanError, RefusedError
from oracle.planning.ensemble.model import MOST_CLASSES

__all__ = ["PerpetuaClassifier"]


class PerpetuaClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn's classes have no types
    """A classifier for scikit-learn, binary but for ensembles. `oracle.train` says what is guaranteed.

    Where it cannot be what scikit-learn expects:
        * `predict` and `score` change it: each row is a query, which takes a round and is gone, and the same row may
          get another label later. So rows asked in another order may get other labels, too.
        * `fit` draws a fresh key, and the rows pay epsilon and delta each time (basic composition): a grid search
          or a cross-validation pays for every fit. There is no `random_state`: who knows the noise can undo it.
          The checks of `check_estimator` that compare two fits need not hold: `check_classifier_data_not_an_array`,
          `check_fit_idempotent`, `check_pipeline_consistency`, `check_supervised_y_2d`.
        * A fitted one cannot be pickled or copied (`check_estimators_pickle`): save the state with `predictor_.save`,
          and go on with `oracle.load`.
        * `fit` refuses fewer rows than the plan wants, as `check_estimator` has them, and other than two classes, of
          ensembles more than 32.

    Only an ensemble takes values that are missing, and texts: `more` has its `features` then, as the categories of a
    column must be public.

    Args:
        predictor: "rectangles", "stumps", "classical" or "ensemble".
        epsilon: Privacy loss of a record, for ever (nats).
        delta: Bound on the sum of delta over all records (probability).
        alpha: Error wanted on honest queries (share of answers).
        beta: Probability of missing `alpha`.
        gamma: Share of the queries that is honest.
        sides: Of each feature, "lower", "upper", "both" or "none"; or a mapping from names, "none" for the others.
            Columns without a name are x0, x1, ... Ensembles have none.
        examples: Declared number of rows. None: as many as `fit` is given, which makes their number public.
        more: Further keys of the `[model]` table.

    Attributes:
        classes_: The labels, sorted; of two the second one is what a box contains.
        predictor_: The `TrainedPredictor`.
        n_features_in_: D.
    """

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments
        self,
        predictor: str = "rectangles",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-3,
        alpha: float = 0.1,
        beta: float = 0.05,
        gamma: float = 1.0,
        sides: str | Mapping[str, str] = "both",
        examples: int | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        self.predictor = predictor
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.sides = sides
        self.examples = examples
        self.more = more

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 -- scikit-learn's name
        """Plan for the rows, and train on them under a fresh key.

        Args:
            X: float64[n, D], finite, or a data frame; of an ensemble also with texts, NaN and None.
            y: Labels of two classes, [n]; of an ensemble of up to 32.

        Raises:
            InputError: A parameter is out of range, the rows are too few, or the classes are not two (a `ValueError`).
            RefusedError: See `oracle.train`.
        """
        rows, labels = self._validate_data(X, y, **self._taken)
        check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        most = MOST_CLASSES if self._is_ensemble else 2
        if not 2 <= len(classes) <= most:  # noqa: PLR2004 -- else there is nothing to learn
            count = f"{len(classes)} class{'' if len(classes) == 1 else 'es'}"
            many = "there must be 2 to 32 classes" if self._is_ensemble else "there must be 2 classes"
            raise InputError("y", count, f"Only binary classification is supported: {many}" if most == 2 else many)  # noqa: PLR2004 -- as above
        try:
            planned = plan(self._table(len(rows), len(classes)))
        except PlanError as exc:
            raise InputError("n_samples", len(rows), str(exc)) from exc
        if planned.answers != "label":
            raise InputError("predictor", self.predictor, "must be one whose answers are labels")
        self.predictor_ = train(planned, rows, numbers)
        self.classes_ = classes
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803 -- scikit-learn's name
        """Answer the rows of X in order; each is a query, and takes a round.

        Args:
            X: float64[n, D], finite, or a data frame.

        Returns:
            [n], of `classes_`.

        Raises:
            InputError: A value is wrong (scikit-learn raises a `ValueError` of its own for shapes).
            PlanExhaustedError: The plan has fewer rounds left; no row was answered.
            RefusedError: An ensemble rested in some of these rounds, which are gone: `contested` is too small.
        """
        check_is_fitted(self, "predictor_")
        rows = self._validate_data(X, reset=False, **self._taken)
        answered = self.predictor_.answer(rows).tolist()
        numbers = np.array([-1 if one is None else one for one in answered], dtype=np.intp)
        if resting := int((numbers < 0).sum()):
            raise RefusedError(f"predict: the model rested in {resting:,} of {len(numbers):,} rounds, which are gone")
        answers: NDArray[Any] = self.classes_[numbers]
        return answers

    @property
    def _is_ensemble(self) -> bool:
        return self.predictor == "ensemble"

    @property
    def _taken(self) -> dict[str, object]:
        """What scikit-learn lets pass."""
        return {"dtype": None, "force_all_finite": False} if self._is_ensemble else {"dtype": np.float64}

    def _table(self, count: int, classes: int) -> dict[str, object]:
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        names = names or [f"x{number}" for number in range(self.n_features_in_)]
        sides = dict.fromkeys(names, self.sides) if isinstance(self.sides, str) else self.sides
        if unknown := sorted(set(sides) - set(names)):
            raise InputError("sides", unknown[0], "is no column of X")
        fields = ("predictor", "epsilon", "delta", "alpha", "beta", "gamma")
        features = [{"name": name, "sides": sides.get(name, "none")} for name in names]
        own: dict[str, object] = {"features": features}
        if self._is_ensemble:
            own = {"features": [{"name": name} for name in names], "classes": list(range(classes))}
        return {
            "name": "estimator",
            "examples": count if self.examples is None else self.examples,
            **own,
            **{field: getattr(self, field) for field in fields},
            **(self.more or {}),
        }

    def _more_tags(self) -> dict[str, object]:
        """Return what scikit-learn's own checks are told."""
        return {
            "binary_only": not self._is_ensemble,
            "allow_nan": self._is_ensemble,
            "non_deterministic": True,
            "poor_score": True,
        }
