"""Linear models that are evaluated together."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Perceptron  # type: ignore[import-untyped] # it has no types
from sklearn.neighbors import KNeighborsClassifier  # type: ignore[import-untyped] # as above
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # type: ignore[import-untyped] # as above

from oracle.predictors.ensemble.linear import Coefficients, Linears, coefficients

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:scipy.optimize:DeprecationWarning"),  # scikit-learn asks for what is going
]

_KINDS = (
    "linear_model.LogisticRegression",
    "linear_model.SGDClassifier",
    "linear_model.Perceptron",
    "linear_model.RidgeClassifier",
    "linear_model.PassiveAggressiveClassifier",
    "svm.LinearSVC",
    "discriminant_analysis.LinearDiscriminantAnalysis",
)


def _in_order(model: Coefficients, query: list[float]) -> int:
    """Return the class that a model chooses, by plain sums."""
    scores = []
    for weights in model.weights.tolist():
        total = 0.0
        for weight, value in zip(weights, [1.0, *query], strict=True):
            total += weight * value
        scores.append(total)
    chosen = int(scores[0] > 0.0) if len(scores) == 1 else scores.index(max(scores))
    return model.classes[chosen]


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from([0, 1, 3]))
def test_votes_are_those_of_sums_in_order(seed, classes, decimals):
    """Also where scores tie but for rounding, and however queries are dealt to batches."""
    random = np.random.default_rng(seed)
    models = []
    for _ in range(int(random.integers(1, 30))):
        own = sorted(random.choice(classes, size=int(random.integers(2, classes + 1)), replace=False).tolist())
        weights = np.round(random.normal(size=(1 if len(own) == 2 else len(own), 5)), decimals) / 10.0
        models.append(Coefficients(weights, tuple(own)))
    queries = np.round(random.normal(size=(40, 4)), decimals) * 3.0
    linears = Linears(models, classes)
    votes = linears.votes(queries)
    expected = np.zeros((40, classes), dtype=np.int64)
    for number, query in enumerate(queries.tolist()):
        for model in models:
            expected[number, _in_order(model, query)] += 1
    assert votes.tolist() == expected.tolist()
    assert np.concatenate([linears.votes(query[None]) for query in queries]).tolist() == votes.tolist()


@pytest.mark.parametrize("count", [1, 7, 250])
def test_the_order_of_a_sum_is_seen(count):
    """A score that depends on it is what the order of the columns makes of it, however many models there are."""
    early = Coefficients(np.array([[0.0, 1.0, 1e16, -1e16]]), (0, 1))
    late = Coefficients(np.array([[0.0, 1e16, -1e16, 1.0]]), (0, 1))
    assert [_in_order(model, [1.0] * 3) for model in (early, late)] == [0, 1]
    votes = Linears([early, *[late] * count], 2).votes(np.ones((3, 3)))
    assert votes.tolist() == [[1, count]] * 3


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", _KINDS)
def test_votes_are_scikit_learn_s_away_from_ties(kind, classes):
    """Of random queries, with and without a scaler."""
    module, name = kind.split(".")
    maker = getattr(importlib.import_module(f"sklearn.{module}"), name)
    random = np.random.default_rng(3)
    rows, queries = random.normal(size=(80, 5)) * 7.0 + 2.0, random.normal(size=(1_500, 5)) * 7.0
    labels = np.digitize(rows[:, 0] + random.normal(size=80), np.quantile(rows[:, 0], np.arange(1, classes) / classes))
    for steps in ([], [StandardScaler()], [StandardScaler(with_mean=False)], [StandardScaler(with_std=False)]):
        code, asked = rows, queries
        for step in steps:
            code, asked = step.fit(rows).transform(rows), step.transform(queries)
        fitted = maker().fit(code, labels + 1)
        model = coefficients(steps, fitted)
        assert model is not None
        votes = Linears([model], classes + 1).votes(queries)
        assert votes.argmax(axis=1).tolist() == fitted.predict(asked).tolist()
        assert set(votes.sum(axis=1).tolist()) == {1}


def test_models_of_zeros_choose_the_first_class():
    """As scikit-learn's: no score is above 0, and of equal ones the first is the largest."""
    rows, labels = np.random.default_rng(0).normal(size=(6, 2)), np.array([2, 3, 5, 2, 3, 5])
    models: list[Coefficients] = []
    for fitted in (Perceptron().fit(rows, labels), Perceptron().fit(rows[:3], [5, 3, 3])):
        fitted.coef_[:] = fitted.intercept_[:] = 0.0
        model = coefficients([], fitted)
        assert model is not None
        models.append(model)
    assert Linears(models, 6).votes(rows[:1]).tolist() == [[0, 0, 1, 1, 0, 0]]


def test_what_is_not_linear_has_no_coefficients():
    """Nor has a model behind other steps, or one that is not finite, or one that predicts in a way of its own."""
    rows, labels = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    fitted = LogisticRegression().fit(rows, labels)
    scaler = StandardScaler().fit(rows)
    assert coefficients([scaler], fitted) is not None
    assert coefficients([], KNeighborsClassifier().fit(rows, labels)) is None
    assert coefficients([MinMaxScaler().fit(rows)], fitted) is None
    assert coefficients([scaler, scaler], fitted) is None
    assert coefficients([type("StandardScaler", (StandardScaler,), {})().fit(rows)], fitted) is None
    odd = type("Odd", (LogisticRegression,), {"predict": lambda self, rows: self.classes_[:1].repeat(len(rows))})
    assert coefficients([], odd().fit(rows, labels)) is None
    fitted.coef_[0, 0] = np.nan
    assert coefficients([], fitted) is None
