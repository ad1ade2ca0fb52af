"""Arrow messages that are read as one stream: the same rows as one by one; and answers as pyarrow writes them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.codec.arrow import messages as arrow_messages
from oracle.codec.arrow.frames import read_frames
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.arrow.streams import END, read_joined
from oracle.codec.rejections import Reason, Rejection
from tests.predictors.plans import tiny_bisection_plan
from tests.support.flatbuffers import NULL, batch, field, schema
from tests.support.shards import small_plan

_PLAN = small_plan()
_KINDS = ("plain", "id", "numbers", "large", "other order", "float32", "metadata", "nested", "note", "missing")
_CELLS = st.sampled_from([0.5, 0.25, -1.0, 0.0, None, float("nan")])
_IDS = st.sampled_from([None, "", "a", "é" * 9, "x" * 300])
_TAILS = (lambda body: body, lambda body: body.removesuffix(END), lambda body: body[:-3], lambda body: body + bytes(8))


def _stream(table, chunk=None, *, legacy=False):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(use_legacy_format=legacy)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return sink.getvalue().to_pybytes()


def _whole(kind, a, b, identifiers):
    numbers = pa.float32() if kind == "float32" else pa.float64()
    columns = {"a": pa.array(a, numbers), "b": pa.array(b, numbers)}
    count = len(a)
    if kind in {"id", "large"}:
        columns["id"] = pa.array(identifiers, pa.string() if kind == "id" else pa.large_string())
    elif kind == "numbers":
        columns["id"] = pa.array([None, *range(1, count)][:count], pa.int16())
    elif kind == "nested":
        columns["more"] = pa.array([[1.0] * (row % 3) for row in range(count)], pa.list_(pa.float64()))
    elif kind == "note":
        columns["note"] = pa.array(identifiers, pa.string())
    elif kind == "missing":
        del columns["b"]
    names = sorted(columns, reverse=kind == "other order")
    return pa.table({name: columns[name] for name in names}, metadata={"by": "me"} if kind == "metadata" else None)


@st.composite
def _messages(draw):
    """Draw messages, mostly of one kind, of one or several batches, of the old form or the new; some are cut."""
    usual = draw(st.sampled_from(_KINDS[:-1]))
    messages = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from([usual] * 9 + list(_KINDS)))
        count = draw(st.integers(0, 17))
        cells = st.lists(_CELLS if draw(st.booleans()) else st.just(0.5), min_size=count, max_size=count)
        short = st.lists(_IDS if draw(st.integers(0, 9)) == 0 else st.just("q"), min_size=count, max_size=count)
        table = _whole(kind, draw(cells), draw(cells), draw(short))
        body = _stream(table, draw(st.sampled_from([None, None, 1, 7])), legacy=draw(st.integers(0, 5)) == 0)
        messages.append(_TAILS[draw(st.sampled_from([0] * 12 + [1, 1, 2, 3]))](body))
    return messages


def _columns(rows):
    return [column.tobytes() for column in rows[:3]]


def _same(one, other):
    """Compare rows bit by bit, and ids with all that stands in their buffers."""
    assert _columns(one) == _columns(other)
    assert (one.identifiers is None) == (other.identifiers is None)
    if one.identifiers is not None:
        assert one.identifiers.type == other.identifiers.type
        written = [pa.record_batch([part.identifiers], names=["id"]).serialize().to_pybytes() for part in (one, other)]
        assert written[0] == written[1]


@given(_messages())
def test_a_run_is_its_messages_one_by_one(messages):
    """Rows and ids, bit by bit; where one of them is rejected, or they have other columns, there is no run."""
    _assert_one_by_one(messages)


def _assert_one_by_one(messages):
    codec = ArrowCodec(_PLAN)
    alone = [codec.decode(body) for body in messages]
    run = codec.decode_run(messages)
    if any(isinstance(message, Rejection) for message in alone):
        assert run is None
    if run is None:
        return
    assert len(run.parts) == len(messages)
    for part, message in zip(run.parts, alone, strict=True):
        _same(part, message)
    for index in range(3):
        assert _columns(run.whole)[index] == b"".join(_columns(message)[index] for message in alone)


def _usual(rows, **columns):
    return _stream(pa.table({"a": np.full(rows, 0.5), "b": np.full(rows, 0.25), **columns}))


@given(place=st.integers(0, 1000), bit=st.integers(0, 7), which=st.integers(0, 2))
def test_damaged_messages_are_read_as_alone(place, bit, which):
    """Whichever bit is another one."""
    bodies = [_usual(5) for _ in range(3)]
    damaged = bytearray(bodies[which])
    damaged[place % len(damaged)] ^= 1 << bit
    bodies[which] = bytes(damaged)
    _assert_one_by_one(bodies)


@pytest.mark.parametrize(
    "bodies",
    [
        [_usual(rows) for rows in (3, 1, 1000, 3)],
        [_usual(2, id=["x", None]), _usual(1, id=["y"])],
        [_stream(_whole("plain", [0.5, None], [None, None], []), 1), _usual(3)],
        [_usual(0), _usual(3)],
        [_usual(5), _usual(4).removesuffix(END)],
        [_stream(pa.table({"a": [0.5], "b": [0.5]}), legacy=True)] * 3,
    ],
    ids=["sizes", "ids", "nulls and batches", "no rows", "no end", "legacy"],
)
def test_usual_messages_are_read_as_one(bodies, monkeypatch):
    """The way that is taken for messages of the same columns makes no reader for each."""
    monkeypatch.setattr(arrow_messages, "read_stream", lambda _: pytest.fail("one by one"))
    assert ArrowCodec(_PLAN).decode_run(bodies) is not None


def _announced(rows, length):
    """Return a message of so many rows with columns of another length."""
    spans = [span for first in (0, 8 * length) for span in ((0, 0), (first, 8 * length))]
    frame = batch(rows, [(length, 0)] * 2, spans, np.full(2 * length, 0.5).tobytes())
    return schema(field(b"a"), field(b"b")) + frame + END


def test_rows_do_not_move_from_one_message_to_the_next():
    """Two messages that announce as many rows in all as they have, but not each, are both rejected, and not read."""
    long, short, good = _announced(2, 3), _announced(3, 2), _announced(2, 2)
    codec = ArrowCodec(_PLAN)
    assert [codec.decode(body) for body in (long, short)] == [
        Rejection(Reason.MALFORMED, "body", "one Arrow IPC stream")
    ] * 2
    assert read_joined([long, short], 10, 1000) is None
    assert codec.decode_run([long, short]) is None
    assert read_joined([good, good], 10, 10_000) is not None


def test_limits_hold_for_each_message_of_a_run():
    """Bytes and rows of one message, not of all."""
    bodies = [_usual(3), _usual(5)]
    longest = max(map(len, bodies))
    assert read_joined(bodies, 5, longest) is not None
    assert read_joined(bodies, 4, longest) is None
    assert read_joined(bodies, 5, longest - 1) is None


def test_frames_of_odd_lengths_are_not_joined():
    """Bodies whose buffers would come to stand elsewhere between words are read alone."""
    odd = schema(field(b"n", NULL)) + batch(2, [(2, 0)], [], b"abc")
    assert read_frames(odd)[:2] == (2, 1)
    assert read_joined([odd, odd], 10, 1000) is None


def _by_pyarrow(outcome, first, phases, name, model):
    """Return answers as pyarrow's writer writes them."""
    count = len(outcome)
    table = {
        name: pa.array(outcome),
        "round": pa.array(np.arange(first, first + count)),
        "phase": pa.array(phases.astype(np.int32)),
        "error": pa.nulls(count, pa.string()),
    }
    whole = pa.schema([(key, column.type) for key, column in table.items()], metadata={"model": model})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole) as writer:
        writer.write_batch(pa.record_batch(list(table.values()), schema=whole))
    return sink.getvalue().to_pybytes()


def _asked(count):
    return ArrowQueries(np.zeros((count, 2)), np.ones(count, dtype=bool), np.zeros(count, dtype=np.int8), None)


_SIZES = (*range(130), 1000, 70_000)


@pytest.mark.parametrize("kind", [np.int8, np.float64])
def test_answers_are_what_pyarrow_writes(kind):
    """Byte for byte, with all numbers other each time, though they are slices of other people's; padding is zero."""
    plan, name = (_PLAN, "label") if kind is np.int8 else (tiny_bisection_plan(100, 100), "value")
    codec = ArrowCodec(plan)
    rng = np.random.default_rng(5)
    for count in _SIZES:
        outcomes = rng.integers(-1, 120, count + 20).astype(kind)[7 : count + 7]
        phases = rng.integers(1, 2**31, count + 20)[3 : count + 3]
        first = int(rng.integers(0, 2**40))
        body = codec.encode(_asked(count), outcomes, first, phases)
        assert body == _by_pyarrow(outcomes, first, phases, name, plan.name), count


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 0), (0, 16), (0, 0), (24, 16)],
        [(0, 0), (0, 16), (0, 0), (32, 16)],
        [(0, 0), (0, 16), (32, 8), (16, 16)],
        [(0, 0), (-16, 16), (0, 0), (16, 16)],
        [(0, 0), (0, 16), (0, 0), (16, 8)],
    ],
    ids=["half outside", "outside", "bits outside", "before", "too short"],
)
def test_no_buffer_reaches_into_the_next_message(spans):
    """Numbers that a message places beyond its own body are not read from the body behind it."""
    greedy, good = (
        schema(field(b"a"), field(b"b")) + batch(2, [(2, 0), (2, int(place != 0))], where, bytes(32)) + END
        for place, where in ((spans[2][0], spans), (0, [(0, 0), (0, 16), (0, 0), (16, 16)]))
    )
    codec = ArrowCodec(_PLAN)
    assert isinstance(codec.decode(greedy), Rejection)
    assert codec.decode_run([good, greedy, good]) is None
    assert read_joined([good, greedy, good], 10, 10_000) is None
    assert read_joined([good, good], 10, 10_000) is not None
