"""Kafka from end to end, on a real broker of this machine: the daemon against echoes, the engine, and more daemons.

A value and all that it is compared with are measured in turns, and the best of each counts: the broker needs cores of
its own, and what else the machine does can only slow them down.
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from connectors.base import ARROW_STREAM, JSON
from oracle.planning.plan import BoxPlan
from oracle.runtime.memory import settle_memory
from tests.benchmarks.engine import alone
from tests.benchmarks.kafka_delay import Delays, delays
from tests.benchmarks.kafka_stage import Daemons, Echo, Played, Service, Stage, play
from tests.benchmarks.pairs import Floor, Measure, Row, Settings
from tests.benchmarks.states import box_plan, queries, query_body
from tests.support.broker import Broker
from tests.support.folders import make_state
from tests.support.sharded import make_sharded_state

__all__ = ["measure_arrow", "measure_delays", "measure_json", "measure_processes"]

_SHARDS: Final = 8
_UNIT: Final = "queries/s"
_ECHOES: Final[Mapping[str, tuple[str, Floor | None]]] = {
    "send": ("an aiokafka echo by send()", Floor("ratio", 1.5)),
    "batches": ("an aiokafka echo by batch builders", Floor("ratio", 0.8)),
    "confluent": ("confluent-kafka's plain echo", None),
}


class _Theatre:
    """A broker's stages, and the model that plays on them.

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
        self.plan: BoxPlan = box_plan(settings.narrow, settings.epsilon)
        self.state = folder / "state"
        if shards == 1:
            make_state(self.state, self.plan)
        else:
            make_sharded_state(self.state, self.plan, shards)

    def stage(self, content_type: str = JSON, partitions: int = 1) -> Stage:
        """Return a fresh stage."""
        return Stage(self._broker, self._folder / f"run-{next(self._numbers)}", partitions, content_type)


def _best(settings: Settings, runs: Mapping[str, Callable[[], Played]]) -> dict[str, Played]:
    """Play all in turns, and return the best of each."""
    started, played = time.perf_counter(), {name: [run()] for name, run in runs.items()}
    while len(played[next(iter(runs))]) < settings.kafka_pairs or time.perf_counter() - started < settings.seconds:
        for name, run in runs.items():
            played[name].append(run())
    return {
        name: Played(max(one.rate for one in all_), min(one.busy for one in all_), []) for name, all_ in played.items()
    }


def _json_bodies(settings: Settings, count: int, seed: int = 4) -> list[bytes]:
    """Return queries of the form {"id":"q17","x":[0.31,0.62]}."""
    rows = queries(count, settings.narrow, seed).round(2).tolist()
    return [b'{"id":"q%d","x":%b}' % (number, msgspec.json.encode(row)) for number, row in enumerate(rows)]


def measure_json(settings: Settings) -> Iterator[Row]:
    """Measure one JSON query a record against echoes of as many records in transactions of the same size."""
    with tempfile.TemporaryDirectory() as folder:
        theatre, bodies = _Theatre(settings, Path(folder)), [_json_bodies(settings, settings.kafka_records)]
        services: dict[str, Service] = {"daemon": Daemons(theatre.state), **{kind: Echo(kind) for kind in _ECHOES}}
        runs = {name: _run(theatre, service, bodies) for name, service in services.items()}
        best = _best(settings, runs)
    daemon = best.pop("daemon")
    for kind, echo in best.items():
        peer, floor = _ECHOES[kind]
        yield Row(f"kafka-json, against {peer}", daemon.rate, _UNIT, echo.rate, floor)
    for kind, echo in best.items():
        name = f"kafka-json, CPU of a query, against {_ECHOES[kind][0]}"
        yield Row(name, daemon.busy * 1e6, "µs", echo.busy * 1e6)


def _run(theatre: _Theatre, service: Service, bodies: Sequence[Sequence[bytes]]) -> Callable[[], Played]:
    return lambda: play(theatre.stage(), service, bodies)


def measure_arrow(settings: Settings) -> Iterator[Row]:
    """Measure Arrow messages of 1,000 rows against the engine alone, and against one JSON query a record."""
    with tempfile.TemporaryDirectory() as folder:
        theatre, rows = _Theatre(settings, Path(folder)), settings.kafka_rows
        count = settings.kafka_messages
        features = queries(rows * count, settings.narrow, seed=4)
        bodies = [[query_body(features[start : start + rows]) for start in range(0, rows * count, rows)]]
        engine = alone(theatre.plan, rows * count)
        with ProcessPoolExecutor(1, get_context("spawn"), settle_memory) as aside:

            def arrow() -> Played:
                played = play(theatre.stage(ARROW_STREAM), Daemons(theatre.state), bodies)
                return Played(rows * played.rate, played.busy / rows, [])

            json = _json_bodies(settings, settings.kafka_records)
            best = _best(
                settings,
                {
                    "arrow": arrow,
                    "json": lambda: play(theatre.stage(), Daemons(theatre.state), [json]),
                    "engine": lambda: Played(engine(), 0.0, []),
                    "settled": lambda: Played(aside.submit(_alone, theatre.plan, rows * count).result(), 0.0, []),
                },
            )
    arrow_rate, unit, what = best["arrow"].rate, "rows/s", f"kafka-arrow, messages of {rows:,} rows, against"
    yield Row(f"{what} the engine alone", arrow_rate, unit, best["engine"].rate, Floor("ratio", 0.4))
    yield Row(f"{what} the engine alone, memory as the daemon keeps it", arrow_rate, unit, best["settled"].rate)
    yield Row(f"{what} one JSON query a record", arrow_rate, unit, best["json"].rate)


def _alone(plan: BoxPlan, rows: int) -> float:
    engine: Measure = alone(plan, rows)
    return engine()


def measure_delays(settings: Settings) -> Iterator[Row]:
    """Measure from produce to readable committed answer, at half the rate that the daemon was seen to keep up with."""
    with tempfile.TemporaryDirectory() as folder:
        theatre = _Theatre(settings, Path(folder))
        bodies = _json_bodies(settings, settings.kafka_records)
        daemons, echo = Daemons(theatre.state), Echo("batches")
        rate = max(play(theatre.stage(), daemons, [bodies]).rate for _ in range(settings.pairs)) / 2
        bodies = _json_bodies(settings, int(rate * settings.kafka_seconds))
        found: dict[str, list[Delays]] = {"daemon": [], "echo": []}
        for _ in range(settings.pairs):
            for name, service in (("daemon", daemons), ("echo", echo)):
                found[name].append(delays(theatre.stage(), service, bodies, rate))
    name = f"kafka-delay, at {rate:,.0f} queries/s, against the echo by batch builders"
    for share in ("p50", "p99"):
        value, baseline = (min(getattr(one, share) for one in found[kind]) for kind in ("daemon", "echo"))
        yield Row(f"{name}, {share}", value * 1000, "ms", baseline * 1000)


def measure_processes(settings: Settings) -> Iterator[Row]:
    """Measure one, two and four processes over eight partitions; their answers must be those of one process.

    Raises:
        AssertionError: They are not.
    """
    with tempfile.TemporaryDirectory() as folder:
        theatre = _Theatre(settings, Path(folder), _SHARDS)
        bodies = [_json_bodies(settings, 2 * settings.kafka_records // _SHARDS, seed) for seed in range(_SHARDS)]
        rates: dict[int, float] = {}
        answers: list[list[bytes]] | None = None
        for _ in range(settings.pairs):
            for processes in settings.kafka_processes:
                service = Daemons(theatre.state, processes)
                played = play(theatre.stage(partitions=_SHARDS), service, bodies, keep=True)
                answers = answers or played.answers
                assert played.answers == answers, f"{processes} processes gave other answers than one"
                rates[processes] = max(rates.get(processes, 0.0), played.rate)
    one = rates[1]
    for processes, rate in rates.items():
        yield Row(f"kafka-processes, {processes} over {_SHARDS} partitions, against one process", rate, _UNIT, one)
