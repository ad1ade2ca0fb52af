"""Rows of an ensemble from files of every format: categories, values that are missing, and classes."""

import datetime as dt
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oracle.cli.tables import BothLabels, check_table, labelled_batches, layout_of, read_persons
from oracle.errors import DataError
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.partition import Partition
from oracle.mechanisms.persons import AtMost
from oracle.planning.ensemble.model import MISSING, EnsembleModel
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.predictors import split
from oracle.predictors.base import NO_LABEL, Trainer
from tests.predictors.plans import tiny_ensemble_plan
from tests.support.row_files import write_rows

_FEATURES = (
    Feature(name="carrier", categories=("AA", "007", "é"), column="Airline"),
    Feature(name="wind"),
    Feature(name="month", categories=tuple(map(str, range(1, 12)))),
    Feature(name="day", type="date"),
)
_CLASSES = ("on time", "late", "7")
_PLAN = tiny_ensemble_plan(_FEATURES, classes=_CLASSES)
_KINDS = ["csv", "tsv", "parquet", "jsonl", "arrow"]
_COUNT = 3_000


def _drawn():
    """Return a table, and what its rows are by plain Python: features and labels."""
    rng = random.Random(3)  # noqa: S311  # data
    carriers = rng.choices(["AA", "007", "é", "7", "zz", None], k=_COUNT)
    winds = rng.choices([0.5, -3.25, 1e300, None], k=_COUNT)
    months = rng.choices([1, 5, 12, None], k=_COUNT)
    days = rng.choices([dt.date(2013, 1, 1), dt.date(1969, 12, 31), None], k=_COUNT)
    classes = rng.choices(_CLASSES, k=_COUNT)
    columns = {"Airline": carriers, "wind": winds, "month": months, "day": days}
    table = pa.table({**columns, "y": classes, "who": [f"p{number // 3}" for number in range(_COUNT)]})
    expected = np.column_stack(
        [
            [{"AA": 0.0, "007": 1.0, "é": 2.0, None: MISSING}.get(one, 3.0) for one in carriers],
            [MISSING if one is None else one for one in winds],
            [{12: 11.0, None: MISSING}.get(one, float(one or 0) - 1.0) for one in months],
            [MISSING if one is None else float((one - dt.date(1970, 1, 1)).days) for one in days],
        ]
    )
    return table, expected, np.array(list(map(_CLASSES.index, classes)), dtype=np.int8)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("encoded", [False, True])
def test_every_format_holds_the_same_rows(tmp_path, kind, encoded):
    """Texts, numbers that are categories, what is missing, and labels; also as dictionaries, where there are these."""
    table, expected, labels = _drawn()
    if encoded and kind in {"parquet", "arrow"}:
        for name in ("Airline", "y"):
            table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
    path = write_rows(tmp_path / f"rows.{kind}", table)
    check_table(path, layout_of(_PLAN), "y")
    batches = list(labelled_batches(path, layout_of(_PLAN), "y"))
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in batches]), expected)
    found = np.concatenate([given for _, given in batches])
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, labels)


def test_a_models_layout_is_its_plans():
    """Which `init` looks at the file by, before there is a plan."""
    model = EnsembleModel(
        name="m", predictor="ensemble", epsilon=1.0, examples=75, features=_FEATURES, learner="a.b", classes=_CLASSES
    )
    assert layout_of(model) == layout_of(_PLAN)


def test_rows_of_persons_are_left_out_with_their_labels(tmp_path):
    """At most one of three of each; of those the features and the labels stay together."""
    table, expected, labels = _drawn()
    path = write_rows(tmp_path / "rows.csv", table)
    persons = read_persons(path, "who", AtMost(PhaseKey(bytes(32)), 1))
    batches = list(labelled_batches(path, layout_of(_PLAN), "y", persons))
    rows = np.column_stack(
        [np.concatenate([part for part, _ in batches]), np.concatenate([part for _, part in batches])]
    )
    assert len(rows) == _COUNT // 3
    everything = np.column_stack([expected, labels]).reshape(-1, 3, 5)
    assert all((of_person == row).all(axis=1).any() for of_person, row in zip(everything, rows, strict=True))


_ROW = "AA,0.5,1,2013-01-01"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{_ROW},secret77\n", "column y: every label must be one of the model's classes: 'on time', 'late', '7'"),
        (f"{_ROW},\n", "column y: every label must be one of the model's classes: 'on time', 'late', '7'"),
        ("AA,secret77,1,2013-01-01,late\n", "column wind: holds something that is not a number; the first is in row 1"),
        (f"AA,{MISSING!r},1,2013-01-01,late\n", "column wind: every number must be above -1.7976931348623157e+308"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(tmp_path, content, message):
    """The column, and what would be right."""
    path = tmp_path / "rows.csv"
    path.write_text("Airline,wind,month,day,y\n" + content)
    with pytest.raises(DataError) as caught:
        list(labelled_batches(path, layout_of(_PLAN), "y"))
    assert message in str(caught.value)
    assert "secret77" not in str(caught.value)


def test_rows_of_one_class_teach_nothing():
    """Of any class."""
    both = BothLabels("y")
    both.look(np.array([2, 2], dtype=np.int8))
    with pytest.raises(DataError, match="all rows have the same label"):
        both.check()
    both.look(np.array([1], dtype=np.int8))
    both.check()


class _Kept(Trainer[Plan, Any]):
    """Keeps what it is given."""

    def __init__(self, plan, secret):
        super().__init__(plan, secret)
        self.rows, self.labels = [], []

    def _take(self, features, labels):
        self.rows.append(features.copy())
        self.labels.append(labels.copy())

    def _make(self):
        return np.concatenate(self.rows), np.concatenate(self.labels)


def test_shards_get_rows_with_their_labels(monkeypatch):
    """Each row once, its class beside it, whatever the batches."""
    monkeypatch.setattr(split, "new_trainer", _Kept)
    plan = tiny_ensemble_plan([Feature(name="n")], classes=_CLASSES)
    numbers = np.arange(3.0 * plan.declared)
    labels = (numbers % 3).astype(np.int8)
    trainer = split.SplitTrainer(plan, Partition(PhaseKey(bytes(32)), 3), dict.fromkeys(range(3), bytes(32)))
    for part in np.array_split(np.arange(len(numbers)), 7):
        trainer.add(numbers[part, None], labels[part])
    shards = [made for _, made, _ in trainer.finish()]
    rows, given = (np.concatenate(parts) for parts in zip(*shards, strict=True))
    assert sorted(rows[:, 0].tolist()) == numbers.tolist()
    assert given.dtype == np.int8
    np.testing.assert_array_equal(given, rows[:, 0] % 3)
    assert NO_LABEL not in given
