"""Questions about a distribution: their rows, their answers byte for byte, and what is said of those that are none."""

import dataclasses
import json

import numpy as np
import pytest

from connectors.base import ARROW_STREAM, JSON, RETAINED, Deliveries, Delivery
from oracle.codec import cuts
from oracle.codec.guarded import GuardedCodec
from oracle.codec.json.public import PublicWriter
from oracle.codec.kinds import codec_of
from oracle.codec.questions import QuestionCodec
from oracle.codec.rejections import Reason
from oracle.hosting.kafka_settings import largest_reply
from oracle.mechanisms.orders import text_digits
from oracle.planning.model import Limits
from oracle.planning.serving import row_bytes
from tests.support.distributions import FEATURES, distribution_plan
from tests.support.shards import process, same_state, state_of
from tests.support.tables import made_up_shard, share_answers

_PLAN = distribution_plan("number")
_SHARE = "a share of the rows, from 0 to 1"
_DATE = "a date from 0001-01-01 to 9999-12-31, as YYYY-MM-DD"
_DECIMAL = "a decimal below 1e13, with at most 2 digits after the point"


def _deliveries(bodies, content=JSON):
    return Deliveries.of([Delivery(place, body, content) for place, body in enumerate(bodies, 1)])


def _decode(kind, *bodies):
    return codec_of(distribution_plan(kind)).decode(_deliveries(bodies))


_JFK = text_digits(b"JFK", 4)
_READ = [
    ("number", b'{"at":3.5}', [[3.5, -1.0]]),
    ("number", b'{"at":[1,-0.0,1e300]}', [[1.0, -1.0], [0.0, -1.0], [1e300, -1.0]]),
    ("number", b'{"quantile":-0.0}', [[0.0, 0.0]]),
    ("number", b'{"quantile":[0,0.25,1]}', [[0.0, 0.0], [0.0, 0.25], [0.0, 1.0]]),
    ("date", b'{"at":"1970-01-03"}', [[2.0, -1.0]]),
    ("date", b'{"at":["1970-01-03","1969-12-31"]}', [[2.0, -1.0], [-1.0, -1.0]]),
    ("decimal", b'{"at":12.30}', [[12.3, -1.0]]),
    ("decimal", b'{"at":["12.30",-0.00,1e2]}', [[12.3, -1.0], [0.0, -1.0], [100.0, -1.0]]),
    ("string", b'{"at":"JFK"}', [[*_JFK, -1.0]]),
    ("string", b'{"at":["","\\u004aFK"]}', [[0.0] * 4 + [-1.0], [*_JFK, -1.0]]),
    ("string", b'{"quantile":0.5}', [[0.0] * 4 + [0.5]]),
]


@pytest.mark.parametrize(("kind", "body", "rows"), _READ)
def test_rows(kind, body, rows):
    """A value's numbers and -1, or zeros and a share; never -0.0."""
    batch = _decode(kind, body)
    assert batch.features.tolist() == rows
    assert not np.signbit(batch.features[:, :-1]).any() or b"-31" in body
    assert not np.signbit(batch.features[batch.features[:, -1] >= 0.0, -1]).any()
    assert batch.ends == [len(rows)]


@pytest.mark.parametrize("kind", FEATURES)
def test_many_messages_are_read_as_each_alone(kind):
    """Those of one question are read together, tombstones among them, and none of the others is."""
    ones = [body for name, body, rows in _READ if name == kind and len(rows) == 1]
    bodies = [None if place % 9 == 4 else ones[place % len(ones)] for place in range(300)]
    together = _decode(kind, *bodies)
    assert together.plain
    alone = [_decode(kind, body).features for body in bodies]
    assert together.features.tolist() == np.concatenate(alone).tolist()
    for odd in (b'{"at":[]}', b'{"quantile":1.5}', b'{"at":1,"quantile":1}', b"{}", b'{"quantile":[0.5,1]}'):
        assert not _decode(kind, *[*bodies, odd] * 2).plain


_REJECTED = [
    ("number", b'{"id":7}', "missing-feature", "at", "a number, or quantile in its place"),
    ("number", b'{"id":7,"at":1,"quantile":0.5}', "unknown-feature", "quantile", "nothing, beside at"),
    ("number", b'{"id":7,"at":1,"above":0.5}', "unknown-feature", "above", "id, and at or quantile"),
    ("number", b'{"id":7,"At":1}', "unknown-feature", "At", "id, and at or quantile"),
    ("number", b'{"id":7,"$.id":1}', "unknown-feature", "$.id", "id, and at or quantile"),
    ("number", b'{"id":7,"":1}', "unknown-feature", "", "id, and at or quantile"),
    ("number", b'{"id":7,"a\\u0007\\u202e":1}', "unknown-feature", r"a\x07\u202e", "id, and at or quantile"),
    ("number", b'{"id":7,"%b":1}' % (b"x" * 65), "unknown-feature", f"{'x' * 64}...", "id, and at or quantile"),
    ("number", b'{"id":7,"at":null}', "wrong-type", "at", "a number"),
    ("number", b'{"id":7,"at":"3"}', "wrong-type", "at", "a number"),
    ("number", b'{"id":7,"at":{"v":3}}', "wrong-type", "at", "a number"),
    ("number", b'{"id":7,"at":[1,true]}', "wrong-type", "at[1]", "a number"),
    ("number", b'{"id":7,"at":[1,[2]]}', "wrong-type", "at[1]", "a number"),
    ("number", b'{"id":7,"at":1e999}', "not-finite", "at", "a finite float64"),
    ("number", b'{"id":7,"at":[1,1e999]}', "not-finite", "at[1]", "a finite float64"),
    ("number", b'{"id":7,"at":NaN}', "not-finite", "body", "JSON, which has no NaN and no Infinity"),
    ("number", b'{"id":7,"at":[]}', "outside-domain", "at", "1 to 4 values"),
    ("number", b'{"id":7,"at":[1,2,3,4,5]}', "too-many-rows", "at", "1 to 4 values"),
    ("number", b'{"id":7,"quantile":null}', "wrong-type", "quantile", _SHARE),
    ("number", b'{"id":7,"quantile":"0.5"}', "wrong-type", "quantile", _SHARE),
    ("number", b'{"id":7,"quantile":1e999}', "not-finite", "quantile", _SHARE),
    ("number", b'{"id":7,"quantile":1.0000000000000002}', "outside-domain", "quantile", _SHARE),
    ("number", b'{"id":7,"quantile":-1}', "outside-domain", "quantile", _SHARE),
    ("number", b'{"id":7,"quantile":[0.5,-5e-324]}', "outside-domain", "quantile[1]", _SHARE),
    ("number", b'{"id":7,"quantile":[]}', "outside-domain", "quantile", "1 to 4 values"),
    ("number", b'{"id":7,"quantile":[0,0,0,0,0]}', "too-many-rows", "quantile", "1 to 4 values"),
    ("date", b'{"id":7,"at":"2023-02-29"}', "wrong-type", "at", _DATE),
    ("date", b'{"id":7,"at":["2023-02-28","28.2.2023"]}', "wrong-type", "at[1]", _DATE),
    ("date", b'{"id":7,"at":19000}', "wrong-type", "at", _DATE),
    ("decimal", b'{"id":7,"at":0.001}', "wrong-type", "at", _DECIMAL),
    ("decimal", b'{"id":7,"at":["1","1e13"]}', "wrong-type", "at[1]", _DECIMAL),
    ("string", b'{"id":7,"at":"%b"}' % ("é" * 11).encode(), "wrong-type", "at", "a text of at most 20 bytes of UTF-8"),
    ("string", b'{"id":7,"at":5}', "wrong-type", "at", "a text of at most 20 bytes of UTF-8"),
    ("string", b'{"id":7,"at":"\xff"}', "not-utf8", "body", "UTF-8"),
    ("number", b'{"id":7.5,"at":1}', "bad-id", "id", "a string, or an integer of 64 bits"),
    ("number", b'{"id":"%b","at":1}' % (b"i" * 257), "bad-id", "id", "at most 256 bytes of UTF-8"),
    ("number", b'{"id":7,"at":1', "malformed", "body", "one JSON object"),
    ("number", b'{"id":7,"a":1', "malformed", "body", "one JSON object"),
    ("number", b'{"id":7,"at":%b}' % (b"[" * 70), "malformed", "body", "one JSON object, nested at most 64 deep"),
    ("number", b'{"id":7,"at":1}' + b" " * 65_536, "oversized", "body", "at most 65536 bytes"),
    ("number", b"[]", "wrong-type", "body", "a JSON object"),
]


@pytest.mark.parametrize(("kind", "body", "reason", "field", "bound"), _REJECTED)
def test_rejections_name_field_and_bound(kind, body, reason, field, bound):
    """No round is taken, no bit of the state changes, and the asker is told what would have been accepted."""
    plan = distribution_plan(kind, limits=Limits(rows=4))
    shard, alone = made_up_shard(plan), made_up_shard(plan)
    before = state_of(alone)
    outcome = process(shard, _deliveries([body, *[b'{"quantile":0.5}'] * 40]).rows())
    told = json.loads(outcome.commit.replies.bodies[0])
    expected = {"id": 7, "error": reason, "field": field, "bound": bound, "model": "d"}
    assert told | {"id": 7} == expected
    assert list(told) == list(expected)
    assert told["id"] == 7 or field in {"id", "body"}
    assert (outcome.rounds, list(outcome.rejections)) == (40, [Reason(reason)])
    assert not process(alone, [Delivery(1, body, JSON)]).rounds
    assert same_state(before, state_of(alone))


@pytest.mark.parametrize(
    ("content", "reason", "field", "bound"),
    [
        (ARROW_STREAM, "unsupported-content", "content type", "application/json only"),
        (RETAINED, "retained", "retain flag", "not set"),
    ],
)
def test_only_json_is_read(content, reason, field, bound):
    """Arrow messages are refused by name, though the model has a feature."""
    outcome = process(made_up_shard(_PLAN), _deliveries([b'{"id":"a","at":1}'], content).rows())
    told = json.loads(outcome.commit.replies.bodies[0])
    assert told == {"id": "a", "error": reason, "field": field, "bound": bound, "model": "d"}


def _encode(kind, bodies, values, found, **columns):
    codec = codec_of(distribution_plan(kind))
    batch = codec.decode(_deliveries(bodies))
    answers = share_answers(values, **columns)
    return list(codec.encode(batch, dataclasses.replace(answers, found=np.array(found, dtype=np.float64))).bodies)


def test_answers():
    """They are exact to the byte; there is no error where none is promised, and no quantile where none was asked."""
    bodies = [b'{"id":"1","at":3.5}', b'{"id":2,"quantile":0.5}', None, b'{"id":"a\\"","quantile":1}']
    columns = {"paid": [3, 4, 4, 4], "verified": [True, True, False, False], "first_round": 998}
    assert _encode("number", bodies, [0.62, 0.497, np.nan, 1.0], [[7.0], [12.0], [0.0], [1e-7]], **columns) == [
        b'{"id":"1","value":0.62,"error":0.05,"paid":3,"verified":true,"model":"d","round":998}',
        b'{"id":2,"quantile":12.0,"value":0.497,"error":0.05,"paid":4,"verified":true,"model":"d","round":999}',
        b'{"id":null,"value":null,"error":null,"paid":4,"verified":false,"model":"d","round":1000}',
        b'{"id":"a\\"","quantile":1e-7,"value":1.0,"error":null,"paid":4,"verified":false,"model":"d","round":1001}',
    ]


@pytest.mark.parametrize(
    ("kind", "found", "text"),
    [
        ("number", [-1.5], b"-1.5"),
        ("number", [1.7976931348623157e308], b"1.7976931348623157e308"),
        ("date", [-719_162.0], b'"0001-01-01"'),
        ("date", [2_932_896.0], b'"9999-12-31"'),
        ("decimal", [12.3], b"12.30"),
        ("decimal", [-9999999999999.99], b"-9999999999999.99"),
        ("decimal", [0.0], b"0.00"),
        ("string", text_digits(b"A320-2\x00", 4), b'"A320-2\\u0000"'),
        ("string", text_digits('é"'.encode(), 4), '"é\\""'.encode()),
        ("string", text_digits(b"", 4), b'""'),
    ],
)
def test_a_quantile_may_be_asked_at(kind, found, text):
    """It is written as a question writes it, and read back it is the same value."""
    (body,) = _encode(kind, [b'{"quantile":0.5}'], [0.5], [found])
    assert body.startswith(b'{"id":null,"quantile":%b,"value":0.5,' % text)
    assert _decode(kind, b'{"at":%b}' % text).features.tolist() == [[*found, -1.0]]


def test_several():
    """A list has one answer with a value for each, in order, between other messages; each takes a round."""
    bodies = [b'{"at":0}', b'{"id":"l","at":[1,2]}', b"?", b'{"id":9,"quantile":[0.25,0.5]}', b'{"id":"z","at":0}']
    columns = {"paid": [0, 1, 1, 2, 2, 3], "verified": [True, True, True, True, False, True], "first_round": 5}
    values = [0.5, 0.1, 0.2, 0.3, 0.4, 0.6]
    told = _encode("number", bodies, values, np.arange(6.0).reshape(-1, 1), **columns)
    assert told[1] == (
        b'{"id":"l","model":"d","round":6,"error":0.05,"paid":1,"values":['
        b'{"value":0.1,"verified":true},{"value":0.2,"verified":true}]}'
    )
    assert told[3] == (
        b'{"id":9,"model":"d","round":8,"error":null,"paid":2,"values":['
        b'{"quantile":3.0,"value":0.3,"verified":true},{"quantile":4.0,"value":0.4,"verified":false}]}'
    )
    assert [json.loads(told[place])["round"] for place in (0, 4)] == [5, 10]
    assert json.loads(told[2])["error"] == "malformed"


def test_batches_count_the_values_of_lists(monkeypatch):
    """A batch ends before a list that would make its rows too many."""
    monkeypatch.setattr(cuts, "BATCH_BYTES", 10 * row_bytes(_PLAN))
    shard = made_up_shard(_PLAN)
    waiting = _deliveries([b'{"at":1}'] * 6 + [b'{"at":[1,2,3,4,5]}'] * 3)
    sizes = []
    while waiting:
        batch = shard.decode_leading(waiting)
        sizes.append(len(batch.deliveries))
        waiting = waiting.part(len(batch.deliveries))
    assert sizes == [6, 2, 1]


def test_an_answer_that_cannot_be_written_costs_that_one_only(monkeypatch):
    """Its asker is told of an internal error, and the others of their answers."""
    real = PublicWriter.several

    def broken(self, message, rows, answers):
        if message.id == "bad":
            raise KeyError("private")
        return real(self, message, rows, answers)

    monkeypatch.setattr(PublicWriter, "several", broken)
    codec = GuardedCodec(codec_of(_PLAN))
    batch = codec.decode(_deliveries([b'{"id":"%b","at":[1,2]}' % name for name in (b"a", b"bad", b"c")]))
    answers = dataclasses.replace(share_answers([0.5] * 6), found=np.zeros((6, 1)))
    replies = [json.loads(body) for body in codec.encode(batch, answers).bodies]
    assert [reply.get("error") for reply in replies] == [0.05, "internal", 0.05]
    assert replies[2]["round"] == 4


@pytest.mark.parametrize("kind", FEATURES)
def test_no_answer_is_larger_than_the_bound(kind):
    """The largest list with the longest id, values and numbers is within what topics are asked to take."""
    plan = distribution_plan(kind, name="é" * 64, limits=Limits(rows=300))
    body = b'{"id":"%b","quantile":[%b]}' % (b"\\u0000" * 256, b",".join([b"0"] * 300))
    codec = QuestionCodec(plan)
    batch = codec.decode(_deliveries([body]))
    assert len(batch.features) == 300
    longest = {"number": [-1.2345678901234567e-300], "date": [0.0], "decimal": [-9999999999999.99]}
    found = np.tile(longest.get(kind, text_digits(b"\x00" * 20, 4)), (300, 1))
    answers = share_answers([1.2345678901234567e-300] * 300, [2**40] * 300, [False] * 300, first_round=2**48)
    (reply,) = codec.encode(batch, dataclasses.replace(answers, found=found)).bodies
    assert len(reply) + len(body) <= largest_reply(plan, len(body))
