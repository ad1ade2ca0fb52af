"""Fuzzing what reads files: snapshots, genesis, commit record, key, plan, model file, configuration; Kafka's records.

Whatever the bytes are, a reader gives what was written, or one of Perpetua's own errors.
"""

import dataclasses
import hashlib
import random
import struct
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import KafkaError

from connectors.kafka.record_batches import FetchedBatches
from connectors.local.commitfile import CommitRecord, DurableCommitFile
from oracle.cli.models import read_model
from oracle.codec.batches import BatchCodec
from oracle.config.daemon import load_config
from oracle.errors import (
    NewerVersionError,
    RefusedError,
    SourceError,
    StateError,
    StorageError,
    WrongKeyError,
)
from oracle.planning.kinds import decode_plan
from oracle.state.blobs import decode_payload, encode_payload
from oracle.state.format import decode, encode, peek
from oracle.state.genesis import Genesis, read_genesis, write_genesis
from oracle.state.header import Origin
from oracle.state.keys import read_key_file
from oracle.state.shard_id import ShardId
from oracle.state.store import check_plan
from tests.predictors.plans import feature, tiny_plan
from tests.storms.fuzz.mutate import mutated
from tests.storms.fuzz.packets import try_packet
from tests.storms.fuzz.verdicts import BrokenPromiseError
from tests.support.kafka_records import batch, record, sealed, varint
from tests.support.shards import MASTER_KEY, first_snapshot, small_plan

RUN = 1_000
"""Tries of one run."""

_MODEL: Final = b"""[model]
name = "vfr"
predictor = "rectangles"
profile = "tight"
epsilon = 1.0
delta = 1e-3
alpha = 0.1
gamma = 0.5
examples = 250000
trim = 3
slicing = "faces"

[model.limits]
rows = 100

[[model.features]]
name = "visib"
sides = "lower"
bounds = [0.0, 10.0]

[[model.features]]
name = "wind"
bounds = [0.0, 60.0]
"""
_CONFIG: Final = b"""[state]
folder = "state"
snapshot_rounds = 100
snapshot_seconds = 1.5

[source]
kind = "jsonl"
path = "queries.jsonl"
follow = true

[sink]
kind = "jsonl"
path = "answers.jsonl"
ledger = "ledger.jsonl"

[service]
log = "json"
batch_rows = 16
"""
_DEEP: Final = (
    b"[" * 5_000,
    b'{"a":' * 5_000,
    b"a.a." * 3_000,
    b"9" * 5_000,
    b"null",
    b"0",
    b"[]",
    b'"a"',
    b"inf",
    b"nan",
)

_FRAMED: Final = 12  # what stands before the part of a batch that its length counts
_SHORTEST: Final = 49
_WORDS: Final = 2**63

Try = Callable[[random.Random, Path], str]


def fuzz_reader(  # noqa: PLR0913, PLR0917 -- what, how, how often, and where to
    name: str, seed: int, run: int, counts: Counter[tuple[str, str]], folder: Path, tries: int = RUN
) -> None:
    """Put one run of changed files before a reader, and count what it said.

    Raises:
        BrokenPromiseError: With the bytes that showed it.
    """
    rng = random.Random(f"{seed} {name} {run}")  # noqa: S311  # test data
    for _ in range(tries):
        counts[name, READERS[name](rng, folder)] += 1


@cache
def _snapshot() -> bytes:
    return encode(first_snapshot().bound(ShardId(1, 3)), MASTER_KEY)


@cache
def _payload() -> bytes:
    snapshot = first_snapshot()
    return encode_payload(snapshot.tag, snapshot.arrays)


@cache
def _genesis(folder: Path) -> bytes:
    path = folder / "first.genesis"
    write_genesis(path, Genesis(MASTER_KEY, _snapshot(), small_plan().encode()))
    return path.read_bytes()


@cache
def _record(folder: Path) -> tuple[CommitRecord, bytes]:
    record = CommitRecord(123, bytes(range(28)), {"ledger": 9, "output": 77})
    DurableCommitFile(folder / "record").write(record)
    return record, (folder / "record").read_bytes()


def _changed(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.03:
        place = rng.randrange(len(data) + 1)
        return rng.choice((data[:place], b"")) + rng.choice(_DEEP) + rng.choice((data[place:], b""))
    return mutated(rng, data, [data])


def _guarded(read: Callable[[], str], families: tuple[type[Exception], ...], data: bytes) -> str:
    """Return what was read, or the name of the documented error."""
    try:
        return read()
    except families as exc:
        return type(exc).__name__
    except Exception as exc:
        raise BrokenPromiseError(f"{type(exc).__name__}: {str(exc)[:300]}: {data[:2000]!r}") from exc


def _same(holds: bool) -> str:  # noqa: FBT001 -- the condition
    if not holds:
        raise BrokenPromiseError("something else than was written is taken")
    return "accepted"


def _put(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    if not path.exists():
        path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def _try_snapshot(rng: random.Random, _folder: Path) -> str:
    data = mutated(rng, _snapshot(), [_snapshot()])
    digest = small_plan().digest

    def read() -> str:
        decode(data, MASTER_KEY, digest)
        return _same(data == _snapshot())

    return _guarded(read, (StateError,), data)


def _try_header(rng: random.Random, _folder: Path) -> str:
    """Change fields of the header and make its checksums right again."""
    header = peek(_snapshot())
    field = rng.choice([field.name for field in dataclasses.fields(header)])
    value = getattr(header, field)
    new: Any
    if isinstance(value, int):
        new = rng.choice((0, 1, 2**31, 2**63, 2**64 - 1))
    elif isinstance(value, bytes):
        new = rng.randbytes(len(value))
    else:
        new = rng.choice(
            (None, Origin(ShardId(rng.choice((0, 1, 2)), 3), rng.choice((value.genesis, rng.randbytes(32)))))
        )
    data = dataclasses.replace(header, **{field: new}).pack() + _snapshot()[header.header_bytes :]
    if rng.random() < 0.3:
        data = data[: rng.randrange(len(data))]

    def read() -> str:
        decode(data, MASTER_KEY, small_plan().digest)
        return _same(data == _snapshot())

    return _guarded(read, (StateError,), data)


def _try_payload(rng: random.Random, _folder: Path) -> str:
    """Change what stands inside the encryption: it gives arrays, or a named error."""
    data = mutated(rng, _payload(), [_payload()])

    def read() -> str:
        tag, arrays = decode_payload(data)
        return _same(len(encode_payload(tag, arrays)) == len(data))

    return _guarded(read, (StateError,), data)


def _try_genesis(rng: random.Random, folder: Path) -> str:
    """Change a genesis file, half of the times with its checksum made right again."""
    whole = _genesis(folder)
    body = _changed(rng, whole[:-32])
    data = body + hashlib.sha256(body).digest() if rng.random() < 0.5 else _changed(rng, whole)
    path = _put(folder, data)

    def read() -> str:
        genesis = read_genesis(path)
        plan = decode_plan(genesis.plan)
        decode(genesis.snapshot, genesis.master_key, plan.digest)
        return _same((genesis.snapshot, genesis.plan) == (_snapshot(), small_plan().encode()))

    return _guarded(read, (StateError, RefusedError), data)


def _try_record(rng: random.Random, folder: Path) -> str:
    record, whole = _record(folder)
    data = _changed(rng, whole)
    path = _put(folder, data)
    return _guarded(lambda: _same(DurableCommitFile(path).read() == record), (StorageError, NewerVersionError), data)


def _try_key(rng: random.Random, folder: Path) -> str:
    whole = b"perpetua-key 1\n" + MASTER_KEY.hex().encode() + b"\n"
    data = _changed(rng, whole)
    path = _put(folder, data)

    def read() -> str:
        key = read_key_file(path)
        try:
            decode(_snapshot(), key, small_plan().digest)
        except WrongKeyError:
            return "another key, which opens nothing"
        return _same(key == MASTER_KEY)

    return _guarded(read, (StateError,), data)


def _try_plan(rng: random.Random, _folder: Path) -> str:
    whole = small_plan().encode()
    data = _changed(rng, whole)

    def read() -> str:
        plan = decode_plan(data)
        if data != whole:
            check_plan(data, peek(_snapshot()))
            raise BrokenPromiseError("a changed plan goes with the snapshot")
        return _same(plan == small_plan())

    return _guarded(read, (RefusedError, StateError), data)


def _try_model(rng: random.Random, folder: Path) -> str:
    data = _spoilt(rng, _MODEL)
    path = _put(folder, data)

    def read() -> str:
        model = read_model(path)
        BatchCodec(tiny_plan([feature(one.name) for one in model.features]))  # what is taken can be served
        return "accepted"

    return _guarded(read, (RefusedError, SourceError), data)


def _try_config(rng: random.Random, folder: Path) -> str:
    data = _spoilt(rng, _CONFIG)
    path = _put(folder, data)

    def read() -> str:
        load_config(path)
        return "accepted"

    return _guarded(read, (RefusedError, SourceError), data)


def _spoilt(rng: random.Random, document: bytes) -> bytes:
    """Change a TOML document's bytes, or give one of its settings another value."""
    if rng.random() < 0.5:
        return _changed(rng, document)
    lines = document.split(b"\n")
    index = rng.choice([index for index, line in enumerate(lines) if b"=" in line])
    name = lines[index].partition(b"=")[0]
    values = (b"0", b"-1", b"nan", b"inf", b"1e400", b"true", b'""', b'"\\u0000"', b'"a\\"b"', b"[]", b"[1,2]", b"{}")
    more = (b"{a=1}", b"1979-05-27", b"9" * 400, b"9" * 5_000, b"[nan, 1.0]", b'"x' + b"y" * 200 + b'"', b"[" * 2_000)
    lines[index] = name + b"= " + rng.choice(values + more)
    return b"\n".join(lines)


@cache
def _batch() -> bytes:
    parts = [
        record(0, b"v" * 200, key=b"k", headers=[(b"content-type", b"x"), (b"", None)]),
        record(1, None, time=2**63 - 1),
        record(2, b"w", size=5, beyond=7, attributes=0xFF, headers=[(b"\xff", b"")]),
        record(3, b"x"),
    ]
    return batch(parts)


def _try_records(rng: random.Random, _folder: Path) -> str:
    """Change a batch behind its length, which is made right again, and mostly its checksum; or a size in it."""
    whole = _batch() if rng.random() < 0.5 else batch([record(index, b"v" * 40) for index in range(3)])
    data = bytearray(whole[:_FRAMED] + mutated(rng, whole[_FRAMED:], [whole]))
    if rng.random() < 0.5:
        place = rng.randrange(_FRAMED, len(data) + 1)
        data[place:place] = varint(rng.choice((2**31, 2**35, 2**62, 2**63 - 1)) - rng.randrange(300), bits=64)
    struct.pack_into(">i", data, 8, len(data) - _FRAMED)
    if len(data) >= _FRAMED + _SHORTEST:
        data = bytearray(sealed(data))

    def read() -> str:
        records = FetchedBatches(bytes(data))
        while records.has_next():
            one = records.next_batch()
            if one is not None and one.validate_crc():
                _same(all(-_WORDS <= part.timestamp < _WORDS for found in one for part in found.records))
        return "accepted"

    return _guarded(read, (KafkaError,), bytes(data))


READERS: Final[dict[str, Try]] = {
    "snapshot": _try_snapshot,
    "snapshot header": _try_header,
    "snapshot payload": _try_payload,
    "genesis file": _try_genesis,
    "commit record": _try_record,
    "key file": _try_key,
    "plan": _try_plan,
    "model file": _try_model,
    "configuration": _try_config,
    "record batch": _try_records,
    "MQTT packet": try_packet,
}
"""What is fuzzed, by name."""
