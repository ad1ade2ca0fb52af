import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone  # type: ignore[import-untyped] # it has no types
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped] # as above
from sklearn.utils.estimator_checks import check_estimator  # type: ignore[import-untyped] # as above

from oracle import PerpetuaClassifier
from oracle.errors import InputError

STUMP = {"concept": "stump"}

UNMET = {
    "check_estimators_pickle": "a copy would answer the same rounds again",
    "check_classifier_data_not_an_array": "compares two fits, which have different keys",
    "check_fit_idempotent": "compares two fits, which have different keys",
    "check_supervised_y_2d": "compares two fits, which have different keys",
    "check_pipeline_consistency": "compares two fits, which have different keys",
}
"""The checks of scikit-learn that need not hold, and why."""


class Repeated(PerpetuaClassifier):
    """Sees every row so often that there are enough: scikit-learn's checks have 10 to 40."""

    def fit(self, X, y):  # noqa: N803 -- scikit-learn's name
        """Fit to the rows again and again, or to what is to be refused as it is."""
        count = len(y) if hasattr(y, "__len__") else 0
        if isinstance(X, list) and count == len(X) > 1:
            return super().fit(X * -(-600 // count), y * -(-600 // count))
        if len(getattr(X, "shape", ())) != 2 or not 1 < X.shape[0] == count or hasattr(X, "tocsr"):
            return super().fit(X, y)
        index = np.tile(np.arange(count), -(-600 // count))
        return super().fit(X.iloc[index] if hasattr(X, "iloc") else np.asarray(X)[index], np.asarray(y)[index])


def _checks(estimator):
    return [
        pytest.param(made, check, id=f"{number}-{_name(check)}")
        for number, (made, check) in enumerate(check_estimator(estimator, generate_only=True))
        if _name(check) not in UNMET
    ]


def _name(check):
    return getattr(check, "func", check).__name__


CLASSICAL = Repeated("classical", epsilon=50.0, alpha=0.5, beta=0.5, more=STUMP)
STUMPS = Repeated("stumps", epsilon=50.0, alpha=0.5, beta=0.4, delta=0.1)


@pytest.mark.filterwarnings("ignore::Warning:sklearn")
@pytest.mark.parametrize(("estimator", "check"), _checks(CLASSICAL))
def test_scikit_learns_checks(estimator, check):
    """All of scikit-learn's checks hold but those of `UNMET`."""
    check(estimator)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning:sklearn")
@pytest.mark.parametrize(("estimator", "check"), _checks(STUMPS))
def test_scikit_learns_checks_of_an_everlasting_predictor(estimator, check):
    """As above, where answers have noise and queries change the state."""
    check(estimator)


def test_unmet_checks_are_scikit_learns_and_the_class_names_them():
    """The list of exceptions goes stale in neither place."""
    names = {_name(check) for _, check in check_estimator(CLASSICAL, generate_only=True)}
    assert set(UNMET) <= names
    assert all(name in str(PerpetuaClassifier.__doc__) for name in UNMET)


def test_a_fitted_estimator_cannot_be_pickled():
    """Its state goes to a folder instead."""
    rows, labels = _tumours()
    model = PerpetuaClassifier("classical", epsilon=8.0, alpha=0.3, more=STUMP).fit(rows[["mean area"]], labels)
    with pytest.raises(TypeError, match="save its state"):
        pickle.dumps(model)


def _tumours():
    data = load_breast_cancer(as_frame=True)
    return data.data, data.target.map({0: "malignant", 1: "benign"})


def test_fit_predict_score():
    """On real data with named columns and labels of text; each row asked takes a round."""
    rows, labels = _tumours()
    model = PerpetuaClassifier("classical", epsilon=8.0, alpha=0.3, sides={"worst perimeter": "both"}, more=STUMP)
    model.fit(rows[:400], labels[:400])
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert set(model.predict(rows[400:])) <= {"benign", "malignant"}
    assert model.score(rows[400:], labels[400:]) > 0.8
    assert model.predictor_.facts.round == 2 * len(rows[400:])
    assert pickle.loads(pickle.dumps(clone(model))).get_params() == model.get_params()  # noqa: S301 -- our own bytes


def test_every_fit_has_a_key_of_its_own():
    """A refitted estimator shares no noise with the one before."""
    rows, labels = _tumours()
    model = PerpetuaClassifier("classical", epsilon=8.0, alpha=0.3, sides={"worst perimeter": "both"}, more=STUMP)
    keys = {model.fit(rows, labels).predictor_._predictor.export()["key"].tobytes() for _ in range(2)}
    assert len(keys) == 2


def test_refusals_are_value_errors():
    """Too few rows (it says how many would do), classes, columns and predictors that do not fit."""
    rows, labels = _tumours()
    with pytest.raises(ValueError, match=r"n_samples = 569: .* would be enough"):
        PerpetuaClassifier().fit(rows, labels)
    with pytest.raises(ValueError, match="must be 2 classes"):
        PerpetuaClassifier().fit(rows, pd.cut(rows["mean radius"], 3, labels=["a", "b", "c"]).astype(str))
    with pytest.raises(InputError, match="no column of X"):
        PerpetuaClassifier(sides={"radius": "both"}).fit(rows, labels)
    with pytest.raises(InputError, match=r"model\.epsilon = -1\.0"):
        PerpetuaClassifier(epsilon=-1.0).fit(rows, labels)
    with pytest.raises(InputError, match="answers are labels"):
        PerpetuaClassifier("bisection", epsilon=50.0, delta=0.1, alpha=0.5, examples=569, more={"rounds": 10}).fit(
            rows[["mean area"]], labels
        )
