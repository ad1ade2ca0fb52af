"""What an operator does with a state that is asked in public: look, sign, check, fork, skip, retire; on real files."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.accounting.ledger import AnswerPaid, MarginalsReleased, ModelRetired, encode
from oracle.receipts.ledgers import read_ledger
from tests.predictors.tables import ASKED, TABLES
from tests.support.folders import write_config

_ROWS = 20_000
_FEW = 2_000
"""Rows of a distribution: as few as it takes, so that some answers are paid for."""

_PAID = {"statistics": 15, "sparse-vector": 3, "distribution": 15}
_MODEL = """
[model]
name = "s"
predictor = "{}"
alpha = 0.1
epsilon = 4.0
delta = 1e-6
examples = {}
"""
_ATTRIBUTES = """
paid = {}

[[model.attributes]]
name = "a"
categories = ["x", "y"]

[[model.attributes]]
name = "b"
categories = ["x", "y"]

[[model.attributes]]
name = "c"
categories = ["x", "y"]
"""


_PASSED = dict.fromkeys(TABLES, '{"id": "passed over", "where": {}, "above": 0.5}\n')
_PASSED["distribution"] = '{"id": "passed over", "quantile": 0.5}\n'


def _model(predictor):
    if predictor == "distribution":
        return _MODEL.format(predictor, _FEW) + '[[model.features]]\nname = "v"\n'
    return _MODEL.format(predictor, _ROWS) + _ATTRIBUTES.format(_PAID[predictor])


def _questions(predictor, count, seed):
    generator = np.random.default_rng(seed)
    for number in range(count):
        if predictor == "distribution":
            yield json.dumps({"id": number, "at": round(generator.normal(), 3)}) + "\n"
            continue
        where = {name: [str(generator.choice(["x", "y"]))] for name in "abc"}
        above = {"above": float(generator.integers(1, 8)) / 20} if predictor == "sparse-vector" else {}
        yield json.dumps({"id": number, "where": where, **above}) + "\n"


@pytest.fixture(params=ASKED)
def run(request, cli, tmp_path):
    """Serve a hundred questions about rows whose third value follows from the first two; return the predictor."""
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 2, (2, _ROWS))
    names = np.array(["x", "y"])
    table = pa.table({"a": names[a], "b": names[b], "c": names[a ^ b], "v": generator.normal(size=_ROWS)})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "model.toml").write_text(_model(request.param))
    options = ["--state", tmp_path / "state", "--keep-genesis", tmp_path / "genesis"]
    made = cli("init", tmp_path / "model.toml", "--data", tmp_path / "rows.parquet", *options)
    assert made.code == 0, made.err
    (tmp_path / "q.jsonl").write_text("".join(_questions(request.param, 100, seed=2)))
    served = cli("serve", write_config(tmp_path))
    assert served.code == 0, served.err
    return request.param


def _sign(cli, folder):
    signed = cli("audit", "sign", folder / "state", "--genesis", folder / "genesis", "--out", folder / "receipt.json")
    assert signed.code == 0, signed.err


def _check(cli, folder, *options, receipt="receipt.json"):
    return cli("audit", "receipt", folder / receipt, "--ledger", folder / "ledger.jsonl", *options)


def _paid(folder):
    return [event for event in read_ledger(folder / "ledger.jsonl") if isinstance(event, AnswerPaid)]


def test_status_says_what_is_paid_and_what_is_left(cli, run, tmp_path):
    """By the newest snapshot's header, without a key; nothing is said of phases and re-arms."""
    (tmp_path / "state" / "key").unlink()
    facts = json.loads(cli("status", tmp_path / "state", "--json").out)
    paid = len(_paid(tmp_path))
    assert paid > 0
    assert (facts["paid"], facts["paid_left"], facts["round"]) == (paid, _PAID[run] - paid, 100)
    lines = cli("status", tmp_path / "state").out.splitlines()
    told = {" ".join(line.split()) for line in lines}
    assert {f"paid answers {paid}", f"paid left {_PAID[run] - paid}", "questions so far 100", "delta 1e-06"} <= told
    assert "error promised 0.1" in told
    over = run != "distribution" and paid == _PAID[run]
    assert any("nothing new is promised: all paid answers are spent" in line for line in told) == over
    assert not any(line.startswith(("phase", "rearms", "delta spent", "delta limit")) for line in lines)


def test_a_receipt_counts_paid_answers(cli, run, tmp_path):
    """It is checked against the ledger and the log, and says in words what was paid."""
    _sign(cli, tmp_path)
    log = ["--log", tmp_path / "q.jsonl", "--genesis", tmp_path / "genesis"]
    result = _check(cli, tmp_path, *log)
    assert result.code == 0, result.out
    assert f"The rows paid for {len(_paid(tmp_path))} answers so far, of at most {_PAID[run]}." in result.out
    assert "the number of paid answers, against the ledger" in result.out
    assert "armed afresh" not in result.out
    statement = json.loads((tmp_path / "receipt.json").read_text())["statement"]
    assert statement["paid"] == len(_paid(tmp_path))


@pytest.mark.parametrize("forgery", ["dropped", "added", "exchanged", "marginals", "beyond"])
def test_a_forged_ledger_is_found(cli, run, tmp_path, forgery):
    """A paid answer that is missing, made up or of another's round; marginals behind the first round; more than K."""
    _sign(cli, tmp_path)
    events, paid = read_ledger(tmp_path / "ledger.jsonl"), _paid(tmp_path)
    marginals = [event for event in events if isinstance(event, MarginalsReleased)]
    assert len(marginals) == (run == "statistics")
    first, second = paid[:2]
    more = AnswerPaid(round=99, paid=len(paid) + 1, count=7, above=first.above)
    changed = {
        "dropped": ([paid[-1]], []),
        "added": ([], [more]),
        "exchanged": ([first, second], [_at(first, second.round), _at(second, first.round)]),
        "marginals": (marginals, [MarginalsReleased(round=1, counts=((1,),))]),
        "beyond": ([], [AnswerPaid(round=99, paid=_PAID[run] + 1, count=7, above=first.above)]),
    }[forgery]
    kept = [event for event in events if event not in changed[0]]
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(encode(event) + b"\n" for event in [*kept, *changed[1]]))
    result = _check(cli, tmp_path)
    assert result.code == 1
    assert "DOES NOT HOLD: the ledger" in result.out


def _at(event, round_):
    return AnswerPaid(round=round_, paid=event.paid, count=event.count, above=event.above)


def test_forks_state_their_cost_and_go_on_counting(cli, refused, run, tmp_path):
    """The cost is refused unless it is accepted; status adds it up; the run itself goes on as if nothing had been."""
    (tmp_path / "other.jsonl").write_text("".join(_questions(run, 60, seed=3)))
    files = [tmp_path / "other.jsonl", "--from", tmp_path / "genesis", "--out", tmp_path / "fork.jsonl"]
    line = refused(2, "fork", *files)
    assert "pays another epsilon = 4" in line
    assert f"questions pay nothing, and the rows pay for {_PAID[run]} answers more at most" in line
    forked = cli("fork", *files, "--ledger", tmp_path / "fork.ledger", "--accept-cost")
    assert forked.code == 0, forked.err
    numbers = [event.paid for event in read_ledger(tmp_path / "fork.ledger") if isinstance(event, AnswerPaid)]
    assert 0 < len(numbers) <= _PAID[run]
    assert numbers == list(range(1, len(numbers) + 1))
    files = [tmp_path / "other.jsonl", "--from", tmp_path / "state", "--out", tmp_path / "late.jsonl", "--accept-cost"]
    assert cli("fork", *files).code == 0
    facts = json.loads(cli("status", tmp_path / "state", "--json").out)
    left = facts["paid_left"]
    assert facts["epsilon_with_forks"] == (8.0 if left else 4.0)
    assert facts["paid"] == len(_paid(tmp_path))
    origin = ["--from", tmp_path / "genesis", "--answers", tmp_path / "out.jsonl"]
    assert cli("verify", tmp_path / "q.jsonl", *origin).out.startswith("identical: 100 messages")


def test_a_message_is_skipped_and_the_model_retired(cli, run, tmp_path):
    """What was skipped takes no round; the last event counts what was paid, and the last receipt agrees with it."""
    log = tmp_path / "q.jsonl"
    with log.open("a") as lines:
        lines.write(_PASSED[run])
    where = ["--partition", 0, "--position", log.stat().st_size]
    skipped = cli("skip", write_config(tmp_path), *where, "--yes")
    assert skipped.code == 0, skipped.err
    with log.open("a") as lines:
        lines.writelines(_questions(run, 30, seed=4))
    assert cli("serve", tmp_path / "c.toml").code == 0
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert answers[100]["error"] == "skipped"
    origin = ["--from", tmp_path / "genesis", "--answers", tmp_path / "out.jsonl"]
    assert cli("verify", log, *origin).out.startswith("identical: 131 messages, 130 rounds")
    retired = cli("retire", tmp_path / "c.toml")
    assert retired.code == 0, retired.err
    last = read_ledger(tmp_path / "ledger.jsonl")[-1]
    assert isinstance(last, ModelRetired)
    assert (last.paid, last.covers, last.round) == (len(_paid(tmp_path)), "training", 130)
    assert f"{last.paid} answers paid" in cli("status", tmp_path / "state").out
    result = _check(cli, tmp_path, receipt="state.receipt-retired.json")
    assert result.code == 0, result.out
