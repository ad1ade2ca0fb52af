"""Streams as pandas, Polars and pyarrow write them: the same queries as plain columns, whatever they are packed in."""

import io

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from oracle.codec.arrow.frames import read_frames
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.batches import BatchCodec
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.features import Feature
from tests.predictors.plans import feature, tiny_ensemble_plan, tiny_plan
from tests.predictors.texts import text
from tests.storms.fuzz.arrow import same_alone
from tests.support.shards import arrow_body

_MIXED = tiny_ensemble_plan(
    [
        Feature(name="n"),
        Feature(name="c", categories=("EWR", "JFK", "true")),
        Feature(name="f", categories=("true", "false")),
    ]
)
_TYPED = tiny_plan(
    [text("s"), Feature(name="d", type="date"), Feature(name="m", type="decimal", places=2), feature("n")],
    slicing="sequential",
)
_NUMBERS = [1.5, None, -2.0, 0.25]
_PLACES = ["EWR", "a name of more than twelve letters", None, "JFK"]
_FLAGS = [True, None, False, True]
_IDS = ["q1", "an id of more than twelve letters", "", "q4"]


def _plain(**columns):
    return arrow_body(pa.table(columns))


def _same(found, plain):
    assert isinstance(found, ArrowQueries)
    assert isinstance(plain, ArrowQueries)
    assert [part.tolist() for part in found[:3]] == [part.tolist() for part in plain[:3]]
    assert found.identifiers == plain.identifiers


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["text", "categorical", "enum", "of old"])
def test_polars(kind, compression):
    """`write_ipc_stream`, with texts as views, and categories as dictionaries of views; missing values as nulls."""
    kinds = {"categorical": pl.Categorical(), "enum": pl.Enum([one for one in _PLACES if one])}
    places = pl.Series(_PLACES).cast(kinds.get(kind, pl.String()))
    table = pl.DataFrame({"n": _NUMBERS, "c": places, "f": _FLAGS, "id": _IDS, "more": [[1], [], None, [2]]})
    sink = io.BytesIO()
    old = {"compat_level": pl.CompatLevel.oldest()} if kind == "of old" else {}
    table.write_ipc_stream(sink, compression=compression, **old)
    body = sink.getvalue()
    assert read_frames(body).plain == (kind == "of old" and compression == "uncompressed")
    plain = _plain(n=_NUMBERS, c=_PLACES, f=["true", None, "false", "true"], id=_IDS)
    codec = ArrowCodec(_MIXED)
    _same(codec.decode(body), codec.decode(plain))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["text", "categorical", "objects"])
def test_pandas(kind, compression):
    """`pa.Table.from_pandas`, with pandas' own metadata, an index, categoricals, and NaN and NA for missing values."""
    kinds = {
        "text": pd.Series(_PLACES, dtype="string"),
        "objects": pd.Series(_PLACES, dtype="object"),
        "categorical": pd.Series(_PLACES, dtype="category"),
    }
    table = pd.DataFrame({"n": _NUMBERS, "c": kinds[kind], "f": pd.array(_FLAGS, dtype="boolean"), "id": _IDS})
    table.index = pd.Index([5, 6, 7, 9])
    body = _stream(pa.Table.from_pandas(table), compression)
    plain = _plain(n=_NUMBERS, c=_PLACES, f=["true", None, "false", "true"], id=_IDS)
    codec = ArrowCodec(_MIXED)
    _same(codec.decode(body), codec.decode(plain))


def _stream(table, compression=None, chunk=None, **options):
    sink = pa.BufferOutputStream()
    packed = pa.ipc.IpcWriteOptions(compression=compression, **options)
    with pa.ipc.new_stream(sink, table.schema, options=packed) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return sink.getvalue().to_pybytes()


_COLUMNS = {
    "n": [pa.array([1, 0, 1]).cast(kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float64())],
    "s": [pa.array(["a", "b" * 9, "a"], kind) for kind in (pa.string(), pa.large_string())],
    "d": [pa.array([0, 9, 0], pa.int32()).cast(pa.date32()), pa.array([0, 86_400_000, 0]).cast(pa.date64())],
    "m": [pa.array([1, 0, 1]).cast(kind) for kind in (pa.int32(), pa.decimal128(30, 2), pa.decimal256(60, 1))],
}


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()], ids=str)
@pytest.mark.parametrize(("name", "column"), [(name, one) for name, some in _COLUMNS.items() for one in some])
def test_dictionaries_of_every_type(name, column, index):
    """A column of any type that a feature takes may be a dictionary, of any index; in its batches each its own one."""
    values, nulls = column.slice(0, 2), pa.nulls(1, index)
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], index), values)
    second = pa.DictionaryArray.from_arrays(pa.concat_arrays([pa.array([0], index), nulls]), values.slice(1))
    encoded = pa.chunked_array([first, second])
    rows = {one: pa.chunked_array([pa.concat_arrays([some[0], some[0].slice(1)])]) for one, some in _COLUMNS.items()}
    plain = pa.table(rows | {name: pa.concat_arrays([column, column.slice(1, 1), pa.nulls(1, column.type)])})
    table = pa.table(rows | {name: encoded})
    codec = ArrowCodec(_TYPED)
    wanted = codec.decode(arrow_body(plain))
    assert isinstance(wanted, ArrowQueries)
    assert wanted.rejected.tolist() == [0, 0, 0, 0, 2]
    for compression in (None, "lz4", "zstd"):
        _same(codec.decode(_stream(table, compression)), wanted)
        _same(codec.decode(_stream(table, compression, unify_dictionaries=True)), wanted)


def test_dictionaries_that_grow_and_are_replaced():
    """A delta comes behind the values that are there, any other one in their place."""
    one = tiny_plan([text("s")], slicing="sequential")
    codec = ArrowCodec(one)
    parts = [["a", "b"], ["a", "b", "c"], ["z"], ["z", "y"]]
    texts = ["b", "c", "z", "y"]
    for deltas in (False, True):
        columns = [pa.DictionaryArray.from_arrays([len(part) - 1], part) for part in parts]
        body = _stream(pa.table({"s": pa.chunked_array(columns)}), emit_dictionary_deltas=deltas)
        _same(codec.decode(body), codec.decode(_plain(s=texts)))


def test_packed_messages_are_told_the_same_beside_others():
    """Whatever comes together, each is answered as if alone: compressed, of views or dictionaries, plain, rejected."""
    one = tiny_plan([text("a")], slicing="sequential")
    texts = pa.array(["x", "long enough to stand outside", "x"])
    table = pa.table({"a": texts, "id": texts})
    views = pa.table({"a": texts.cast(pa.string_view()), "id": texts.cast(pa.string_view())})
    coded = pa.table({"a": texts.dictionary_encode(), "id": texts})
    bad = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0, 7, 0]), texts, safe=False), "id": texts})
    for some in ([table], [views], [coded], [table, views, coded], [bad, table], [table] * 9 + [views]):
        bodies = [_stream(each, compression) for each in some for compression in (None, "lz4", "zstd")]
        replies = same_alone(one, BatchCodec(one), bodies * 3)
        refused = [reply.rejected.reason for reply in replies if reply.rejected]
        assert refused == ["malformed"] * (9 if bad in some else 0)


def _at(body, column, **changed):
    """Return a stream whose one column, of views or places, has other numbers."""
    before, after = (np.array(numbers, dtype=column).tobytes() for numbers in (changed["before"], changed["after"]))
    assert body.count(before) == 1
    return body.replace(before, after)


_OUTSIDE = "long enough to stand outside"
_VIEW = [("length", "<i4"), ("begin", "S4"), ("buffer", "<i4"), ("at", "<i4")]


@pytest.mark.parametrize("place", ["a", "id", "note"])
@pytest.mark.parametrize(
    "view",
    [
        (28, b"long", 0, 1),
        (28, b"long", 0, -1),
        (28, b"long", 1, 0),
        (28, b"long", -1, 0),
        (28, b"LONG", 0, 0),
        (29, b"long", 0, 0),
        (2**31 - 1, b"long", 0, 0),
        (-1, b"long", 0, 0),
        (-(2**31), b"long", 0, 0),
    ],
)
def test_views_outside_their_buffers(view, place):
    """A view that points beyond its buffers, or begins with another text than it says, is malformed, in any column."""
    one = tiny_plan([text("a")], slicing="sequential")
    column = pa.array([_OUTSIDE], pa.string_view())
    body = _stream(pa.table({"a": ["x"]} | {place: column}))
    hostile = _at(body, _VIEW, before=[(28, b"long", 0, 0)], after=[view])
    found = ArrowCodec(one).decode(hostile)
    assert isinstance(found, Rejection)
    assert found.reason == (Reason.OVERSIZED if view[0] == 2**31 - 1 else Reason.MALFORMED)
    same_alone(one, BatchCodec(one), [body, hostile, body])


@pytest.mark.parametrize("places", [[0, 2], [-1, 0], [0, 2**31 - 1], [-(2**31), 1]])
@pytest.mark.parametrize("name", ["a", "id", "note"])
def test_places_outside_a_dictionary(places, name):
    """An index below 0, or beyond the values, is malformed, in any column."""
    one = tiny_plan([text("a")], slicing="sequential")
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), ["x", "y"])
    body = _stream(pa.table({"a": ["x", "y"]} | {name: coded}))
    hostile = _at(body, "<i4", before=[1, 0], after=places)
    assert ArrowCodec(one).decode(hostile) == Rejection(Reason.MALFORMED, "body", "one Arrow IPC stream")
    assert isinstance(ArrowCodec(one).decode(_at(body, "<i4", before=[1, 0], after=[0, 1])), ArrowQueries)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("lie", [-1, 1, -8, 8, 1 << 20, -(8_000 - 1), -8_000])
def test_announced_lengths_that_are_lies(compression, lie):
    """A buffer that unpacks to less or more than it announces is malformed, and no more than that was unpacked."""
    one = tiny_plan([feature("a")])
    body = _stream(pa.table({"a": np.zeros(1_000)}), compression)
    length = (8_000).to_bytes(8, "little")
    assert body.count(length) == 1
    hostile = body.replace(length, (8_000 + lie).to_bytes(8, "little"))
    assert read_frames(hostile).unpacked - read_frames(body).unpacked == lie
    assert ArrowCodec(one).decode(hostile) == Rejection(Reason.MALFORMED, "body", "one Arrow IPC stream")


def test_limits_count_what_is_unpacked():
    """Exactly: of compressed buffers what they announce, of dictionaries what their texts are."""
    one = tiny_plan([text("a", 60)], slicing="sequential")
    limits = msgspec.structs.replace(one.limits, batch_bytes=40_000)
    codec = ArrowCodec(msgspec.structs.replace(one, limits=limits))
    long = Rejection(Reason.OVERSIZED, "body", "at most 40000 bytes, unpacked")
    for length, wanted in ((100, True), (101, False)):
        texts = pa.array(["x" * length] * 400)
        assert _is_read(codec.decode(_stream(pa.table({"a": texts.dictionary_encode()}))), long) == wanted
    numbers = ArrowCodec(msgspec.structs.replace(tiny_plan([feature("a")]), limits=limits))
    for rows, wanted in ((5_000, True), (5_001, False)):
        assert _is_read(numbers.decode(_stream(pa.table({"a": np.zeros(rows)}), "lz4")), long) == wanted


def _is_read(found, otherwise):
    assert isinstance(found, ArrowQueries) or found == otherwise
    return isinstance(found, ArrowQueries)


def test_ids_are_not_unpacked_to_a_long_answer():
    """They may be as long as the message, and 32 bytes a row more: no short message has a long answer."""
    one = tiny_plan([feature("a")])
    table = pa.table({"a": np.zeros(1_000, np.float32), "id": ["z" * 250] * 1_000})
    packed = _stream(table, "zstd")
    most = len(packed) + 32_000
    assert ArrowCodec(one).decode(packed) == Rejection(Reason.BAD_ID, "id", f"at most {most} bytes of all ids together")
    assert isinstance(ArrowCodec(one).decode(_stream(table)), ArrowQueries)
    coded = table.set_column(1, "id", pa.array(["z" * 250] * 1_000).dictionary_encode())
    assert isinstance(ArrowCodec(one).decode(_stream(coded)), Rejection)
    random = np.random.default_rng(1)
    numbered = table.set_column(1, "id", pa.array([random.bytes(18).hex() for _ in range(1_000)]))  # as UUIDs
    for compression in (None, "lz4", "zstd"):
        assert isinstance(ArrowCodec(one).decode(_stream(numbered, compression)), ArrowQueries)
