"""Bisection through the commands: planned, trained from a file, served, asked for its hypothesis, and forked."""

import json

import numpy as np
import pytest

from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.kinds import decode_plan
from tests.support.folders import long_plan, make_state, write_config

_MODEL = """
[model]
name = "mix"
predictor = "bisection"
epsilon = 4.0
alpha = 0.05
examples = 3000
rounds = 2000
features = [{ name = "a" }, { name = "b" }]
"""


@pytest.fixture
def model(tmp_path):
    """Return the path of a model file with enough examples."""
    path = tmp_path / "model.toml"
    path.write_text(_MODEL)
    return path


@pytest.fixture
def rows(tmp_path):
    """Return a CSV file of 3,000 rows, whose positive part has the mean (0.3, 0.6) about."""
    generator = np.random.default_rng(1)
    features = np.minimum(generator.random((3000, 2)) * [0.6, 1.2], 1.0)
    lines = [f"{a},{b},1" for a, b in features.tolist()]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,b,label", *lines]) + "\n")
    return path, features.mean(axis=0)


def test_plan_says_what_is_protected(cli, model):
    """The rows, not the queries; both profiles are compared; the JSON reads back as the plan of its kind."""
    result = cli("plan", model)
    assert result.code == 0, result.err
    assert "epsilon = 4 a training row; delta sums to at most 0.001 for ever" in result.out
    assert "queries are not protected" in result.out
    assert "of zCDP for a row" in result.out
    assert isinstance(decode_plan(cli("plan", model, "--json").out.encode()), BisectionPlan)
    model.write_text(_MODEL.replace("rounds = 2000", "rounds = 2_000_000"))
    compared = cli("plan", model, "--compare", "paper")
    assert compared.code == 0, compared.err
    assert "efficient" in compared.out
    assert "nominal" not in compared.out


def test_from_rows_to_the_hypothesis(cli, model, rows, tmp_path):
    """It is trained, serves numbers, verifies, and its w_T, near the rows' mean, is what it goes on answering by."""
    data, mean = rows
    state = tmp_path / "state"
    made = cli("init", model, "--data", data, "--state", state, "--keep-genesis", tmp_path / "genesis")
    assert made.code == 0, made.err
    assert "queries are not protected" in made.out
    before = json.loads(cli("hypothesis", state).out)
    assert before == {"model": "mix", "round": 0, "learned_from": 0, "weights": {"a": 0.5, "b": 0.5}}
    queries = np.random.default_rng(2).random((2100, 2))
    lines = [json.dumps({"a": a, "b": b}) for a, b in queries.tolist()]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    served = cli("serve", write_config(tmp_path))
    assert served.code == 0, served.err
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    after = json.loads(cli("hypothesis", state).out)
    weights = np.array([after["weights"]["a"], after["weights"]["b"]])
    assert (after["round"], after["learned_from"]) == (2100, 2000)
    np.testing.assert_allclose(weights, mean, atol=0.05)
    values = np.array([answer["value"] for answer in answers])
    np.testing.assert_allclose(values[2000:], queries[2000:] @ weights, rtol=1e-12)
    assert np.abs(values - queries @ mean).mean() < 0.1
    log, out = tmp_path / "q.jsonl", tmp_path / "out.jsonl"
    verified = cli("verify", log, "--from", tmp_path / "genesis", "--answers", out)
    assert (verified.code, verified.out[:10]) == (0, "identical:"), verified.err
    status = json.loads(cli("status", state, "--json").out)
    assert not status["protects_queries"]
    assert status["delta_spent"] <= status["delta_limit"]


def test_shards_are_sums_of_their_own_rows(cli, model, rows, tmp_path):
    """A partition into two shards: each hypothesis is asked for by its own folder."""
    data, _ = rows
    state = tmp_path / "state"
    made = cli("init", model, "--data", data, "--state", state, "--shards", "2")
    assert made.code == 0, made.err
    assert cli("hypothesis", state).code != 0
    shard = cli("hypothesis", state / "shard-0000", "--key", state / "key")
    assert shard.code == 0, shard.err


def test_other_predictors_have_no_hypothesis(cli, tmp_path):
    """What must never be released is refused by name."""
    make_state(tmp_path / "state", long_plan("rectangles"))
    refused = cli("hypothesis", tmp_path / "state")
    assert refused.code == 2
    assert "what predictor rectangles has learned is never released" in refused.err
