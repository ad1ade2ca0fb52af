"""Statistics and sparse vectors through the commands: from a file of rows to a state that serves and verifies."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.accounting.ledger import PhaseStarted
from oracle.planning.kinds import decode_plan
from oracle.planning.statistics.model import TablePlan
from oracle.receipts.ledgers import read_ledger
from tests.support.folders import write_config

_ROWS = 20_000
_ATTRIBUTES = """
[[model.attributes]]
name = "carrier"
categories = ["AA", "UA", "7"]

[[model.attributes]]
name = "hour"
column = "Hour"
bounds = [0.0, 24.0]
bins = 24
"""
_KINDS = {
    "statistics": 'name = "s"\npredictor = "statistics"\nalpha = 0.1\n',
    "sparse-vector": 'name = "s"\npredictor = "sparse-vector"\nalpha = 0.1\npaid = 3\n',
}


@pytest.fixture
def model(tmp_path):
    """Return a function that writes a model file."""

    def write(predictor="statistics", **more):
        path = tmp_path / "model.toml"
        settings = {"epsilon": 4.0, "delta": 1e-6, "examples": _ROWS, **more}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        path.write_text(f"[model]\n{_KINDS[predictor]}{lines}{_ATTRIBUTES}")
        return path

    return write


@pytest.fixture
def rows(tmp_path):
    """Return a file of rows, most of which are flights of UA in the evening; a few of others, or without an hour."""
    generator = np.random.default_rng(1)
    carriers = generator.choice(["AA", "UA", "7", "XX"], _ROWS, p=[0.2, 0.6, 0.195, 0.005])
    hours = np.minimum(generator.gamma(9.0, 2.0, _ROWS), 30.0)
    hours[::500] = np.nan
    path = tmp_path / "rows.parquet"
    who = [f"p{number // 4}" for number in range(_ROWS)]
    pa.parquet.write_table(pa.table({"carrier": carriers, "Hour": hours, "who": who}), path)
    return path, carriers, hours


_QUESTIONS: tuple[dict[str, dict[str, object]], ...] = (
    {"where": {"carrier": ["UA"]}},
    {"where": {"carrier": ["other"]}},
    {"where": {"hour": [18.0, 24.0]}},
    {"where": {"carrier": ["AA", "7"], "hour": [0.0, 18.0]}},
    {"where": {"hour": None}},
    {"where": {}},
)


def _true(carriers, hours):
    late = hours >= 18.0
    asked = (
        carriers == "UA",
        carriers == "XX",
        late,
        np.isin(carriers, ["AA", "7"]) & (hours < 18.0),
        np.isnan(hours),
        np.ones(_ROWS, dtype=bool),
    )
    return [float(np.mean(one)) for one in asked]


def test_from_rows_to_answers(cli, model, rows, tmp_path):
    """Made, checked, served within the promised error, verified from its genesis, and its status."""
    data, carriers, hours = rows
    state = tmp_path / "state"
    made = cli("init", model(), "--data", data, "--state", state, "--keep-genesis", tmp_path / "genesis")
    assert made.code == 0, made.err
    assert "s: epsilon = 4, delta = 1e-06 of each training row, for ever (questions are public)" in made.out
    plan = decode_plan((state / "plan.json").read_bytes())
    assert isinstance(plan, TablePlan)
    assert plan.declared == _ROWS
    lines = [json.dumps({"id": number, **question}) for number, question in enumerate(_QUESTIONS)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    config = write_config(tmp_path)
    checked = cli("check", config)
    assert checked.code == 0, checked.out + checked.err
    served = cli("serve", config)
    assert served.code == 0, served.err
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for answer, truth in zip(answers, _true(carriers, hours), strict=True):
        assert abs(answer["value"] - truth) <= answer["error"]
        assert answer["verified"]
    assert 0 < answers[-1]["paid"] <= plan.paid
    checked = cli("check", config)
    assert checked.code == 0, checked.out
    log, out = tmp_path / "q.jsonl", tmp_path / "out.jsonl"
    verified = cli("verify", log, "--from", tmp_path / "genesis", "--answers", out)
    assert (verified.code, verified.out[:10]) == (0, "identical:"), verified.err
    status = json.loads(cli("status", state, "--json").out)
    assert not status["protects_queries"]
    assert status["round"] == len(_QUESTIONS)


def test_misspelt_categories_are_said(cli, model, rows, tmp_path):
    """By the noisy marginals, where a model has them: an attribute with many rows that are none of its categories."""
    data, _, _ = rows
    file = model(paid=20)
    fitting = cli("init", file, "--data", data, "--state", tmp_path / "state")
    assert fitting.code == 0, fitting.err
    assert "are none of its categories" not in fitting.out, "half a percent are not many"
    for name, paid in (("misspelt", 20), ("unknown", None)):
        settings = {} if paid is None else {"paid": paid}
        file = model(**settings)
        file.write_text(file.read_text().replace('"UA"', '"ua"'))
        made = cli("init", file, "--data", data, "--state", tmp_path / name)
        assert made.code == 0, made.err
        said = [line for line in made.out.splitlines() if "are none of its categories" in line]
        assert len(said) == (paid is not None), "without marginals nothing is known"
        assert all(line.startswith("attribute carrier: about 6") for line in said), said


def test_a_sparse_vector_tells_what_is_above(cli, model, rows, tmp_path):
    """Right far from the threshold, and no more often above than was declared."""
    data, _, _ = rows
    made = cli("init", model("sparse-vector"), "--data", data, "--state", tmp_path / "state")
    assert made.code == 0, made.err
    where = [
        {"carrier": ["UA"]},
        {"carrier": ["UA"]},
        {"carrier": ["UA", "AA"]},
        {"carrier": "UA"},
        {},
        {},
        {"hour": [0, 12]},
    ]
    thresholds = (0.8, 0.3, 0.2, 0.7, 0.1, 0.05, 0.02)
    asked = [{"where": one, "above": above} for one, above in zip(where, thresholds, strict=True)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    served = cli("serve", write_config(tmp_path))
    assert served.code == 0, served.err
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [answer.get("above") for answer in answers] == [False, True, True, False, True, True, None]
    assert [answer.get("error") == "budget-spent" for answer in answers] == [False] * 6 + [True]
    assert [answer["paid"] for answer in answers] == [0, 1, 2, 2, 3, 3, 3]
    assert answers[4]["value"] == answers[5]["value"]
    assert abs(answers[1]["value"] - 0.6) < 0.1


def test_a_persons_rows_are_limited(cli, model, rows, tmp_path):
    """The guarantee of a person is said, and stands in the plan."""
    data, _, _ = rows
    limit = ["--person", "who", "--at-most", 2]
    made = cli("init", model(examples=10_000, paid=20), "--data", data, "--state", tmp_path / "state", *limit)
    assert made.code == 0, made.err
    assert "a person, of whom at most 2 rows are used: epsilon = 8," in made.out
    assert decode_plan((tmp_path / "state" / "plan.json").read_bytes()).at_most == 2


def test_a_data_sets_budget_is_kept(cli, refused, model, rows, tmp_path):
    """A state is entered with its epsilon and a row's delta; what passes the budget is refused."""
    data, _, _ = rows
    named = {"data": "loans", "data_epsilon": 6.0}
    assert cli("init", model(**named), "--data", data, "--state", tmp_path / "one").code == 0
    (event,) = read_ledger(tmp_path / "loans.budget.jsonl")
    assert isinstance(event, PhaseStarted)
    assert (event.epsilon, event.covers) == (4.0, "training")
    assert event.delta <= 1e-6
    line = refused(2, "init", model(**named), "--data", data, "--state", tmp_path / "two")
    assert "epsilon" in line
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, ["--shards", 2], "--shards = 2: must be 1: a shard could tell of its own rows only"),
        ({}, ["--label", "carrier"], "--label = 'carrier': must be left out: the rows of statistics have no labels"),
        ({}, ["--person", "Hour", "--at-most", 1], "--person = 'Hour': must be a column of its own"),
        ({"examples": _ROWS + 1}, [], f"data: fewer rows than model.examples = {_ROWS + 1} declares"),
    ],
)
def test_what_does_not_go_with_a_table_is_refused(refused, model, rows, tmp_path, settings, options, message):  # noqa: PLR0913, PLR0917
    """By one line, and nothing is made."""
    line = refused(2, "init", model(**settings), "--data", rows[0], "--state", tmp_path / "state", *options)
    assert message in line
    assert not (tmp_path / "state").exists()


def test_a_column_that_is_missing_is_told_before_planning(refused, model, tmp_path):
    """By its name in the file."""
    path = tmp_path / "rows.csv"
    path.write_text("carrier,hour\nAA,secret77\n")
    line = refused(2, "init", model(), "--data", path, "--state", tmp_path / "state")
    assert "column Hour is missing: there are carrier, hour" in line
    assert "secret77" not in line


def test_evaluate_is_for_labels(refused, model, rows):
    """There is nothing to compare an answer with."""
    line = refused(2, "evaluate", model(), "--train", rows[0], "--test", rows[0])
    assert "answers with numbers" in line
    assert "plan prints the error that is promised, and in Python oracle.train(" in line
