"""Arrow messages that are short and would cost much: each is refused by name, before it costs anything."""

import random
import struct
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oracle.codec.arrow.frames import UnsupportedFrameError, read_frames
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.arrow.plain import LongTextsError
from oracle.codec.arrow.streams import read_stream
from oracle.codec.rejections import Reason, Rejection
from tests.support.flatbuffers import (
    END,
    MARKER,
    NULL,
    TIME,
    UNION,
    Bytes,
    Node,
    Table,
    Vector,
    batch,
    dictionary,
    field,
    frame,
    schema,
)
from tests.support.shards import arrow_body, small_plan

_AB = (field(b"a"), field(b"b"))
_TWO = np.array([0.5, 0.25])
_COLUMN = [(0, 0), (0, 16)]


def _written(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@cache
def _zeros(compression):
    rows = 131_072
    return _written(
        pa.table({name: np.zeros(rows) for name in ["a", "b", *map(str, range(180))]}), compression=compression
    )


def _dictionary(batches):
    """Return one long text as a dictionary, to be validated with each of the batches."""
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["é" * 200_000]))
    batch = pa.record_batch({"a": [0.5], "b": [0.5], "note": column})
    return _written(pa.Table.from_batches([batch] * batches))


def _views(kind, rows, text):
    """Return as many views of one long text, in a column of views or as values of a dictionary."""
    views = np.zeros(rows, dtype=[("length", "<i4"), ("begin", "S4"), ("buffer", "<i4"), ("at", "<i4")])
    views["length"], views["begin"] = len(text), text[:4]
    column = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(views.tobytes()), pa.py_buffer(text)])
    zeros = np.zeros(rows)
    if kind == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows)), column)
    return _written(pa.table({"a": zeros, "b": zeros, "note": column}))


def _nested(levels):
    """Return a field that is 2**levels fields: on each level both children are the same one."""
    one = field(b"", NULL)
    for _ in range(levels):
        one = field(b"", 13, _5=Vector([one, one]))
    return one


def _swapped(columns):
    """Return many columns of the other byte order that are the same bytes, each to be turned in memory of its own."""
    body = bytes(200_000)
    fields = [*_AB, *(field(b"") for _ in range(columns))]
    spans = [(0, 0), (0, len(body))] * len(fields)
    return schema(*fields, _0=1) + batch(2, [(2, 0)] * len(fields), spans, body) + END


def _pair(key, value):
    return Table(_0=Bytes(key), _1=value if isinstance(value, Node) else Bytes(value))


def _shared(parts):
    """Return a schema whose fields share long parts."""
    return schema(*_AB, *(field(**parts) for _ in range(3_000)))


def _compressed(codec, method, buffer):
    """Return a column whose one buffer is compressed, or says so."""
    spans = [(0, 0), (0, len(buffer))]
    return schema(field(b"a")) + batch(2, [(2, 0)], spans, buffer, _3=Table(_0=codec, _1=method)) + END


def _code(number, **slots):
    """Return a column of nulls behind a dictionary."""
    return field(b"c", NULL, _4=Table(_0=number), **slots)


def _coded(dictionaries):
    return schema(*_AB, _code(7)) + dictionaries + END


_LONG = Bytes(b"n" * 200_000)
_MANY_ROWS = 2**40
_BROKEN = "one Arrow IPC stream"
_WITHIN = "dictionaries and views of columns of their own, with no columns within"
_UNPACKED = "at most 67108864 bytes, unpacked"
_CODECS = "buffers that are uncompressed, LZ4 frames or of zstd"
_WIDE = "at most 4096 columns, with those in others"

# Name, body, bound that is told ("one Arrow IPC stream" where it is malformed).
_BOMBS = [
    ("zstd", lambda: _zeros("zstd"), _UNPACKED),
    ("lz4", lambda: _zeros("lz4"), _UNPACKED),
    ("zstd, cut", lambda: _zeros("zstd")[:-9], _BROKEN),
    ("a codec of tomorrow", lambda: _compressed(2, 0, struct.pack("<q", 16)), _CODECS),
    ("a method of tomorrow", lambda: _compressed(0, 1, struct.pack("<q", 16)), _CODECS),
    ("no compressed length", lambda: _compressed(0, 0, b"1234567"), _BROKEN),
    ("2^40 bytes announced", lambda: _compressed(1, 0, struct.pack("<q", 2**40) + bytes(8)), _UNPACKED),
    ("-2 bytes announced", lambda: _compressed(1, 0, struct.pack("<q", -2) + bytes(8)), _BROKEN),
    (
        "compression as of 2020",
        lambda: (
            schema(*_AB)
            + batch(
                2,
                [(2, 0)] * 2,
                _COLUMN * 2,
                bytes(16),
                own=Vector([_pair(b"ARROW:experimental_compression", b"zstd")]),
            )
        ),
        "Arrow messages without metadata of their own",
    ),
    ("one dictionary, many batches", lambda: _dictionary(500), _UNPACKED),
    ("2^40 nulls as a dictionary", lambda: _coded(dictionary(7, _MANY_ROWS, [(_MANY_ROWS, 0)], [])), _UNPACKED),
    (
        "a dictionary that grows 5,000 times",
        lambda: _coded(dictionary(7, 20_000, [(20_000, 0)], [], delta=1) * 5_000),
        _UNPACKED,
    ),
    ("a dictionary of no column", lambda: _coded(dictionary(8, 1, [(1, 0)], [])), _BROKEN),
    ("a dictionary of two columns", lambda: _coded(dictionary(7, 1, [(1, 0)] * 2, [])), _BROKEN),
    ("a dictionary of another length", lambda: _coded(dictionary(7, 1, [(_MANY_ROWS, 0)], [])), _BROKEN),
    ("a dictionary of nothing", lambda: _coded(frame(2, Table(_0=7))), _BROKEN),
    (
        "one dictionary of two columns",
        lambda: schema(*_AB, _code(7), _code(7)) + END,
        "a dictionary of its own for each column",
    ),
    ("dictionaries within a dictionary", lambda: schema(*_AB, _code(7, _5=Vector([_code(8)]))) + END, _WITHIN),
    ("a dictionary within a list", lambda: schema(*_AB, field(b"n", 12, _5=Vector([_code(7)]))) + END, _WITHIN),
    ("views of one text", lambda: _views("column", 100_000, b"x" * 1_000), _UNPACKED),
    ("a dictionary of such views", lambda: _views("dictionary", 100_000, b"x" * 1_000), _UNPACKED),
    (
        "2^31 buffers of views",
        lambda: (
            schema(*_AB, field(b"v", 24))
            + batch(0, [(0, 0)] * 3, [(0, 0)] * 6, _4=Bytes(struct.pack("<q", 2**31 - 1), 1))
            + END
        ),
        _BROKEN,
    ),
    (
        "views within a list",
        lambda: arrow_body(pa.table({"a": _TWO, "b": _TWO, "note": pa.array([["x"]] * 2, pa.list_(pa.binary_view()))})),
        _WITHIN,
    ),
    ("20,000 columns", lambda: arrow_body(pa.table({str(number): [] for number in range(20_000)})), _WIDE),
    (
        "5 MiB of somebody's type",
        lambda: (
            schema(*_AB, field(b"n", NULL, _6=Vector([_pair(b"ARROW:extension:metadata", Bytes(b"[" * (5 << 20)))])))
            + END
        ),
        "a schema of at most 4194304 bytes",
    ),
    ("100,000 times one column", lambda: schema(*([field(b"a")] * 100_000)) + END, _WIDE),
    ("fields within fields", lambda: schema(*_AB, _nested(40)) + END, _BROKEN),
    ("one long name", lambda: _shared({"name": _LONG}) + END, _BROKEN),
    ("one long time zone", lambda: _shared({"kind": TIME, "_3": Table(_0=1, _1=_LONG)}) + END, _BROKEN),
    (
        "one long union",
        lambda: _shared({"kind": UNION, "_3": Table(_0=1, _1=Bytes(bytes(200_000), 50_000))}) + END,
        _BROKEN,
    ),
    ("one long value", lambda: _shared({"_6": Vector([_pair(b"k", _LONG)])}) + END, _BROKEN),
    ("one pair often", lambda: schema(*_AB, _2=Vector([_pair(b"k", _LONG)] * 3_000)) + END, _BROKEN),
    ("one pair often, and no column", lambda: schema(_2=Vector([_pair(b"k", _LONG)] * 3_000)) + END, _BROKEN),
    ("columns that share bytes", lambda: _swapped(3_000), _BROKEN),
    (
        "columns of nothing in many batches",
        lambda: schema(*(field(b"", NULL) for _ in range(4_000))) + batch(0, [(0, 0)] * 4_000, []) * 140 + END,
        "at most 524288 columns in all batches together",
    ),
    (
        "2^40 rows of nothing",
        lambda: schema(field(b"n", NULL)) + batch(_MANY_ROWS, [(_MANY_ROWS, 0)], []) + END,
        "at most 131072 rows",
    ),
    (
        "2^40 rows, and as many less",
        lambda: (
            schema(field(b"n", NULL))
            + b"".join(batch(rows, [(rows, 0)], []) for rows in (_MANY_ROWS, -_MANY_ROWS))
            + END
        ),
        _BROKEN,
    ),
    (
        "2^40 rows within 2",
        lambda: schema(*_AB) + batch(2, [(_MANY_ROWS, 0)] * 2, _COLUMN * 2, bytes(16)) + END,
        _BROKEN,
    ),
    ("a frame of 2^31 bytes", lambda: MARKER + struct.pack("<I", 2**31 - 1) + bytes(40), _BROKEN),
    (
        "a buffer of -1 bytes",
        lambda: schema(*_AB) + batch(2, [(2, 0)] * 2, [(0, 0), (0, -1)] * 2, bytes(16)) + END,
        _BROKEN,
    ),
]


def _memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def _growth(codec, body):
    """Decode; return what came out and how far the process's memory grew at its highest."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _memory("VmRSS:")
    decoded = codec.decode(body)
    return decoded, _memory("VmHWM:") - before


@pytest.mark.parametrize(("make", "bound"), [row[1:] for row in _BOMBS], ids=[row[0] for row in _BOMBS])
def test_bombs_are_refused_unread(make, bound):
    """Each is refused by name, in memory of a few times its own length, and Arrow holds none of it."""
    body = make()
    arrow = pa.total_allocated_bytes()
    decoded, growth = _growth(ArrowCodec(small_plan()), body)
    assert isinstance(decoded, Rejection)
    assert (decoded.field, decoded.bound) == ("body", bound)
    assert decoded.reason in {
        Reason.UNSUPPORTED_CONTENT,
        Reason.MALFORMED,
        Reason.TOO_MANY_ROWS,
        Reason.OVERSIZED,
    }
    assert growth <= 4 * len(body) + (8 << 20)
    assert pa.total_allocated_bytes() == arrow


def _rows(batches):
    return schema(*_AB) + batch(2, [(2, 0)] * 2, [(0, 0), (0, 16), (0, 0), (16, 16)], _TWO.tobytes() * 2) * batches


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda: _rows(1) + END, 2),
        (lambda: _rows(20_000) + END, 40_000),
        (lambda: _rows(3), 6),  # without an end
        (lambda: schema(*_AB, *(field(b"%d" % number) for number in range(4_094))) + END, 0),
        (lambda: _written(pa.table({"a": np.zeros(131_072), "b": np.zeros(131_072)})), 131_072),
        (lambda: _written(pa.table({"a": _TWO, "b": _TWO}), use_legacy_format=True), 2),
        (
            lambda: _written(
                pa.table({"a": _TWO, "b": _TWO, "t": pa.array([1, 2]).cast(pa.timestamp("s", "Europe/Vienna"))})
            ),
            2,
        ),
        (
            lambda: _written(
                pa.table({"a": _TWO, "b": _TWO, "n": pa.array([[{"x": "é"}], None])}).replace_schema_metadata(
                    {"k": "v" * 9}
                )
            ),
            2,
        ),
        (lambda: _written(pa.table({"a": _TWO, "b": _TWO, "r": pa.RunEndEncodedArray.from_arrays([2], ["s"])})), 2),
    ],
    ids=[
        "made by hand",
        "many batches",
        "no end",
        "4,096 columns",
        "all rows",
        "legacy",
        "time zone",
        "nested",
        "runs",
    ],
)
def test_what_is_taken_takes_little(make, rows):
    """Streams of plain columns are read whole, in memory of a few times their length and their rows."""
    body = make()
    decoded, growth = _growth(ArrowCodec(small_plan()), body)
    assert isinstance(decoded, ArrowQueries)
    assert len(decoded.features) == rows
    assert growth <= 24 * len(body) + 8 * rows * 2 * 4 + (8 << 20)


def test_the_hand_made_stream_is_read_as_pyarrow_writes_it():
    """The builder of this file makes what pyarrow reads, so its bombs are ones."""
    table = read_stream(_rows(2) + END, 0)
    assert table.column_names == ["a", "b"]
    assert table["b"].to_pylist() == [0.5, 0.25] * 2
    assert read_stream(schema(*_AB, _nested(5)) + END, 0).num_columns == 3
    with pa.ipc.open_stream(_swapped(3)) as reader:
        assert reader.read_all().num_columns == 5


def _hostile(rng, body):
    """Return a message with a few bytes or words changed, cut or doubled."""
    changed = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        kind = rng.randrange(4)
        if kind == 0:
            changed[at] = rng.randrange(256)
        elif kind == 1:
            at &= -4
            word = rng.choice([0, 1, 4, 8, at, len(body), 2**16, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1])
            changed[at : at + 4] = struct.pack("<I", word)
        elif kind == 2:
            changed[at : at + rng.randint(1, 16)] = changed[at // 2 : at // 2 + rng.randint(1, 16)]
        elif rng.random() < 0.3 and at:
            del changed[at:]
    return bytes(changed)


def test_hostile_bytes_neither_crash_nor_pass():
    """Changed streams are refused by one of few errors; whatever is let through and read has the rows counted."""
    rng = random.Random(3)  # noqa: S311  # test data
    seeds = [
        _rows(2) + END,
        _written(pa.table({"a": _TWO, "b": _TWO, "id": ["x", "y"]})),
        _written(pa.table({"a": _TWO, "b": _TWO, "n": pa.array([[{"x": "é"}], None])})),
        _written(pa.table({"a": _TWO, "b": _TWO}), compression="zstd"),
        _written(
            pa.table({"a": _TWO, "b": _TWO, "v": pa.array(["x", "long enough to stand outside"], pa.string_view())})
        ),
        _written(pa.table({"a": _TWO, "b": _TWO, "c": pa.array(["x", "y"]).dictionary_encode()}), compression="lz4"),
        _written(
            pa.table(
                {"a": _TWO, "b": _TWO, "u": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))}
            )
        ),
    ]
    verdicts = dict.fromkeys(("read", "unreadable", "unsupported", "malformed"), 0)
    for number in range(6_000):
        body = _hostile(rng, seeds[number % len(seeds)])
        try:
            announced = read_frames(body)
        except UnsupportedFrameError:
            verdicts["unsupported"] += 1
            continue
        except (ValueError, IndexError, struct.error):
            verdicts["malformed"] += 1
            continue
        if announced.unpacked > 1 << 20:
            verdicts["unsupported"] += 1
            continue
        try:
            table = read_stream(body, 1 << 20)
        except (pa.ArrowException, OSError, ValueError, LongTextsError):
            verdicts["unreadable"] += 1
            continue
        assert table.num_rows == announced.rows
        verdicts["read"] += 1
    assert min(verdicts.values()) > 200, verdicts


def test_hostile_bytes_change_nothing_beside_them():
    """Between two good messages a changed one is what it is alone, and so are they; where it is rejected, all are."""
    rng = random.Random(4)  # noqa: S311  # test data
    codec = ArrowCodec(small_plan())
    seeds = [_rows(2) + END, _rows(3), _written(pa.table({"a": _TWO, "b": _TWO, "id": ["x", "y"]}))]
    together = 0
    for number in range(4_000):
        good = seeds[number % len(seeds)]
        bodies = [good, _hostile(rng, good), good]
        alone = [codec.decode(body) for body in bodies]
        run = codec.decode_run(bodies)
        if run is None:
            continue
        together += 1
        for part, message in zip(run.parts, alone, strict=True):
            assert isinstance(message, ArrowQueries)
            assert [column.tobytes() for column in part[:3]] == [column.tobytes() for column in message[:3]]
            assert part.identifiers == message.identifiers
    assert 200 < together < 3_800
