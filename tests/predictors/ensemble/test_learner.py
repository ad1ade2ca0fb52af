"""Learners by import path, and what is refused of them."""

import itertools
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped] # it has no types

from oracle.errors import InputError
from oracle.planning.ensemble.model import Transformer
from oracle.planning.features import Feature
from oracle.predictors.ensemble.learner import Learner
from oracle.predictors.ensemble.trial import check_learner
from tests.predictors.ensemble.setting import TREE, Setting

_SCALER = "sklearn.preprocessing.StandardScaler"


_COINS = itertools.count()


class Moody(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # they have no types
    """A classifier whose coins follow from nothing that is given."""

    def fit(self, _code, labels):
        """Learn one label."""
        self.label_ = labels[next(_COINS) % len(labels)]
        return self

    def predict(self, code):
        """Say it of every query."""
        return np.full(len(code), self.label_)


class Odd(Moody):
    """A classifier whose votes depend on more than its rows and the one query, or may."""

    def __init__(self, does=""):
        self.does = does

    def fit(self, _code, labels):
        """Learn the first label."""
        self.label_ = labels[0]
        if self.does == "draws":
            random.random()  # noqa: S311 -- it is what must not be done
        if self.does == "draws of numpy":
            np.random.random()  # noqa: NPY002 -- as above
        if self.does == "exits":
            sys.exit("for good")
        return self

    def predict(self, code):
        """Say it of every query that is above the others' mean."""
        return self.label_ + (code[:, 0] > code[:, 0].mean()) if self.does == "compares" else super().predict(code)


@pytest.mark.parametrize(
    ("setting", "field", "said"),
    [
        (Setting("sklearn.tree.DecisionTreeClasifier"), "model.learner", "cannot be imported"),
        (Setting("no.such.Thing"), "model.learner", "cannot be imported"),
        (Setting("os.system"), "model.learner", "not a scikit-learn classifier"),
        (Setting("fractions.Fraction"), "model.learner", "not a scikit-learn classifier"),
        (Setting("sklearn.tree.DecisionTreeRegressor"), "model.learner", "not a scikit-learn classifier"),
        (Setting(_SCALER), "model.learner", "not a scikit-learn classifier"),
        (Setting(parameters={"max_dept": 2}), "model.parameters.max_dept", "did you mean max_depth"),
        (Setting(parameters={"max_depth": 0}), "model.parameters.max_depth", "[1, inf)"),
        (Setting(parameters={"criterion": "ginny"}), "model.parameters.criterion", "'gini'"),
        (Setting(parameters={"random_state": 1}), "model.parameters.random_state", "left out"),
        (Setting("sklearn.neighbors.KNeighborsClassifier", {"n_jobs": -1}), "model.parameters.n_jobs", "left out"),
        (Setting("sklearn.multiclass.OneVsRestClassifier"), "model.parameters", "estimator"),
        (
            Setting(preprocessing=(Transformer(transformer=_SCALER), Transformer(transformer=TREE))),
            "model.preprocessing[1].transformer",
            "not a scikit-learn transformer",
        ),
        (
            Setting(preprocessing=(Transformer(transformer=_SCALER, parameters={"with_mean": 3}),)),
            "model.preprocessing[0].parameters.with_mean",
            "bool",
        ),
    ],
)
def test_refusals_name_the_field(setting, field, said):
    """An error says which line of the model to change."""
    with pytest.raises(InputError) as caught:
        Learner(setting)
    assert caught.value.field == field
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (Setting("sklearn.linear_model.LogisticRegression", {"penalty": "l1"}), "l1"),
        (Setting("sklearn.naive_bayes.MultinomialNB"), "Negative"),
        (Setting("sklearn.neighbors.KNeighborsClassifier", {"n_neighbors": 25}), "20 made-up rows"),  # half have fewer
        (Setting("sklearn.naive_bayes.GaussianNB", {"priors": [0.5, 0.5]}), "priors"),
        (Setting("sklearn.ensemble.GradientBoostingClassifier", {"loss": "exponential"}), "binary"),
        (
            Setting("sklearn.dummy.DummyClassifier", {"strategy": "stratified"}),
            "among other rows",
        ),  # a row's place decides
        (Setting(f"{__name__}.Moody"), "fitted again"),
        (Setting(f"{__name__}.Odd", {"does": "compares"}), "among other rows"),
        (Setting(f"{__name__}.Odd", {"does": "draws"}), "which all teachers share"),
        (Setting(f"{__name__}.Odd", {"does": "draws of numpy"}), "which all teachers share"),
        (Setting(f"{__name__}.Odd", {"does": "exits"}), "for good"),
        (Setting("sklearn.naive_bayes.CategoricalNB"), "takes memory"),  # one query would end the daemon, for ever
    ],
)
def test_what_would_fail_with_every_teacher_is_refused(setting, said):
    """Parameters that fit neither each other nor the size of a teacher are found without any data."""
    Learner(setting)
    with pytest.raises(InputError, match=said):
        check_learner(setting)


@pytest.mark.parametrize("rows", [1, 25, 10_000])
def test_what_fits_is_not_refused(rows):
    """Learners of many kinds pass, with steps before them, and lists where scikit-learn wants pairs."""
    steps = (Transformer(transformer="sklearn.preprocessing.MinMaxScaler", parameters={"feature_range": [0, 2]}),)
    for setting in (
        Setting(),
        Setting("sklearn.naive_bayes.MultinomialNB", preprocessing=steps),
        Setting("sklearn.neural_network.MLPClassifier", {"hidden_layer_sizes": [4, 3], "max_iter": 2}),
        Setting("sklearn.neighbors.KNeighborsClassifier", {"n_neighbors": 1}),
        Setting("sklearn.naive_bayes.CategoricalNB", features=(Feature(name="kind", categories=("a", "b")),)),
        Setting(f"{__name__}.Odd"),
        Setting("sklearn.ensemble.BaggingClassifier", {"n_estimators": 2}),
        Setting("sklearn.linear_model.SGDClassifier"),
        Setting("sklearn.naive_bayes.GaussianNB", {"priors": [0.2, 0.3, 0.5]} if rows > 1 else {}),
    ):
        check_learner(replace(setting, teacher_rows=rows))


def test_seeds_reach_the_learner():
    """Another seed may make another tree, the same one the same tree; a seed may be any integer."""
    learner = Learner(Setting("sklearn.tree.ExtraTreeClassifier"))
    code = np.random.default_rng(0).normal(size=(60, 4))
    labels = (code[:, 0] > 0.0).astype(np.int64)
    trees = [learner.fit(code, labels, seed).classifier.tree_ for seed in (5, 5, 6, 2**200 + 5)]
    cuts = [tree.threshold.tobytes() for tree in trees]
    assert cuts[0] == cuts[1] == cuts[3] != cuts[2]


def test_without_scikit_learn_the_extra_is_named():
    """It is not among what Perpetua itself needs."""
    script = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from oracle.predictors.ensemble.teachers import fit_teachers\n"
        "from oracle.predictors.ensemble.learner import Learner\n"
        "from tests.predictors.ensemble.setting import Setting\n"
        "Learner(Setting())"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.stderr.rstrip().endswith("needs scikit-learn: pip install 'perpetua[learners]'")
