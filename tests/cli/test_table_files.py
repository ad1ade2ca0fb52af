import datetime as dt
import io
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oracle.cli import table_files
from oracle.cli.tables import Layout, labelled_batches, read_persons
from oracle.errors import DataError, SourceError
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.persons import AtMost
from oracle.planning.features import Feature
from tests.support.row_files import write_rows

pytestmark = pytest.mark.usefixtures("planned_once")

_COUNT = 70_000
_FEATURES = (
    Feature(name="length", column="Sepal length"),
    Feature(name="name", type="string", sides="none", max_bytes=10),
    Feature(name="day", type="date", sides="none"),
    Feature(name="price", type="decimal", places=2, sides="none"),
)


def _table():
    generator = np.random.default_rng(3)
    return pa.table(
        {
            "note": ['a;"b",\tc'] * _COUNT,
            "label": generator.random(_COUNT) < 0.3,
            "price": pa.array(generator.integers(-999, 999, _COUNT))
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(21, 2)),
            "day": pa.array([dt.date(2013, 1, 1 + number % 28) for number in range(_COUNT)]),
            "Sepal length": generator.normal(size=_COUNT).round(6),
            "name": [f"2013-01-{number % 90:02}" for number in range(_COUNT)],
        }
    )


_KINDS = ["csv", "semicolon.csv", "tab.csv", "tsv", "parquet", "jsonl", "arrow", "stream.arrow"]


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("kind", _KINDS)
def test_every_format_holds_the_same_rows(tmp_path, monkeypatch, kind, piped):
    """As a file or through standard input, read twice: the same features and labels in the same order."""
    path = write_rows(tmp_path / f"rows.{kind}", _table())
    if piped:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        table_files._standard_input.cache_clear()
    source = type(path)("-") if piped else path
    expected = _table()
    for _ in range(2):
        batches = list(labelled_batches(source, Layout(_FEATURES), "label"))
        rows = np.concatenate([rows for rows, _ in batches])
        labels = np.concatenate([labels for _, labels in batches])
        np.testing.assert_array_equal(labels, expected["label"].to_numpy())
        np.testing.assert_array_equal(rows[:, 0], expected["Sepal length"].to_numpy())
        np.testing.assert_array_equal(rows[:, -1], [float(price) for price in expected["price"].to_pylist()])
        days = expected["day"].combine_chunks().cast(pa.int32()).to_numpy()
        np.testing.assert_array_equal(rows[:, -2], days)
        assert len(np.unique(rows[:, 1:-2], axis=0)) == 90
    table_files._standard_input.cache_clear()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", '{"a": 1, "label": true}\n{"a": "secret77", "label": true}\n', "column a: holds something"),
        (
            "rows.jsonl",
            '{"a": 1, "label": true}\n{"label": true}\n',
            "the first without is row 2",
        ),
        ("rows.jsonl", '{"a": 1, "label": true}\nsecret77\n', "not a well-formed file"),
        ("rows.jsonl", '{"a": 1, "label": "secret77"}\n', "column label: must hold booleans"),
        ("rows.jsonl", '{"a": 1, "label": 1}\n{"a": 1, "label": "secret77"}\n', "column label: must hold booleans"),
        ("rows.arrow", "secret77", "not a well-formed file"),
        ("rows.csv", b"a \xb0C,label\nsecret77,1\n", "cannot be read as csv: its header is not UTF-8"),
        (
            "rows.csv",
            "a,label\n1,1\nsecret77\n",
            "read as csv: a row has 1 fields, and the header 2, in row 2",
        ),
        ("rows.tsv", "", "cannot be read as tsv: it is empty"),
        ("rows.tsv", "a\tlabel\n1\t1\nsecret77\t1\n", "column a: holds something that is not a number"),
        (
            "rows.csv",
            "a;label\n1.5;1\n77,5;1\n",
            "is not a number; the first is in row 2; write numbers with a decimal",
        ),
        ("rows.csv", "77,State-gov\n1,0\n", "its first line looks like a row, not like a header; column"),
        ("rows.csv", "a,label\n" + "0.5,1\n" * 6_001, "column label: all rows have the same label"),
        ("rows.csv", "a,label\n" + "0.5,0\n" * 6_001 + "0.5,1\n", "column label: all rows have the same label"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(refused, model, tmp_path, name, content, message):  # noqa: PLR0913, PLR0917
    """One line, exit 2 for rows that do not do and 4 for a file that is none; nothing is made, no value is shown."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code = 4 if "read as" in message or "well-formed" in message else 2
    command = ["init", model(), "--data", path, "--state", tmp_path / "state"]
    line = refused(code, *command)
    assert message in line
    assert "secret77" not in line
    assert "State-gov" not in line
    assert not (tmp_path / "state").exists()


def test_a_whole_number_is_asked_for_as_such(refused, model):
    """A number of examples with a point: the error says how to write it."""
    path = model()
    path.write_text(path.read_text().replace("examples = 6000", "examples = 6000.0"))
    line = refused(2, "plan", path)
    assert "model.examples = 6000.0: must be a whole number, written without a point or an exponent: 6000" in line


def test_shards_need_both_labels_too(refused, model, tmp_path):
    """The rows of all shards together must have both."""
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "0.5,1\n" * 16_000)
    line = refused(2, "init", model(16_000), "--data", path, "--state", tmp_path / "state", "--shards", "2")
    assert "column label: all rows have the same label" in line


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("number", [" 1.5", "-1e3", "nan"], "secret77"),
        ("decimal", ["1.50", "7", " 3"], "1.234"),
        ("date", ["2013-07-04", "1999-12-31", " 2000-01-01"], "04.07.2013"),
    ],
)
@pytest.mark.parametrize("row", [1, 2, 59_999, 90_000])
def test_row_of_a_bad_value_is_told(tmp_path, kind, good, bad, row):
    """The first row that has one, however far down it is: the file's first rows may be as they should."""
    fields = [good[number % 3] for number in range(90_000)]
    fields[row - 1] = bad
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "".join(f"{field},{number % 2}\n" for number, field in enumerate(fields)))
    feature = Feature(name="a", type=kind, places=2 if kind == "decimal" else 0)
    with pytest.raises(DataError, match=rf"column a: holds something that is not .*; the first is in row {row}$"):
        list(labelled_batches(path, Layout([feature]), "label"))


@pytest.mark.parametrize("order", list(itertools.permutations(["id", "a", "b", "label"])))
def test_a_bad_value_is_told_by_the_name_of_its_column(tmp_path, order):
    """Wherever it stands in the file, beside columns that nobody wants."""
    row = {"id": "1", "a": "1.5", "b": "x", "label": "1"}
    path = tmp_path / "rows.csv"
    path.write_text(f"{','.join(order)}\n{','.join(row[name] for name in order)}\n")
    with pytest.raises(DataError, match=r"column b: holds something that is not a number; the first is in row 1$"):
        list(labelled_batches(path, Layout([Feature(name="a"), Feature(name="b")]), "label"))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("number", 1.5, '"secret77"'),
        ("decimal", 1.25, "1.234"),
        ("decimal", "1.25", '"secret77"'),
        ("string", "a", "77"),
        ("date", "2013-07-04", "77"),
    ],
)
@pytest.mark.parametrize("row", [1, 2, 1_025])
def test_row_of_a_bad_value_of_json_is_told(tmp_path, kind, good, bad, row):
    """As of a .csv file, and empty lines are none; a line that is cut off is told as such."""
    lines = [json.dumps({"b": 1, "a": good, "label": number % 2}) for number in range(1_100)]
    path = tmp_path / "rows.jsonl"
    layout = Layout([Feature(name="b"), Feature(name="a", type=kind, places=2 if kind == "decimal" else 0)])
    for line, error, message in (
        (f'{{"b": 1, "a": {bad}, "label": 1}}', DataError, rf"column a: holds something that is not .* in row {row}$"),
        ('{"b": 1, "a": ', SourceError, "not a well-formed file" + (f", in row {row}$" if row > 1 else "$")),
    ):
        lines[row - 1] = line
        path.write_text("\n\n".join(lines))
        with pytest.raises(error, match=message):
            list(labelled_batches(path, layout, "label"))


def test_rows_keep_their_numbers_where_others_are_left_out(tmp_path):
    """Of a person that has two rows one is left out; what is wrong in the last row is told by its place in the file."""
    path = tmp_path / "rows.parquet"
    table = pa.table({"a": [0.0, 0.0, 0.0, float("nan")], "who": ["x", "x", "x", "y"], "label": [0, 1, 0, 1]})
    pyarrow.parquet.write_table(table, path)
    persons = read_persons(path, "who", AtMost(PhaseKey(bytes(32)), 1))
    with pytest.raises(DataError, match=r"column a: every value must be a finite number; the first that .* row 4$"):
        list(labelled_batches(path, Layout([Feature(name="a")]), "label", persons))
