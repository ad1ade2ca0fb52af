"""A model file that names a learner, from rows in a file to answers over a real broker, with kills."""

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Final

import pytest

from oracle.accounting.ledger import PhaseEnded, SharesReleased
from oracle.receipts.ledgers import read_ledger
from tests.support.broker import Broker
from tests.support.folders import perpetua, write_config
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_launcher import CRASHED
from tests.support.waiting import TIMEOUT

_EXAMPLES: Final = 1_300
_FIRST: Final = 1_560
"""Rounds of phase 1."""
_COUNT: Final = 5_000
_MODEL: Final = f"""
[model]
name = "late"
predictor = "ensemble"
learner = "sklearn.tree.DecisionTreeClassifier"
parameters = {{ max_depth = 2 }}
epsilon = 8.0
alpha = 0.1
examples = {_EXAMPLES}
teacher_rows = 10
contested = 0.05
classes = ["on time", "late"]
[[model.features]]
name = "carrier"
column = "Airline"
categories = ["AA", "UA", "7"]
[[model.features]]
name = "delay"
[[model.features]]
name = "day"
type = "date"
"""

Row = tuple[str | None, float | None, str | None]


def _drawn(rng: random.Random) -> Row:
    carrier = rng.choice(["AA", "UA", "7", "of another", None])
    return carrier, rng.choice([rng.gauss(5.0, 20.0), None]), rng.choice(["2013-01-01", "2013-06-30", None])


def _label(row: Row) -> str:
    return "late" if row[0] == "7" or (row[1] is not None and row[1] > 5.0) else "on time"


def _queries(rng: random.Random, count: int) -> list[bytes | None]:
    """Return queries, with rounds without one and messages that are none among them."""
    rows = [
        {"id": number, "x": dict(zip(("carrier", "delay", "day"), _drawn(rng), strict=True))} for number in range(count)
    ]
    found: list[bytes | None] = [json.dumps(row).encode() for row in rows]
    found[::19] = [None] * len(found[::19])
    found[7::23] = [b'{"x":[1]}'] * len(found[7::23])
    return found


def _init(folder: Path) -> Path:
    """Make the state from a model file and rows; return the folder's genesis file."""
    rng = random.Random(1)  # noqa: S311 -- data
    rows = [_drawn(rng) for _ in range(_EXAMPLES)]
    lines = [",".join("" if value is None else str(value) for value in (*row, _label(row))) for row in rows]
    (folder / "rows.csv").write_text("\n".join(["Airline,delay,day,y", *lines]) + "\n")
    (folder / "model.toml").write_text(_MODEL)
    made = perpetua(
        *("init", folder / "model.toml", "--data", folder / "rows.csv", "--label", "y"),
        *("--state", folder / "late", "--keep-genesis", folder / "late.genesis"),
    )
    assert made.returncode == 0, made.stderr
    return folder / "late.genesis"


def _uninterrupted(folder: Path, queries: list[bytes | None]) -> list[bytes]:
    """Return the answers of a copy of the state to a file of the same queries."""
    shutil.copytree(folder / "late", folder / "alone" / "state")
    (folder / "alone" / "q.jsonl").write_bytes(b"".join((query or b"null") + b"\n" for query in queries))
    served = perpetua("serve", write_config(folder / "alone"))
    assert served.returncode == 0, served.stderr
    return (folder / "alone" / "out.jsonl").read_bytes().splitlines()


@pytest.mark.slow
def test_from_a_model_file_past_a_phase_with_kills_between(broker: Broker, tmp_path: Path) -> None:
    """Killed before the phase ends, as its teachers are fitted, and behind it: answers are those of one run."""
    genesis = _init(tmp_path)
    queries = _queries(random.Random(2), _COUNT)  # noqa: S311 -- data
    expected = _uninterrupted(tmp_path, queries)
    model = KafkaModelUnderTest(broker, f"ensemble-{os.getpid()}", tmp_path).create()
    config = model.config(state="late", service="batch_rows = 64")
    ends_at = next(n for n, line in enumerate(expected, 1) if json.loads(line).get("round") == _FIRST)
    try:
        model.ask(queries[:-1_000])
        for point, position in (("ended", 700), ("answers", ends_at - 5), ("after", ends_at + 300)):
            assert model.serve(config, trap=(point, position)).wait(TIMEOUT) == CRASHED
        daemon = model.serve(config)
        model.wait_for_answers(ends_at + 1_000)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        daemon = model.serve(config)
        model.ask(queries[-1_000:])
        model.wait_for_answers(len(expected))
        daemon.terminate()
        assert daemon.wait(TIMEOUT) == 0
    finally:
        model.end()
    assert model.values() == expected
    answers = [json.loads(line) for line in expected]
    assert {"on time", "late"} < {answer.get("label") for answer in answers}
    wrong = [
        _label(tuple(json.loads(query)["x"].values())) != answer["label"]
        for query, answer in zip(queries, answers, strict=True)
        if query is not None and "label" in answer
    ]
    assert len(wrong) > _COUNT * 0.8
    assert sum(wrong) < 0.2 * len(wrong)
    ledger = [answer.value for answer in model.read(f"{model.name}.ledger")]
    (tmp_path / "ledger.jsonl").write_bytes(b"\n".join(ledger) + b"\n")
    events = read_ledger(tmp_path / "ledger.jsonl")
    assert [type(event) for event in events if isinstance(event, SharesReleased)] == [SharesReleased]
    assert [event.round for event in events if isinstance(event, PhaseEnded)] == [_FIRST]
    verified = perpetua("verify", config, "--from", genesis)
    assert verified.stdout.startswith(f"identical: {_COUNT:,} messages".encode()), verified.stdout + verified.stderr
