"""`perpetua plan`, `suggest` and `status` of questions about a table."""

import json

import pytest

from oracle.planning.kinds import decode_plan
from oracle.planning.statistics.counts import questions_to_win
from oracle.planning.statistics.model import StatisticsPlan

_TABLE = """
[[model.attributes]]
name = "carrier"
categories = ["AA", "UA"]
[[model.attributes]]
name = "hour"
bounds = [0.0, 24.0]
bins = 24
"""


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a model file."""

    def write(predictor="statistics", **changes):
        path = tmp_path / "model.toml"
        fields = {"name": "s", "predictor": predictor, "epsilon": 1.0, "delta": 1e-6, "examples": 300_000, **changes}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
        path.write_text(f"[model]\n{lines}{_TABLE}")
        return path

    return write


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0.2}, ("the bound ln X/(2 gap^2)", "gap ", "a theorem", "at most 1% of the rows")),
        ({"alpha": 0.02, "paid": 200}, ("200 answers, as declared", "noisy counts of 1 marginal,", "an estimate")),
        (
            {"predictor": "sparse-vector", "alpha": 0.01, "paid": 5},
            ('"above" is said 5 times', "exponential", "once on"),
        ),
        (
            {"alpha": 0.1, "profile": "paper", "examples": 10**8},
            ("4 ln X/a^2", "both nominal", "The lecture's epsilon"),
        ),
    ],
)
def test_plan_prints_what_an_owner_asks(cli, table, changes, words):
    """What is protected, the cells, what is paid for, the noise, and the error; no word of sums or of shards."""
    result = cli("plan", table(**changes))
    assert (result.code, result.err) == (0, "")
    shared = ("100 cells, 4 x 25", "of each training row", "any question", "first 1,000,000", "hour       number")
    assert [word for word in (*shared, *words) if word not in result.out] == []
    assert "sums to" not in result.out
    assert "shard" not in result.out
    assert "honest share" not in result.out


def test_plan_prints_where_counts_are_better(cli, table):
    """The number of questions from which on as many Gaussian counts err by more, on the page and as JSON."""
    file = table(alpha=0.02, paid=200)
    win = questions_to_win(0.02, 300_000, 1.0, 1e-6, 0.05)
    assert f"err by more than alpha from {win:,} questions on" in cli("plan", file).out
    found = json.loads(cli("plan", file, "--json").out)
    assert found["counts"]["worse_from"] == win
    assert 0.05 < found["counts"]["error"] < 0.1
    assert (found["promise"]["kind"], found["promise"]["on"]) == ("estimate", "any question")
    plan = decode_plan(json.dumps(found).encode())
    assert isinstance(plan, StatisticsPlan)
    assert plan.paid == 200


def test_the_lecture_stands_beside_it(cli, table):
    """With how many times its figures are, and why they are nominal."""
    result = cli("plan", table(alpha=0.2), "--compare", "paper")
    assert result.code == 0, result.err
    needed = next(line.split() for line in result.out.splitlines() if line.startswith("examples needed"))
    assert float(needed[-1]) > 100.0
    assert "The lecture's epsilon and delta are nominal" in result.out
    both = json.loads(cli("plan", table(alpha=0.2), "--compare", "paper", "--json").out)
    assert (both["tight"]["profile"], both["paper"]["profile"]) == ("tight", "paper")


def test_too_few_rows_are_refused_with_what_they_buy(cli, table):
    """The least epsilon and alpha; and what makes so many rows necessary."""
    for changes, why in (
        ({"alpha": 0.2, "examples": 9_000}, "with `paid` declared fewer would be"),
        ({"alpha": 0.02, "paid": 200, "examples": 90_000}, "rows is to be three quarters of alpha at most"),
    ):
        result = cli("plan", table(**changes))
        assert result.code == 2, result
        assert f"model.examples = {changes['examples']}: too few training examples for this model" in result.err
        assert why in result.err
        assert f"{changes['examples']:,} rows buy" in result.err
        assert "statistics: epsilon " in result.err
        assert ("declared takes about" in result.err) == ("paid" not in changes)


def test_what_declaring_paid_takes_is_said(cli, table):
    """By `plan` and `suggest` of a model without it, and of no other."""
    for command in ("plan", "suggest"):
        assert "declared takes about" in cli(command, table(alpha=0.2)).out
        assert "declared takes about" not in cli(command, table(alpha=0.02, paid=200)).out


def test_suggest_offers_no_other_predictor(cli, table):
    """None answers such questions."""
    found = json.loads(cli("suggest", table(alpha=0.02, paid=200), "--json").out)
    (offer,) = found["offers"]
    assert (offer["predictor"], offer["enough"], offer["sides"]) == ("statistics", True, [])


def test_shards_are_refused(refused, table):
    """Before any planning."""
    assert "--shards = 2: must be 1" in refused(2, "plan", table(alpha=0.2), "--shards", 2)
