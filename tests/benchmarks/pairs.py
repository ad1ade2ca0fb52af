"""Paired timing: a value and its baseline in turns, so that what else the machine does meets both alike."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Measure = Callable[[], float]
"""Does a stretch of work and returns its rate (units a second), or its seconds."""


@dataclass(frozen=True)
class Settings:
    """How much to measure.

    Attributes:
        seconds: For each value and its baseline together.
        pairs: Least number of times that each is measured, however long that takes.
        batches: Batches of 16,384 rows that the engine answers at a stretch.
        parquet_rows: Rows of the Parquet file.
        jsonl_rows: Lines of the JSONL file.
        learned_rows: Examples that a learner of the large model takes in, or more if its plan wants more.
        narrow: Features of the small model, each with two sides.
        wide: Features of the large model, each with two sides.
        directions: Features, and directions, of what bisection learns.
        teachers: Teachers of an ensemble.
        questions: Questions about a table that are answered at a stretch.
        epsilon: Of all models.
        kafka_pairs: The same over Kafka, whose broker becomes faster for about a minute.
        kafka_turns: Measurements of each delay, of which the median counts, behind one that does not.
        kafka_records: Records with one query each.
        kafka_messages: Arrow messages.
        kafka_rows: Rows of each.
        kafka_seconds: How long queries are sent at half the maximal rate.
        kafka_slow_records: Records for a peer that is slow.
        kafka_models: How many models one process serves.
        kafka_models_rate: Queries a second over all of them, for `kafka_seconds`.
        kafka_peer_rate: Queries a second that all peers are to answer, for `kafka_seconds`.
        kafka_session: Seconds after which a group takes a member for dead that is silent.
        kafka_processes: Numbers of processes to measure, the first of them 1.
        mqtt_queries: Messages with one query each, over MQTT.
        mqtt_seconds: How long they are sent at half the maximal rate.
        broker: Folder of a running broker; set for the topics that want one.
    """

    seconds: float = 4.0
    pairs: int = 3
    batches: int = 32
    parquet_rows: int = 1 << 22
    jsonl_rows: int = 1 << 19
    learned_rows: int = 1_000_000
    narrow: int = 2
    wide: int = 20
    directions: int = 10
    teachers: int = 1_000
    questions: int = 16_384
    epsilon: float = 4.0
    kafka_pairs: int = 6
    kafka_turns: int = 9
    kafka_records: int = 400_000
    kafka_messages: int = 8_000
    kafka_rows: int = 1_000
    kafka_seconds: float = 6.0
    kafka_slow_records: int = 40_000
    kafka_models: int = 50
    kafka_models_rate: int = 2_000
    kafka_peer_rate: int = 20_000
    kafka_session: float = 10.0
    kafka_processes: tuple[int, ...] = (1, 2, 4)
    mqtt_queries: int = 6_000
    mqtt_seconds: float = 4.0
    broker: Path | None = None


@dataclass(frozen=True)
class Floor:
    """What is promised.

    Attributes:
        field: What is bounded: the value, or its ratio to the baseline.
        bound: The bound.
        above: True where more is better.
    """

    field: Literal["value", "ratio"]
    bound: float
    above: bool = True

    def met(self, value: float, ratio: float | None) -> bool:
        """Tell whether a measurement keeps the promise."""
        figure = value if self.field == "value" else ratio
        return figure is not None and (figure >= self.bound if self.above else figure <= self.bound)


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        name: What was measured, and against what.
        value: The median.
        unit: Unit of value and baseline.
        baseline: The median of the baseline, measured in turns with the value; None where there is no peer.
        floor: What is promised, if anything is.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    floor: Floor | None = None

    @property
    def ratio(self) -> float | None:
        """Value over baseline; None where there is no peer, or it took too little to be measured."""
        return self.value / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the floor is kept; None where there is none."""
        return None if self.floor is None else self.floor.met(self.value, self.ratio)


def paired(settings: Settings, value: Measure, baseline: Measure) -> tuple[float, float]:
    """Measure value, baseline, value, baseline, ... and return the medians.

    Args:
        settings: How long to go on, and how often at least.
        value: The one.
        baseline: The other.
    """
    started = time.perf_counter()
    values: list[float] = []
    baselines: list[float] = []
    while len(values) < settings.pairs or time.perf_counter() - started < settings.seconds:
        values.append(value())
        baselines.append(baseline())
    return statistics.median(values), statistics.median(baselines)


def cpu_rate(units: int, work: Callable[[], object]) -> Measure:
    """Return a measure of work that computes only: units for each CPU second of this process, all threads counted."""
    return _rate(units, work, time.process_time)


def wall_rate(units: int, work: Callable[[], object]) -> Measure:
    """Return a measure of work that also waits for the disk: units for each second on the clock."""
    return _rate(units, work, time.perf_counter)


def _rate(units: int, work: Callable[[], object], clock: Callable[[], float]) -> Measure:
    work()  # caches, tables and imports are warm from the start

    def measure() -> float:
        started = clock()
        work()
        return units / (clock() - started)

    return measure
