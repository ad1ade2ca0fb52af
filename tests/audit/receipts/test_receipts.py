"""Receipts: signed, checked, and worth nothing once a figure in them is another."""

import json
import re

import msgspec
import pytest
from typer.testing import CliRunner

from oracle.accounting.ledger import PhaseEnded, SideRearmed
from oracle.accounting.ledger import decode as ledger_event
from oracle.audit.games.learners import LEARNERS
from oracle.cli.main import app
from oracle.cli.serve import process as serve
from oracle.errors import InputError, KeyFileError, StateError, StorageError
from oracle.planning.kinds import decode_plan
from oracle.receipts.keys import public_key_path, read_public_key, signing_key
from oracle.receipts.ledgers import against_ledger, read_ledger
from oracle.receipts.receipts import (
    make_statement,
    open_receipt,
    seal,
    tag_commitment,
    verify_statement,
)
from oracle.receipts.sealed import ForgedReceiptError
from oracle.state.folder import newest_bytes
from oracle.state.format import decode
from oracle.state.keys import read_key_file
from tests.predictors.plans import planned
from tests.support.folders import long_plan, make_state, perpetua, write_config, write_log
from tests.support.shards import bodies, deliveries_of, new_shard, process_in_batches


def run(*arguments):
    """Run `perpetua` in this process, whose memory is left as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve, "settle_memory", lambda: None)
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a folder in which a model with a proved plan has answered 400 messages, and one receipt was made."""
    folder = tmp_path_factory.mktemp("served")
    make_state(folder / "state", planned())
    log = folder / "q.jsonl"
    log.write_text("".join(f'{{"id":"{number}","x":[{number / 400}]}}\n' for number in range(400)))
    assert run("serve", write_config(folder)).exit_code == 0
    assert run("audit", "sign", folder / "state", "--out", folder / "receipt.json").exit_code == 0
    return folder


def changed(statement, **fields):
    """Return a statement with other figures."""
    return msgspec.structs.replace(statement, **fields)


def test_a_receipt_is_checked_in_plain_words(served):
    """The command finds the signature good, the figures right, and says what is promised."""
    result = run(
        "audit", "receipt", served / "receipt.json", "--ledger", served / "ledger.jsonl",
        "--public-key", served / "state" / "receipt-key.pub",
    )  # fmt: skip
    said = result.output
    assert result.exit_code == 0, said
    assert "good, by the key you gave" in said
    assert "400 rounds were answered" in said
    assert "a factor of at most e^8" in said
    assert "checked:    the plan, by the accountant" in said
    assert "number of re-arms, against the ledger" in said


def test_the_key_is_private_and_stays(served):
    """The receipt key has mode 0600 and is used again; its public part fits it."""
    secret = served / "state" / "receipt-key"
    assert secret.stat().st_mode & 0o77 == 0
    key = signing_key(secret)
    assert read_public_key(public_key_path(secret)) == key.public_key().public_bytes_raw()
    secret.chmod(0o644)
    with pytest.raises(KeyFileError):
        signing_key(secret)
    secret.chmod(0o600)


def test_a_public_key_of_another_key_is_refused(served, tmp_path):
    """Nobody is pointed to a public key that the receipts are not signed with: it is refused, and left as it is."""
    other = public_key_path(tmp_path / "other-key")
    signing_key(tmp_path / "other-key")
    secret, public = tmp_path / "receipt-key", tmp_path / "receipt-key.pub"
    for text in (other.read_bytes(), b"no key\n"):
        public.write_bytes(text)
        result = run("audit", "sign", served / "state", "--receipt-key", secret, "--out", tmp_path / "receipt.json")
        assert isinstance(result.exception, KeyFileError)
        assert str(public) in str(result.exception)
        assert public.read_bytes() == text
        assert not (tmp_path / "receipt.json").exists()
    public.unlink()
    key = signing_key(secret)
    assert read_public_key(public) == key.public_key().public_bytes_raw()


def test_a_receipt_without_phases_is_found(served, tmp_path):
    """A signed statement that leaves out what it stands for is told by the exit code, as any that does not hold."""
    statement, _ = open_receipt(served / "receipt.json", None)
    forged = tmp_path / "forged.json"
    forged.write_bytes(seal(changed(statement, phases=()), signing_key(served / "state" / "receipt-key")))
    result = run("audit", "receipt", forged)
    assert result.exit_code == 1
    assert "DOES NOT HOLD: phases or delta spent do not follow" in result.output


def test_what_is_signed_follows_from_the_snapshot(served):
    """The statement is the snapshot's: rounds, re-arms, delta, and a commitment to its running tag and no other."""
    statement, _ = open_receipt(served / "receipt.json", None)
    plan = decode_plan(statement.plan.encode())
    data = newest_bytes(served / "state")
    assert data is not None
    snapshot = decode(data, read_key_file(served / "state" / "key"), plan.digest)
    assert (statement.round, statement.rearms) == (snapshot.round, snapshot.rearms)
    assert statement.tag_commitment == tag_commitment(plan.digest, snapshot.round, snapshot.tag)
    assert statement.tag_commitment != tag_commitment(plan.digest, snapshot.round, bytes(16))
    assert statement.tag_commitment != tag_commitment(plan.digest, snapshot.round + 1, snapshot.tag)
    assert statement.delta_spent == plan.delta_spent(1, 400)
    assert verify_statement(statement) == []


@pytest.mark.parametrize("offset", [40, 200, 700])
def test_a_changed_byte_breaks_the_signature(served, tmp_path, offset):
    """No byte of the statement can be exchanged."""
    data = bytearray((served / "receipt.json").read_bytes())
    digit = re.compile(rb"[0-9]").search(data, offset)
    assert digit is not None
    data[digit.start()] = ord("1") if data[digit.start()] != ord("1") else ord("2")
    forged = tmp_path / "forged.json"
    forged.write_bytes(data)
    with pytest.raises(ForgedReceiptError, match="signature"):
        open_receipt(forged, None)


def test_another_key_is_refused(served, tmp_path):
    """A receipt signed by somebody else does not pass for one of the key that was asked for."""
    statement, _ = open_receipt(served / "receipt.json", None)
    other = signing_key(tmp_path / "other-key")
    forged = tmp_path / "forged.json"
    forged.write_bytes(seal(statement, other))
    assert open_receipt(forged, None)[0] == statement
    with pytest.raises(ForgedReceiptError, match="signed by key"):
        open_receipt(forged, read_public_key(served / "state" / "receipt-key.pub"))


def test_a_forged_receipt_is_told_by_the_exit_code(served, tmp_path):
    """As any check that fails: one line, and 1."""
    statement, _ = open_receipt(served / "receipt.json", None)
    forged = tmp_path / "forged.json"
    forged.write_bytes(seal(statement, signing_key(tmp_path / "other-key")))
    key = served / "state" / "receipt-key.pub"
    done = perpetua("audit", "receipt", forged, "--public-key", key)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(b"DOES NOT HOLD: signed by key ")


def test_wrong_figures_are_found_though_signed(served):
    """Whoever holds the key cannot sign an epsilon, a delta or rounds that do not follow from the plan."""
    statement, _ = open_receipt(served / "receipt.json", None)
    line = statement.phases[0]
    for wrong in (
        changed(statement, phases=(msgspec.structs.replace(line, epsilon=1.0),)),
        changed(statement, phases=(msgspec.structs.replace(line, delta=line.delta / 2),)),
        changed(statement, delta_spent=0.0),
        changed(statement, round=401),
        changed(statement, round=-1),
        changed(statement, plan_digest="00" * 32),
        changed(statement, delta_limit=1e-9),
        changed(statement, plan=statement.plan.replace('"epsilon":8.0', '"epsilon":1.0', 1)),
    ):
        assert verify_statement(wrong), wrong


def test_a_plan_that_is_not_proved_is_found(served):
    """A plan whose noise is too small for its epsilon is refuted by the accountant, digest and all."""
    statement, _ = open_receipt(served / "receipt.json", None)
    plan = decode_plan(statement.plan.encode())
    cheap = msgspec.structs.replace(plan, epsilon=plan.epsilon / 2.0)
    lines = tuple(msgspec.structs.replace(line, epsilon=cheap.epsilon) for line in statement.phases)
    forged = changed(statement, plan=cheap.encode().decode(), plan_digest=cheap.digest.hex(), phases=lines)
    assert any("accountant" in problem for problem in verify_statement(forged))


def test_a_ledger_of_another_run_is_found(served):
    """Phases or re-arms that the ledger tells otherwise are named; later rounds do not matter."""
    statement, _ = open_receipt(served / "receipt.json", None)
    events = read_ledger(served / "ledger.jsonl")
    assert against_ledger(statement, events) == []
    assert against_ledger(changed(statement, rearms=statement.rearms + 1), events)
    assert against_ledger(statement, [])
    line = statement.phases[0]
    other = changed(statement, phases=(msgspec.structs.replace(line, delta=line.delta / 2),))
    assert against_ledger(other, events)


def test_receipts_over_phase_ends(tmp_path):
    """Over many short phases each is named, with its own delta, and ledger and receipt agree about all of them."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 900)
    assert run("serve", write_config(tmp_path)).exit_code == 0
    statement = make_statement(tmp_path / "state", read_key_file(tmp_path / "state" / "key"), "perpetua test")
    assert len(statement.phases) > 5
    assert statement.phases[-1].answered < statement.phases[-1].rounds
    assert sum(line.answered for line in statement.phases) == statement.round
    assert against_ledger(statement, read_ledger(tmp_path / "ledger.jsonl")) == []
    problems = verify_statement(statement)
    assert problems, "a plan in form only is not proved"
    assert all("accountant" in problem for problem in problems)


def test_receipts_of_a_run_that_goes_on(tmp_path):
    """Signed right before and right behind re-arms and phase ends, each agrees with the ledger of then and of later."""
    shard, plan = new_shard(long_plan()), long_plan()
    lines = bodies(500)
    whole = process_in_batches(shard, deliveries_of(lines))
    events = [ledger_event(event) for event in whole.ledger]
    rearm = next(event.round for event in events if isinstance(event, SideRearmed))
    ends = [event.round for event in events if isinstance(event, PhaseEnded)][:1]
    make_state(tmp_path / "state", plan)
    config = write_config(tmp_path, state={"snapshot_rounds": 7}, service={"batch_rows": 5})
    statements = []
    for rounds in sorted({rearm, rearm + 1, *(end + more for end in ends for more in (-1, 0, 1)), 500}):
        (tmp_path / "q.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[:rounds]))
        assert run("serve", config).exit_code == 0
        receipt = tmp_path / f"receipt-{rounds}.json"
        assert run("audit", "sign", tmp_path / "state", "--out", receipt).exit_code == 0
        statement, _ = open_receipt(receipt, None)
        assert statement.round == rounds
        statements.append(statement)
        assert against_ledger(statement, read_ledger(tmp_path / "ledger.jsonl")) == []
    counted = {statement.round: statement.rearms for statement in statements}
    assert counted[rearm] < counted[rearm + 1]
    for statement in statements:
        assert against_ledger(statement, read_ledger(tmp_path / "ledger.jsonl")) == []


def test_a_fork_in_the_ledger_is_found(tmp_path):
    """The ledger of a run that was forked from the state shows the fork; the receipt made before does not state it."""
    make_state(tmp_path / "state", planned())
    log = tmp_path / "q.jsonl"
    log.write_text('{"id":"1","x":[0.5]}\n')
    assert run("serve", write_config(tmp_path)).exit_code == 0
    receipts = tmp_path / "before.json", tmp_path / "after.json"
    assert run("audit", "sign", tmp_path / "state", "--out", receipts[0]).exit_code == 0
    forked = run(
        "fork", log, "--from", tmp_path / "state", "--accept-cost", "--out", tmp_path / "again.jsonl",
        "--ledger", tmp_path / "fork.jsonl",
    )  # fmt: skip
    assert forked.exit_code == 0, forked.output
    assert run("audit", "sign", tmp_path / "state", "--out", receipts[1]).exit_code == 0
    with (tmp_path / "ledger.jsonl").open("ab") as ledger:  # as `perpetua replay` announces it on Kafka
        ledger.write((tmp_path / "fork.jsonl").read_bytes().splitlines(keepends=True)[0])
    results = [run("audit", "receipt", receipt, "--ledger", tmp_path / "ledger.jsonl") for receipt in receipts]
    assert [result.exit_code for result in results] == [1, 0]
    assert (
        "DOES NOT HOLD: the ledger shows other logs answered from rounds up to 1 (forks): 1, the receipt 0"
        in results[0].output
    )
    assert "answered from this state or its genesis file 1 times" in results[1].output


def test_forks_of_the_genesis_file_are_stated(tmp_path):
    """They are recorded beside the genesis file: whoever signs names it, and each fork counts once."""
    genesis = make_state(tmp_path / "state", planned())
    log = tmp_path / "q.jsonl"
    log.write_text('{"id":"1","x":[0.5]}\n')
    for number, origin in enumerate((genesis, genesis, tmp_path / "state")):
        out = tmp_path / f"again-{number}.jsonl"
        assert run("fork", log, "--from", origin, "--accept-cost", "--out", out).exit_code == 0
    for number, (named, forks) in enumerate({(): 1, (genesis,): 3, (genesis, tmp_path / "state"): 3}.items()):
        receipt = tmp_path / f"receipt-{number}.json"
        options = [part for path in named for part in ("--genesis", path)]
        assert run("audit", "sign", tmp_path / "state", *options, "--out", receipt).exit_code == 0
        assert open_receipt(receipt, None)[0].forks == forks
    wrong = run("audit", "sign", tmp_path / "state", "--genesis", tmp_path / "nothing", "--out", tmp_path / "r.json")
    assert isinstance(wrong.exception, KeyFileError)
    assert "genesis file" in str(wrong.exception)


def test_bad_files_are_named(served, tmp_path):
    """What is no receipt, no state, no key or no ledger is refused with its name."""
    nothing = tmp_path / "nothing.json"
    nothing.write_text(json.dumps({"statement": {}, "public_key": "", "signature": ""}))
    with pytest.raises(InputError, match="receipt"):
        open_receipt(nothing, None)
    with pytest.raises(InputError, match="ledger"):
        read_ledger(nothing)
    with pytest.raises(InputError, match=r"public key = .*must be the \.pub file"):
        read_public_key(nothing)
    with pytest.raises(StorageError, match=r"public key .*cannot be read: No such file"):
        read_public_key(tmp_path / "none.pub")
    with pytest.raises(StateError):
        make_statement(tmp_path, bytes(32), "perpetua test")
    again = run("audit", "sign", served / "state", "--out", served / "receipt.json")
    assert isinstance(again.exception, StorageError)
    assert "never overwritten" in str(again.exception)


def test_a_ledger_comes_from_a_bus_too(served, tmp_path):
    """Lines with Kafka's keys are taken by shard, and what MQTT delivers twice counts once."""
    lines = (served / "ledger.jsonl").read_bytes().splitlines()
    other = b'{"kind":"side-rearmed","round":1,"phase":1,"side":0}'
    topic = tmp_path / "topic.txt"
    keyed = [b"queries/0/%d/17-0\t%b" % (number, line) for number, line in enumerate(lines)]
    topic.write_bytes(b"\n".join([*keyed, b"queries/1/3/17-0\t" + other]))
    checked = ("audit", "receipt", served / "receipt.json", "--ledger", topic)
    assert run(*checked, "--shard", "queries/0").exit_code == 0
    assert run(*checked, "--shard", "queries/1").exit_code == 1
    with pytest.raises(InputError, match=r"queries/0, queries/1"):
        read_ledger(topic)
    with pytest.raises(InputError, match="must be one of queries/0"):
        read_ledger(topic, "queries/7")
    topic.write_bytes(b"\n".join([line for line in lines for _ in range(2)]))
    with pytest.raises(InputError, match="must be one of lines without one"):
        read_ledger(topic, "queries/0")
    assert run(*checked).exit_code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("bisection, efficient", "queries are not protected"), ("classical box, one side", "Queries change no other")],
)
def test_a_receipt_says_whom_it_covers(tmp_path, name, said):
    """Where only training rows are protected, or queries change nothing, the plain words say so."""
    learner = next(one for one in LEARNERS if one.name == name)
    make_state(tmp_path / "state", learner.plan(4.0))
    assert run("audit", "sign", tmp_path / "state", "--out", tmp_path / "receipt.json").exit_code == 0
    result = run("audit", "receipt", tmp_path / "receipt.json")
    assert result.exit_code == 0, result.output
    assert said in result.output
