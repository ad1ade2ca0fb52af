import json
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

pytestmark = pytest.mark.usefixtures("planned_once")

_MODEL = """
[model]
name = "case"
predictor = "{predictor}"
epsilon = 8.0
alpha = 0.4
examples = {examples}
{more}
[[model.features]]
name = "a"
bounds = [{low}, {high}]
[[model.features]]
name = "b"
bounds = [-3.0, 3.0]
"""
_COUNT = 24_000


@pytest.fixture
def case(tmp_path):
    """Return a function that writes a model and rows, and returns the command's arguments."""

    def write(rule, *, predictor="rectangles", bounds=(-3.0, 3.0), more="", shift=0.0):
        generator = np.random.default_rng(7)
        for name, count, moved in (("train", _COUNT, 0.0), ("test", 6_000, shift)):
            rows = generator.normal(size=(count, 2)) + moved
            labels = rule(rows, generator)
            table = pa.table({"a": rows[:, 0], "b": rows[:, 1], "label": labels})
            pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
        text = _MODEL.format(predictor=predictor, examples=_COUNT, more=more, low=bounds[0], high=bounds[1])
        (tmp_path / "model.toml").write_text(text)
        return [
            "evaluate",
            tmp_path / "model.toml",
            "--train",
            tmp_path / "train.parquet",
            "--test",
            tmp_path / "test.parquet",
        ]

    return write


def _box(rows, _generator):
    return (np.abs(rows) < 1.05).all(axis=1)


def _rare_box(rows, _generator):
    """Where no single side is better than to say 0 to all."""
    return (np.abs(rows) < 0.75).all(axis=1)


def _found(cli, arguments):
    result = cli(*arguments, "--json")
    found = json.loads(result.out)
    assert (result.code, result.err) == (0 if found["kept"] else 1, "")
    return found


def test_a_promise_that_is_kept(cli, case, tmp_path):
    """Error, interval and parts agree; every baseline is there; page and text say that it is not private."""
    arguments = case(_box)
    found = _found(cli, [*arguments, "--html", tmp_path / "page.html"])
    assert found["low"] < found["error"] < found["high"] < found["promise"]["bound"]
    assert found["kept"]
    assert found["false_positives"] + found["false_negatives"] == pytest.approx(found["error"])
    assert found["causes"] == []
    errors = {one["name"]: one["error"] for one in found["baselines"]}
    assert errors["best box"] < 0.01
    assert None not in errors.values()
    assert len(errors) == 7
    assert sum(one["rounds"] for one in found["phases"]) == 6_000
    page = (tmp_path / "page.html").read_text()
    assert page.count("Do not publish") == 2
    assert not re.search(r"(?:src|href)=", page)
    text = cli(*arguments).out
    assert text.startswith("Not private")
    assert "rests on" in text


@pytest.mark.parametrize("more", ["", 'slicing = "sequential"'])
def test_a_box_that_fits_is_found(cli, case, more):
    """A box round fewer than half of the rows is no reason to complain, nor are sides that take theirs in turn."""
    found = _found(cli, case(_rare_box, more=more))
    assert next(one["error"] for one in found["baselines"] if one["name"] == "best box") < 0.01
    assert not any(one.startswith(("labels that no box", "a side starves")) for one in found["causes"]), found["causes"]


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"rule": _box, "bounds": (-60.0, 60.0)}, "a side starves: a:lower"),
        ({"rule": lambda rows, _: rows[:, 0] * rows[:, 1] > 0.0}, "labels that no box fits"),
        ({"rule": lambda rows, _: rows[:, 0] > 2.5}, "a rare label: 1"),
        ({"rule": lambda rows, _: rows[:, 0] > 2.5}, "it says 0 to"),
        ({"rule": _box, "shift": 0.7}, "the test rows are not like the training rows"),
    ],
)
def test_what_failed_is_named(cli, case, settings, cause):
    """A condition that the rows do not meet is found, and none is in the case that is as it should be (above)."""
    found = _found(cli, case(settings.pop("rule"), **settings))
    assert any(one.startswith(cause) for one in found["causes"]), found["causes"]


@pytest.mark.parametrize("predictor", ["stumps", "classical"])
def test_other_predictors(cli, case, predictor):
    """Stumps promise something beyond the best one's error; rounds beyond the rows are drawn again, over phases."""
    flips = 0.1

    def rule(rows, generator):
        return (rows[:, 0] > 0.2) ^ (generator.random(len(rows)) < flips)

    more = 'concept = "stump"' if predictor == "classical" else ""
    found = _found(cli, [*case(rule, predictor=predictor, more=more), "--rounds", "40000"])
    assert found["promise"]["beyond"] == "the best stump's"
    assert found["kept"]
    assert sum(one["rounds"] for one in found["phases"]) == 40_000
    assert found["high"] - found["low"] > 0.015  # the 6,000 test rows count, not the rounds


def test_without_scikit_learn(cli, case, monkeypatch):
    """Its learners are left out, and the reason says what to install."""
    for name in ("sklearn.linear_model", "sklearn.ensemble", "diffprivlib.models"):
        monkeypatch.setitem(sys.modules, name, None)
    notes = [one["note"] for one in _found(cli, case(_box))["baselines"] if one["error"] is None]
    assert notes == ["needs scikit-learn: pip install 'perpetua[evaluate]'"] * 3


def test_refusals(refused, case, tmp_path):
    """Too few rows, none to ask, and a predictor whose answers are no labels: one line each."""
    arguments = case(_box)
    table = pa.parquet.read_table(tmp_path / "train.parquet")
    pa.parquet.write_table(table.slice(0, 100), tmp_path / "train.parquet")
    assert "data: fewer rows than model.examples" in refused(2, *arguments)
    pa.parquet.write_table(table, tmp_path / "train.parquet")
    pa.parquet.write_table(table.slice(0, 0), tmp_path / "test.parquet")
    assert "there is no test row" in refused(2, *arguments)
    path = tmp_path / "model.toml"
    text = path.read_text().replace('"rectangles"', '"bisection"\nrounds = 1000').replace("alpha = 0.4", "")
    path.write_text(re.sub("bounds = .*", "", text))
    assert "evaluate is for predictors that answer with labels" in refused(2, *arguments)
