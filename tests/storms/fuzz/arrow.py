"""Fuzzing the Arrow codec: columns of every type, and runs of messages, each of which is answered as if alone."""

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from connectors.base import ARROW_STREAM, Deliveries, Delivery, Reply
from oracle.codec.batches import BatchCodec
from oracle.planning.features import Feature
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import Answers
from tests.predictors.plans import feature, tiny_plan
from tests.predictors.texts import text
from tests.storms.fuzz.mutate import mutated
from tests.storms.fuzz.verdicts import BrokenPromiseError
from tests.support.arrow_types import any_array, any_type
from tests.support.flatbuffers import END, Table, Vector, batch, field, schema

_POOL: Final = 30
_FAMILY: Final = 3
_RUN: Final = 12
_NUMBERS: Final = (
    *(pa.float64(), pa.float64(), pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.uint8(), pa.null()),
    pa.dictionary(pa.int8(), pa.float64()),
)
_KINDS: Final = {
    "number": _NUMBERS,
    "string": (
        *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.uint64(), pa.string())),
        pa.dictionary(pa.int16(), pa.string_view()),
    ),
    "date": (pa.date32(), pa.date64()),
    "decimal": (
        *(pa.decimal128(30, scale) for scale in (2, 2, 0, -3, 38, 40, -60, 76, 77)),
        *(pa.decimal256(50, scale) for scale in (2, 9, -76)),
        *(pa.decimal64(18, scale) for scale in (2, 19)),
        *(pa.decimal32(9, scale) for scale in (0, -10)),
        pa.int32(),
    ),
}
_IDS: Final = (pa.string(), pa.large_string(), pa.string_view(), pa.int8(), pa.int64(), pa.uint8())
_COMPRESSIONS: Final = (None, None, None, "lz4", "zstd")
_OTHER_NAMES: Final = ("n", "a", "", "\ufeff")
_SPAN: Final = 32_767
"""Rows of a batch that run ends of int16 can count."""


@cache
def _plans() -> tuple[BoxPlan, ...]:
    numbers = tiny_plan([feature("a"), feature("b")])
    kinds = (text("a"), Feature(name="b", type="date"), Feature(name="c", type="decimal", places=2))
    return numbers, tiny_plan([feature("a")]), tiny_plan(kinds, slicing="sequential")


def fuzz_arrow(seed: int, run: int, counts: Counter[tuple[str, str]], messages: int = 1_000) -> None:
    """Put one run of messages through, some of them together, and count what became of them.

    Raises:
        BrokenPromiseError: With the messages that showed it.
    """
    rng = random.Random(f"{seed} arrow {run}")  # noqa: S311  # test data
    plan = _plans()[run % len(_plans())]
    pool = [(_by_hand if rng.random() < 0.1 else _messages)(rng, plan.features) for _ in range(_POOL)]
    codec = BatchCodec(plan)
    done = 0
    while done < messages:
        bodies = _some(rng, pool)[: messages - done]
        for reply in same_alone(plan, codec, bodies):
            counts["Arrow, all types", str(reply.rejected.reason) if reply.rejected else "accepted"] += 1
        done += len(bodies)


def _some(rng: random.Random, pool: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return messages that come one behind the other: of one schema or of several, some of them changed."""
    family = rng.choice(pool)
    alike = rng.random() < 0.6
    bodies = [rng.choice(family if alike else rng.choice(pool)) for _ in range(rng.randint(1, _RUN))]
    share = rng.choice((0.0, 0.0, 0.15, 1.0))
    others = [one[0] for one in pool[:9]]
    return [mutated(rng, body, others) if rng.random() < share else body for body in bodies]


def same_alone(plan: BoxPlan, codec: BatchCodec, bodies: Sequence[bytes]) -> list[Reply]:
    """Return what messages that come together are told, which is what each of them is told alone.

    Raises:
        BrokenPromiseError: It is not, or the codec raised something.
    """
    together = replies_of(codec, bodies)
    alone: list[Reply] = []
    taken = 0
    for number, body in enumerate(bodies):
        alone += replies_of(BatchCodec(plan) if number == 0 else codec, [body], taken, number)
        taken += _rounds(alone[-1])
    if together != alone:
        raise BrokenPromiseError(f"together, other replies are given than alone: {list(bodies)}")
    return together


def replies_of(codec: BatchCodec, bodies: Sequence[bytes], first: int = 0, position: int = 0) -> list[Reply]:
    """Return the replies to messages that come together, of which each row's label tells of its features.

    Raises:
        BrokenPromiseError: The codec raised something.
    """
    deliveries = [Delivery(position + number, body, ARROW_STREAM) for number, body in enumerate(bodies, 1)]
    try:
        batch = codec.decode(Deliveries.of(deliveries))
        told = [crc32(row) % 2 if there else -1 for row, there in zip(batch.features, batch.present, strict=True)]
        rows = len(told)
        answers = Answers(np.array(told, np.int8), first, np.full(rows, 1), np.zeros(2, np.uint64), [])
        return list(codec.encode(batch, answers).rows())
    except Exception as exc:
        raise BrokenPromiseError(f"{type(exc).__name__}: {exc}: {list(bodies)}") from exc


def _rounds(reply: Reply) -> int:
    if reply.rejected:
        return 0
    with pa.ipc.open_stream(reply.body) as reader:
        return int(reader.read_all()["error"].null_count)


def _messages(rng: random.Random, features: Sequence[Feature]) -> list[bytes]:
    """Return streams of one schema, of any number of batches: mostly of columns that the features take."""
    plain = rng.random() < 0.2
    whole = pa.schema([(one.name, pa.float64()) for one in features]) if plain else _schema(rng, features)
    sizes = [1, 20][rng.randrange(2) :][:1] if plain else _sizes(rng)
    same = plain or rng.random() < 0.3
    packed = pa.ipc.IpcWriteOptions(compression=rng.choice(_COMPRESSIONS))
    return [_stream(rng, whole, sizes if same else _sizes(rng), packed, plain=plain) for _ in range(_FAMILY)]


def _sizes(rng: random.Random) -> list[int]:
    return rng.choices((0, 1, 3, 20, _SPAN), (2, 4, 4, 4, 0.03), k=rng.choice((0, 1, 1, 1, 2, 3)))


def _schema(rng: random.Random, features: Sequence[Feature]) -> pa.Schema:
    usual = rng.random() < 0.5
    fields = [pa.field(one.name, rng.choice(_KINDS[one.kind])) for one in features]
    if not usual:
        fields = [field if rng.random() < 0.6 else field.with_type(any_type(rng)) for field in fields]
        fields += [pa.field(rng.choice(_OTHER_NAMES), any_type(rng)) for _ in range(rng.choice((0, 0, 1, 2)))]
    if rng.random() < 0.4:
        fields.append(pa.field("id", rng.choice(_IDS) if usual or rng.random() < 0.7 else any_type(rng)))
    if rng.random() < 0.05:
        del fields[0]
    return pa.schema(fields, {"k\ufeff": "v"} if rng.random() < 0.1 else None)


def _stream(
    rng: random.Random, whole: pa.Schema, sizes: Sequence[int], packed: pa.ipc.IpcWriteOptions, *, plain: bool
) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole, options=packed) as writer:
        for rows in sizes:
            try:
                columns = [
                    pa.array([rng.random() for _ in range(rows)]) if plain else any_array(rng, field.type, rows)
                    for field in whole
                ]
                batch = pa.RecordBatch.from_arrays(columns, schema=whole)
                batch.validate(full=True)  # a writer that is given an unsound one ends the process
            except (pa.ArrowException, ValueError):
                break  # of such a type there is no column of so many rows
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _by_hand(rng: random.Random, features: Sequence[Feature]) -> list[bytes]:
    """Return a stream of types that no writer writes: of every number, of any size and unit, with any children."""
    fields = [_any_field(rng, one.name.encode(), 2) for one in features]
    rows = rng.choice((0, 2, 2**31 - 1, 2**63 - 1))
    nodes, buffers = rng.randrange(2 * len(fields) + 1), rng.randrange(4 * len(fields) + 1)
    one = batch(rng.choice((rows, 2)), [(rows, 0)] * nodes, [(0, 0 if rng.random() < 0.5 else 8)] * buffers, bytes(64))
    return [schema(*fields) + one * rng.randrange(3) + END]


def _any_field(rng: random.Random, name: bytes, depth: int) -> Table:
    detail = Table(**{f"_{slot}": rng.choice((0, 1, 2, 3, 32, 128, 2**31 - 1)) for slot in range(rng.randrange(4))})
    children = [_any_field(rng, b"c", depth - 1) for _ in range(rng.randrange(3) if depth else 0)]
    made: Table = field(name, rng.randrange(29), _3=detail, _5=Vector(children))
    return made
