"""What a plan says of memory is enough: peaks of real daemons, asked the worst that is valid."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from connectors.base import ARROW_STREAM
from oracle.planning.features import Feature
from oracle.planning.model import Limits
from oracle.planning.plan import Plan
from oracle.planning.serving import Serving, least_bytes, most_rows, serving
from tests.predictors.plans import tiny_bisection_plan, tiny_classical_plan, tiny_plan, tiny_stumps_plan
from tests.support.folders import command, environment, make_state, write_config
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import MqttModelUnderTest
from tests.support.shards import arrow_body, first_snapshot
from tests.support.waiting import eventually

_ROUNDS = 10_000_000
_SECONDS = 300.0


def _typed(generator: np.random.Generator, index: int, kinds: Sequence[str]) -> Feature:
    kind, name = str(generator.choice(kinds)), f"f{index}"
    if kind == "string":
        return Feature(name=name, type="string", max_bytes=int(generator.integers(20, 257)))
    if kind == "decimal":
        return Feature(name=name, type="decimal", places=int(generator.integers(0, 4)), bounds=(0.0, 1.0))
    return Feature(name=name, type="date" if kind == "date" else "number", bounds=(0.0, 1.0))


def _features(generator: np.random.Generator, kinds: Sequence[str], most: int) -> list[Feature]:
    """Return features of random types, few or many, whose strings are together within what a model may have."""
    features: list[Feature] = []
    for index in range(int(most ** generator.random()) + 1):
        one = _typed(generator, index, kinds)
        left = 1024 - sum(other.longest for other in features if other.kind == "string")
        features.append(one if one.kind != "string" or one.longest <= left else Feature(name=one.name))
    return features


def _plan(predictor: str, seed: int) -> Plan:
    """Return a plan with random features and limits, and a long life."""
    generator = np.random.default_rng(seed)
    limits = Limits(batch_bytes=int(2 ** generator.uniform(18, 25)), rows=int(2 ** generator.uniform(12, 20)))
    plan = msgspec.structs.replace(_unlimited(predictor, generator), limits=limits)
    state = sum(array.nbytes for array in first_snapshot(plan).arrays.values())
    return msgspec.structs.replace(plan, memory_bytes=2 * state + (1 << 20))  # windows have twice the room; and tables


def _unlimited(predictor: str, generator: np.random.Generator) -> Plan:
    every = ("string", "string", "number", "date", "decimal")
    match predictor:
        case "rectangles":
            return tiny_plan(_features(generator, every, 300), slicing="sequential", points=(30, 30), rounds=_ROUNDS)
        case "stumps":
            return tiny_stumps_plan(_features(generator, every, 900), points=(30, 30), rounds=_ROUNDS)
        case "classical":
            return tiny_classical_plan(_features(generator, every[2:], 500), rounds=_ROUNDS)
        case _:
            count = int(generator.integers(2, 900))
            return tiny_bisection_plan(1_000, _ROUNDS, features=tuple(f"f{index}" for index in range(count)))


def _column(generator: np.random.Generator, feature: Feature, nulls: NDArray[np.bool_]) -> pa.Array:
    """Return values that take as few bytes as they can, and one as long as it may be."""
    rows = len(nulls)
    if feature.kind == "string":
        texts = np.array(["", "a", "b"], dtype=object)[generator.integers(0, 3, rows)]
        texts[0] = "z" * feature.longest
        return pa.array(texts, pa.string(), mask=nulls)
    numbers = generator.integers(0, 2, rows)
    if feature.kind == "date":
        return pa.array(numbers.astype(np.int32), mask=nulls).cast(pa.date32())
    return pa.array(numbers.astype(np.int8), mask=nulls)


def _table(plan: Plan, rows: int, seed: int) -> pa.Table:
    """Return rows of which a few are rejected for a value that is missing, and some are rounds without a query."""
    generator = np.random.default_rng(seed)
    blank = generator.random(rows) < generator.choice([0.0, 0.1])
    columns = {feature.name: _column(generator, feature, blank) for feature in plan.features}
    missing = blank | (generator.random(rows) < 0.01)
    return pa.table({**columns, plan.features[-1].name: _column(generator, plan.features[-1], missing)})


def _largest(plan: Plan) -> int:
    """Return the rows of the largest message that is no longer than its limit."""
    return max(min(most_rows(plan), plan.limits.batch_bytes // (2 * least_bytes(plan))), 1)


def _packed(table: pa.Table) -> bytes:
    """Return a stream as short as it can be: compressed, texts behind dictionaries, of which each batch has its own."""
    columns = [
        pa.chunked_array([chunk.dictionary_encode() for chunk in column.chunks])
        if column.type == pa.string()
        else column
        for column in table.columns
    ]
    coded = pa.table(dict(zip(table.column_names, columns, strict=True)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, coded.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(coded)
    return sink.getvalue().to_pybytes()


class Peaks:
    """The most that a process and its children have ever had in memory, looked at until it has ended."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.of: dict[int, int] = {}

    def look(self) -> bool:
        """Look once; return whether the process has ended."""
        try:
            daemon = psutil.Process(self._process.pid)
            for one in [daemon, *daemon.children(recursive=True)]:
                self.of[one.pid] = _peak(one.pid) or self.of.get(one.pid, 0)  # no maximum: it is ours before its exec
        except psutil.NoSuchProcess:
            pass
        return self._process.poll() is not None

    def assert_within(self, said: Serving) -> None:
        """Compare with what was said."""
        assert list(self.of) == [self._process.pid]
        assert 0 < self.of[self._process.pid] <= said.daemon


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _serve(config: Path, plan: Plan) -> None:
    """Serve a file to its end, and compare the peaks with what the plan says."""
    folder = config.parent
    make_state(folder / "state", plan)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command("serve", config), stdout=log, stderr=log, env=environment())
    peaks = Peaks(process)
    deadline = time.monotonic() + _SECONDS
    try:
        while not peaks.look():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
    assert process.wait() == 0, (folder / "log").read_text()
    peaks.assert_within(serving(plan))


def _line(plan: Plan, generator: np.random.Generator) -> bytes:
    """Return a query as short as one can be, but for its id now and then."""
    empty = {"string": "", "date": "1970-01-01", "decimal": 0, "number": 0}
    identifier = {"id": "\x01" * 200} if generator.random() < 0.2 else {}
    return msgspec.json.encode({**identifier, "x": [empty[feature.kind] for feature in plan.features]})


_CASES = [("rectangles", 1), ("stumps", 3), ("classical", 4), ("bisection", 5)]


@pytest.mark.parametrize(("predictor", "seed"), _CASES)
def test_rows_of_a_table(tmp_path, predictor, seed):
    """The largest messages that there can be, of few bytes a row, from a Parquet file."""
    plan = _plan(predictor, seed)
    rows = _largest(plan)
    pq.write_table(_table(plan, 2 * rows, seed), tmp_path / "q.parquet")
    source = {"kind": "parquet", "path": str(tmp_path / "q.parquet"), "rows_per_message": rows}
    sink = {"kind": "parquet", "path": str(tmp_path / "out.parquet")}
    _serve(write_config(tmp_path, source=source, sink=sink), plan)


@pytest.mark.parametrize(
    ("predictor", "seed"), [("rectangles", 11), ("stumps", 12), ("classical", 13), ("bisection", 14)]
)
def test_lines(tmp_path, predictor, seed):
    """JSON lines as short as they can be, with long ids, rejected ones and rounds without a query among them."""
    plan, generator = _plan(predictor, seed), np.random.default_rng(seed)
    lines = [_line(plan, generator) for _ in range(64)] + [b"null", b"", b"{" * 500]
    count = (8 << 20) // (sum(map(len, lines)) + len(lines) * 8 * plan.width)
    (tmp_path / "q.jsonl").write_bytes(b"".join(line + b"\n" for line in lines) * (count + 1))
    _serve(write_config(tmp_path, service={"batch_rows": 65_536}), plan)


def _wide_strings() -> Plan:
    """Return a plan of one string of the most bytes that one may have, with the limits that are usual."""
    features = [Feature(name="f0", type="string", max_bytes=256)]
    return tiny_stumps_plan(features, points=(30, 30), rounds=_ROUNDS)


@pytest.mark.parametrize("seed", [None, 21])
def test_messages_on_mqtt(tmp_path, seed):
    """Arrow messages of short strings, plain and packed, and JSON, from a real broker; without a seed above 1 GiB."""
    plan = _wide_strings() if seed is None else _plan("rectangles", seed)
    tables = [_table(plan, _largest(plan), number) for number in range(4)]
    bodies = [*map(arrow_body, tables[:2]), *map(_packed, tables[2:])]
    with Mosquitto(tmp_path / "broker", ["max_queued_bytes 0", "max_packet_size 200000000"]) as broker:
        model = MqttModelUnderTest(broker, "m", tmp_path, plan).create()
        asker = model.asker()
        try:
            process = model.serve(model.config(source="message_bytes = 100000000"))
            model.wait_for_event("bus.connected")
            peaks, count = Peaks(process), 24
            for number in range(count):
                asker.ask(model.queries, bodies[number % 4], content_type=ARROW_STREAM)
                asker.ask(model.queries, b"{")
            eventually(lambda: peaks.look() or len(asker.heard) >= 2 * count, _SECONDS, what=lambda: model.log()[-3:])
            assert {heard.content_type for heard in asker.heard} == {ARROW_STREAM, "application/json"}
            peaks.assert_within(serving(plan))
        finally:
            model.end()
