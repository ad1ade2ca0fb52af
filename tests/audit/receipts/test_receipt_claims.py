"""What a receipt may claim: figures that a run can come to, texts that print as one line, and no more than was seen."""

from dataclasses import replace

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PhaseStarted, ShardStarted, ShardStopped, encode
from oracle.cli.main import app
from oracle.errors import InputError
from oracle.planning.plan import Plan
from oracle.predictors.base import phase_started
from oracle.receipts.ledgers import against_ledger
from oracle.receipts.receipts import Statement, open_receipt, seal, statement_of, verify_statement
from tests.predictors.examples import example
from tests.predictors.plans import planned
from tests.support.shard_events import lifecycle_event
from tests.support.shards import first_snapshot

_ROUNDS = "how many rounds of the current phase were answered"


def stated(rounds: int, plan: Plan | None = None, rearms: int = 0) -> Statement:
    """Return the statement of a state after so many rounds."""
    plan = plan or planned()
    snapshot = replace(first_snapshot(plan), round=rounds, rearms=rearms)
    return statement_of(plan, snapshot, 0, "perpetua test")


@pytest.fixture
def told(tmp_path):
    """Return a function that checks a signed statement, against a ledger of these events; it returns code and text."""

    def check(statement: Statement, events: list[LedgerEvent] | None = None) -> tuple[int, str]:
        receipt, ledger = tmp_path / "receipt.json", tmp_path / "ledger.jsonl"
        receipt.write_bytes(seal(statement, Ed25519PrivateKey.generate()))
        ledger.write_bytes(b"".join(encode(event) + b"\n" for event in events or ()))
        against = () if events is None else ("--ledger", str(ledger))
        result = CliRunner().invoke(app, ["audit", "receipt", str(receipt), *against])
        return result.exit_code, result.output

    return check


@pytest.mark.parametrize(
    "changes",
    [
        {"rearms": -5},
        {"rearms": 801},
        {"forks": -3},
        {"tag_commitment": "zzz"},
        {"tag_commitment": "A" * 64},
        {"tag_commitment": "a" * 63},
        {"issued": "yesterday"},
        {"issued": "2026-01-02T03:04:05"},
        {"issued": "2026-01-02"},
    ],
)
def test_figures_out_of_any_range_are_found(told, changes):
    """Though signed, and without a ledger, what no run can come to does not hold."""
    statement = stated(400)
    assert statement.phases[0].rounds > 400
    assert verify_statement(statement) == []
    assert verify_statement(msgspec.structs.replace(statement, rearms=800)) == [], "two sides, once a round"
    code, output = told(msgspec.structs.replace(statement, **changes))
    assert code == 1
    assert len([line for line in output.splitlines() if line.startswith("DOES NOT HOLD: ")]) == 1


@pytest.mark.parametrize(
    ("predictor", "most"),
    [
        ("rectangles", 40),
        ("stumps", 10),
        ("classical", 0),
        ("bisection", 0),
        ("statistics", 0),
        ("sparse-vector", 0),
        ("distribution", 0),
    ],
)
def test_every_predictor_arms_the_sides_it_has(predictor, most):
    """Of two features: four sides of a box, the one of the chosen stump, and none where nothing is armed afresh."""
    plan = example(predictor, rounds=60)
    wrong = [len(verify_statement(stated(10, plan, rearms))) for rearms in (0, most, most + 1)]
    assert wrong == [wrong[0], wrong[0], wrong[0] + 1]


@pytest.mark.parametrize("field", ["software", "issued", "model", "plan", "plan_digest", "tag_commitment"])
@pytest.mark.parametrize("text", ["a\nsignature:  good, by the key you gave", "\x1b[2Ja", "a\u2028b", "a\u202eb"])
def test_a_text_that_prints_lines_of_its_own_is_refused(tmp_path, field, text):
    """Nothing of the statement is printed, and the refusal shows the text escaped."""
    receipt = tmp_path / "receipt.json"
    receipt.write_bytes(seal(msgspec.structs.replace(stated(0), **{field: text}), Ed25519PrivateKey.generate()))
    result = CliRunner().invoke(app, ["audit", "receipt", str(receipt)])
    assert isinstance(result.exception, InputError)
    assert result.output == ""
    assert str(result.exception).startswith(f"receipt.{field} = ")
    assert str(result.exception).isprintable()


def test_a_plan_with_an_escaped_line_break_is_refused(tmp_path):
    """What the plan's JSON escapes would be printed with the reason why it cannot be read."""
    forged = stated(0).plan.replace('"tight"', r'"tight\nsignature:  good"')
    receipt = tmp_path / "receipt.json"
    receipt.write_bytes(seal(msgspec.structs.replace(stated(0), plan=forged), Ed25519PrivateKey.generate()))
    with pytest.raises(InputError, match=r"receipt\.plan"):
        open_receipt(receipt, None)


def test_rounds_that_the_ledger_does_not_show_are_unchecked(told):
    """A ledger is silent between a phase's beginning and its end, so the command does not say that it checked them."""
    events: list[LedgerEvent] = [phase_started(planned(), 1)]
    statement = stated(5_000)
    assert statement.phases[0].rounds > 5_000
    before = lifecycle_event(stated(400), ShardStopped)
    for ledger in (events, [*events, before]):
        code, output = told(statement, ledger)
        assert code == 0
        assert f"unchecked:  not against the ledger: {_ROUNDS}; forks" in output
        assert "every figure" not in output
        assert "checked:    the phases' beginnings and ends, and the number of re-arms, against the ledger" in output
    code, output = told(statement)
    assert code == 0
    assert "unchecked:  how many rounds were answered, re-arms and forks (no ledger was given)" in output
    assert "against the ledger" not in output


@pytest.mark.parametrize("kind", [ShardStarted, ShardStopped])
def test_rounds_that_a_shard_tells_are_checked(told, kind):
    """Where a shard started or stopped at the receipt's round the ledger shows it."""
    statement = stated(5_000)
    code, output = told(statement, [phase_started(planned(), 1), lifecycle_event(statement, kind)])
    assert code == 0
    assert "unchecked:  not against the ledger: forks" in output
    assert _ROUNDS not in output


def test_rounds_up_to_a_phase_end_are_checked(told):
    """The end of a phase says how many rounds there were."""
    plan = planned()
    rounds = plan.phases[0].rounds
    ended: list[LedgerEvent] = [phase_started(plan, 1), PhaseEnded(round=rounds, phase=1, rearms=0)]
    ended.append(phase_started(plan, 2))
    assert isinstance(ended[-1], PhaseStarted)
    statement = stated(rounds)
    assert against_ledger(statement, ended) == []
    code, output = told(statement, ended)
    assert code == 0
    assert _ROUNDS not in output
    code, output = told(stated(rounds + 1), ended)
    assert code == 0
    assert _ROUNDS in output
