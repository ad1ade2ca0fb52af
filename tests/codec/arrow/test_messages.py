import msgspec
import numpy as np
import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM, JSON, Delivery, Rejected
from oracle.codec.arrow.messages import ArrowCodec
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import BoxPlan
from tests.support.shards import (
    arrow_body,
    bodies,
    new_shard,
    process,
    process_in_batches,
    same_state,
    small_plan,
    state_of,
)

_A, _B = [0.5, 0.25], [0.25, 0.5]
_WHOLE = arrow_body(pa.table({"a": _A, "b": _B}))
_BAD_TEXT = pa.StringArray.from_buffers(
    2, pa.py_buffer(np.array([0, 1, 2], dtype=np.int32).tobytes()), pa.py_buffer(b"\xff\xfe")
)


def _table(**columns):
    return arrow_body(pa.table(columns))


def _twice(name):
    names = ["a", "b", name]
    return arrow_body(pa.Table.from_arrays([pa.array(_A)] * 3, names=names))


def _file_format():
    sink = pa.BufferOutputStream()
    table = pa.table({"a": _A, "b": _B})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


# Name, body, reason, field.
_REJECTED = [
    ("empty", b"", "malformed", "body"),
    ("garbage", b"garbage" * 20, "malformed", "body"),
    ("json", b'{"x":[1,2]}', "malformed", "body"),
    ("truncated by a byte", _WHOLE[:-1], "malformed", "body"),
    ("truncated by half", _WHOLE[: len(_WHOLE) // 2], "malformed", "body"),
    ("schema only, cut", _WHOLE[:40], "malformed", "body"),
    ("a byte behind", _WHOLE + b"\0", "malformed", "body"),
    ("two streams", _WHOLE + _WHOLE, "malformed", "body"),
    ("file format", _file_format(), "malformed", "body"),
    ("bad UTF-8 in an id", _table(a=_A, b=_B, id=_BAD_TEXT), "malformed", "body"),
    ("bad UTF-8 in an ignored column", _table(a=_A, b=_B, note=_BAD_TEXT), "malformed", "body"),
    (
        "dictionary index outside, in an ignored column",
        _table(a=_A, b=_B, note=pa.DictionaryArray.from_arrays(pa.array([5, 6]), pa.array(["n"]), safe=False)),
        "malformed",
        "body",
    ),
    ("missing column", _table(a=_A), "missing-feature", "b"),
    ("other case", _table(a=_A, B=_B), "missing-feature", "b"),
    ("column twice", _twice("b"), "missing-feature", "b"),
    ("no columns", arrow_body(pa.table({})), "missing-feature", "a"),
    ("text", _table(a=_A, b=["0.5", "0.5"]), "wrong-type", "b"),
    ("booleans", _table(a=[True, False], b=_B), "wrong-type", "a"),
    ("dictionary of texts", _table(a=pa.array(["0.5", "1"]).dictionary_encode(), b=_B), "wrong-type", "a"),
    (
        "dictionary of lists",
        _table(a=pa.DictionaryArray.from_arrays([0, 0], [[0.5]]), b=_B),
        "unsupported-content",
        "body",
    ),
    (
        "dictionary of durations",
        _table(a=pa.array([1, 2], pa.duration("s")).dictionary_encode(), b=_B),
        "wrong-type",
        "a",
    ),
    ("views", _table(a=pa.array(["0.5", "1"], pa.string_view()), b=_B), "wrong-type", "a"),
    ("list", _table(a=[[0.5], [0.25]], b=_B), "wrong-type", "a"),
    ("struct", _table(a=[{"v": 0.5}, {"v": 0.25}], b=_B), "wrong-type", "a"),
    ("run-end encoded", _table(a=pa.RunEndEncodedArray.from_arrays([2], [0.5]), b=_B), "wrong-type", "a"),
    ("decimal", _table(a=pa.array(_A).cast(pa.decimal128(5, 2)), b=_B), "wrong-type", "a"),
    ("timestamp", _table(a=pa.array([1, 2]).cast(pa.timestamp("s")), b=_B), "wrong-type", "a"),
    ("duration", _table(a=pa.array([1, 2]).cast(pa.duration("s")), b=_B), "wrong-type", "a"),
    ("date", _table(a=pa.array([1, 2], pa.int32()).cast(pa.date32()), b=_B), "wrong-type", "a"),
    ("binary", _table(a=[b"12345678", b"12345678"], b=_B), "wrong-type", "a"),
    ("id of floats", _table(a=_A, b=_B, id=[1.0, 2.0]), "bad-id", "id"),
    ("id of booleans", _table(a=_A, b=_B, id=[True, False]), "bad-id", "id"),
    ("id of bytes", _table(a=_A, b=_B, id=[b"x", b"y"]), "bad-id", "id"),
    ("id unsigned", _table(a=_A, b=_B, id=pa.array([1, 2], pa.uint64())), "bad-id", "id"),
    ("id of a dictionary of bytes", _table(a=_A, b=_B, id=pa.array([b"x"] * 2).dictionary_encode()), "bad-id", "id"),
    ("id of views of bytes", _table(a=_A, b=_B, id=pa.array([b"x"] * 2, pa.binary_view())), "bad-id", "id"),
    ("id of views too long", _table(a=_A, b=_B, id=pa.array(["x", "y" * 257], pa.string_view())), "bad-id", "id"),
    ("id too long", _table(a=_A, b=_B, id=["x", "y" * 257]), "bad-id", "id"),
    ("id too long in bytes", _table(a=_A, b=_B, id=["x", "é" * 129]), "bad-id", "id"),
    ("too many rows", _table(a=np.zeros(131_073), b=np.zeros(131_073)), "too-many-rows", "body"),
    ("too many rows of nothing", _table(n=pa.nulls(1 << 24)), "too-many-rows", "body"),
]


@pytest.mark.parametrize(("body", "reason", "field"), [row[1:] for row in _REJECTED], ids=[row[0] for row in _REJECTED])
def test_rejected_message_costs_nothing(body, reason, field):
    """One JSON reply names reason and field; no round passes and no bit of the state changes."""
    shard = new_shard()
    before, mark = state_of(shard), shard.mark
    outcome = process(shard, [Delivery(1, body, ARROW_STREAM)])
    (reply,) = outcome.commit.replies.rows()
    answer = msgspec.json.decode(reply.body)
    assert (reply.content_type, reply.rejected) == (JSON, Rejected(reason, 1, body))
    assert (answer["error"], answer["field"], answer["id"], answer["model"]) == (reason, field, None, "tiny")
    assert answer["bound"]
    assert (outcome.rounds, list(outcome.rejections), outcome.commit.ledger) == (0, [Reason(reason)], [])
    assert same_state(before, state_of(shard))
    assert shard.mark == mark


def _narrow(**limits: int) -> BoxPlan:
    plan = small_plan()
    return msgspec.structs.replace(plan, limits=msgspec.structs.replace(plan.limits, **limits))


def test_limits_of_bytes_and_rows_are_exact():
    """The limits themselves are allowed, one more is not."""
    assert not isinstance(ArrowCodec(_narrow(batch_bytes=len(_WHOLE))).decode(_WHOLE), Rejection)
    refused = ArrowCodec(_narrow(batch_bytes=len(_WHOLE) - 1)).decode(_WHOLE)
    assert refused == Rejection(Reason.OVERSIZED, "body", f"at most {len(_WHOLE) - 1} bytes")
    assert not isinstance(ArrowCodec(_narrow(rows=2)).decode(_WHOLE), Rejection)
    assert ArrowCodec(_narrow(rows=1)).decode(_WHOLE) == Rejection(Reason.TOO_MANY_ROWS, "body", "at most 1 rows")


def _answered(body):
    shard = new_shard()
    before = state_of(shard)
    outcome = process(shard, [Delivery(1, body, ARROW_STREAM)])
    (reply,) = outcome.commit.replies.rows()
    assert (reply.content_type, reply.rejected) == (ARROW_STREAM, None)
    with pa.ipc.open_stream(reply.body) as reader:
        table = reader.read_all()
    assert table.schema.metadata == {b"model": b"tiny"}
    return table, outcome, same_state(before, state_of(shard))


def test_bad_rows_are_rejected_one_by_one():
    """Rows with NaN, infinity or some nulls are named with their ids; the others are answered in consecutive rounds."""
    nan, infinity = float("nan"), float("inf")
    table, outcome, untouched = _answered(
        _table(
            id=["q", "nan", "inf", "-inf", "part", "none", "z"],
            a=[0.5, nan, 0.5, -infinity, None, None, 0.5],
            b=[0.5, 0.5, infinity, 0.5, 0.5, None, 0.5],
        )
    )
    rows = {row.pop("id"): row for row in table.to_pylist()}
    assert outcome.rounds == 3
    assert not untouched
    for name, reason in (
        ("nan", "not-finite"),
        ("inf", "not-finite"),
        ("-inf", "not-finite"),
        ("part", "missing-feature"),
    ):
        assert rows[name] == {"label": -1, "round": -1, "phase": -1, "error": reason}
    assert [rows[name]["round"] for name in ("q", "none", "z")] == [0, 1, 2]
    assert rows["none"] == {"label": -1, "round": 1, "phase": 1, "error": None}
    assert {rows[name]["label"] for name in ("q", "z")} <= {0, 1}


def test_message_of_bad_rows_only_touches_nothing():
    """It is answered, row by row, without a round."""
    table, outcome, untouched = _answered(_table(a=[float("nan"), None], b=[0.5, 0.5]))
    assert table["error"].to_pylist() == ["not-finite", "missing-feature"]
    assert (outcome.rounds, untouched) == (0, True)


@pytest.mark.parametrize("with_batch", [True, False])
def test_empty_table_is_answered_by_one(with_batch):
    """No rows in, none out, and no round."""
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if with_batch:
            writer.write_batch(pa.record_batch([[], []], schema=schema))
    table, outcome, untouched = _answered(sink.getvalue().to_pybytes())
    assert (table.num_rows, outcome.rounds, untouched) == (0, 0, True)


@pytest.mark.parametrize(
    ("identifiers", "given_back"),
    [
        (pa.array(["x", "y"]), pa.string()),
        (pa.array(["x", None]), pa.string()),
        (pa.array(["x", "y"], pa.large_string()), pa.string()),
        (pa.array(["", "é" * 128]), pa.string()),
        (pa.array([1, -2], pa.int8()), pa.int64()),
        (pa.array([2**63 - 1, None]), pa.int64()),
        (pa.array(["x", "y" * 40], pa.string_view()), pa.string()),
        (pa.array(["x", None], pa.large_string()).dictionary_encode(), pa.string()),
        (pa.array([7, 7], pa.int16()).dictionary_encode(), pa.int64()),
        (pa.nulls(2), pa.string()),
    ],
)
def test_ids_come_back(identifiers, given_back):
    """Strings and signed integers are echoed with the answers, before them."""
    table, _, _ = _answered(_table(a=_A, b=_B, id=identifiers))
    assert table.column_names == ["id", "label", "round", "phase", "error"]
    assert table.schema.field("id").type == given_back
    assert table["id"].to_pylist() == identifiers.to_pylist()


def test_without_ids_none_come_back():
    """A message without a column of ids is answered without one."""
    table, _, _ = _answered(_WHOLE)
    assert table.column_names == ["label", "round", "phase", "error"]
    assert table.num_rows == 2


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()],
    ids=str,
)
def test_number_types_are_one_query(kind):
    """The same numbers of any type, with columns in any order and of any batching, give the same answer and tag."""
    values = [pa.array(np.array(column), pa.float64()).cast(kind) for column in ([0, 1, 1], [1, 0, 1])]
    plain = new_shard()
    floats = _table(a=[0.0, 1.0, 1.0], b=[1.0, 0.0, 1.0])
    expected = process_in_batches(plain, [Delivery(1, floats, ARROW_STREAM)])
    table = pa.table({"b": values[1], "other": ["x", "y", "z"], "a": values[0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    shard = new_shard()
    assert process_in_batches(shard, [Delivery(1, sink.getvalue().to_pybytes(), ARROW_STREAM)]) == expected
    assert same_state(state_of(shard), state_of(plain))


def test_arrow_rows_and_json_messages_are_the_same_queries():
    """Labels, rounds, phases, ledger and mark agree with the same queries as JSON."""
    messages = bodies(900)
    features = np.array([msgspec.json.decode(body)["x"] for body in messages])
    as_json, as_arrow = new_shard(), new_shard()
    expected = process_in_batches(as_json, [Delivery(number, body) for number, body in enumerate(messages, 1)])
    outcome = process(as_arrow, [Delivery(900, _table(a=features[:, 0], b=features[:, 1]), ARROW_STREAM)])
    with pa.ipc.open_stream(outcome.commit.replies.bodies[0]) as reader:
        rows = reader.read_all().to_pylist()
    answers = [msgspec.json.decode(reply) for reply in expected.replies]
    assert [(row["label"], row["round"], row["phase"]) for row in rows] == [
        (answer["label"], answer["round"], answer["phase"]) for answer in answers
    ]
    assert outcome.commit.ledger == expected.ledger
    assert as_arrow.mark == expected.mark
    assert len(expected.ledger) > 3
    assert same_state(state_of(as_arrow), state_of(as_json))


def test_replies_have_one_length_whatever_the_labels():
    """Replies to as many rows with as long ids have the same number of bytes, all labels being in play."""
    lengths, labels = set(), set()
    for value in np.linspace(-0.2, 1.2, 15):
        present = [None, value, value, value]
        table, outcome, _ = _answered(_table(a=present, b=[None, 0.5, 0.5, value], id=list("abcd")))
        lengths.add(len(outcome.commit.replies.bodies[0]))
        labels |= set(table["label"].to_pylist())
    assert labels == {-1, 0, 1}
    assert len(lengths) == 1
