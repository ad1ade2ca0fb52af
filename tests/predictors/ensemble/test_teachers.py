"""Teachers: whose rows move whom, and what becomes of those whose learner fails."""

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from joblib.externals.loky import cpu_count  # type: ignore[import-untyped] # it has no types
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped] # it has no types

from oracle.planning.ensemble.model import MISSING, Transformer
from oracle.predictors.ensemble import others
from oracle.predictors.ensemble.teachers import fit_teachers
from tests.predictors.ensemble.setting import Setting, some_rows
from tests.support.printed import printed

_SCALER = Transformer(transformer="sklearn.preprocessing.StandardScaler")
_SETTINGS = {
    "tree": Setting(parameters={"max_depth": 2}),
    "random trees": Setting("sklearn.tree.ExtraTreeClassifier"),
    "linear": Setting("sklearn.linear_model.LogisticRegression", preprocessing=(_SCALER,)),
    "descent": Setting("sklearn.linear_model.SGDClassifier"),
    "neighbours": Setting("sklearn.neighbors.KNeighborsClassifier", {"n_neighbors": 3}, (_SCALER,)),
    "net": Setting(
        "sklearn.neural_network.MLPClassifier", {"hidden_layer_sizes": [9], "learning_rate_init": 0.1}, (_SCALER,)
    ),
    "machine": Setting("sklearn.svm.SVC", {"gamma": 0.1}),
    "forest": Setting("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 3}),
    "boosting": Setting("sklearn.ensemble.HistGradientBoostingClassifier", {"max_iter": 3, "min_samples_leaf": 2}),
    "bayes": Setting("sklearn.naive_bayes.GaussianNB"),
    "components": Setting(
        preprocessing=(_SCALER, Transformer(transformer="sklearn.decomposition.PCA", parameters={"n_components": 2}))
    ),
}
_HERE = "tests.predictors.ensemble.test_teachers"


class Touchy(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # they have no types
    """A classifier that fails on rows and queries of its choice, and warns of them."""

    def __init__(self, fails: str = "", over: float = 5.0) -> None:
        self.fails = fails
        self.over = over

    def fit(self, code, labels):
        """Learn the most frequent class's opposite, which no teacher falls back on."""
        warnings.warn(f"rows {code[:2]}", stacklevel=1)
        if "fit" in self.fails and code[:, 0].max() > self.over:
            raise SystemExit if "exit" in self.fails else ValueError
        if self.fails == "memory":
            raise MemoryError
        self.classes_ = np.unique(labels)
        self.least_ = np.bincount(labels, minlength=3).argmin()
        return self

    def predict(self, code):
        """Say it of every query."""
        warnings.warn(f"queries {code[:2]}", stacklevel=1)
        if "predict" in self.fails and code[:, 0].max() > self.over:
            raise SystemExit if "exit" in self.fails else ValueError
        return np.full(len(code), self.least_)


@pytest.fixture(autouse=True)
def _silence(capfd):
    """Nobody prints or warns of rows (warnings are errors here)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's libraries tell once that a machine hides its cores
        cpu_count(only_physical_cores=True)
    capfd.readouterr()
    yield
    assert printed(capfd) == ("", "")


@pytest.mark.parametrize("setting", _SETTINGS.values(), ids=_SETTINGS)
def test_a_teacher_depends_on_its_own_rows_only(setting):
    """Votes of all are the sum of each one's alone; so one other row moves a class's votes by at most 1."""
    rows, labels, owners = some_rows(300, 1)
    queries = some_rows(600, 2)[0]
    votes = fit_teachers(setting, rows, labels, owners, 7).votes(queries)
    assert votes.dtype == np.int32
    assert (votes.sum(axis=1) == 12).all()
    assert (votes.argmax(axis=1) == some_rows(600, 2)[1]).mean() > 0.5
    alone = np.zeros_like(votes)
    for owner in range(12):
        mine = owners == owner
        alone += fit_teachers(setting, rows[mine], labels[mine], owners[mine], 7).votes(queries)
    assert alone.tolist() == votes.tolist()
    moves = []
    for number in range(17, 22):
        other, said = rows.copy(), labels.copy()
        other[number], said[number] = MISSING, -1 if number % 2 else (labels[number] + 1) % 3
        moves.append(fit_teachers(setting, other, said, owners, 7).votes(queries) - votes)
    assert np.abs(moves).max() == 1


@pytest.mark.parametrize("setting", _SETTINGS.values(), ids=_SETTINGS)
def test_batches_change_no_votes(setting):
    """A query's votes are its own: alone, among others, in another order."""
    rows, labels, owners = some_rows(200, 3, teachers=4)
    teachers = fit_teachers(setting, rows, labels, owners, 7)
    queries = some_rows(300, 4)[0]
    votes = teachers.votes(queries)
    assert np.concatenate((teachers.votes(queries[:1]), teachers.votes(queries[1:])), axis=0).tolist() == votes.tolist()
    order = np.random.default_rng(5).permutation(300)
    assert teachers.votes(queries[order]).tolist() == votes[order].tolist()
    assert teachers.votes(queries[:0]).shape == (0, 3)


def test_few_rows():
    """A teacher without rows votes for nobody, one of one class for that, and no teachers at all for nobody."""
    rows, labels, owners = some_rows(40, 6, teachers=2)
    owners *= 5
    labels[owners == 5] = 2
    votes = fit_teachers(_SETTINGS["tree"], rows, labels, owners, 0).votes(rows)
    assert (votes.sum(axis=1) == 2).all()
    assert (votes[:, 2] >= 1).all()
    nobody = fit_teachers(_SETTINGS["tree"], rows, np.full(40, -1, dtype=np.int8), owners, 0)
    assert not nobody.votes(rows).any()


@pytest.mark.parametrize("fails", ["fit", "predict", "exit of fit", "exit of predict", ""])
def test_a_failure_is_one_teacher_s(fails):
    """It votes for its rows' most frequent class, of several for the first; and a query on which one fails is alone."""
    rows = np.array([[1.0, 0, 0]] * 5 + [[1.0, 0, 0]] * 4 + [[9.0, 0, 0]] * 3)
    labels = np.array([0, 1, 1, 2, 2, 0, 0, 1, 2, 0, 2, 2], dtype=np.int8)
    owners = np.array([3] * 5 + [4] * 4 + [5] * 3)
    setting = Setting(f"{_HERE}.Touchy", {"fails": fails})
    votes = fit_teachers(setting, rows, labels, owners, 0).votes(rows[[0, 9, 1]])
    mild = [2, 1, 0]  # the rarest class of each teacher: 0, 1 and 1, of which the last falls back on 2 where it fails
    mild = [1, 1, 1] if fails else [1, 2, 0]
    hard = [1, 1, 1] if "predict" in fails else mild
    assert votes.tolist() == [mild, hard, mild]


def test_a_learner_may_say_what_is_no_class():
    """A neighbour's `outlier_label` is said of whoever has none: there a teacher votes as where its learner fails."""
    rows = np.array([[1.0, 0, 0], [1.0, 0, 0], [2.0, 0, 0]])
    labels, owners = np.array([1, 1, 0], dtype=np.int8), np.zeros(3, dtype=np.int64)
    far = np.array([[1.0, 0, 0], [2.0, 0, 0], [99.0, 0, 0]])
    for label in (7, -1, -2):
        setting = Setting("sklearn.neighbors.RadiusNeighborsClassifier", {"radius": 0.5, "outlier_label": label})
        assert fit_teachers(setting, rows, labels, owners, 0).votes(far)[:, :2].tolist() == [[0, 1], [1, 0], [0, 1]]


def test_a_row_that_fails_is_found_in_a_few_steps(monkeypatch):
    """Anybody may send one, so it must not cost what all rows of its block would, asked alone."""
    rows, labels, owners = some_rows(40, 6, teachers=1)
    setting = Setting("sklearn.neighbors.RadiusNeighborsClassifier", {"radius": 1e6})
    teachers = fit_teachers(setting, rows, labels, owners, 0)
    queries = some_rows(256, 7)[0]
    votes = teachers.votes(queries)
    queries[100, 0] = 1e9
    asked: list[int] = []
    monkeypatch.setattr(others, "hush", lambda: asked.append(1))
    again = teachers.votes(queries)
    assert np.flatnonzero((again != votes).any(axis=1)).tolist() in ([], [100])
    assert again.sum(axis=1).tolist() == [1] * 256
    assert 1 < len(asked) <= 17


def test_too_little_memory_is_no_failure_of_a_learner():
    """Another machine would have another teacher."""
    rows, labels, owners = some_rows(40, 6, teachers=2)
    with pytest.raises(MemoryError):
        fit_teachers(Setting(f"{_HERE}.Touchy", {"fails": "memory"}), rows, labels, owners, 0)


def test_steps_whose_numbers_overflow():
    """What comes out of steps is checked by the learner, so a teacher whose steps make no numbers fails alone."""
    rows, labels, owners = some_rows(120, 8, teachers=3)
    setting = replace(_SETTINGS["net"], learner="sklearn.svm.LinearSVC", parameters={})
    setting = replace(
        setting,
        preprocessing=(Transformer(transformer="sklearn.preprocessing.PolynomialFeatures", parameters={"degree": 9}),),
    )
    rows[np.flatnonzero(owners == 1)[0], 0] = 1e38
    votes = fit_teachers(setting, rows, labels, owners, 7).votes(np.concatenate((rows, [[1e300, 0.0, 1e300]])))
    assert (votes.sum(axis=1) == 3).all()


def test_a_fit_can_be_stopped_between_teachers():
    """`between` is called before each teacher, and what it raises ends the fit."""
    rows, labels, owners = some_rows(100, 9)
    calls: list[int] = []

    def between() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_teachers(Setting(), rows, labels, owners, 0, between=between)
    calls += [1]
    fit_teachers(Setting(), rows, labels, owners, 0, between=between)
    assert len(calls) == 4 + len(np.unique(owners))


def test_seeds_and_numbers_of_teachers_are_what_coins_follow_from():
    """The same seed, the same votes; another seed, or another number of a teacher, another tree."""
    rows, labels, owners = some_rows(60, 10, teachers=1)
    queries = some_rows(500, 11)[0]
    setting = _SETTINGS["random trees"]
    votes = [
        fit_teachers(setting, rows, labels, owners + shift, seed).votes(queries).tolist()
        for shift, seed in ((0, 3), (0, 3), (0, 4), (1, 3), (1, 2**64 + 3))
    ]
    assert votes[0] == votes[1]
    assert votes[0] != votes[2]
    assert votes[2] == votes[3] == votes[4]


_VOTES = """
import sys
import numpy as np
from oracle.predictors.ensemble import others
from oracle.predictors.ensemble.teachers import fit_teachers
from tests.predictors.ensemble.setting import some_rows
from tests.predictors.ensemble.test_teachers import _SETTINGS
from tests.support.printed import printed
rows, labels, owners = some_rows(3_000, 1, teachers=2)
for name in ("boosting", "net", "linear", "neighbours"):
    votes = fit_teachers(_SETTINGS[name], rows, labels, owners, 7).votes(some_rows(2_000, 2)[0])
    sys.stdout.write(f"{name} {hash(votes.tobytes())}\\n")
"""


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    """Whatever OpenMP and BLAS are told to use."""
    said = [
        subprocess.run(
            [sys.executable, "-c", _VOTES],
            check=True,
            capture_output=True,
            text=True,
            env={"OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "PYTHONHASHSEED": "0"},
        ).stdout
        for count in ("1", "2", "7")
    ]
    assert said[0] == said[1] == said[2] != ""


@pytest.mark.parametrize("setting", _SETTINGS.values(), ids=_SETTINGS)
def test_a_digest_tells_teachers_apart(setting):
    """Fitted again on the same rows they have the same one; each label's change, and another learner, is another."""
    rows, labels, owners = some_rows(300, 1)
    other = labels.copy()
    other[owners == 3] = (other[owners == 3] + 1) % 3
    again, changed = (fit_teachers(setting, rows, found, owners, 7).digest for found in (labels, other))
    assert fit_teachers(setting, rows, labels, owners, 7).digest == again
    assert changed != again
    assert fit_teachers(Setting(), rows, labels, owners, 7).digest != again


def test_the_digest_of_a_learner_of_any_kind_has_its_libraries(monkeypatch):
    """What nobody knows the inside of is bound to what it runs on; trees and linear models are not."""
    rows, labels, owners = some_rows(300, 1)
    for name, bound in (("tree", False), ("linear", False), ("bayes", True), ("components", True)):
        before = fit_teachers(_SETTINGS[name], rows, labels, owners, 7).digest
        with monkeypatch.context() as patched:
            patched.setattr(others, "libraries", lambda *_paths: {"numpy": "1.0"})
            assert (fit_teachers(_SETTINGS[name], rows, labels, owners, 7).digest != before) == bound
