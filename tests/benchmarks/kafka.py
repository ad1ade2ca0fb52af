"""Kafka from end to end, on a real broker of this machine: the daemon against echoes, the engine, and more daemons.

A value and all that it is compared with are measured in turns, and the best of each counts: the broker needs cores of
its own, and what else the machine does can only slow them down. Of delays it is the median.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from connectors.base import ARROW_STREAM, JSON
from tests.benchmarks.engine import alone
from tests.benchmarks.kafka_delay import Delays, delays
from tests.benchmarks.kafka_trial import Daemons, Echo, Service, Throughput, Trial, measure_throughput
from tests.benchmarks.pairs import Floor, Row, Settings
from tests.benchmarks.states import box_plan, queries, query_body
from tests.support.broker import Broker
from tests.support.folders import make_state
from tests.support.sharded import make_sharded_state

_SHARDS: Final = 8
_UNIT: Final = "queries/s"
_ECHOES: Final[Mapping[str, tuple[str, Floor | None]]] = {
    "send": ("an aiokafka echo by send()", Floor("ratio", 1.5)),
    "batches": ("an aiokafka echo by batch builders", Floor("ratio", 0.8)),
    "confluent": ("confluent-kafka's plain echo", None),
}


class Trials:
    """A broker's trials, and the model that answers.

    Args:
        settings: How much to measure, and the broker's folder.
        folder: An empty one.
        shards: Of the model.
    """

    def __init__(self, settings: Settings, folder: Path, shards: int = 1) -> None:
        assert settings.broker is not None
        self._broker = Broker(settings.broker)
        self._folder = folder
        self._numbers = itertools.count()
        self.plan = box_plan(settings.narrow, settings.epsilon)
        self.state = folder / "state"
        if shards == 1:
            make_state(self.state, self.plan)
        else:
            make_sharded_state(self.state, self.plan, shards)

    def trial(self, content_type: str = JSON, partitions: int = 1) -> Trial:
        """Return a fresh trial."""
        return Trial(self._broker, self._folder / f"run-{next(self._numbers)}", partitions, content_type)

    def run(self, service: Service, bodies: Sequence[Sequence[bytes]]) -> Callable[[], Throughput]:
        """Return what measures a service's throughput on a fresh trial."""
        return lambda: measure_throughput(self.trial(), service, bodies)


def fastest(settings: Settings, runs: Mapping[str, Callable[[], Throughput]]) -> dict[str, Throughput]:
    """Measure all in turns, and return the best of each."""
    started, found = time.perf_counter(), {name: [run()] for name, run in runs.items()}
    while len(found[next(iter(runs))]) < settings.kafka_pairs or time.perf_counter() - started < settings.seconds:
        for name, run in runs.items():
            found[name].append(run())
    return {
        name: Throughput(max(one.rate for one in all_), min(one.busy for one in all_), [])
        for name, all_ in found.items()
    }


def json_bodies(settings: Settings, count: int, seed: int = 4) -> list[bytes]:
    """Return queries of the form {"id":"q17","x":[0.31,0.62]}."""
    rows = queries(count, settings.narrow, seed).round(2).tolist()
    return [b'{"id":"q%d","x":%b}' % (number, msgspec.json.encode(row)) for number, row in enumerate(rows)]


def measure_json(settings: Settings) -> Iterator[Row]:
    """Measure one JSON query a record against echoes of as many records in transactions of the same size."""
    with tempfile.TemporaryDirectory() as folder:
        trials, bodies = Trials(settings, Path(folder)), [json_bodies(settings, settings.kafka_records)]
        services: dict[str, Service] = {"daemon": Daemons(trials.state), **{kind: Echo(kind) for kind in _ECHOES}}
        runs = {name: trials.run(service, bodies) for name, service in services.items()}
        best = fastest(settings, runs)
    daemon = best.pop("daemon")
    for kind, echo in best.items():
        peer, floor = _ECHOES[kind]
        yield Row(f"kafka-json, against {peer}", daemon.rate, _UNIT, echo.rate, floor)
    for kind, echo in best.items():
        name = f"kafka-json, CPU of a query, against {_ECHOES[kind][0]}"
        yield Row(name, daemon.busy * 1e6, "µs", echo.busy * 1e6)


def measure_arrow(settings: Settings) -> Iterator[Row]:
    """Measure Arrow messages of 1,000 rows against the engine alone, and against one JSON query a record."""
    with tempfile.TemporaryDirectory() as folder:
        trials, rows = Trials(settings, Path(folder)), settings.kafka_rows
        count = settings.kafka_messages
        features = queries(rows * count, settings.narrow, seed=4)
        bodies = [[query_body(features[start : start + rows]) for start in range(0, rows * count, rows)]]
        engine = alone(trials.plan, rows * count)

        def arrow() -> Throughput:
            found = measure_throughput(trials.trial(ARROW_STREAM), Daemons(trials.state), bodies)
            return Throughput(rows * found.rate, found.busy / rows, [])

        json = json_bodies(settings, settings.kafka_records)
        best = fastest(
            settings,
            {
                "arrow": arrow,
                "json": lambda: measure_throughput(trials.trial(), Daemons(trials.state), [json]),
                "engine": lambda: Throughput(engine(), 0.0, []),
            },
        )
    arrow_rate, unit, what = best["arrow"].rate, "rows/s", f"kafka-arrow, messages of {rows:,} rows, against"
    yield Row(f"{what} the engine alone", arrow_rate, unit, best["engine"].rate, Floor("ratio", 0.4))
    yield Row(f"{what} one JSON query a record", arrow_rate, unit, best["json"].rate)


def measure_delays(settings: Settings) -> Iterator[Row]:
    """Measure from produce to readable committed answer, at half the rate that the daemon was seen to keep up with.

    The daemon and the echo are measured in turns, and the medians count, but for a first turn. A delay at an even rate
    is noisy both ways, unlike a throughput, so that the least of some would be the luckiest one.
    """
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(settings, Path(folder))
        bodies = json_bodies(settings, settings.kafka_records)
        daemons, echo = Daemons(trials.state), Echo("batches")
        rate = max(measure_throughput(trials.trial(), daemons, [bodies]).rate for _ in range(settings.pairs)) / 2
        bodies = json_bodies(settings, int(rate * settings.kafka_seconds))
        found: dict[str, list[Delays]] = {"daemon": [], "echo": []}
        for _ in range(1 + settings.kafka_turns):
            for name, service in (("daemon", daemons), ("echo", echo)):
                found[name].append(delays(trials.trial(), service, bodies, rate))
    name = f"kafka-delay, at {rate:,.0f} queries/s, against the echo by batch builders"
    for share in ("p50", "p99"):
        value, baseline = (
            statistics.median(getattr(one, share) for one in found[kind][1:]) for kind in ("daemon", "echo")
        )
        yield Row(f"{name}, {share}", value * 1000, "ms", baseline * 1000, Floor("ratio", 1.3, above=False))


def measure_processes(settings: Settings) -> Iterator[Row]:
    """Measure one, two and four processes over eight partitions; their answers must be those of one process.

    Raises:
        AssertionError: They are not.
    """
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(settings, Path(folder), _SHARDS)
        bodies = [json_bodies(settings, 2 * settings.kafka_records // _SHARDS, seed) for seed in range(_SHARDS)]
        rates: dict[int, float] = {}
        answers: list[list[bytes]] | None = None
        for _ in range(settings.pairs):
            for processes in settings.kafka_processes:
                service = Daemons(trials.state, processes)
                found = measure_throughput(trials.trial(partitions=_SHARDS), service, bodies, keep=True)
                answers = answers or found.answers
                assert found.answers == answers, f"{processes} processes gave other answers than one"
                rates[processes] = max(rates.get(processes, 0.0), found.rate)
    one = rates[1]
    for processes, rate in rates.items():
        yield Row(f"kafka-processes, {processes} over {_SHARDS} partitions, against one process", rate, _UNIT, one)
