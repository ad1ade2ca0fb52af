"""Columns of every type of Arrow that pyarrow can make, nested and empty, sound but as odd as their type allows."""

import random
from collections.abc import Callable
from itertools import accumulate, count
from typing import Any, Final

import pyarrow as pa

_LONGEST: Final = 2**31 - 1
_SPAN: Final = 2**15 - 1
_MILLISECONDS: Final = 86_400_000
_ZONES: Final = (None, "UTC", "Europe/Vienna", "+27:63", "no zone", "", "\u00e9\ufeff")
_UNITS: Final = ("s", "ms", "us", "ns")
_TEXTS: Final = ("", "a", "\u00e9" * 9, "\ufeff", "x" * 40, "2013-07-04")

LEAVES: Final[tuple[pa.DataType, ...]] = (
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), *(pa.duration(unit) for unit in _UNITS), pa.month_day_nano_interval(),
    *(pa.timestamp(unit, zone) for unit in _UNITS for zone in _ZONES), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(0), pa.binary(3),
    pa.decimal32(9, 2), pa.decimal64(18, -3), pa.decimal128(38, 2), pa.decimal128(5, 40), pa.decimal256(76, -9),
    pa.uuid(), pa.bool8(), pa.json_(), pa.opaque(pa.float64(), "kind", "maker"),
    pa.fixed_shape_tensor(pa.float64(), [2, 1]),
)  # fmt: skip
"""Types without others in them."""


def _struct(*kinds: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("ab"[index % 2], kind) for index, kind in enumerate(kinds)])


def _union(mode: str) -> Callable[..., pa.DataType]:
    return lambda *kinds: pa.union([pa.field("a", kind) for kind in kinds], mode, [*range(7, 7 + len(kinds))])


NESTS: Final[tuple[tuple[int, Callable[..., pa.DataType]], ...]] = (
    (1, pa.list_),
    (1, pa.large_list),
    (1, pa.list_view),
    (1, pa.large_list_view),
    *((1, lambda kind, size=size: pa.list_(kind, size)) for size in (0, 1, 3)),
    *((count, _struct) for count in range(4)),
    *((count, _union(mode)) for count in range(3) for mode in ("sparse", "dense")),
    (1, lambda kind: pa.map_(pa.string(), kind)),
    (1, lambda kind: pa.map_(pa.int8(), kind, keys_sorted=True)),
    *((1, lambda kind, ends=ends: pa.run_end_encoded(ends, kind)) for ends in (pa.int16(), pa.int32(), pa.int64())),
    (1, lambda kind: pa.dictionary(pa.int8(), kind)),
    (1, lambda kind: pa.dictionary(pa.uint32(), kind, ordered=True)),
)
"""Types that have others in them: how many, and what makes one of these."""


def any_type(rng: random.Random, depth: int = 3) -> pa.DataType:
    """Return a type, nested at most so deep."""
    if not depth or rng.random() < 0.4:
        return rng.choice(LEAVES)
    count, make = rng.choice(NESTS)
    return make(*(any_type(rng, depth - 1) for _ in range(count)))


def any_array(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column of a type, mostly with nulls; lists of nothing are as long as their offsets can say.

    Raises:
        ArrowException: There is none of so many rows: a union of nothing has no value.
        ValueError: The same.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, any_array(rng, kind.storage_type, rows))
    for is_it, make in _MAKERS:
        if is_it(kind):
            return make(rng, kind, rows)
    if rng.random() < 0.1:
        return pa.nulls(rows, kind)
    width = (kind.bit_width + 7) // 8
    step = _MILLISECONDS if pa.types.is_date64(kind) else 1
    data = b"".join((step * rng.randrange(100)).to_bytes(width, "little") for _ in range(rows))
    return pa.Array.from_buffers(kind, rows, [_bits(rng, rows), pa.py_buffer(data)])


def _bits(rng: random.Random, rows: int) -> pa.Buffer | None:
    return pa.py_buffer(rng.randbytes(rows // 8 + 1)) if rng.random() < 0.5 else None


def _texts(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    size = kind.byte_width if pa.types.is_fixed_size_binary(kind) else None
    texts: list[Any] = [rng.choice((*_TEXTS, None)) for _ in range(rows)]
    if size is not None:
        texts = [text if text is None else rng.randbytes(size) for text in texts]
    elif "binary" in str(kind):
        texts = [text if text is None else text.encode() for text in texts]
    return pa.array(texts, kind)


def _words(numbers: list[int], wide: bool) -> pa.Buffer:  # noqa: FBT001 -- of 8 bytes or of 4
    return pa.array(numbers, pa.int64() if wide else pa.int32()).buffers()[1] or pa.py_buffer(b"")


def _lists(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    wide = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    count = rng.choice((0, 5, _LONGEST)) if pa.types.is_null(kind.value_type) else rng.randrange(6)
    child = any_array(rng, kind.value_type, count)
    starts = sorted(rng.randint(0, count) for _ in range(rows + 1))
    starts[-1] = count
    if not view:
        return pa.Array.from_buffers(kind, rows, [_bits(rng, rows), _words(starts, wide)], children=[child])
    sizes = [rng.choice((0, count - start)) for start in starts[:rows]]
    buffers = [_bits(rng, rows), _words(starts[:rows], wide), _words(sizes, wide)]
    return pa.Array.from_buffers(kind, rows, buffers, children=[child])


def _fixed_lists(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    child = any_array(rng, kind.value_type, rows * kind.list_size)
    return pa.Array.from_buffers(kind, rows, [_bits(rng, rows)], children=[child])


def _structs(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    children = [any_array(rng, kind.field(index).type, rows) for index in range(kind.num_fields)]
    return pa.Array.from_buffers(kind, rows, [_bits(rng, rows)], children=children)


def _maps(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    ends = [0, *accumulate(rng.randrange(3) for _ in range(rows))]
    keys = pa.array([str(key % 9) for key in range(ends[-1])]).cast(kind.key_type)
    entries = pa.StructArray.from_arrays(
        [keys, any_array(rng, kind.item_type, ends[-1])], fields=[kind.key_field, kind.item_field]
    )
    return pa.Array.from_buffers(kind, rows, [_bits(rng, rows), _words(ends, wide=False)], children=[entries])


def _unions(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    if rows and not kind.num_fields:
        raise ValueError("a union of nothing has no values")
    codes = [rng.randrange(kind.num_fields) for _ in range(rows)]
    buffers = [None, pa.py_buffer(bytes(kind.type_codes[code] for code in codes))]
    if kind.mode == "dense":
        turns = [count() for _ in range(kind.num_fields)]
        buffers.append(_words([next(turns[code]) for code in codes], wide=False))
    counts = [codes.count(code) if kind.mode == "dense" else rows for code in range(kind.num_fields)]
    children = [any_array(rng, kind.field(index).type, count) for index, count in enumerate(counts)]
    return pa.Array.from_buffers(kind, rows, buffers, children=children)


def _runs(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    ends = sorted(set(rng.choices(range(1, rows + 1), k=3)) | {rows}) if rows else []
    return pa.RunEndEncodedArray.from_arrays(
        pa.array(ends, kind.run_end_type), any_array(rng, kind.value_type, len(ends)), type=kind
    )


def _dictionaries(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    values = any_array(rng, kind.value_type, 3)
    indices = pa.array([rng.choice((None, *range(len(values)))) for _ in range(rows)], kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)


def _is_text(kind: pa.DataType) -> bool:
    return "binary" in str(kind) or "string" in str(kind)


def _is_list(kind: pa.DataType) -> bool:
    return any(is_it(kind) for is_it in (
        pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view,
    ))  # fmt: skip


_MAKERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[..., pa.Array]], ...]] = (
    (pa.types.is_null, lambda _rng, kind, rows: pa.nulls(rows, kind)),
    (pa.types.is_map, _maps),
    (_is_list, _lists),
    (pa.types.is_fixed_size_list, _fixed_lists),
    (pa.types.is_struct, _structs),
    (pa.types.is_union, _unions),
    (pa.types.is_run_end_encoded, _runs),
    (pa.types.is_dictionary, _dictionaries),
    (_is_text, _texts),
)


def unjoinable() -> dict[str, bytes]:
    """Return messages with a column `a` whose chunks Arrow cannot put together, by name: each once stopped a shard."""
    union = pa.field("a", pa.sparse_union([pa.field("x", pa.int8())]))
    runs: pa.Array = pa.RunEndEncodedArray.from_arrays(pa.array([_SPAN], pa.int16()), pa.array([0.5]))
    found = {
        "union without batches": (union, []),
        "dense union without batches": (union.with_type(pa.dense_union([])), []),
        "runs in two batches": (union.with_type(runs.type), [runs] * 2),
        "runs in one batch": (union.with_type(runs.type), [runs]),
    }
    for kind in (pa.list_(pa.null()), pa.list_view(pa.null())):
        buffers = [None, _words([0, _LONGEST], wide=False)] + [_words([_LONGEST], wide=False)] * ("view" in str(kind))
        one = pa.Array.from_buffers(kind, 1, buffers, children=[pa.nulls(_LONGEST)])
        found |= {f"{kind} in {count}": (union.with_type(kind), [one] * count) for count in (1, 2)}
    return {name: _stream(field, chunks) for name, (field, chunks) in found.items()}


def _stream(field: pa.Field, chunks: list[pa.Array]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([field])) as writer:
        for chunk in chunks:
            writer.write_batch(pa.record_batch([chunk], schema=pa.schema([field])))
    return bytes(sink.getvalue())
