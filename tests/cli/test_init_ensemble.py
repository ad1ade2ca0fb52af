"""`perpetua init` of an ensemble with a rare class: refused by a noisy count, which is recorded."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import oracle
from oracle.accounting.ledger import StartChecked, decode
from oracle.errors import InputError

_MODEL = """
[model]
name = "rare"
predictor = "ensemble"
learner = "sklearn.tree.DecisionTreeClassifier"
parameters = {max_depth = 2}
epsilon = 20.0
examples = 4000
contested = 0.03
data = "flights"
data_epsilon = 30.0
[[model.features]]
name = "a"
"""


@pytest.fixture
def case(tmp_path):
    """Return a function that writes a model and rows of which a part is labelled 1, and returns the arguments."""
    (tmp_path / "model.toml").write_text(_MODEL)

    def write(share, state="state"):
        a = np.random.default_rng(3).normal(size=4_000)
        labels = a > np.quantile(a, 1.0 - share)
        pyarrow.parquet.write_table(pa.table({"a": a, "label": labels.astype(int)}), tmp_path / "rows.parquet")
        return ["init", tmp_path / "model.toml", "--data", tmp_path / "rows.parquet", "--state", tmp_path / state]

    return write


def _starts(path):
    return [decode(line) for line in path.read_bytes().splitlines()]


def test_a_rare_class_is_refused_and_paid_for_each_time(cli, case, tmp_path):
    """No state, the number in both ledgers before it is shown, other noise each time; then a state pays beside them."""
    arguments = case(0.02)
    results = [cli(*arguments) for _ in range(2)]
    for result in results:
        assert result.code == 2
        assert "no state was made" in result.err
        assert "the rarest class, counted with noise, is 0.0" in result.err
        assert "it takes teacher_rows = " in result.err
        assert "examples" in result.err
    assert not (tmp_path / "state" / "plan.json").exists()
    starts = _starts(tmp_path / "state.starts.jsonl")
    assert len({start.start for start in starts}) == 2
    for start in starts:
        assert isinstance(start, StartChecked)
        assert not start.passed
        assert start.beyond < 0 == start.least
        assert start.epsilon == pytest.approx(start.noise) == pytest.approx(0.03 * 20.0)
        assert 0.0 < start.delta < 1e-20
    assert starts == _starts(tmp_path / "flights.budget.jsonl")
    assert cli(*case(0.3)).code == 0
    *before, checked, made = _starts(tmp_path / "flights.budget.jsonl")
    assert (len(before), checked.passed, made.epsilon) == (2, True, 20.0)
    spent = json.loads(cli("budget", tmp_path / "flights.budget.jsonl", "--json").out)
    assert "21.2" in json.dumps(spent)  # 20 for the state, its own count in it, and 0.6 for each count before
    refused = cli(*case(0.3, "another"))
    assert refused.code == 2
    assert "epsilon" in refused.err


def test_what_the_count_says_is_what_the_first_answer_tells(tmp_path, case, cli):
    """One number is released, not two: the count that decides is one of the counts in the ledger of answers."""
    assert cli(*case(0.3)).code == 0
    (start,) = _starts(tmp_path / "state.starts.jsonl")
    assert start.passed
    assert abs(start.beyond + 160 - 1_200) < 60


def test_plan_says_how_long_it_may_rest(cli, tmp_path):
    """In the table of the phases, with what that is; in JSON it is `least_rounds`."""
    model = tmp_path / "model.toml"
    model.write_text(_MODEL)
    lines = cli("plan", model).out.splitlines()
    phases = json.loads(cli("plan", model, "--json").out)["phases"]
    (head,) = [number for number, line in enumerate(lines) if line.startswith("phase ")]
    assert lines[head].split()[-4:] == ["rests", "at", "most", "kept"]
    for phase, line in zip(phases, lines[head + 1 :], strict=False):
        assert line.split()[-2:] == [f"{phase['least_rounds']:,}", f"{phase['kept_rows']:,}"]
    assert any(line.startswith("rests at most ") and "`resting`" in line for line in lines)


@pytest.mark.parametrize("learner", ["sklearn.naive_bayes.MultinomialNB", "sklearn.tree.DecisionTreeClasifier"])
def test_a_learner_that_is_none_is_refused_before_rows_are_read(cli, tmp_path, learner):
    """Each command that takes a model file tries it out, as all of its teachers would fail alike, and none says so."""
    model = tmp_path / "model.toml"
    model.write_text(_MODEL.replace("sklearn.tree.DecisionTreeClassifier", learner).replace("{max_depth = 2}", "{}"))
    rows = tmp_path / "rows.csv"
    rows.write_text("a,label\n")
    for arguments in (
        ["plan", model],
        ["suggest", model],
        ["init", model, "--data", rows, "--state", tmp_path / "state"],
        ["evaluate", model, "--train", rows, "--test", rows],
    ):
        refused = cli(*arguments)
        assert refused.code == 2
        assert f"model.learner = '{learner}': " in refused.err
    with pytest.raises(InputError, match=learner):
        oracle.plan({**tomllib.loads(model.read_text())["model"], "data": None, "data_epsilon": None})
    assert {path.name for path in tmp_path.iterdir()} == {"model.toml", "rows.csv"}
