"""Distributions through the commands: from a file of values of any type to a state that serves and verifies."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pytest

from oracle.planning.distribution.grid import grid_release
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.kinds import decode_plan
from oracle.receipts.ledgers import against_ledger, read_ledger
from oracle.receipts.receipts import open_receipt
from tests.support.folders import write_config
from tests.support.row_files import write_rows

_ROWS = 4_000
_TYPES = ("number", "date", "decimal", "string")


def _values(kind):
    """Return values with some far more often than others."""
    numbers = np.random.default_rng(3).gamma(2.0, 20.0, _ROWS).round(1)
    numbers[::5] = 7.5
    if kind == "date":
        return [dt.date(2013, 1, 1) + dt.timedelta(days=int(number)) for number in numbers]
    if kind == "decimal":
        return [Decimal(f"{number - 20:.1f}") for number in numbers]
    return [f"É{number:05.1f}" for number in numbers] if kind == "string" else numbers.tolist()


def _columns(values):
    """Return columns of values, with one that nobody asks for."""
    return {"id": range(len(values)), "Value": values}


@pytest.fixture
def model(tmp_path):
    """Return a function that writes a model file."""

    def write(kind="number", more="", **changes):
        path = tmp_path / "model.toml"
        promises = {"name": "d", "predictor": "distribution", "epsilon": 4.0, "delta": 1e-6, "alpha": 0.1}
        lines = [
            f"{name} = {json.dumps(value)}\n" for name, value in (promises | {"examples": _ROWS} | changes).items()
        ]
        places = "places = 1\n" if kind == "decimal" else ""
        feature = f'[[model.features]]\nname = "v"\ncolumn = "Value"\ntype = "{kind}"\n{places}{more}'
        path.write_text(f"[model]\n{''.join(lines)}{feature}")
        return path

    return write


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow", ".jsonl"])
@pytest.mark.parametrize("kind", _TYPES)
def test_files_of_all_formats_make_a_state(cli, model, tmp_path, kind, ending):
    """There is no label column, and nothing of the values is printed."""
    data = write_rows(tmp_path / f"rows{ending}", _columns(_values(kind)))
    made = cli("init", model(kind), "--data", data, "--state", tmp_path / "state")
    assert made.code == 0, made.err
    assert "d: epsilon = 4, delta = 1e-06 of each training row, for ever (questions are public), 4,000 ex" in made.out
    assert not any(str(value) in made.out for value in _values(kind)[:9])


def _asked(kind, values):
    ordered = sorted(values)
    chosen = [ordered[place] for place in (5, 900, 1800, 2700, 3995)]
    shown = [float(value) if kind == "decimal" else value if kind == "number" else str(value) for value in chosen]
    truth = [sum(value <= one for value in values) / _ROWS for one in chosen]
    return shown, truth


@pytest.mark.parametrize("kind", _TYPES)
def test_from_rows_to_answers(cli, model, tmp_path, kind):
    """Made, checked, served within the promised error, verified from its genesis, its receipt and its status."""
    values = _values(kind)
    data, state = write_rows(tmp_path / "rows.csv", _columns(values)), tmp_path / "state"
    made = cli("init", model(kind), "--data", data, "--state", state, "--keep-genesis", tmp_path / "genesis")
    assert made.code == 0, made.err
    shown, truth = _asked(kind, values)
    shares = [0.0, 0.1, 0.5, 0.77, 1.0]
    questions = [*({"at": value} for value in shown), {"at": shown}, *({"quantile": share} for share in shares)]
    questions.append({"quantile": shares})
    lines = [json.dumps({"id": number, **question}) for number, question in enumerate(questions)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    config = write_config(tmp_path)
    checked = cli("check", config)
    assert checked.code == 0, checked.out + checked.err
    served = cli("serve", config)
    assert served.code == 0, served.err
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    at, several, quantiles, together = answers[:5], answers[5], answers[6:11], answers[11]
    for answer, share in zip([*at, *several["values"]], truth * 2, strict=True):
        assert abs(answer["value"] - share) <= 0.1
        assert answer["verified"]
    assert {answer["error"] for answer in answers} == {0.1}
    assert [answer["paid"] for answer in answers] == sorted(answer["paid"] for answer in answers)
    assert [one["quantile"] for one in together["values"]] == [one["quantile"] for one in quantiles]
    written = [value if kind == "number" else float(value) if kind == "decimal" else str(value) for value in values]
    for answer, share in zip(quantiles, shares, strict=True):
        found = np.array([value <= answer["quantile"] for value in written])
        below = np.array([value < answer["quantile"] for value in written])
        assert found.mean() >= share - 0.1
        assert below.mean() <= share + 0.1
    log, out = tmp_path / "q.jsonl", tmp_path / "out.jsonl"
    verified = cli("verify", log, "--from", tmp_path / "genesis", "--answers", out)
    assert (verified.code, verified.out[:10]) == (0, "identical:"), verified.err
    signed = cli("audit", "sign", state, "--out", tmp_path / "receipt.json")
    assert signed.code == 0, signed.err
    statement, _ = open_receipt(tmp_path / "receipt.json", None)
    assert statement.paid == together["paid"] > 0
    assert against_ledger(statement, read_ledger(tmp_path / "ledger.jsonl")) == []
    status = json.loads(cli("status", state, "--json").out)
    assert (status["round"], status["paid"], status["protects_queries"]) == (20, statement.paid, False)
    assert "they settle all others, which cost nothing then" in cli("status", state).out


def test_questions_are_piped_through(cli, model, tmp_path):
    """What is wrong with one is said by its field, and the others are answered."""
    data = write_rows(tmp_path / "rows.csv", _columns(_values("date")))
    assert cli("init", model("date"), "--data", data, "--state", tmp_path / "state").code == 0
    bodies = ['{"at":"2013-02-01"}', '{"at":"1.2.2013"}', '{"at":"2013-02-01","by":1}', '{"quantile":50}']
    (tmp_path / "q.jsonl").write_text("\n".join(bodies) + "\n")
    assert cli("serve", write_config(tmp_path)).code == 0
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(answer.get("field"), answer["error"]) for answer in answers] == [
        (None, 0.1),
        ("at", "wrong-type"),
        ("by", "unknown-feature"),
        ("quantile", "outside-domain"),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"arguments": ("--label", "Value")},
            "--label = 'Value': must be left out: the rows of distribution have no labels",
        ),
        ({"arguments": ("--shards", "2")}, "--shards = 2: must be 1: a shard could tell of its own rows only"),
        ({"examples": _ROWS + 1}, "fewer rows than model.examples = 4001 declares"),
        ({"more": "bounds = [0.0, 1.0]\n"}, "model.features[0].bounds"),
        ({"more": 'sides = "lower"\n'}, "model.features[0].sides"),
        ({"more": '[[model.features]]\nname = "w"\n'}, "model.features"),
        ({"paid": 3}, "model.paid"),
        ({"kind": "date"}, "data: column Value: holds something that is not a date from 0001-01-01"),
        ({"kind": "decimal", "examples": 100}, "Value"),
    ],
)
def test_what_makes_no_state_is_refused(cli, model, tmp_path, changes, words):
    """By field and bound, and without a value."""
    values = _values("number")
    values[7] = 7.77
    data = write_rows(tmp_path / "rows.csv", _columns(values))
    arguments = changes.get("arguments", ())
    path = model(**{name: change for name, change in changes.items() if name != "arguments"})
    made = cli("init", path, "--data", data, "--state", tmp_path / "state", *arguments)
    assert made.code != 0
    assert words in made.err
    assert "7.77" not in made.err
    assert not (tmp_path / "state" / "plan.json").exists()


def test_a_missing_value_is_refused(cli, model, tmp_path):
    """Every row must have one."""
    data = write_rows(tmp_path / "rows.parquet", _columns([*_values("number")[:-1], None]))
    made = cli("init", model(), "--data", data, "--state", tmp_path / "state")
    assert "data: column Value: every row must have a value" in made.err


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("number", {}, ("for each threshold, which retires", "logistic", "a theorem", "1.8e+19", "this plan")),
        ("date", {}, ("3,652,059", "v is a date from 0001-01-01", "questions are free then")),
        ("string", {}, ("1.2e+69", "v is a text of at most 32 bytes")),
        ("decimal", {}, ("2e+15",)),
        ("number", {"profile": "paper", "examples": 10**7}, ("both nominal", "The paper's epsilon and delta")),
    ],
)
def test_plan_prints_what_an_owner_asks(cli, model, kind, changes, words):
    """What is protected, what is paid for, the noise, the error, and what releasing quantiles at once would take."""
    result = cli("plan", model(kind, **{"epsilon": 1.0, "examples": 50_000, "alpha": 0.05, **changes}))
    assert (result.code, result.err) == (0, "")
    shared = ("of each training row", "on any question", "first 1,000,000", "quantile", "comparisons with noise")
    assert [word for word in (*shared, *words) if word not in result.out] == []
    assert "sums to" not in result.out
    assert "honest share" not in result.out


def test_one_error_is_promised(cli, model, tmp_path):
    """It is alpha, wherever rows make the proved bound sharper; where they do not, there is one figure anyway."""
    words = "promised is alpha = 0.1, the `error` of answers; this bound is sharper"
    data = write_rows(tmp_path / "rows.csv", _columns(_values("number")))
    assert words in cli("plan", model()).out
    assert cli("init", model(), "--data", data, "--state", tmp_path / "state").code == 0
    assert words in cli("status", tmp_path / "state").out
    promise = json.loads(cli("status", tmp_path / "state", "--json").out)["promise"]
    assert promise["bound"] < promise["told"] == 0.1
    paper = json.loads(cli("plan", model(profile="paper", examples=10**7), "--json").out)["promise"]
    assert (paper["bound"], paper.get("told")) == (0.1, None)


def test_plan_as_json_says_which_release_to_take(cli, model, tmp_path):
    """The figures are those of the page, and of a release that is better the page says so."""
    for kind, better in (("number", False), ("date", True)):
        path = model(kind, epsilon=1.0, examples=50_000, alpha=0.05)
        told = json.loads(cli("plan", path, "--json").out)
        assert told["at_once"]["better"] is better
        assert (told["at_once"]["examples"] < told["examples"]) is better
        assert f"{told['at_once']['examples']:,} rows" in cli("plan", path).out
        (tmp_path / "rows.csv").write_text("")
    both = json.loads(cli("plan", model(epsilon=1.0, examples=50_000, alpha=0.05), "--json", "--compare", "paper").out)
    assert both["paper"]["examples"] > 10 * both["tight"]["examples"]
    assert cli("plan", model(epsilon=1.0, examples=50_000, alpha=0.05), "--compare", "paper").code == 0


def test_suggest_offers_the_distribution_alone(cli, model):
    """Nothing else tells of the rows themselves; its figures have a plan."""
    out = cli("suggest", model(epsilon=1.0, examples=20_000, alpha=0.05), "--json").out
    (offer,) = json.loads(out)["offers"] if isinstance(json.loads(out), dict) else json.loads(out)
    assert (offer["predictor"], offer["enough"]) == ("distribution", True)
    planned = cli("plan", model(epsilon=offer["epsilon"], examples=20_000, alpha=0.05))
    assert planned.code == 0, planned.err


@pytest.mark.slow
def test_too_few_rows_are_refused_with_offers(cli, model):
    """And what they would buy."""
    result = cli("plan", model("string", epsilon=1.0, examples=2_000, alpha=0.05))
    assert result.code != 0
    assert "too few training examples for this model" in result.err
    assert "distribution: epsilon" in result.err
    assert "too few; all that follows is for 17,415" in result.out
    assert "classical" not in result.out


def test_offers_name_figures_that_nobody_declared(cli, model):
    """Where one was out of its range, they are for the nearest within."""
    result = cli("plan", model(epsilon=1.0, examples=30_000, alpha=0.9))
    assert "distribution: epsilon 1 and alpha 0.5; down to" in result.err
    assert "as declared" not in result.err


def test_a_plans_grid_is_of_its_type(cli, model, tmp_path):
    """Few possible values make the release of quantiles cheap, and more of them dearer."""
    rows = []
    for kind in ("date", "decimal", "number", "string"):
        data = write_rows(tmp_path / f"{kind}.csv", _columns(_values(kind)))
        assert cli("init", model(kind), "--data", data, "--state", tmp_path / kind).code == 0
        plan = decode_plan((tmp_path / kind / "plan.json").read_bytes())
        assert isinstance(plan, DistributionPlan)
        rows.append(grid_release(plan).rows)
    assert rows == sorted(rows)
