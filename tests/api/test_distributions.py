"""Distributions in Python: trained on values of any type, asked with values of it."""

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import oracle
from connectors.base import Delivery
from oracle.errors import DataError, InputError
from oracle.state.status import public_status
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource

_KEY = bytes(range(32))
_ROWS = 3_000
_NUMBERS = np.random.default_rng(5).normal(10.0, 30.0, _ROWS).round(2)
_VALUES: dict[str, Any] = {
    "number": _NUMBERS,
    "date": [dt.date(2013, 1, 1) + dt.timedelta(days=int(number)) for number in _NUMBERS],
    "decimal": [Decimal(f"{number:.2f}") for number in _NUMBERS],
    "string": [f"{200 + number:.2f}" for number in _NUMBERS],
}


def _plan(kind="number", **changes):
    feature = {"name": "v", "type": kind, **({"places": 2} if kind == "decimal" else {})}
    promises = {"epsilon": 4.0, "alpha": 0.1, "examples": _ROWS}
    return oracle.plan({"name": "d", "predictor": "distribution", "features": [feature], **promises, **changes})


@pytest.mark.parametrize("kind", _VALUES)
def test_values_are_asked_about_as_they_are(kind, tmp_path):
    """One or several, as Python has them; what was found may be asked at; a saved state answers the same."""
    ordered = sorted(_VALUES[kind])
    chosen = [ordered[300], ordered[1500], ordered[2900]]
    with oracle.train(_plan(kind), _VALUES[kind], key=_KEY) as predictor:
        found = predictor.ask(at=chosen[1])
        assert list(found) == ["value", "error", "paid", "verified", "model", "round"]
        assert abs(found["value"] - 0.5) <= found["error"] == 0.1
        several = predictor.ask(at=chosen)
        assert (several["round"], [one["verified"] for one in several["values"]]) == (1, [True] * 3)
        median = predictor.ask(quantile=0.5)
        again = predictor.ask(at=median["quantile"])
        assert again["value"] == median["value"]
        assert abs(median["value"] - 0.5) <= 0.2
        quartiles = predictor.ask(quantile=[0.25, 0.5, 0.75])["values"]
        assert quartiles[1]["quantile"] == median["quantile"]
        last = predictor.ask(at=chosen[1])
        assert abs(last["value"] - 0.5) <= 0.1, "which may be sharper now"
        assert predictor.facts.round == 10
        predictor.save(tmp_path / "state")
    with oracle.load(tmp_path / "state") as predictor:
        assert predictor.ask(at=chosen[1])["value"] == last["value"]


async def test_a_state_whose_rows_have_paid_is_served(tmp_path):
    """Its header counts the paid answers, as a daemon's does, and a daemon goes on from it with what was found."""
    with oracle.train(_plan(), _NUMBERS, key=_KEY) as predictor:
        found = predictor.ask(quantile=0.5)
        paid = predictor.facts.paid
        predictor.save(tmp_path / "state")
    assert paid > 0
    assert public_status(tmp_path / "state").paid == paid
    log = MemoryLog([Delivery(1, b'{"id":"a","quantile":0.5}')])
    await oracle.serve(tmp_path / "state", MemorySource(log), MemorySink(log))
    (reply,) = [msgspec.json.decode(reply.body) for commit in log.commits for reply in commit.replies.rows()]
    assert reply["quantile"] == found["quantile"]


@pytest.mark.parametrize(
    "rows",
    [
        _NUMBERS[:, None],
        _NUMBERS.tolist(),
        {"v": _NUMBERS, "w": ["a"] * _ROWS},
        pa.table({"w": range(_ROWS), "v": _NUMBERS}),
        pa.table({"v": pa.chunked_array([_NUMBERS[:100], _NUMBERS[100:]])}),
        pa.array(_NUMBERS),
        pa.chunked_array([_NUMBERS[:100], _NUMBERS[100:]]),
    ],
    ids=["column", "list", "mapping", "arrow", "chunks", "array", "chunked array"],
)
def test_rows_come_in_many_forms(rows):
    """They make the same predictor."""
    one, other = oracle.train(_plan(), _NUMBERS, key=_KEY), oracle.train(_plan(), rows, key=_KEY)
    asked = np.linspace(-50.0, 70.0, 25)
    assert one.ask(at=asked) == other.ask(at=asked)
    assert one.ask(at=np.float64(3.5)) == other.ask(at=3.5)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (np.ones((_ROWS, 2)), InputError, "must be a column of values of one type"),
        ({"w": _NUMBERS}, InputError, r"rows\['v'\] is not set: must be a column"),
        ("rows.csv", InputError, "must be values, no path"),
        (["x77"] * _ROWS, DataError, "data: column v: must hold"),
        ([*_NUMBERS[:-1], None], DataError, "data: column v: every row must have a value"),
        ([*_NUMBERS[:-1], np.nan], DataError, "data: column v: every"),
        ([*_NUMBERS[:-1], np.inf], DataError, f"data: column v: .* first that is not is in row {len(_NUMBERS)}$"),
        (_NUMBERS[:-1], DataError, "fewer rows than model.examples = 3000 declares"),
    ],
)
def test_what_are_no_values_is_refused(rows, error, words):
    """By the column's name, without a value."""
    with pytest.raises(error, match=words) as caught:
        oracle.train(_plan(), rows)
    assert "77" not in str(caught.value)


def test_rows_have_no_labels():
    """They are refused by name."""
    with pytest.raises(InputError, match=r"labels: must be left out: questions are about the rows themselves"):
        oracle.train(_plan(), _NUMBERS, np.ones(_ROWS))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "at: must be a number, or quantile in its place"),
        ({"at": "x77"}, "at: must be a number"),
        ({"at": [1.0, None]}, r"at\[1\]: must be a number"),
        ({"at": object()}, "at: must be a value of the model's feature, or a list of such"),
        ({"at": 1, "quantile": 0.5}, "quantile: must be nothing, beside at"),
        ({"quantile": 50}, "quantile: must be a share of the rows, from 0 to 1"),
        ({"quantile": [0.5, -1]}, r"quantile\[1\]: must be a share of the rows, from 0 to 1"),
        ({"where": {"v": [0, 1]}}, "where: must be left out: it is for tables"),
        ({"where": 3.5}, r"where: must be left out: it is for tables; ask\(at=...\) or ask\(quantile=...\)"),
        ({"at": 1, "above": 0.5}, "above: must be left out: it is for tables"),
        ({"at": 1, "by": ["v"]}, "by: must be left out: it is for tables"),
        ({"at": np.nan}, "at: must be a finite float64"),
        ({"at": [1.0, -np.inf]}, r"at\[1\]: must be a finite float64"),
        ({"at": np.array([np.inf])}, r"at\[0\]: must be a finite float64"),
        ({"quantile": np.nan}, "quantile: must be a share of the rows, from 0 to 1"),
    ],
)
def test_what_is_no_question_is_refused(question, words):
    """By field and bound; it takes no round."""
    predictor = oracle.train(_plan(), _NUMBERS, key=_KEY)
    with pytest.raises(InputError, match=words) as caught:
        predictor.ask(**question)
    assert "77" not in str(caught.value)
    assert predictor.facts.round == 0


def test_as_many_values_as_rows_may_be_asked_at():
    """However long they are written: bytes are a limit of messages."""
    predictor = oracle.train(_plan(), _NUMBERS, key=_KEY)
    assert len(predictor.ask(at=[number / 7 + 1e-5 for number in range(4096)])["values"]) == 4096
    with pytest.raises(InputError, match=r"at: must be 1 to 4,096 values"):
        predictor.ask(at=[0.0] * 4097)


def test_a_table_is_not_asked_as_a_distribution():
    """Nor is a distribution given rows of another."""
    attribute = {"name": "a", "bounds": [0.0, 10.0], "bins": 10}
    table = {"name": "s", "predictor": "statistics", "epsilon": 8.0, "alpha": 0.3, "examples": _ROWS, "paid": 5}
    predictor = oracle.train(oracle.plan({**table, "attributes": [attribute]}), {"a": _NUMBERS}, key=_KEY)
    with pytest.raises(InputError, match=r"at: must be left out: it is for distributions"):
        predictor.ask(at=1.0)
    with pytest.raises(InputError, match="takes questions in words"):
        oracle.train(_plan(), _NUMBERS, key=_KEY).answer([[0.5, -1.0]])
