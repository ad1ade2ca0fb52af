"""Perpetua beside the stream processors that people would take instead: the same broker, and the same messages.

Each peer parses a JSON query, decides by a linear rule and writes an answer as large as Perpetua's. Kafka Streams, Quix
Streams and Faust do so exactly once, Bytewax at least once. None of them protects anything: this is what they are for,
and the least that a daemon of one's own would cost with them. `make peers` installs them, in `build/peers`.
"""

import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tests.benchmarks.kafka import Trials, fastest, json_bodies
from tests.benchmarks.kafka_delay import delays
from tests.benchmarks.kafka_trial import Daemons, Service, Trial
from tests.benchmarks.pairs import Floor, Row, Settings

_HERE: Final = Path(__file__).with_name("peers")
_BUILT: Final = Path(__file__).resolve().parents[2] / "build" / "peers"
_PYTHON: Final = str(_BUILT / "venv" / "bin" / "python")

_PEERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "streams": ("Kafka Streams", ("java", "-cp", f"{_BUILT}/java/classes:{_BUILT}/java/jars/*", "LinearRule")),
    "quix": ("Quix Streams", (_PYTHON, "quix.py")),
    "bytewax": ("Bytewax", (_PYTHON, "-m", "bytewax.run", "waxed:flow")),
    "faust": ("Faust", (_PYTHON, "fausted.py", "worker", "-l", "error")),
}
_Figure = TypeVar("_Figure")
_AT_MOST: Final = Floor("ratio", 1.0, above=False)
_FAST: Final = {"daemon", "streams"}
"""What gets as many records as the daemon; the others would take minutes for them."""


@dataclass(frozen=True)
class Peer(Service):
    """One of the peers, in a process of its own.

    Attributes:
        kind: Which.
        session: Seconds after which its group takes it for dead if it is silent.
    """

    kind: str
    session: float

    def commands(self, trial: Trial) -> list[list[str]]:
        """See `Service.commands`."""
        told = {
            "SERVERS": trial.broker.servers,
            "QUERIES": trial.queries,
            "ANSWERS": trial.answers,
            "GROUP": trial.name,
            "FOLDER": str(trial.folder / "state"),
            "SESSION_MS": str(int(1000 * self.session)),
        }
        variables = [f"{name}={value}" for name, value in told.items()]
        return [["env", "-C", str(_HERE), *variables, *_PEERS[self.kind][1]]]


def measure(settings: Settings) -> Iterator[Row]:
    """Measure throughput, CPU time of a query, delays at an even rate, and restarts, each beside every peer."""
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(settings, Path(folder))
        services: dict[str, Service] = {kind: Peer(kind, settings.kafka_session) for kind in _PEERS}
        services["daemon"] = Daemons(trials.state, session=settings.kafka_session)
        yield from _throughput(settings, trials, services)
        yield from _delays(settings, trials, services)
        for how, name in ((signal.SIGTERM, "stopped"), (signal.SIGKILL, "killed")):
            taken = _in_turns(settings, services, partial(_restart, trials, how))
            yield from _rows(f"answers again, {name}", "s", {kind: min(all_) for kind, all_ in taken.items()}, _AT_MOST)


def _throughput(settings: Settings, trials: Trials, services: Mapping[str, Service]) -> Iterator[Row]:
    fast, slow = (json_bodies(settings, count) for count in (settings.kafka_records, settings.kafka_slow_records))
    loads = {kind: fast if kind in _FAST else slow for kind in services}
    found = fastest(settings, {kind: trials.run(one, [loads[kind]]) for kind, one in services.items()})
    rates = {kind: one.rate for kind, one in found.items()}
    yield from _rows("throughput", "queries/s", rates, Floor("ratio", 1.8))
    busy = {kind: one.busy * 1e6 for kind, one in found.items()}
    yield from _rows("CPU of a query", "µs", busy, Floor("ratio", 0.4, above=False))


def _delays(settings: Settings, trials: Trials, services: Mapping[str, Service]) -> Iterator[Row]:
    rate = settings.kafka_peer_rate
    bodies = json_bodies(settings, int(rate * settings.kafka_seconds))
    taken = _in_turns(settings, services, lambda one: delays(trials.trial(), one, bodies, rate))
    for share, floor in (("p50", None), ("p99", Floor("ratio", 1.2, above=False))):
        middle = {kind: statistics.median(getattr(one, share) for one in all_) for kind, all_ in taken.items()}
        in_ms = {kind: 1000 * seconds for kind, seconds in middle.items()}
        yield from _rows(f"delay at {rate:,} queries/s, {share}", "ms", in_ms, floor)


def _in_turns(
    settings: Settings, services: Mapping[str, Service], measured: Callable[[Service], _Figure]
) -> dict[str, list[_Figure]]:
    taken: dict[str, list[_Figure]] = {kind: [] for kind in services}
    for _ in range(settings.pairs):
        for kind, service in services.items():
            taken[kind].append(measured(service))
    return taken


def _rows(what: str, unit: str, values: Mapping[str, float], floor: Floor | None) -> Iterator[Row]:
    for kind, (peer, _) in _PEERS.items():
        promised = floor if kind == "streams" else None
        yield Row(f"kafka-peers, {what}, against {peer}", values["daemon"], unit, values[kind], promised)


def _restart(trials: Trials, how: signal.Signals, service: Service) -> float:
    """Return the seconds from a new start to the next answer, after a service that had answered ended so."""
    body = b'{"id":"q1","x":[0.31,0.62]}'
    with trials.trial() as trial:
        with service.running(trial) as processes:
            trial.send(trial.producer(), [body], 0)
            trial.wait(1, processes)
            for process in processes:
                process.send_signal(how)
                process.wait()
        trial.send(trial.producer(), [body], 0)
        started = time.perf_counter()
        with service.running(trial) as processes:
            trial.wait(2, processes)
            return time.perf_counter() - started
