"""The benchmarks run, and say what they found; how fast anything is, is not tested here."""

import json
import math
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.benchmarks.kafka_delay import readable
from tests.benchmarks.kafka_trial import Trial
from tests.benchmarks.pairs import Floor, Row, Settings, paired
from tests.benchmarks.report import table, write
from tests.benchmarks.topics import TOPICS, run
from tests.support.broker import Broker
from tests.support.waiting import eventually

_TINY = Settings(
    teachers=8,
    questions=256,
    seconds=0.0,
    pairs=1,
    batches=1,
    parquet_rows=3_000,
    jsonl_rows=1_000,
    learned_rows=3_000,
    narrow=1,
    wide=2,
    directions=2,
    epsilon=8.0,
    kafka_pairs=1,
    kafka_turns=1,
    kafka_records=1_600,
    kafka_messages=10,
    kafka_rows=20,
    kafka_processes=(1,),
    kafka_seconds=0.2,
    kafka_slow_records=400,
    kafka_models=3,
    kafka_models_rate=600,
    kafka_peer_rate=1_000,
    kafka_session=1.0,
    mqtt_queries=400,
    mqtt_seconds=0.2,
)


_ROWS = {
    "noise": 1,
    "engine": 6,
    "stumps": 3,
    "classical": 3,
    "bisection": 3,
    "statistics": 4,
    "distribution": 2,
    "ensemble": 4,
    "recovery": 2,
    "memory": 1,
    "planner": 1,
    "bus": 2,
    "files": 3,
    "mqtt": 4,
    "scrape": 1,
    "watching": 1,
}
_KAFKA_ROWS = {"kafka-json": 6, "kafka-arrow": 2, "kafka-delay": 2, "kafka-processes": 1}
_MODEL_ROWS = {"kafka-models": 4}
_PEER_ROWS = {"kafka-peers": 24}


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(counts, marks=[pytest.mark.slow, pytest.mark.long])
        for counts in (_ROWS, _KAFKA_ROWS, _PEER_ROWS, _MODEL_ROWS)
    ],
    ids=["all", "kafka", "peers", "models"],
)
def test_every_topic_is_measured_and_written(tmp_path: Path, counts: dict[str, int]) -> None:
    """On tiny sizes all topics have positive figures, and the file holds five keys for each."""
    said: list[str] = []
    assert set(counts) <= set(TOPICS) == {*_ROWS, *_KAFKA_ROWS, *_PEER_ROWS, *_MODEL_ROWS}
    rows = run(list(counts), _TINY, said.append)
    write(tmp_path / "build" / "b.json", rows)
    entries = json.loads((tmp_path / "build" / "b.json").read_text())
    assert [tuple(entry) for entry in entries] == [("name", "value", "unit", "baseline", "ratio")] * len(rows)
    for entry in entries:
        assert 0.0 < entry["value"] < math.inf
        assert entry["ratio"] == pytest.approx(entry["value"] / entry["baseline"], rel=1e-12)
    assert {name: sum(row.name.startswith(name) for row in rows) for name in counts} == counts
    assert len({row.name for row in rows}) == len(rows)
    assert len(said) == len(counts) + len(rows)


def test_value_and_baseline_take_turns() -> None:
    """They are measured one after the other, and medians are not moved by one bad stretch."""
    order: list[str] = []
    values, baselines = iter([5.0, 1000.0, 6.0]), iter([1.0, 2.0, 0.001])

    def value() -> float:
        order.append("value")
        return next(values)

    def baseline() -> float:
        order.append("baseline")
        return next(baselines)

    assert paired(Settings(seconds=0.0, pairs=3), value, baseline) == (6.0, 1.0)
    assert order == ["value", "baseline"] * 3


def test_the_table_says_which_promises_are_kept(tmp_path: Path) -> None:
    """A floor below which a figure lies is told, one that is met too, and no peer makes null."""
    rows = [
        Row("fast", 90.0, "x/s", 1.0, Floor("ratio", 60.0)),
        Row("slow", 59.0, "x/s", 1.0, Floor("ratio", 60.0)),
        Row("late", 6.0, "s", None, Floor("value", 5.0, above=False)),
        Row("soon", 4.0, "s", None, Floor("value", 5.0, above=False)),
        Row("free", 4.0, "s"),
    ]
    lines = table(rows).splitlines()
    assert [line.rsplit(" ", 1)[-1] for line in lines[1:]] == ["met", "BELOW", "BELOW", "met", "s"]
    write(tmp_path / "b.json", rows)
    entry = json.loads((tmp_path / "b.json").read_text())[2]
    assert entry == {"name": "late", "value": 6.0, "unit": "s", "baseline": None, "ratio": None}


@pytest.mark.slow
def test_when_answers_became_readable(tmp_path: Path) -> None:
    """At the end of their own transaction, and of each that was begun before them; aborted ones are waited for too."""
    with Broker(tmp_path / "broker") as broker, Trial(broker, tmp_path / "trial") as trial:

        def begun(name: str) -> Producer:
            writer = trial.producer(name)
            writer.init_transactions(60)
            writer.begin_transaction()
            return writer

        def write(writer: Producer) -> None:
            writer.produce(trial.answers, b"x", partition=0)
            writer.flush(60)

        first, second, third, plain = begun("first"), begun("second"), begun("third"), trial.producer()
        write(first)
        write(second)
        second.commit_transaction(60)
        time.sleep(0.1)
        aborting = time.time()
        first.abort_transaction(60)
        eventually(lambda: readable(trial)[1][-1] < math.inf)
        write(plain)
        write(third)
        eventually(lambda: len(readable(trial)[0]) == 4)
        time.sleep(0.1)
        committing = time.time()
        third.commit_transaction(60)
        eventually(lambda: len(readable(trial)[0]) == 4 and readable(trial)[1][-1] < math.inf)
        offsets, times = readable(trial)
    millisecond = 0.001
    assert list(offsets) == [0, 1, 4, 5]
    assert aborting - millisecond < times[0] == times[1] <= times[2]
    assert times[2] < committing - millisecond < times[3] < time.time()
