"""Public questions over a real broker: the ledger counts what is paid, answers are proved, and the model ends."""

import json
import os
import subprocess

import pytest

from oracle.accounting.ledger import AnswerPaid, MarginalsReleased, ModelRetired, ShardStarted, ShardStopped
from oracle.receipts.ledgers import against_ledger, read_ledger
from oracle.receipts.receipts import open_receipt
from tests.predictors.examples import example
from tests.predictors.tables import ASKED, TABLES
from tests.support.broker import Broker
from tests.support.folders import command, environment
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import bodies
from tests.support.tables import paying_plan, questions
from tests.support.waiting import TIMEOUT

_COUNT = 200


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*map(str, arguments)),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=TIMEOUT,
    )


@pytest.mark.parametrize("predictor", ASKED)
def test_a_model_from_questions_to_its_end(broker: Broker, tmp_path, predictor):
    """Served in two runs; verified from its genesis; receipts agree with the ledger topic, the last one too."""
    plan = paying_plan(predictor) if predictor in TABLES else example(predictor)
    asked = questions(predictor, 2 * _COUNT) if predictor in TABLES else bodies(2 * _COUNT, plan=plan)
    model = KafkaModelUnderTest(broker, f"{predictor}-{os.getpid()}", tmp_path, plan=plan).create()
    config = model.config()
    try:
        for part in range(2):
            model.ask(asked[part * _COUNT : (part + 1) * _COUNT])
            daemon = model.serve(config)
            model.wait_for_answers((part + 1) * _COUNT)
            daemon.terminate()
            assert daemon.wait(TIMEOUT) == 0
    finally:
        model.end()
    answers = [answer.body for answer in model.read()]
    paid = [answer["paid"] for answer in answers]
    assert paid == sorted(paid)
    verified = _run("verify", config, "--from", model.folder / "state.genesis")
    assert verified.stdout.startswith(f"identical: {2 * _COUNT} messages, {2 * _COUNT} rounds from round 0")
    signed = _run("audit", "sign", model.folder / "state", "--out", tmp_path / "receipt.json")
    assert signed.returncode == 0, signed.stderr
    retired = _run("retire", config)
    assert retired.returncode == 0, retired.stderr
    lines = [json.dumps(answer.body) for answer in model.read(f"{model.name}.ledger")]
    (tmp_path / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    events = read_ledger(tmp_path / "ledger.jsonl")
    bought = [event.paid for event in events if isinstance(event, AnswerPaid)]
    assert bought == list(range(1, paid[-1] + 1))
    assert sum(isinstance(event, MarginalsReleased) for event in events) == (predictor == "statistics")
    stands = [event.paid for event in events if isinstance(event, ShardStarted | ShardStopped | ModelRetired)]
    assert stands == [0, paid[_COUNT - 1], paid[_COUNT - 1], paid[-1], paid[-1]]
    for receipt in (tmp_path / "receipt.json", tmp_path / "state.receipt-retired.json"):
        statement, _ = open_receipt(receipt, None)
        assert statement.paid == paid[-1]
        assert against_ledger(statement, events) == []
        assert against_ledger(statement, [event for event in events if event != events[-2]]) == []
        dropped = next(event for event in events if isinstance(event, AnswerPaid))
        assert against_ledger(statement, [event for event in events if event != dropped])
