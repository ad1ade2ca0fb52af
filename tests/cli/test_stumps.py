"""Stumps through the commands: planned, compared, trained from a file, served, asked for their status."""

import json

import msgspec
import numpy as np
import pytest

from oracle.planning.kinds import decode_plan
from oracle.planning.stumps.model import StumpsPlan
from tests.support.folders import write_config

_MODEL = """
[model]
name = "delays"
predictor = "stumps"
epsilon = 8.0
alpha = 0.3
examples = {examples}
[[model.features]]
name = "a"
[[model.features]]
name = "b"
sides = "lower"
"""


@pytest.fixture
def model(tmp_path):
    """Return the path of a model file with enough examples."""
    path = tmp_path / "model.toml"
    path.write_text(_MODEL.format(examples=12_000))
    return path


@pytest.fixture
def rows(tmp_path):
    """Return a CSV file whose label is b >= 0.3, of which every tenth is wrong."""
    features = np.random.default_rng(1).random((12_000, 2))
    labels = (features[:, 1] >= 0.3) ^ (np.arange(12_000) % 10 == 0)
    lines = [f"{a},{b},{int(label)}" for (a, b), label in zip(features.tolist(), labels.tolist(), strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,b,label", *lines]) + "\n")
    return path


@pytest.mark.slow
def test_plan_shows_what_the_choice_costs(cli, model):
    """Both parts of its epsilon and of its error; the JSON reads back as the plan of its kind."""
    result = cli("plan", model, "--compare", "paper")
    assert result.code == 0, result.err
    assert "examples needed" in result.out
    plan = decode_plan(cli("plan", model, "--json").out.encode())
    assert isinstance(plan, StumpsPlan)
    assert f"of 3 pairs of feature and direction: epsilon {plan.selection.epsilon:.4g}" in result.out
    assert f"then the cut: epsilon {plan.selection.cut_epsilon:.4g}; the rest is for its one side" in result.out
    assert f"at most {plan.expected_error:.4f} beyond the best stump's" in result.out


def test_plan_compares_with_the_paper(cli, model):
    """Nominal quarters, and many times the examples."""
    result = cli("plan", model, "--compare", "paper", "--json")
    assert result.code == 0, result.err
    both = msgspec.json.decode(result.out, type=dict[str, msgspec.Raw])
    tight, paper = (decode_plan(bytes(both[name])) for name in ("tight", "paper"))
    assert paper.nominal
    assert not tight.nominal
    assert paper.examples > 1000 * tight.examples


def test_trained_from_a_file_and_served(cli, model, rows, tmp_path):
    """`init`, `check`, `serve` and `status`: answers follow the stump, and neither status nor ledger names it."""
    result = cli("init", model, "--data", rows, "--state", tmp_path / "state")
    assert result.code == 0, result.err
    queries = [(0.9, 0.05), (0.1, 0.95)] * 50
    lines = [json.dumps({"id": str(number), "a": a, "b": b}) for number, (a, b) in enumerate(queries)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    config = write_config(tmp_path)
    assert cli("check", config).code == 0
    assert cli("serve", config).code == 0
    labels = [json.loads(line)["label"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    wrong = sum(label != truth for label, truth in zip(labels, [0, 1] * 50, strict=True))
    assert wrong <= 3  # the noise of a round turns one in 1,500 of these
    facts = json.loads(cli("status", tmp_path / "state", "--json").out)
    assert facts["round"] == 100
    assert facts.pop("predictor") == "stumps"  # the kind, which the model file says
    told = json.loads(cli("plan", model, "--json").out)["promise"]
    assert facts.pop("promise") == told  # which follows from the model file alone
    status = json.dumps(facts)
    ledger = (tmp_path / "ledger.jsonl").read_text()
    assert all(name not in text for name in ("stump", "column", '"b"') for text in (status, ledger))


def test_shards_choose_each_for_itself(cli, rows, tmp_path):
    """A partition into two shards: each is trained on its part, with the choice's own share of epsilon."""
    path = tmp_path / "sharded.toml"
    path.write_text(_MODEL.format(examples=12_000).replace("alpha = 0.3", "alpha = 0.5"))
    result = cli("init", path, "--data", rows, "--state", tmp_path / "state", "--shards", "2")
    assert result.code == 0, result.err
    assert len(json.loads(cli("status", tmp_path / "state", "--json").out)["shards"]) == 2
