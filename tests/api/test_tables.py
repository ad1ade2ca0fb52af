"""Rows of a table and questions about it, in Python."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import oracle
from oracle.api.tables import as_cells
from oracle.api.training import Training
from oracle.errors import DataError, InputError
from oracle.planning.attributes import Attribute
from oracle.planning.statistics.model import TablePlan

KEY = bytes(range(32))

_ATTRIBUTES = (
    Attribute(name="carrier", categories=("AA", "UA", "7")),
    Attribute(name="hour", bounds=(0.0, 24.0), bins=4, column="Hour"),
)
_COLUMNS = {"carrier": ["UA", "7", None, "XX"], "Hour": [0.0, 6.0, np.nan, 30.0], "note": [1, "a", [], {}]}
_CELLS = [[1, 0], [2, 1], [4, 4], [3, 3]]


@pytest.mark.parametrize(
    "rows",
    [
        _COLUMNS,
        {"carrier": np.array(_COLUMNS["carrier"], dtype=object), "Hour": np.array(_COLUMNS["Hour"])},
        pa.table({"carrier": _COLUMNS["carrier"], "Hour": _COLUMNS["Hour"]}),
        pd.DataFrame(_COLUMNS),
        pd.DataFrame(_COLUMNS).astype({"carrier": "category"}),
        pd.DataFrame(_COLUMNS).astype({"carrier": pd.ArrowDtype(pa.string()), "Hour": pd.ArrowDtype(pa.float64())}),
        np.array(_CELLS),
        [[float(cell) for cell in row] for row in _CELLS],
    ],
)
def test_columns_of_any_kind_are_the_same_cells(rows):
    """Mappings, Arrow tables and data frames; columns that the model does not name may hold anything."""
    assert as_cells(_ATTRIBUTES, rows).tolist() == _CELLS


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ({"carrier": ["AA"]}, InputError, r"rows\['Hour'\] is not set: must be a column"),
        ({"carrier": ["AA"], "Hour": [1, 2]}, InputError, r"rows\['Hour'\]: length = 2: must be 1, that of column car"),
        ({"carrier": ["AA"], "Hour": ["secret77"]}, DataError, "column Hour: must hold numbers, not string"),
        ({"carrier": ["AA", 77], "Hour": [1, 2]}, InputError, r"rows\['carrier'\]: must be a column of values"),
        ([[0.0, 5.0]], InputError, "every cell of 'hour' must be a whole number from 0 to 4"),
        ([[-1.0, 0.0]], InputError, "every cell of 'carrier' must be a whole number from 0 to 4"),
        ([[0.0, np.nan]], InputError, "every cell of 'hour' must be"),
        ([[0.5, 0.0]], InputError, "every cell of 'carrier' must be"),
        ([[0.0]], InputError, r"rows: shape = \(1, 1\): must be \(n, 2\)"),
        ([["secret77"]], InputError, "must be numbers of cells, or columns by their names"),
        ("secret77.csv", InputError, "rows: must be rows, no path: read the file"),
        (Path("secret77.csv"), InputError, "must be rows, no path"),
        (77, InputError, "must be columns by their names, or numbers of cells"),
        (None, InputError, "must be columns by their names, or numbers of cells"),
    ],
)
def test_what_is_no_table_is_refused(rows, error, message):
    """By the column's name, without a value."""
    with pytest.raises(error, match=message) as caught:
        as_cells(_ATTRIBUTES, rows)
    assert "77" not in str(caught.value)


_ROWS = 4_000


def _model(**changes):
    """Return the `[model]` table of a small table."""
    attributes = [
        {"name": "carrier", "categories": ["AA", "UA"]},
        {"name": "hour", "bounds": [0.0, 24.0], "bins": 24},
        {"name": "day", "type": "date", "bounds": ["2013-01-01", "2013-01-31"], "bins": 6},
    ]
    promises = {"predictor": "statistics", "epsilon": 4.0, "delta": 1e-6, "alpha": 0.1, "paid": 20, "examples": _ROWS}
    return {"name": "s", "attributes": attributes, **promises, **changes}


def _flights():
    generator = np.random.default_rng(1)
    return {
        "carrier": generator.choice(["AA", "UA", "XX"], _ROWS).tolist(),
        "hour": generator.gamma(9.0, 1.5, _ROWS),
        "day": generator.integers(15_706, 15_736, _ROWS).astype("datetime64[D]"),
    }


def test_a_question_is_asked_as_a_message_would_be(tmp_path):
    """The answer is the message's, within the promised error; and `answer`'s number; after a save, too."""
    rows = _flights()
    plan = oracle.plan(_model())
    asked = {"carrier": ["UA", None], "hour": (6, 14)}
    with oracle.train(plan, rows, key=KEY) as predictor:
        found = predictor.ask(asked)
        hours = np.asarray(rows["hour"])
        truth = np.mean((np.array(rows["carrier"]) == "UA") & (hours >= 6.0) & (hours < 14.0))
        assert set(found) == {"value", "error", "paid", "verified", "model", "round"}
        assert abs(found["value"] - truth) <= found["error"] == plan.alpha
        assert (found["verified"], found["round"], predictor.facts.round) == (True, 0, 1)
        split = predictor.ask({"day": [dt.date(2013, 1, 1), dt.date(2013, 1, 11)]}, by=["carrier"])
        assert [one["carrier"] for one in split["values"]] == ["AA", "UA", "other", None]
        assert (split["round"], predictor.facts.round) == (1, 5)
        predictor.save(tmp_path / "state")
    with oracle.load(tmp_path / "state") as predictor:
        assert predictor.ask(asked)["value"] == found["value"]
        assert isinstance(plan, TablePlan)
        masks = [np.ones(cells, dtype=bool) for cells in plan.layout.shape]
        masks[0][:] = [False, True, False, True]
        masks[1][:] = (np.arange(25) >= 6) & (np.arange(25) < 14)
        assert predictor.answer([plan.layout.row(masks)]).tolist() == [found["value"]]


def test_cells_and_columns_make_the_same_predictor():
    """Under one key, in one part or in many."""
    rows = _flights()
    plan = oracle.plan(_model())
    assert isinstance(plan, TablePlan)
    training = Training(plan, KEY)
    cells = as_cells(plan.attributes, rows)
    for start in range(0, _ROWS, 999):
        training.add(cells[start : start + 999])
    one, other = oracle.train(plan, rows, key=KEY), training.finish()
    for hour in range(23):
        asked = {"hour": [hour, hour + 1]}
        assert one.ask(asked) == other.ask(asked)


def test_a_threshold_is_asked_for_by_above():
    """Of a sparse vector: above with a value, or not."""
    predictor = oracle.train(oracle.plan(_model(predictor="sparse-vector", paid=1)), _flights(), key=KEY)
    assert not predictor.ask({"carrier": ["UA"]}, above=0.9)["above"]
    found = predictor.ask({}, above=0.5)
    assert found["above"]
    assert found["value"] == pytest.approx(1.0, abs=0.1)
    assert predictor.ask({}, above=0.4)["value"] == found["value"]
    assert predictor.ask({"carrier": ["UA"]}, above=0.1)["error"] == "budget-spent"


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"where": {"carriers": ["AA"]}}, "where.carriers: must be the model's attributes"),
        ({"where": {"carrier": ["secret77"]}}, r"where.carrier\[0\]: must be one of"),
        ({"where": {"hour": [6.5, 9]}}, r"where.hour: must be a range \[from, to\) on bin edges"),
        ({"where": {"hour": {6, 9}}, "by": "x"}, "by"),
        ({"where": {"hour": object()}}, "where: must be lists of texts, numbers or dates"),
        ({"where": {}, "above": 0.5}, "above: must be nothing: it is for sparse vectors"),
        ({"where": {}, "by": ["x"]}, r"by\[0\]: must be the model's attributes"),
    ],
)
def test_what_is_no_question_is_refused(question, field):
    """By field and bound; it takes no round."""
    predictor = oracle.train(oracle.plan(_model()), _flights(), key=KEY)
    with pytest.raises(InputError, match=field) as caught:
        predictor.ask(**question)
    assert "77" not in str(caught.value)
    assert predictor.facts.round == 0


def test_labels_and_features_are_kept_apart():
    """Rows of a table have no labels, others must; and only tables are asked about."""
    plan = oracle.plan(_model())
    with pytest.raises(InputError, match=r"labels: must be left out"):
        oracle.train(plan, _flights(), np.ones(_ROWS))
    box = {"name": "t", "predictor": "classical", "epsilon": 8.0, "examples": 2_000, "features": [{"name": "a"}]}
    with pytest.raises(InputError, match="labels is not set: must be the rows' labels"):
        oracle.train(oracle.plan(box), np.zeros((2_000, 1)))
    predictor = oracle.train(oracle.plan(box), np.linspace(0.0, 1.0, 2_000)[:, None], np.arange(2_000) > 400, key=KEY)
    with pytest.raises(InputError, match=r"plan.predictor = 'classical': must take questions; use `answer`"):
        predictor.ask({"a": [0.0, 1.0]})
    with pytest.raises(DataError, match=r"fewer rows than model.examples = 4000"):
        oracle.train(plan, {name: column[:10] for name, column in _flights().items()})
