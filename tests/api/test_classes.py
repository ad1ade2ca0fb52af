"""Ensembles in Python: rows of any types, classes by their names, and rounds that the model rests in."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from oracle.api import training
from oracle.api.arrays import as_features
from oracle.api.online import OnlineClassifier
from oracle.errors import DataError, InputError
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.predictors.base import Answers, PublicFacts, Trainer
from tests.predictors.plans import tiny_ensemble_plan

_FEATURES = (Feature(name="n"), Feature(name="c", categories=("EWR", "JFK"), column="origin"))
_CLASSES = ("on time", "late")
_PLAN = tiny_ensemble_plan(_FEATURES, classes=_CLASSES, examples=4)
_WHOLE_NUMBERS = tiny_ensemble_plan(_FEATURES, classes=(5, -7), examples=4)
_BINARY = tiny_ensemble_plan(_FEATURES, examples=4)
_ROWS: list[list[Any]] = [[1.5, "EWR"], [None, "JFK"], [float("nan"), None], [-2, "LGA"]]
_NUMBERS = [[1.5, 0.0], [MISSING, 1.0], [MISSING, MISSING], [-2.0, 2.0]]
_COLUMNS: dict[str, list[Any]] = {"n": [1.5, None, float("nan"), -2.0], "origin": ["EWR", "JFK", None, "LGA"]}


class _Echo:
    """Answers the label of the row with the same numbers; rests where there was none."""

    def __init__(self, rows, labels):
        self._labels = {tuple(row): int(label) for row, label in zip(rows.tolist(), labels.tolist(), strict=True)}
        self._round = 0

    def answer(self, features, present):
        found = [self._labels.get(tuple(row), -1) for row in features.tolist()]
        first, self._round = self._round, self._round + len(present)
        labels, phases = np.array(found, dtype=np.int8), np.ones(len(found), dtype=np.int64)
        verified = labels >= 0
        return Answers(np.where(verified, labels, 0), first, phases, np.zeros(2, np.uint64), (), verified=verified)

    def settle(self):
        pass

    def export(self):
        return {"key": np.zeros(32, np.uint8)}

    def facts(self):
        return PublicFacts(self._round, 1, self._round, 150, 0)


class _Trainer(Trainer[Any, Any]):
    def __init__(self, plan, secret):
        super().__init__(plan, secret)
        self.taken: list[tuple[Any, Any]] = []

    def _take(self, features, labels):
        self.taken.append((features, labels))

    def _make(self):
        return _Echo(*(np.concatenate(parts) for parts in zip(*self.taken, strict=True)))


@pytest.fixture(autouse=True)
def _echo(monkeypatch):
    monkeypatch.setattr(training, "new_trainer", _Trainer)


@pytest.mark.parametrize(
    "rows",
    [
        _ROWS,
        np.array(_ROWS, dtype=object),
        _COLUMNS,
        pa.table({"n": pa.array(_COLUMNS["n"]), "origin": pa.array(_COLUMNS["origin"]).dictionary_encode()}),
        pd.DataFrame(_COLUMNS),
        pd.DataFrame({"n": _COLUMNS["n"], "origin": pd.Categorical(_COLUMNS["origin"])}),
    ],
)
def test_rows_of_any_form_are_the_same_rows(rows):
    """A list, an array, columns by their names; None and NaN are missing, and other texts "other"."""
    assert as_features(_PLAN, "rows", rows).tolist() == _NUMBERS


def test_an_array_of_numbers_is_read_as_texts_where_a_feature_has_categories():
    """As a column of numbers in a file is."""
    plan = tiny_ensemble_plan([Feature(name="n"), Feature(name="month", categories=("1", "2"))])
    assert as_features(plan, "rows", np.array([[0.5, 2.0], [np.nan, 3.0]])).tolist() == [[0.5, 1.0], [MISSING, 2.0]]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([[1.0]], InputError, r"rows: shape"),
        ([[1.0, "EWR"], [1.0]], InputError, r"rows = \.\.\.: must be rows of 2 values|rows"),
        ([["1", "EWR"]], DataError, "column n: must hold numbers, not string"),
        ([[[1], "EWR"]], DataError, "column n: must hold numbers, not list"),
        ([[float("inf"), "EWR"]], InputError, "every value must be a finite number"),
        ([[MISSING, "EWR"]], DataError, "column n: every number must be above"),
        ({"n": [1.0]}, InputError, "rows\\['origin'\\]"),
        ({"n": [1.0], "origin": ["EWR", "JFK"]}, InputError, "must be 1, that of column n"),
    ],
)
def test_what_is_no_row_is_refused(rows, error, message):
    """By the column, without the value."""
    with pytest.raises(error, match=message):
        as_features(_PLAN, "rows", rows)


def test_classes_come_back_by_their_names():
    """None where the model rested."""
    trained = training.train(_PLAN, _ROWS, ["late", "on time", "late", "late"])
    answers = trained.answer([*_ROWS, [9.0, "EWR"]])
    assert answers.tolist() == ["late", "on time", "late", "late", None]


def test_whole_numbers_come_back_as_they_are():
    """Also 0 and 1, as int8, with -1 where the model rested."""
    assert training.train(_WHOLE_NUMBERS, _ROWS, [-7, 5, 5, 5]).answer(_ROWS).tolist() == [-7, 5, 5, 5]
    answers = training.train(_BINARY, _ROWS, [True, False, 1, 0]).answer([*_ROWS, [9.0, None]])
    assert answers.dtype == np.int8
    assert answers.tolist() == [1, 0, 1, 0, -1]


@pytest.mark.parametrize("labels", [["late", "secret77"] * 2, [0, 1, 0, 1], [None] * 4, [["late"]] * 4])
def test_other_labels_are_refused(labels):
    """By what they may be; none is quoted."""
    with pytest.raises(InputError) as caught:
        training.train(_PLAN, _ROWS, labels)
    assert "secret77" not in str(caught.value)


def test_online_it_takes_and_gives_classes():
    """One by one, missing values among them."""
    classifier = OnlineClassifier(_PLAN)
    for row, label in zip(_ROWS, ["late", "on time", "late", "late"], strict=True):
        assert classifier.predict_one({"n": row[0], "c": row[1]}) is None
        classifier.learn_one({"n": row[0], "c": row[1]}, label)
    assert classifier.predict_one({"n": None, "c": "JFK"}) == "on time"
    assert classifier.predict_one({"n": 9.0, "c": "JFK"}) is None
    with pytest.raises(InputError, match="must be a value, or None"):
        classifier.predict_one({"n": 9.0})
