"""`perpetua audit receipt --log --genesis`: whether a log is the one that a receipt stands for."""

import json

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.cli.audit.receipt_log import QueryLog, against_log
from oracle.planning.kinds import decode_plan
from oracle.predictors.kinds import new_trainer
from oracle.receipts.keys import signing_key
from oracle.receipts.receipts import make_statement, open_receipt, seal
from oracle.state.format import Snapshot, encode
from oracle.state.genesis import Genesis, read_genesis, write_genesis
from oracle.state.keys import read_key_file
from tests.predictors.plans import planned
from tests.support.folders import make_state, write_config

_COUNT = 400
_IS_THE_ONE = "the log is the one that was answered, up to round "
_IS_NOT = "DOES NOT HOLD: up to round {} the log is not the one that was answered"


def query(number: int) -> str:
    """Return a line of the log: a query, but now and then a tombstone or what is rejected."""
    if number % 9 == 0:
        return "null"
    if number % 25 == 4:
        return '{"id":"bad","x":[1,2]}'
    return json.dumps({"id": f"q{number}", "x": [number / _COUNT % 1.0]})


def write_lines(path, lines):
    """Write a log, and return its path."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def signed(tmp_path, cli):
    """Return a folder in which a proved model has answered 400 lines, and 300 more behind the receipt."""
    make_state(tmp_path / "state", planned())
    lines = [query(number) for number in range(_COUNT + 300)]
    write_lines(tmp_path / "q.jsonl", lines[:_COUNT])
    config = write_config(tmp_path, service={"batch_rows": 64})
    assert cli("serve", config).code == 0
    assert cli("audit", "sign", tmp_path / "state", "--out", tmp_path / "receipt.json").code == 0
    write_lines(tmp_path / "q.jsonl", lines)
    assert cli("serve", config).code == 0
    return tmp_path


def checked(folder, log="q.jsonl", genesis="state.genesis"):
    """Return the arguments of the command."""
    return ("audit", "receipt", folder / "receipt.json", "--log", folder / log, "--genesis", folder / genesis)


def test_the_log_is_recognized(cli, signed):
    """Rejects, tombstones and what came behind the receipt's round included; nothing is written anywhere."""
    before = {path: path.stat().st_mtime_ns for path in signed.rglob("*")}
    statement, _ = open_receipt(signed / "receipt.json", None)
    assert statement.round < _COUNT, "rejected lines take no round"
    result = cli(*checked(signed))
    assert (result.code, result.err) == (0, "")
    assert f"checked:    {_IS_THE_ONE}{statement.round}" in result.out
    assert [line for line in result.out.splitlines() if line.startswith("unchecked:")] == [
        "unchecked:  forks (no ledger was given)",
        "unchecked:  what is no part of the running tag: the queries' ids, rejected messages",
    ]
    assert {path: path.stat().st_mtime_ns for path in signed.rglob("*")} == before


def test_without_the_log_the_command_says_what_it_leaves_open(cli, signed):
    """Nobody has to take a commitment for a check; nor a ledger for more than it shows."""
    result = cli("audit", "receipt", signed / "receipt.json", "--ledger", signed / "ledger.jsonl")
    assert result.code == 0
    assert "unchecked:  which log was answered" in result.out
    assert "unchecked:  not against the ledger: how many rounds of the current phase were answered; forks" in result.out
    assert "the log is the one" not in result.out
    result = cli(*checked(signed), "--ledger", signed / "ledger.jsonl")
    assert result.code == 0
    assert "unchecked:  not against the ledger: forks" in result.out


def test_false_re_arms_are_found(cli, signed):
    """Answered again, the log leads to as many as there were."""
    statement, _ = open_receipt(signed / "receipt.json", None)
    forged = msgspec.structs.replace(statement, rearms=statement.rearms + 7)
    (signed / "receipt.json").write_bytes(seal(forged, signing_key(signed / "state" / "receipt-key")))
    result = cli(*checked(signed))
    assert result.code == 1
    said = f"DOES NOT HOLD: the log leads to {statement.rearms} re-arms up to round {statement.round}, the receipt says"
    assert f"{said} {statement.rearms + 7}" in result.out
    assert _IS_THE_ONE not in result.out
    assert "unchecked:  how many rounds were answered, re-arms and forks (no ledger was given)" in result.out


@pytest.mark.parametrize("change", ["value", "order", "gone", "tombstone"])
def test_another_log_is_found(cli, signed, change):
    """One other value, two queries exchanged, one left out or one taken back: the receipt does not hold for it."""
    lines = (signed / "q.jsonl").read_text().splitlines()
    if change == "value":
        lines[201] = lines[201].replace("[0.", "[0.0")
    elif change == "order":
        lines[201], lines[202] = lines[202], lines[201]
    elif change == "gone":
        del lines[201]
    else:
        lines[201] = "null"
    write_lines(signed / "other.jsonl", lines)
    result = cli(*checked(signed, log="other.jsonl"))
    statement, _ = open_receipt(signed / "receipt.json", None)
    assert result.code == 1
    assert _IS_NOT.format(statement.round) in result.out
    assert _IS_THE_ONE not in result.out


def test_what_comes_later_does_not_matter(cli, signed):
    """Other queries behind the receipt's round are none of its business."""
    lines = (signed / "q.jsonl").read_text().splitlines()
    write_lines(signed / "other.jsonl", [*lines[:_COUNT], *reversed(lines[_COUNT:])])
    assert cli(*checked(signed, log="other.jsonl")).code == 0


def test_ids_and_rejected_messages_are_no_part_of_the_tag(cli, signed):
    """As the command says, what was answered does not follow from them."""
    lines = (signed / "q.jsonl").read_text().splitlines()
    assert '"bad"' in lines[29]
    del lines[29]
    write_lines(signed / "other.jsonl", [line.replace('"id": "q', '"id": "p') for line in lines])
    assert cli(*checked(signed, log="other.jsonl")).code == 0


def test_a_log_that_ends_too_early_is_refused(refused, signed):
    """It may be the beginning of the one, so nothing is said of it but where it ends."""
    lines = (signed / "q.jsonl").read_text().splitlines()
    write_lines(signed / "short.jsonl", lines[:100])
    statement, _ = open_receipt(signed / "receipt.json", None)
    said = refused(2, *checked(signed, log="short.jsonl"))
    assert said.startswith("--log = ")
    assert f"must go on to round {statement.round}, up to which the receipt goes; it ends at 97" in said


def test_a_genesis_file_of_another_plan_is_refused(refused, signed):
    """It can say nothing of the receipt."""
    plan = msgspec.structs.replace(planned(), name="other")
    make_state(signed / "other", plan)
    said = refused(3, *checked(signed, genesis="other.genesis"))
    assert said.endswith(f"it is of plan {plan.digest.hex()}, the receipt of {planned().digest.hex()}")


def test_a_genesis_file_of_another_run_does_not_fit(cli, signed):
    """The same plan with other secrets has other tags."""
    plan = planned()
    rows = np.random.default_rng(1).random((plan.declared, 1))
    trainer = new_trainer(plan, bytes(32))
    trainer.add(rows, np.asarray((rows > 0.05).all(axis=1)))
    mine = read_genesis(signed / "state.genesis")
    snapshot = encode(Snapshot.first(plan.digest, trainer.finish().export()), mine.master_key)
    write_genesis(signed / "twin.genesis", Genesis(mine.master_key, snapshot, mine.plan))
    result = cli(*checked(signed, genesis="twin.genesis"))
    assert result.code == 1
    assert "or the genesis file is that of another run of the plan" in result.out


@pytest.mark.parametrize(("option", "other"), [("--log", "--genesis"), ("--genesis", "--log")])
def test_log_and_genesis_go_together(refused, signed, option, other):
    """One of them alone shows nothing."""
    said = refused(2, "audit", "receipt", signed / "receipt.json", option, signed / "state.genesis")
    assert said.startswith(other)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_log_in_columns(cli, refused, tmp_path, kind):
    """A table is recognized in the messages that it was served in; cut otherwise it is refused, not accused."""
    make_state(tmp_path / "state", planned())
    table = pa.table({"id": [f"q{number}" for number in range(500)], "a": [number / 500 for number in range(500)]})
    pa.parquet.write_table(table.slice(0, 450), tmp_path / "q.parquet")
    config = write_config(
        tmp_path,
        source={"kind": "parquet", "path": str(tmp_path / "q.parquet"), "rows_per_message": 50},
        sink={"kind": "parquet", "path": str(tmp_path / "out.parquet")},
    )
    assert cli("serve", config).code == 0
    assert cli("audit", "sign", tmp_path / "state", "--out", tmp_path / "receipt.json").code == 0
    if kind == "parquet":
        pa.parquet.write_table(table, tmp_path / "q.parquet")
    else:
        with pa.OSFile(str(tmp_path / "q.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=33)
    result = cli(*checked(tmp_path, log=f"q.{kind}"), "--rows-per-message", "50")
    assert (result.code, f"{_IS_THE_ONE}450" in result.out) == (0, True)
    said = refused(2, *checked(tmp_path, log=f"q.{kind}"))
    assert said == "--rows-per-message = 65536: must be as it was served: no message ends at round 450"


def test_a_receipt_of_no_round_stands_for_no_log(cli, tmp_path):
    """Every log would fit, so the command does not say that one does."""
    make_state(tmp_path / "state", planned())
    write_lines(tmp_path / "q.jsonl", [query(1)])
    assert cli("audit", "sign", tmp_path / "state", "--out", tmp_path / "receipt.json").code == 0
    result = cli(*checked(tmp_path))
    assert result.code == 0
    assert "no round was, so the receipt stands for none" in result.out
    assert _IS_THE_ONE not in result.out


@pytest.mark.parametrize("rounds", [-1, planned().rounds + 1])
def test_rounds_that_no_log_has_are_found(cli, signed, rounds):
    """A signed receipt of rounds below zero or beyond the plan does not hold, whatever the log."""
    statement, _ = open_receipt(signed / "receipt.json", None)
    (signed / "receipt.json").unlink()
    forged = msgspec.structs.replace(statement, round=rounds)
    (signed / "receipt.json").write_bytes(seal(forged, signing_key(signed / "state" / "receipt-key")))
    result = cli(*checked(signed))
    assert result.code == 1
    assert f"DOES NOT HOLD: no log leads to round {rounds:,}" in result.out


def test_over_re_arms_and_phase_ends(served):
    """The log of a run of many phases and re-arms leads to the same tag."""
    statement = make_statement(served / "state", read_key_file(served / "state" / "key"), "perpetua test")
    assert len(statement.phases) > 4
    assert statement.rearms > 0
    assert decode_plan(statement.plan.encode()).rounds > statement.round
    log, genesis = QueryLog(served / "q.jsonl"), served / "state.genesis"
    assert against_log(statement, log, genesis) == []
    other = msgspec.structs.replace(statement, tag_commitment="0" * 64)
    assert len(against_log(other, log, genesis)) == 1
    fewer = msgspec.structs.replace(statement, rearms=statement.rearms - 1)
    assert against_log(fewer, log, genesis) == [
        f"the log leads to {statement.rearms} re-arms up to round {statement.round}, the receipt says {fewer.rearms}"
    ]
