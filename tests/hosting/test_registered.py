"""A message is handed over when its schema is known or known to be unknown, and stays what it was."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.base import AVRO, JSON, REGISTERED, UNKNOWN_SCHEMA, Deliveries, Delivery
from connectors.registry.client import RegisteredSchema
from oracle.codec.registered.writers import Writers
from oracle.errors import BusError, LogDivergedError
from oracle.hosting import registered
from oracle.hosting.registered import RegisteredSource, SchemaRegistry
from oracle.state.schema_log import KeptSchema, SchemaLog
from tests.support.shards import small_plan

_SCHEMA = RegisteredSchema('{"type":"record","name":"Q","fields":[]}')


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again at once."""
    monkeypatch.setattr(registered, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(registered, "_UNKNOWN_SECONDS", 0.0)


class _Partition:
    """A partition whose log is a list of deliveries; `committed` of them were answered."""

    exhausted = False

    def __init__(self, log: list[Delivery], committed: int = 0) -> None:
        self._log = log
        self._next = 0
        self.progress = SimpleNamespace(expected=(committed, 0) if committed else None)

    async def open(self, position: int | None) -> None:
        self._next = position or 0

    async def fetch(self, limit: int, wait: float) -> Deliveries:  # noqa: ARG002 -- as of a source
        found = self._log[self._next : self._next + limit]
        self._next += len(found)
        return Deliveries.of(found) if found else Deliveries()

    def lag(self) -> None:
        return None

    async def close(self) -> None:
        pass


@dataclass
class _Client:
    """A registry that has some schemas, and may be away."""

    known: dict[int, RegisteredSchema] = field(default_factory=dict)
    away: bool = False
    asked: list[int] = field(default_factory=list)
    hanging: asyncio.Event | None = None

    async def schemas(self, numbers: list[int], known: int | None) -> dict[int, RegisteredSchema]:
        assert known is None or known in self.known
        if self.hanging is not None:
            await self.hanging.wait()
        if self.away:
            raise BusError("kafka.registry: away")
        self.asked += numbers
        return {number: self.known[number] for number in numbers if number in self.known}


def _log(*schemas: int) -> list[Delivery]:
    return [Delivery(at, struct.pack(">BI", 0, number), AVRO) for at, number in enumerate(schemas, 1)]


def _source(
    log: list[Delivery],
    client: _Client,
    folder: Path,
    committed: int = 0,
    saved: Callable[[], int] | None = lambda: 0,
) -> RegisteredSource:
    partition: Any = _Partition(log, committed)
    registry: Any = client
    writers, kept = Writers(small_plan(), AVRO), SchemaLog(folder / "s.jsonl")
    return RegisteredSource(partition, registry, writers, kept, saved)


async def _kinds(source: RegisteredSource, position: int = 0, limit: int = 100) -> list[str]:
    await source.open(position)
    found: list[str] = []
    while some := await source.fetch(limit, 0.0):
        found += some.content_types
    return found


async def test_an_unknown_schema_stays_unknown_to_its_message_only(tmp_path: Path) -> None:
    """When the registry has it later, messages that come later are queries; the earlier one is none for ever."""
    client = _Client({1: _SCHEMA})
    assert await _kinds(_source(_log(1, 9, 1), client, tmp_path)) == [REGISTERED, UNKNOWN_SCHEMA, REGISTERED]
    client.known[9] = _SCHEMA
    assert await _kinds(_source(_log(1, 9, 1, 9), client, tmp_path)) == [
        REGISTERED,
        UNKNOWN_SCHEMA,
        REGISTERED,
        REGISTERED,
    ]
    assert await _kinds(_source(_log(1, 9, 1, 9), client, tmp_path, 4)) == [
        REGISTERED,
        UNKNOWN_SCHEMA,
        REGISTERED,
        REGISTERED,
    ]


async def test_a_log_is_read_again_without_the_registry(tmp_path: Path) -> None:
    """What ids mean, and what was unknown, is kept."""
    assert await _kinds(_source(_log(1, 9), _Client({1: _SCHEMA}), tmp_path)) == [REGISTERED, UNKNOWN_SCHEMA]
    assert await _kinds(_source(_log(1, 9), _Client(away=True), tmp_path, 2)) == [REGISTERED, UNKNOWN_SCHEMA]


async def test_while_the_registry_is_away_nothing_is_lost(tmp_path: Path) -> None:
    """Neither by its error nor by a fetch that is cancelled: the next one returns the same messages."""
    client = _Client({1: _SCHEMA}, away=True)
    source = _source(_log(1, 9), client, tmp_path)
    await source.open(0)
    with pytest.raises(BusError):
        await source.fetch(10, 0.0)
    client.away, client.hanging = False, asyncio.Event()
    waiting = asyncio.create_task(source.fetch(10, 0.0))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    client.hanging.set()
    assert list((await source.fetch(1, 0.0)).positions) == [1]
    assert not source.exhausted
    found = await source.fetch(10, 0.0)
    assert (list(found.positions), list(found.content_types)) == ([2], [UNKNOWN_SCHEMA])


async def test_many_ids_are_asked_for_in_parts(tmp_path: Path) -> None:
    """So an asker who invents them keeps nobody's answers waiting for long; each is asked for twice at most."""
    client = _Client(dict.fromkeys(range(0, 200, 2), _SCHEMA))
    source = _source(_log(*range(200)), client, tmp_path)
    await source.open(0)
    first = await source.fetch(1000, 0.0)
    assert 0 < len(first) <= 64
    kinds = [*first.content_types]
    while some := await source.fetch(1000, 0.0):
        kinds += some.content_types
    assert kinds == [REGISTERED, UNKNOWN_SCHEMA] * 100
    assert max(map(client.asked.count, client.asked)) == 2


async def test_what_else_clients_call_avro_is_avro_and_others_are_left_alone(tmp_path: Path) -> None:
    """Tombstones and bodies without an id have no schema to ask for."""
    body = struct.pack(">BI", 0, 1)
    kinds = ["application/vnd.apache.avro", JSON, AVRO, AVRO, "text/plain"]
    bodies = [body, body, None, b"\1\0\0\0\1", body]
    log = [Delivery(at, one, kind) for at, (one, kind) in enumerate(zip(bodies, kinds, strict=True), 1)]
    client = _Client({1: _SCHEMA})
    assert await _kinds(_source(log, client, tmp_path)) == [REGISTERED, JSON, REGISTERED, REGISTERED, "text/plain"]
    assert client.asked == [1]


async def test_a_registry_that_has_lost_what_was_answered_is_waited_for(tmp_path: Path) -> None:
    """A log that seems to have diverged may not have; nothing about the messages is kept."""
    source = _source(_log(1, 9), _Client({1: _SCHEMA}), tmp_path, 2)
    assert await _kinds(source) == [REGISTERED, UNKNOWN_SCHEMA]
    await source.close()  # as the daemon does first
    with pytest.raises(BusError, match="ids 9"), source.explained():
        raise LogDivergedError("log diverged")
    assert SchemaLog(tmp_path / "s.jsonl").open(0)[1] == frozenset()
    source = _source(_log(1, 9), _Client({1: _SCHEMA, 9: _SCHEMA}), tmp_path, 2)
    assert await _kinds(source) == [REGISTERED, REGISTERED]
    with pytest.raises(LogDivergedError), source.explained():
        raise LogDivergedError("log diverged")


async def test_a_look_keeps_nothing(tmp_path: Path) -> None:
    """As `perpetua check` has it."""
    client = _Client({1: _SCHEMA})
    assert await _kinds(_source(_log(1, 9), client, tmp_path, saved=None)) == [REGISTERED, UNKNOWN_SCHEMA]
    assert SchemaLog(tmp_path / "s.jsonl").open(0) == ([], frozenset())


async def test_what_may_be_read_again_is_kept_by_one_that_opens_behind_it(tmp_path: Path) -> None:
    """As a standby does, which takes over in front of the newest snapshot: a later start is behind it again."""
    client = _Client({1: _SCHEMA})
    assert await _kinds(_source(_log(1, 9, 1), client, tmp_path)) == [REGISTERED, UNKNOWN_SCHEMA, REGISTERED]
    client.known[9] = _SCHEMA
    assert await _kinds(_source(_log(1, 9, 1), client, tmp_path, 3, lambda: 1), 3) == []
    assert await _kinds(_source(_log(1, 9, 1), client, tmp_path, 3, lambda: 1), 1) == [UNKNOWN_SCHEMA, REGISTERED]
    assert await _kinds(_source(_log(1, 9, 1), client, tmp_path, 3, lambda: 2), 2) == [REGISTERED]
    assert SchemaLog(tmp_path / "s.jsonl").open(0)[1] == frozenset()


async def test_a_look_says_what_it_had_to_ask_for(tmp_path: Path) -> None:
    """What is in the file is certain; of all else, known or not, the registry may have said something else before."""
    assert await _kinds(_source(_log(1, 9), _Client({1: _SCHEMA}), tmp_path)) == [REGISTERED, UNKNOWN_SCHEMA]
    source = _source(_log(1, 9), _Client(), tmp_path, saved=None)
    await _kinds(source)
    assert not source.doubt
    source = _source(_log(1, 9, 3, 4), _Client({1: _SCHEMA, 3: _SCHEMA}), tmp_path, saved=None)
    assert await _kinds(source) == [REGISTERED, UNKNOWN_SCHEMA, REGISTERED, UNKNOWN_SCHEMA]
    assert "ids 3, 4," in source.doubt


async def test_another_log_at_the_same_positions_is_read_for_itself(tmp_path: Path) -> None:
    """As a fork reads: which messages were unknown is of the log that was served, and what ids mean of both."""
    assert await _kinds(_source(_log(1, 9), _Client({1: _SCHEMA}), tmp_path)) == [REGISTERED, UNKNOWN_SCHEMA]
    partition: Any = _Partition(_log(1, 1))
    registry: Any = _Client()
    log = SchemaLog(tmp_path / "s.jsonl")
    source = RegisteredSource(partition, registry, Writers(small_plan(), AVRO), log, None, recalls=False)
    assert await _kinds(source) == [REGISTERED, REGISTERED]


def test_a_shard_has_the_schemas_of_its_own_file(tmp_path: Path) -> None:
    """A registry that was set back may give an id twice: then it means to each shard what its messages meant."""
    registry: Any = _Client()
    schemas = SchemaRegistry(small_plan(), registry, AVRO, "{}", "s", new=True, file="f.jsonl")
    source: Any = _Partition([])
    (tmp_path / "a").mkdir()
    SchemaLog(tmp_path / "a" / "f.jsonl").keep([KeptSchema(1, "AVRO", _SCHEMA.schema)], [])
    asyncio.run(schemas.source(source, tmp_path / "a", keeps=False).open(0))
    assert 1 in schemas.writers[tmp_path / "a"]
    schemas.codec(tmp_path / "b", 1)
    assert 1 not in schemas.writers[tmp_path / "b"]
