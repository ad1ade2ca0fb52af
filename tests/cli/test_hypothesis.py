"""`perpetua hypothesis` of statistics: the cells of the table with their shares, and rows drawn by these."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.support.folders import write_config

_MODEL = """
[model]
name = "s"
predictor = "statistics"
epsilon = 4.0
delta = 1e-6
alpha = 0.1
paid = 20
examples = 20000

[[model.attributes]]
name = "carrier"
categories = ["AA", "", "é"]

[[model.attributes]]
name = "hour"
bounds = [0.0, 24.0]
bins = 4

[[model.attributes]]
name = "day"
type = "date"
bounds = ["2013-01-01", "2013-01-31"]
bins = 6
"""
_SHAPE = (5, 5, 7)
_DAYS = [dt.date(2013, 1, 1) + dt.timedelta(5 * number) for number in range(7)]


@pytest.fixture
def state(tmp_path, cli):
    """A state that was asked a little: most rows are of AA in the evening of the first days."""
    generator = np.random.default_rng(3)
    carriers = generator.choice(["AA", "", "é", "XX"], 20_000, p=[0.6, 0.2, 0.1, 0.1])
    hours = np.minimum(generator.gamma(9.0, 2.0, 20_000), 23.9)
    days = pa.array(15_706 + np.minimum(generator.geometric(0.2, 20_000) - 1, 29), pa.int32()).cast(pa.date32())
    pa.parquet.write_table(pa.table({"carrier": carriers, "hour": hours, "day": days}), tmp_path / "rows.parquet")
    (tmp_path / "model.toml").write_text(_MODEL)
    made = cli("init", tmp_path / "model.toml", "--data", tmp_path / "rows.parquet", "--state", tmp_path / "state")
    assert made.code == 0, made.err
    asked = [{"by": ["carrier"]}, {"by": ["hour"]}, {"where": {"carrier": "AA", "hour": [12, 18]}}, {"by": ["day"]}]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    served = cli("serve", write_config(tmp_path))
    assert served.code == 0, served.err
    return tmp_path / "state"


def _read(path):
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    options = pa.csv.ConvertOptions(strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False)
    return pa.csv.read_csv(path, convert_options=options)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_cells(cli, state, tmp_path, kind):
    """There is a row for each cell, and sums over them are what the model answers."""
    out = tmp_path / f"cube.{kind}"
    done = cli("hypothesis", state, "--out", out)
    assert done.code == 0
    told = json.loads(done.out)
    assert told.keys() - {"moved"} == {"model", "round", "paid", "paid_at_most"}
    table = _read(out)
    assert table.column_names == ["carrier", "hour_from", "hour_to", "day_from", "day_to", "share"]
    shares = np.array(table["share"]).reshape(_SHAPE)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    columns = {name: np.array(table[name].to_pylist(), dtype=object).reshape(_SHAPE) for name in table.column_names}
    assert columns["carrier"][:, 0, 0].tolist() == ["AA", "", "é", "other", None]
    assert columns["hour_from"][0, :, 0].tolist() == [0.0, 6.0, 12.0, 18.0, None]
    assert columns["hour_to"][0, :, 0].tolist() == [6.0, 12.0, 18.0, 24.0, None]
    assert columns["day_from"][0, 0].tolist() == [*_DAYS[:-1], None]
    assert columns["day_to"][0, 0].tolist() == [*_DAYS[1:], None]
    carriers, hours, one, days = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert shares[0, 2].sum() == pytest.approx(one["value"], abs=0.1)
    for axis, answer in enumerate((carriers, hours, days)):
        rest = tuple({0, 1, 2} - {axis})
        np.testing.assert_allclose(shares.sum(axis=rest), [item["value"] for item in answer["values"]], atol=0.1)
    assert shares[0].sum() > 0.4


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_sample(cli, state, tmp_path, kind):
    """Rows follow the shares, lie in their bins, and are the same for the same seed."""
    cube, out, again, other = (tmp_path / f"{name}.{kind}" for name in ("cube", "out", "again", "other"))
    assert cli("hypothesis", state, "--out", cube).code == 0
    for path, seed in ((out, 5), (again, 5), (other, 6)):
        assert cli("hypothesis", state, "--out", path, "--sample", 300_000, "--seed", seed).code == 0
    assert out.read_bytes() == again.read_bytes() != other.read_bytes()
    table = _read(out)
    assert table.column_names == ["carrier", "hour", "day"]
    assert table.num_rows == 300_000
    hours = np.array(table["hour"].to_pylist(), dtype=float)
    days = np.array([np.nan if day is None else (day - _DAYS[0]).days for day in table["day"].to_pylist()])
    assert np.nanmin(hours) >= 0.0
    assert np.nanmax(hours) < 24.0
    assert set(days[~np.isnan(days)]) == set(range(30))
    places = [
        np.array([["AA", "", "é", "other", None].index(label) for label in table["carrier"].to_pylist()]),
        np.where(np.isnan(hours), 4, hours // 6).astype(int),
        np.where(np.isnan(days), 6, days // 5).astype(int),
    ]
    shares = np.array(_read(cube)["share"]).reshape(_SHAPE)
    found = np.bincount(np.ravel_multi_index(places, _SHAPE), minlength=shares.size).reshape(_SHAPE) / 300_000
    np.testing.assert_array_less(np.abs(found - shares), 6 * np.sqrt(shares / 300_000) + 1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--out is not set: must name a file for the 175 cells, .csv or .parquet"),
        (["--out", "cube.txt"], "must end in .csv or .parquet"),
        (["--out", "taken.csv"], "must be a new file"),
    ],
)
def test_refusals(state, refused, monkeypatch, arguments, said):
    """Nothing is written over, and a file is needed."""
    monkeypatch.chdir(state.parent)
    (state.parent / "taken.csv").write_text("mine")
    assert said in refused(2, "hypothesis", state, *arguments)
    assert (state.parent / "taken.csv").read_text() == "mine"
    assert not (state.parent / "cube.txt").exists()


def test_options_of_statistics_are_refused_for_others(served, refused):
    """A box never shows what it has learned."""
    text = refused(2, "hypothesis", served / "state", "--out", served / "cube.csv")
    assert "is never released; this command is for bisection and statistics" in text
