"""Strings, dates and decimals through the commands: planned, trained from a file, served, started again."""

import datetime as dt
import json
import random
import shutil
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oracle.cli.tables import Layout, labelled_batches
from oracle.errors import DataError
from oracle.planning.features import Feature
from oracle.planning.kinds import decode_plan
from tests.support.folders import write_config
from tests.support.row_files import write_rows

_MODEL = """
[model]
name = "tickets"
predictor = "rectangles"
slicing = "sequential"
epsilon = 8.0
alpha = 0.4
examples = 4000
first_share = 0.5
[[model.features]]
name = "s"
type = "string"
sides = "lower"
max_bytes = 9
[[model.features]]
name = "d"
type = "date"
sides = "none"
[[model.features]]
name = "p"
type = "decimal"
places = 2
sides = "none"
"""
_FEATURES = (
    Feature(name="s", type="string", max_bytes=9),
    Feature(name="d", type="date"),
    Feature(name="p", type="decimal", places=2),
)
_NOT_UTF8 = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(bytes(8) + b"\1\0\0\0"), pa.py_buffer(b"\xff")])
_EDGE = "c"
_TOP = "\u00e9z"  # with four fifths of the strings that are true below it, which is more than alpha of all


def _table(rows, seed=1):
    """Return a table of rows whose label is s >= "c"; some strings are empty, some have a comma or a quote."""
    rng = random.Random(seed)  # noqa: S311  # data
    texts = ["".join(rng.choices('abcdef\u00e9,"', k=rng.randrange(5))) for _ in range(rows)]
    days = [dt.date(2013, 1, 1) + dt.timedelta(days=rng.randrange(365)) for _ in range(rows)]
    prices = pa.array([Decimal(rng.randrange(-9999, 9999)).scaleb(-2) for _ in range(rows)], pa.decimal128(8, 2))
    return pa.table({"s": texts, "d": days, "p": prices, "label": [text >= _EDGE for text in texts]})


@pytest.fixture
def model(tmp_path):
    """Return the path of the model file."""
    path = tmp_path / "model.toml"
    path.write_text(_MODEL)
    return path


def test_both_files_hold_the_same_rows(tmp_path):
    """CSV and Parquet of one table are read as the same numbers, empty strings among them."""
    table = _table(500)
    read = []
    for suffix in (".csv", ".parquet"):
        batches = list(labelled_batches(write_rows(tmp_path / f"rows{suffix}", table), Layout(_FEATURES), "label"))
        read.append([np.concatenate(part) for part in zip(*batches, strict=True)])
    assert np.array_equal(read[0][0], read[1][0])
    assert np.array_equal(read[0][1], read[1][1])
    assert read[0][0].shape == (500, 4)
    assert (read[0][0][:, 0] == 0.0).any()
    assert read[0][0][:, 3].tolist() == [float(price) for price in table["p"].to_pylist()]


@pytest.mark.parametrize(
    ("suffix", "column", "message"),
    [
        (
            ".csv",
            {"d": pa.array(["2013-01-01", "yesterday"])},
            "column d: holds something that is not a date from 0001",
        ),
        (
            ".csv",
            {"p": pa.array(["1.00", "1.001"])},
            "column p: holds something that is not a decimal below 1e13, with",
        ),
        (".csv", {"s": pa.array(["a", "0123456789"])}, "column s: every value must be a text of at most 9 bytes"),
        (".csv", {"d": pa.array(["2013-01-01", ""])}, "column d: every row must have a value"),
        (".parquet", {"s": pa.array([1, 2])}, "column s: must hold strings, not int64"),
        (".parquet", {"s": _NOT_UTF8}, "column s: every value must be a text of at most 9 bytes of UTF-8"),
        (".parquet", {"s": pa.array([{"yesterday": 1}] * 2)}, "column s: must hold strings, not struct"),
        (".parquet", {"d": pa.array([0, 1], pa.timestamp("ms", "CET"))}, "dates, not timestamp[ms, tz=CET]"),
        (".parquet", {"s": pa.array(["a", None])}, "column s: every row must have a value"),
        (".parquet", {"d": pa.array([1, 2])}, "column d: must hold dates, not int64"),
        (
            ".parquet",
            {"p": pa.array([1.0, 2.0])},
            "column p: must hold decimals, integers or texts of decimals",
        ),
        (".parquet", {"p": pa.array([1, 10**13])}, "column p: every value must be a decimal below 1e13, with at most"),
    ],
)
def test_bad_columns_are_named_and_not_quoted(tmp_path, suffix, column, message):
    """A clear line with the column, what it should hold and the type it has; no value."""
    columns = {name: array.combine_chunks() for name, array in zip("sdp", _table(2).columns, strict=False)}
    path = write_rows(tmp_path / f"rows{suffix}", pa.table({**columns, "label": [True, False], **column}))
    with pytest.raises(DataError) as caught:
        list(labelled_batches(path, Layout(_FEATURES), "label"))
    assert message in str(caught.value)
    assert not any(value in str(caught.value) for value in ("yesterday", "1.001", "0123456789"))


def test_plan_says_what_features_are(cli, model):
    """Types in words, why there is no classical learner beside it, and the same plan as JSON."""
    lines = {line[:14].strip(): line[14:] for line in cli("plan", model).out.splitlines() if line[:1].islower()}
    assert lines["types"] == (
        "s is a text of at most 9 bytes of UTF-8; d is a date from 0001-01-01 to 9999-12-31, as YYYY-MM-DD; "
        "p is a decimal below 1e13, with at most 2 digits after the point"
    )
    assert lines["classical"].startswith("no such learner: it chooses among all edges of a finite grid, and strings")
    plan = decode_plan(cli("plan", model, "--json").out.encode())
    assert [feature.kind for feature in plan.features] == ["string", "date", "decimal"]
    assert plan.width == 4


def _queries(count, seed):
    rng = random.Random(seed)  # noqa: S311  # data
    texts = rng.choices(["", "a", "b", "bz", "c", "c\0", "d\u00e9", _TOP], k=count)
    lines = [json.dumps({"id": str(at), "s": text, "d": "2013-05-01", "p": 9.99}) for at, text in enumerate(texts)]
    lines[5::20] = ["null"] * len(lines[5::20])
    lines[7::50] = ['{"s":"far too long","d":"2013-05-01","p":1}'] * len(lines[7::50])
    return texts, [line + "\n" for line in lines]


def test_trained_served_and_started_again(cli, model, tmp_path):
    """Answers follow the edge; after a crash that lost all snapshots but the first the log goes on as if none had been.

    Another training set gives a snapshot of the same size.
    """
    sizes = []
    for seed in (2, 1):
        data = write_rows(tmp_path / "rows.csv", _table(4_000, seed))
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        result = cli("init", model, "--data", data, "--state", tmp_path / "state")
        assert result.code == 0, result.err
        sizes.append([path.stat().st_size for path in (tmp_path / "state").glob("*.perp")])
    assert sizes[0] == sizes[1]
    texts, lines = _queries(600, 3)
    for name in ("once", "twice"):
        shutil.copytree(tmp_path / "state", tmp_path / name / "state")
    config = write_config(tmp_path / "twice", service={"batch_rows": 50}, state={"snapshot_rounds": 100})
    (tmp_path / "twice" / "q.jsonl").write_text("".join(lines[:300]))
    assert cli("check", config).code == 0
    assert cli("serve", config).code == 0
    shutil.rmtree(tmp_path / "twice" / "state")
    shutil.copytree(tmp_path / "state", tmp_path / "twice" / "state")
    (tmp_path / "twice" / "q.jsonl").write_text("".join(lines))
    assert cli("serve", config).code == 0
    (tmp_path / "once" / "q.jsonl").write_text("".join(lines))
    assert cli("serve", write_config(tmp_path / "once")).code == 0
    answers = (tmp_path / "once" / "out.jsonl").read_bytes()
    assert (tmp_path / "twice" / "out.jsonl").read_bytes() == answers
    read = [json.loads(line) for line in answers.splitlines()]
    assert read[7]["error"] == "wrong-type"
    assert (read[7]["field"], read[7]["bound"]) == ("s", "a text of at most 9 bytes of UTF-8")
    asked = [
        (text, answer["label"]) for text, answer in zip(texts, read, strict=True) if answer.get("label") is not None
    ]
    assert len(asked) > 500
    assert all(label == 0 for text, label in asked if text < "b")
    assert all(label == 1 for text, label in asked if text == _TOP)
