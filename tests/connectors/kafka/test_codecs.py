"""The two codecs over a real broker, and the largest message that either can make."""

import asyncio
import re

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery
from connectors.kafka.topics import DEFAULT_MESSAGE_BYTES
from oracle.codec.batches import BatchCodec
from oracle.hosting.kafka_settings import largest_reply
from oracle.planning.model import Limits
from oracle.planning.serving import serving
from oracle.predictors.base import Answers
from tests.connectors.kafka.conftest import unique_name
from tests.predictors.plans import feature, tiny_ensemble_plan, tiny_plan
from tests.runtime.test_peaks import Peaks
from tests.support.arrow_types import unjoinable
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.kafka_records import batch, packed, produce, record
from tests.support.shards import arrow_body, bodies
from tests.support.waiting import TIMEOUT, eventually


def _ask(model, body, content_type, *, key=None, more=()):
    """Write one query, whatever its size."""
    producer = Producer({"bootstrap.servers": model.broker.servers, "message.max.bytes": 64_000_000})
    producer.produce(model.queries, body, key=key, headers=[("content-type", content_type), *more])
    assert producer.flush(TIMEOUT) == 0


def _table(answer):
    """Return an answer's rows."""
    assert dict(answer.headers)["content-type"] == ARROW_STREAM.encode()
    with pa.ipc.open_stream(answer.value) as reader:
        return reader.read_all()


def _columns(rows, seed=1):
    """Return columns of uniform features."""
    numbers = np.random.default_rng(seed).random((rows, 2))
    return {"a": numbers[:, 0], "b": numbers[:, 1]}


@pytest.fixture
def long_model(broker, request, tmp_path):
    """A model that has rounds for large messages."""
    plan = tiny_plan([feature("a"), feature("b")], points=(12, 15, 10, 13), rounds=40_000)
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create()
    yield made
    made.end()


def test_large_and_small_answers_stay_in_order(long_model):
    """They are put together by two builders, and all wait for one commit."""
    model, kinds = long_model, [1000, 1000, None, None, 10, 900, None, 1, 1000, 10, 1000]
    for number, rows in enumerate(kinds):
        body, kind = (arrow_body(pa.table(_columns(rows))), ARROW_STREAM) if rows else (bodies(1)[0], JSON)
        _ask(model, body, kind, key=b"%d" % number, more=[("correlation-id", b"c")] if number % 5 == 1 else ())
    serve_here(model.config(), lambda _log: model.count() >= len(kinds))
    rounds = 0
    for number, (answer, rows) in enumerate(zip(model.read(), kinds, strict=True)):
        assert answer.key == b"%d" % number
        assert (("correlation-id", b"c") in answer.headers) == (number % 5 == 1)
        given = _table(answer)["round"].to_pylist() if rows else [answer.body["round"]]
        assert given == list(range(rounds, rounds + len(given)))
        rounds += rows or 1


def test_many_rows_are_answered_by_one_record(long_model):
    """65,536 rows are one answer of 1.8 MB, larger than any batch the daemon writes by itself; JSON goes on beside."""
    model = long_model
    rows = 65_536
    ids = [f"row {index}" for index in range(rows)]
    model.broker.configure_topic(model.queries, {"max.message.bytes": "4000000"})
    model.ask(bodies(2))
    _ask(model, arrow_body(pa.table({"id": ids, **_columns(rows)})), "Application/Vnd.Apache.Arrow.Stream; x=y")
    _ask(model, bodies(1)[0], "Application/JSON; charset=utf-8")
    serve_here(model.config(), lambda _log: model.count() >= 4)
    first, second, many, last = model.read()
    table = _table(many)
    assert len(many.value) > 1_800_000
    assert [first.body["round"], second.body["round"], last.body["round"]] == [0, 1, rows + 2]
    assert table["id"].to_pylist() == ids
    assert table["round"].to_pylist() == list(range(2, rows + 2))
    assert set(table["label"].to_pylist()) == {0, 1}


def test_rows_that_are_no_query_are_told_in_their_row(model):
    """A row that is not finite or half empty is an error in its place; an empty row is a round without a query."""
    columns = {"a": [0.5, float("nan"), None, None], "b": [0.5, 0.5, 0.5, None], "id": [4, 5, 6, 7]}
    _ask(model, arrow_body(pa.table(columns)), ARROW_STREAM)
    serve_here(model.config(), lambda _log: model.count() >= 1)
    table = _table(model.read()[0])
    assert table["error"].to_pylist() == [None, "not-finite", "missing-feature", None]
    assert table["round"].to_pylist() == [0, -1, -1, 1]
    assert table["label"].to_pylist()[1:] == [-1, -1, -1]
    assert table["id"].to_pylist() == [4, 5, 6, 7]


def test_columns_of_any_type_do_not_stop_a_shard(model):
    """Each is told what is wrong with it, also after a restart, and what comes behind them is answered."""
    hostile, good = [*unjoinable().values()] * 2, bodies(40)
    model.ask(good[:1])
    for body in hostile:
        _ask(model, body, ARROW_STREAM)
    model.ask(good[1:20])
    first = model.serve(model.config())
    model.wait_for_answers(20 + len(hostile))
    for body in hostile:
        _ask(model, body, ARROW_STREAM)
    model.ask(good[20:])
    answers = model.wait_for_answers(40 + 2 * len(hostile))
    first.terminate()
    assert first.wait(60) == 0
    _ask(model, hostile[0], ARROW_STREAM)
    model.ask(bodies(1, seed=2))
    model.serve(model.config())
    answers = model.wait_for_answers(42 + 2 * len(hostile))
    told = [answer.value for answer in answers if b'"error"' not in answer.value]
    rejected = [answer.body for answer in answers if b'"error"' in answer.value]
    assert told == model.expected([*good, *bodies(1, seed=2)])
    assert [(one["error"], one["field"]) for one in rejected] == [("wrong-type", "a")] * (2 * len(hostile) + 1)


def test_content_types_of_another_kind_and_oversized_messages_are_rejected(model):
    """What is of no known type, too long or of too many rows is an error answer in JSON, and takes no round."""
    limits = model.plan.limits
    model.broker.configure_topic(model.queries, {"max.message.bytes": "4000000"})
    body = bodies(1)[0]
    for content_type in ("text/plain", "application/json+x", "application/vnd.apache.arrow.file", "\udcff"):
        _ask(model, body, content_type.encode(errors="surrogateescape"))
    _ask(model, b'{"pad":"' + b"p" * 3_000_000 + b'"}', JSON)
    nulls = {name: np.zeros(limits.rows + 1, dtype=np.int8) for name in ("a", "b")}
    _ask(model, arrow_body(pa.table(nulls)), ARROW_STREAM)
    _ask(model, body, ARROW_STREAM)
    _ask(model, body, JSON)
    serve_here(model.config(), lambda _log: model.count() >= 8)
    *rejected, answered = model.read()
    assert [answer.body["error"] for answer in rejected] == [
        *["unsupported-content"] * 4,
        "oversized",
        "too-many-rows",
        "malformed",
    ]
    assert all(answer.headers == (("content-type", JSON.encode()),) for answer in rejected)
    assert answered.body["round"] == 0


# The bound on replies


@st.composite
def _messages(draw):
    """Draw a plan and an Arrow message in which little stands for much: narrow columns, long or no ids, errors."""
    count = draw(st.integers(1, 3))
    rows = draw(st.sampled_from([0, 1, 7, 8, 1000, 4097]))
    kind = draw(st.sampled_from([pa.int8(), pa.uint8(), pa.float16(), pa.float32(), pa.int64()]))
    filling = draw(st.sampled_from(["numbers", "first null", "all null", "nan"]))
    columns = {}
    for index in range(count):
        values = np.full(rows, 0, dtype=kind.to_pandas_dtype())
        if filling == "nan" and pa.types.is_floating(kind):
            values[:] = np.nan
        mask = np.full(rows, filling == "all null" or (filling == "first null" and index == 0))
        columns[f"f{index}"] = pa.array(values, kind, mask=mask)
    ids = draw(st.sampled_from(["none", "int8", "null int8", "short", "long", "empty", "large"]))
    if ids in {"int8", "null int8"}:
        columns["id"] = pa.array(np.zeros(rows, dtype=np.int8), mask=np.full(rows, ids == "null int8"))
    elif ids != "none":
        text = {"short": "i", "long": "\x00" * 256, "empty": "", "large": "\U0001f600" * 64}[ids]
        columns["id"] = pa.array([text] * rows, pa.large_string() if ids == "large" else pa.string())
    return count, arrow_body(pa.table(columns))


def _plan(names, name="m", **limits):
    plan = tiny_plan([feature(text) for text in names])
    return msgspec.structs.replace(plan, name=name, limits=Limits(**limits))


def _reply(plan, body, content_type):
    """Return the reply's body, in rounds of as many digits as there can be."""
    codec = BatchCodec(plan)
    batch = codec.decode(Deliveries.of([Delivery(1, body, content_type)]))
    rows = len(batch.features)
    labels, phases = np.full(rows, -1, dtype=np.int8), np.full(rows, 10**6, dtype=np.int64)
    answers = Answers(labels=labels, first_round=10**15, phases=phases, tag=np.zeros(2, dtype=np.uint64), events=())
    (body,) = codec.encode(batch, answers).bodies
    return body


@settings(max_examples=100, deadline=None)
@given(_messages())
def test_no_arrow_reply_is_larger_than_the_bound(message):
    """The reply to a message has at most the bytes that topics are asked to take for a query of its size."""
    count, body = message
    plan = _plan([f"f{index}" for index in range(count)])
    assert len(_reply(plan, body, ARROW_STREAM)) <= largest_reply(plan, len(body))


def test_the_bound_on_arrow_replies_is_not_far_off():
    """A short compressed message of many rows, all rejected, with ids as long as they may be, three quarters of it."""
    plan = _plan(["f"])
    rows = plan.limits.rows
    table = pa.table({"f": pa.array(np.full(rows, np.nan, dtype=np.float16)), "id": pa.array(["z" * 32] * rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    assert len(body) < 400_000
    size, bound = len(_reply(plan, body, ARROW_STREAM)), largest_reply(plan, len(body))
    assert 60 * rows < size
    assert 4 * size // 3 <= bound < 1.7 * size  # in an event it is in base64


@pytest.mark.parametrize(
    "classes", [("é" * 2000, "n"), tuple("ab" + "c" * 250 + str(n) for n in range(32)), (7, 2**62)]
)
def test_no_reply_with_classes_is_larger_than_the_bound(classes):
    """However long their names are, in JSON and in Arrow."""
    plan = msgspec.structs.replace(tiny_ensemble_plan([feature("f")], classes=classes), name="é" * 64)
    body = msgspec.json.encode({"id": "\x00" * 256, "x": [1]})
    assert len(_reply(plan, body, JSON)) + len(body) <= largest_reply(plan, len(body))
    for count in (1, 5000):
        rows = arrow_body(pa.table({"f": pa.array(np.zeros(count, dtype=np.int8)), "id": pa.array([0] * count)}))
        assert len(_reply(plan, rows, ARROW_STREAM)) <= largest_reply(plan, len(rows))


_WORST_IDS = ["\x00" * 256, "\x1f\x7f" * 128, "\U0001f600" * 64, "\u2028" * 85, '"' * 256, "\\" * 256]
_WORST_NAMES = ["\U0001f600" * 64, "\u00e9" * 64, "n" * 64, "'" * 64]


@pytest.mark.parametrize("name", _WORST_NAMES)
@pytest.mark.parametrize("identifier", _WORST_IDS)
def test_no_json_reply_is_larger_than_the_bound(name, identifier):
    """Ids that grow in JSON and names that rejections repeat stay below the bound, with all digits of a round."""
    plan = _plan([name, "b"], name="\u00e9" * 64, body_bytes=4096)
    features: list[dict[str, object]] = [
        {"x": [0, 0]},
        {"x": {"b": 0}},
        {"b": 0},
        {name: "0", "b": 0},
        {"x": {"b": "0"}},
        {"x": [0]},
    ]
    for query in features:
        body = msgspec.json.encode({"id": identifier, **query})
        reply = _reply(plan, body, JSON)
        assert msgspec.json.decode(reply)["id"] == identifier
        assert len(reply) + len(body) <= largest_reply(plan, len(body))  # key and headers may be as long as a body


@pytest.fixture
def narrow_model(broker, request, tmp_path):
    """A model whose answers can be little longer than a query, in a topic that takes no longer ones."""
    plan = long_plan()
    plan = msgspec.structs.replace(plan, limits=msgspec.structs.replace(plan.limits, rows=1000))
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create(**{"retention.ms": "-1"})
    broker.configure_topic(made.answers, {"max.message.bytes": str(largest_reply(plan, DEFAULT_MESSAGE_BYTES))})
    yield made
    made.end()


def test_the_largest_key_and_headers_come_back(narrow_model):
    """A record that is nearly all key and headers, as long as its topic takes, is answered with all of them.

    Such a header whose name is not UTF-8 does not come back, and so cannot grow.
    """
    model = narrow_model
    key, header = b"k" * 400_000, b"h" * 640_000
    body = bodies(1)[0]
    _ask(model, body, JSON, key=key, more=[("correlation-id", header)])
    unreadable = batch([record(0, body, headers=[(b"ce_" + b"\xff" * 1_040_000, b""), (b"ce_id", b"1")])])
    assert asyncio.run(produce(model.broker.servers, model.queries, [unreadable])) == [0]
    serve_here(model.config(), lambda _log: model.count() >= 2)
    answer, other = model.read()
    assert answer.key == key
    assert dict(answer.headers)["correlation-id"] == header
    assert dict(other.headers)["ce_causationid"] == b"1"
    assert max(len(name) for name, _ in other.headers) < 20


_CODECS = ["gzip", "snappy", "lz4", "zstd"]


def _bomb(codec, size):
    """Return a batch of one query with a header of so many zeros, which would come back with the answer."""
    return packed(codec, [record(0, bodies(1)[0], headers=[(b"correlation-id", bytes(size))])])


def test_compressed_batches_are_unpacked_by_the_broker(model):
    """It refuses what is too large then; what is not is answered, and takes no more memory than any other query."""
    good = bodies(40)
    batches = [
        packed(codec, [record(index, body) for index, body in enumerate(good[10 * number : 10 * number + 10])])
        for number, codec in enumerate(_CODECS)
    ]
    assert asyncio.run(produce(model.broker.servers, model.queries, batches)) == [0] * 4
    bombs = [_bomb(codec, 50_000_000) for codec in _CODECS]
    assert 0 not in asyncio.run(produce(model.broker.servers, model.queries, bombs))
    serve_here(model.config(), lambda _log: model.count() >= 40)
    assert [answer.value for answer in model.read()] == model.expected(good)


def test_batch_that_was_stored_compressed_cannot_take_all_memory(model):
    """Its shard stops in no more memory than is planned, and says how to leave it unanswered, which works."""
    good = bodies(20)
    process = model.serve(model.config())
    model.ask(good[:10])
    model.wait_for_answers(10)
    model.broker.configure_topic(model.queries, {"compression.type": "producer"})
    bomb = _bomb("zstd", 300_000_000)
    eventually(lambda: asyncio.run(produce(model.broker.servers, model.queries, [bomb])) == [0])
    peaks = Peaks(process)
    eventually(peaks.look)
    assert process.wait() == 4
    peaks.assert_within(serving(model.plan))
    (line,) = [line["error"] for line in model.log() if line.get("event") == "daemon.failed"]
    found = re.search(r"or only to more than 32 MiB; .* and set source\.first_offset = (\d+)$", line)
    assert found is not None
    model.broker.configure_topic(model.queries, {"compression.type": "uncompressed"})
    model.delete_records(int(found[1]))
    model.ask(good[10:])
    serve_here(model.config(source=f"session_seconds = 2\nfirst_offset = {found[1]}"), lambda _log: model.count() >= 20)
    assert [answer.value for answer in model.read()] == model.expected(good)
