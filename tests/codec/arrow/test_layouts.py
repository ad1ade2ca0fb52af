"""Arrow messages that differ in their numbers only: read as pyarrow reads each of them, or not at all."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.codec.arrow import layouts as arrow_layouts
from oracle.codec.arrow import messages as arrow_messages
from oracle.codec.arrow.layouts import Layouts
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.arrow.streams import END, read_stream
from oracle.codec.rejections import Rejection
from tests.support.shards import small_plan

_PLAN = small_plan()
_ROWS = 5
_ANY = st.floats(width=64, allow_nan=True, allow_infinity=True)


def _stream(table, chunk=None, *, legacy=False):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(use_legacy_format=legacy)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return sink.getvalue().to_pybytes()


def _message(values, **more):
    a, b = np.asarray(values, dtype=np.float64).reshape(2, -1)
    return _stream(pa.table({"b": b, "t": np.arange(len(a), dtype=np.int16), "a": a, **more}))


def _plain(seed=1, rows=_ROWS):
    return _message(np.random.default_rng(seed).random(2 * rows))


def _layouts(most_rows=100, most_bytes=100_000):
    return Layouts(["a", "b"], most_rows, most_bytes)


def _assert_one_by_one(bodies):
    """A run is what its messages are alone; one with a message that is rejected is no run."""
    run = ArrowCodec(_PLAN).decode_run(bodies)
    if run is None:
        return None
    alone = [message for message in map(ArrowCodec(_PLAN).decode, bodies) if isinstance(message, ArrowQueries)]
    assert [list(map(_bits, part[:3])) for part in run.parts] == [list(map(_bits, message[:3])) for message in alone]
    assert [part.identifiers for part in run.parts] == [message.identifiers for message in alone]
    for index in range(3):
        assert _bits(run.whole[index]) == b"".join(_bits(message[index]) for message in alone)
    return run


def _bits(column):
    return column.tobytes()


@given(st.lists(st.lists(_ANY, min_size=2 * _ROWS, max_size=2 * _ROWS), min_size=1, max_size=40))
def test_numbers_are_read_bit_by_bit(values):
    """Any numbers, those that are none too, whatever stands between and behind the features' columns."""
    bodies = [_message(some) for some in values]
    features, rows = _layouts().read(bodies)
    assert rows == _ROWS
    expected = np.concatenate([np.array(some).reshape(2, -1).T for some in values])
    assert features.tobytes() == expected.tobytes()
    assert _assert_one_by_one(bodies) is not None


def test_usual_messages_are_not_given_to_pyarrow(monkeypatch):
    """But for one of them; and again where they change."""
    monkeypatch.setattr(arrow_messages, "read_joined", lambda *_: pytest.fail("given to pyarrow"))
    codec = ArrowCodec(_PLAN)
    for rows in (5, 7, 5):
        run = codec.decode_run([_plain(seed, rows) for seed in range(300)])
        assert run is not None
        assert [len(part.rejected) for part in run.parts] == [rows] * 300


@given(place=st.integers(0, 1000), bit=st.integers(0, 7), which=st.integers(0, 2), cut=st.integers(-9, 9))
def test_damaged_messages_are_read_as_alone(place, bit, which, cut):
    """Whichever bit is another one, and wherever a message ends."""
    bodies = [_plain(seed) for seed in range(3)]
    damaged = bytearray(bodies[which])
    damaged[place % len(damaged)] ^= 1 << bit
    bodies[which] = bytes(damaged)
    run = _assert_one_by_one(bodies)
    if run is None:
        assert isinstance(ArrowCodec(_PLAN).decode(bodies[which]), Rejection) or _layouts().read(bodies) is None
    other = [_plain(seed) for seed in range(3)]
    other[which] = other[which][:cut] if cut < 0 else other[which] + bytes(cut)
    _assert_one_by_one(other)


_NUMBERS = np.random.default_rng(1).random(2 * _ROWS)


@pytest.mark.parametrize(
    "body",
    [
        _message(_NUMBERS, id=np.arange(_ROWS)),
        _message(_NUMBERS, c=pa.array(["é"] * _ROWS)),
        _message(_NUMBERS, c=pa.array([None, *range(1, _ROWS)])),
        _message(_NUMBERS, c=pa.array([[1.0]] * _ROWS)),
        _message(_NUMBERS, c=pa.array([True] * _ROWS)),
        _stream(pa.table({"a": np.ones(_ROWS, dtype=np.float32), "b": np.ones(_ROWS)})),
        _stream(pa.table({"a": np.ones(_ROWS, dtype=np.int64), "b": np.ones(_ROWS)})),
        _stream(pa.table({"a": pa.array([None, *[1.0] * (_ROWS - 1)]), "b": np.ones(_ROWS)})),
        _stream(pa.table({"a": np.ones(_ROWS)})),
        _stream(pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "b", "a"])),
        _stream(pa.table({"a": np.ones(_ROWS), "b": np.ones(_ROWS)}), 2),
        _stream(pa.table({"a": np.ones(_ROWS), "b": np.ones(_ROWS)}), legacy=True),
        _plain(rows=0),
        _plain(rows=101),
        _plain() + bytes(8),
        _plain()[: -len(END) - 1],
        b"",
        b"?",
    ],
)
def test_all_others_are_left_to_pyarrow(body):
    """Also where the very message comes many times."""
    layouts = _layouts()
    assert layouts.read([body]) is None
    assert layouts.read([body] * 9) is None
    assert layouts.read([_plain()]) is not None
    assert layouts.read([body]) is None
    _assert_one_by_one([body] * 3)


def test_messages_of_no_layout_are_looked_at_once(monkeypatch):
    """By their schema if that is why; a null hides no message of the same schema without one."""
    layouts, reads = _layouts(), []

    def counted(body):
        reads.append(body)
        return read_stream(body)

    monkeypatch.setattr(arrow_layouts, "read_stream", counted)
    for count in range(1, 4):
        assert layouts.read([_message(np.ones(2 * count), c=pa.array(["x"] * count))]) is None
    assert len(reads) == 1
    plain = _stream(pa.table({"a": pa.array([0.5, 0.25]), "b": np.ones(2)}))
    assert layouts.read([_stream(pa.table({"a": pa.array([None, 0.25]), "b": np.ones(2)}))] * 3) is None
    assert layouts.read([_stream(pa.table({"a": pa.array([None, 0.75]), "b": np.zeros(2)}))] * 3) is None
    assert len(reads) == 2
    assert layouts.read([plain] * 3) is not None


def test_a_stream_without_its_end_is_one():
    """As pyarrow takes it."""
    bodies = [_plain(seed).removesuffix(END) for seed in range(3)]
    assert _layouts().read(bodies) is not None
    _assert_one_by_one(bodies)
    assert _layouts().read([_plain(), *bodies]) is None


def test_bounds():
    """Of rows and of bytes."""
    body = _plain()
    assert _layouts(most_rows=_ROWS, most_bytes=len(body)).read([body]) is not None
    assert _layouts(most_rows=_ROWS - 1).read([body]) is None
    assert _layouts(most_bytes=len(body) - 1).read([body]) is None
