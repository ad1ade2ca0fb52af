"""Tables of attributes, from files."""

import datetime as dt
import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oracle.cli import table_files
from oracle.cli.tables import Layout, check_table, labelled_batches, read_persons
from oracle.errors import DataError, SourceError
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.persons import AtMost
from oracle.planning.attributes import Attribute
from tests.support.row_files import write_rows

_COUNT = 70_000
_ATTRIBUTES = (
    Attribute(name="carrier", categories=("AA", "UA", "007"), column="Airline name"),
    Attribute(name="month", categories=tuple(map(str, range(1, 11)))),
    Attribute(name="late", categories=("true", "false")),
    Attribute(name="hour", bounds=(0.0, 24.0), bins=24),
    Attribute(name="day", type="date", bounds=(15_706.0, 15_734.0), bins=28),
)


def _drawn():
    """Return the table, and float64[n, A] of its cells by plain Python."""
    generator = np.random.default_rng(3)

    def some(values):
        picked = generator.integers(0, len(values) + 1, _COUNT).tolist()
        return [values[number] if number < len(values) else None for number in picked]

    carriers, months, late = some(["AA", "UA", "007", "7", "Ünited"]), some(list(range(1, 13))), some([True, False])
    hours, days = some([0.0, 5.5, 6.0, 23.99, 24.0, -1.0]), some([dt.date(2013, 1, day) for day in (1, 2, 28, 30)])
    table = pa.table(
        {
            "note": ['a;"b",\tc'] * _COUNT,
            "day": days,
            "Airline name": carriers,
            "hour": hours,
            "late": late,
            "month": months,
            "who": [f"p{number % 20_000}" for number in range(_COUNT)],
        }
    )
    expected = np.column_stack(
        [
            [{"AA": 0, "UA": 1, "007": 2, None: 4}.get(one, 3) for one in carriers],
            [11 if one is None else one - 1 if one <= 10 else 10 for one in months],
            [{True: 0, False: 1, None: 3}[one] for one in late],
            [24 if one is None else min(max(int(one), 0), 23) for one in hours],
            [28 if one is None else min((one - dt.date(2013, 1, 1)).days, 27) for one in days],
        ]
    )
    return table, expected


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("kind", ["csv", "semicolon.csv", "tsv", "parquet", "jsonl", "arrow", "stream.arrow"])
def test_every_format_holds_the_same_cells(tmp_path, monkeypatch, kind, piped):
    """As a file or through standard input: the same cells in the same order, and no labels."""
    table, expected = _drawn()
    if kind.endswith("arrow"):
        encoded = table.set_column(2, "Airline name", table["Airline name"].dictionary_encode())
        table = encoded.unify_dictionaries()
    path = write_rows(tmp_path / f"rows.{kind}", table)
    if piped:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        table_files._standard_input.cache_clear()
    source = type(path)("-") if piped else path
    check_table(source, Layout(_ATTRIBUTES), None)
    batches = list(labelled_batches(source, Layout(_ATTRIBUTES), None))
    table_files._standard_input.cache_clear()
    np.testing.assert_array_equal(np.concatenate([cells for cells, _ in batches]), expected)
    assert all(labels.all() for _, labels in batches)


def test_rows_beyond_a_persons_limit_are_left_out(tmp_path):
    """As they are for other predictors: the rows of a keyed choice, in their order."""
    table, expected = _drawn()
    path = write_rows(tmp_path / "rows.parquet", table)
    persons = read_persons(path, "who", AtMost(PhaseKey(bytes(32)), 2))
    cells = np.concatenate([cells for cells, _ in labelled_batches(path, Layout(_ATTRIBUTES), None, persons)])
    assert len(cells) == 40_000
    persons.begin()
    np.testing.assert_array_equal(cells, expected[persons.kept(table["who"].combine_chunks())])


@pytest.mark.parametrize("first", ["null", '"1"'])
def test_json_texts_behind_a_null_are_texts(tmp_path, first):
    """A column's type is that of its first value; a file may begin without one."""
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"a": {first}}}\n{{"a": "1"}}\n')
    attribute = Attribute(name="a", categories=("1",))
    (cells, _) = next(labelled_batches(path, Layout([attribute]), None))
    assert cells[:, 0].tolist() == [2.0 if first == "null" else 0.0, 0.0]
    path.write_text('{"a": null}\n{"a": null}\n')
    (cells, _) = next(labelled_batches(path, Layout([attribute]), None))
    assert cells[:, 0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", "a,hour\nx,1\nx,secret77\n", "column hour: holds something that is not a number; the first is in"),
        ("rows.csv", "a,hour\nx,1\nsecret77,1,2\n", "a row has 3 fields, and the header 2"),
        ("rows.csv", "a,b\nsecret77,1\n", r'column hour is missing: there are a, b; column = "..." in the model file'),
        ("rows.csv", b"a,hour\n\xffsecret77,1\n", "column a: holds something that is not text of UTF-8"),
        ("rows.jsonl", '{"a": 1, "hour": 1}\n{"a": "secret77", "hour": 1}\n', "or of the same type as the first value"),
        ("rows.jsonl", '{"a": 1, "hour": "secret77"}\n', "column hour: holds something that is not a number"),
        ("rows.jsonl", '{"a": {"x": "secret77"}, "hour": 1}\n', "column a: holds something that is not text"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(tmp_path, name, content, message):
    """The column and the rule; no value."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    attributes = (Attribute(name="a", categories=("x",)), _ATTRIBUTES[3])
    with pytest.raises((DataError, SourceError), match=message) as caught:
        list(labelled_batches(path, Layout(attributes), None))
    assert "secret77" not in str(caught.value)
