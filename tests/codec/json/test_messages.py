import msgspec
import pytest

from connectors.base import RETAINED, Delivery
from oracle.codec.json.messages import JsonCodec
from oracle.codec.rejections import Reason
from tests.support.shards import bodies, new_shard, process, process_in_batches, same_state, small_plan, state_of

_LIMITS = small_plan().limits
_DEEP = 100_000

# Body, reason, field, echoed id.
_REJECTED = [
    (b"", "malformed", "body", None),
    (b" ", "malformed", "body", None),
    (b"{", "malformed", "body", None),
    (b'{"id":"a","x":[1,2]', "malformed", "body", None),
    (b'{"id":"a","x":[1,2]}x', "malformed", "body", None),
    (b'{"id":"a","x":[1,2]}{"id":"b","x":[1,2]}', "malformed", "body", None),
    (b'{"id":"a","x":[1,2],}', "malformed", "body", None),
    (b"{'id':'a','x':[1,2]}", "malformed", "body", None),
    (b'{"id":"a\x00","x":[1,2]}', "malformed", "body", None),
    (b'\xef\xbb\xbf{"id":"a","x":[1,2]}', "malformed", "body", None),
    (b'{"id":"\\ud800","x":[1,2]}', "malformed", "body", None),
    (b"[1,2]", "wrong-type", "body", None),
    (b"null ", "wrong-type", "body", None),
    (b'"text"', "wrong-type", "body", None),
    (b"1.5", "wrong-type", "body", None),
    (b"{}", "missing-feature", "a", None),
    (b'{"id":"a"}', "missing-feature", "a", "a"),
    (b'{"id":7,"a":1}', "missing-feature", "b", 7),
    (b'{"id":"a","x":{"a":1}}', "missing-feature", "x.b", "a"),
    (b'{"id":"a","x":{"a":1,"b":2,"c":3}}', "unknown-feature", "x", "a"),
    (b'{"id":"a","x":{"a":1,"B":2}}', "unknown-feature", "x", "a"),
    (b'{"id":"a","x":[]}', "wrong-dimension", "x", "a"),
    (b'{"id":"a","x":[1]}', "wrong-dimension", "x", "a"),
    (b'{"id":"a","x":[1,2,3]}', "wrong-dimension", "x", "a"),
    (b'{"id":"a","x":"12"}', "wrong-type", "x", "a"),
    (b'{"id":"a","x":null}', "wrong-type", "x", "a"),
    (b'{"id":"a","x":5}', "wrong-type", "x", "a"),
    (b'{"id":"a","x":[1,true]}', "wrong-type", "x[1]", "a"),
    (b'{"id":"a","x":[false,2]}', "wrong-type", "x[0]", "a"),
    (b'{"id":"a","x":[1,"2"]}', "wrong-type", "x[1]", "a"),
    (b'{"id":"a","x":[1,"NaN"]}', "wrong-type", "x[1]", "a"),
    (b'{"id":"a","x":[1,null]}', "wrong-type", "x[1]", "a"),
    (b'{"id":"a","x":[[1],2]}', "wrong-type", "x[0]", "a"),
    (b'{"id":"a","a":1,"b":true}', "wrong-type", "b", "a"),
    (b'{"id":"a","a":1,"b":null}', "wrong-type", "b", "a"),
    (b'{"id":"a","x":[NaN,1]}', "not-finite", "body", None),
    (b'{"id":"a","x":[1,Infinity]}', "not-finite", "body", None),
    (b'{"id":"a","x":[1,-Infinity]}', "not-finite", "body", None),
    (b'{"id":"a","x":[1e400,1]}', "not-finite", "x[0]", "a"),
    (b'{"id":"a","x":[1,-1e400]}', "not-finite", "x[1]", "a"),
    (b'{"id":"a","a":1,"b":1e400}', "not-finite", "b", "a"),
    (b'{"id":"a","x":[1,1' + b"0" * 400 + b"]}", "not-finite", "x[1]", "a"),
    (b'{"id":"a","x":[1' + b"0" * 5000 + b",1]}", "not-finite", "x[0]", "a"),
    (b'{"id":1.5,"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":1.0,"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":true,"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":["a"],"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":{"id":"a"},"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":9223372036854775808,"x":[1,2]}', "bad-id", "id", 9223372036854775808),
    (b'{"id":-9223372036854775809,"x":[1,2]}', "bad-id", "id", -9223372036854775809),
    (b'{"id":' + b"9" * 400 + b',"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":' + b"9" * 5000 + b',"x":[1,2]}', "bad-id", "id", None),
    (b'{"id":"' + b"i" * (_LIMITS.id_bytes + 1) + b'","x":[1,2]}', "bad-id", "id", None),
    ('{"id":"' + "é" * (_LIMITS.id_bytes // 2 + 1) + '","x":[1,2]}', "bad-id", "id", None),
    (b'{"id":"a","x":[1,2],"note":"\xff"}', "not-utf8", "body", "a"),
    (b'{"id":"a","x":[1,2],"n\xc3ote":1}', "not-utf8", "body", "a"),
    (b'{"id":"\xe9","x":[1,2]}', "not-utf8", "body", None),
    (b'\xff\xfe{\x00"\x00i\x00d\x00', "not-utf8", "body", None),
    (b"[" * 50_000, "malformed", "body", None),
    (b'{"id":"a","x":' + b"[" * 50_000, "malformed", "body", None),
    (b'{"id":"a","x":[1,2],"y":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "malformed", "body", None),
    (b'{"id":"a","x":[1,2],"y":' + b"[" * _DEEP + b"]" * _DEEP + b"}", "oversized", "body", None),
    (b'{"id":"a","x":[1,2]}' + b" " * (1 << 20), "oversized", "body", None),
    (b'{"id":"a","x":[1,2]}'.ljust(_LIMITS.body_bytes + 1), "oversized", "body", None),
]


def _ask(*contents):
    """Process one batch; return the replies, and whether state, round or mark changed."""
    shard = new_shard()
    before, facts, mark = state_of(shard), shard.facts(), shard.mark
    deliveries = [Delivery(number, body) for number, body in enumerate(contents, 1)]
    outcome = process(shard, deliveries)
    untouched = same_state(before, state_of(shard)) and facts == shard.facts() and mark == shard.mark
    return list(outcome.commit.replies.bodies), untouched, outcome


@pytest.mark.parametrize(
    ("body", "reason", "field", "identifier"),
    _REJECTED,
    ids=[f"{index}-{row[1]}" for index, row in enumerate(_REJECTED)],
)
def test_rejected_message_costs_nothing(body, reason, field, identifier):
    """Its asker is told reason, field, bound and its own id; no round passes and no bit of the state changes."""
    body = body.encode() if isinstance(body, str) else body
    (reply,), untouched, outcome = _ask(body)
    answer = msgspec.json.decode(reply)
    assert list(answer) == ["id", "error", "field", "bound", "model"]
    assert (answer["error"], answer["field"], answer["model"]) == (reason, field, "tiny")
    assert answer["bound"]
    assert answer["id"] == identifier
    assert untouched
    assert (outcome.rounds, list(outcome.rejections), outcome.commit.ledger) == (0, [Reason(reason)], [])
    assert outcome.commit.replies.rejected[0]


def test_every_reason_of_a_json_message_is_tested():
    """The table above has each reason that a JSON message can meet."""
    others = {
        Reason.TOO_MANY_ROWS,
        Reason.UNSUPPORTED_CONTENT,
        Reason.RETAINED,
        Reason.INTERNAL,
        Reason.SKIPPED,
        Reason.OUTSIDE_DOMAIN,
        Reason.UNKNOWN_SCHEMA,
        Reason.UNFIT_SCHEMA,
    }
    assert {Reason(row[1]) for row in _REJECTED} == set(Reason) - others


@pytest.mark.parametrize(
    ("content_type", "reason", "field"),
    [
        (RETAINED, "retained", "retain flag"),
        *(
            (content_type, "unsupported-content", "content type")
            for content_type in ("text/plain", "", "application/JSON", "application/json; charset=utf-8")
        ),
    ],
)
def test_what_is_not_sent_as_a_query_is_rejected(content_type, reason, field):
    """A retained message, or another content type than exactly one of the two; the id is echoed where it is JSON."""
    shard = new_shard()
    before = state_of(shard)
    outcome = process(shard, [Delivery(1, b'{"id":"a","x":[1,2]}', content_type)])
    answer = msgspec.json.decode(outcome.commit.replies.bodies[0])
    assert (answer["error"], answer["field"], answer["id"]) == (reason, field, "a")
    assert outcome.rounds == 0
    assert same_state(before, state_of(shard))


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"a","x":[0.5,0.25]}',
        b'{"x":[0.5,0.25],"id":"a"}',
        b'{"id":"a","x":{"b":0.25,"a":0.5}}',
        b'{"b":0.25,"a":0.5,"id":"a"}',
        b' { "id" : "a" , "x" : [ 5e-1 , 25e-2 ] }\r',
        b'{"id":"a","x":[0.5,0.25],"note":{"x":[9,9]}}',
        b'{"id":"b","x":[7,7],"id":"a","x":[0.5,0.25]}',
        b'{"id":"a","x":[0.5,0.25],"a":9,"b":9}',
        b'{"id":"\\u0061","x":[0.50,0.250000000000000000000000000000000000000001]}',
    ],
)
def test_forms_of_one_query_are_one_query(body):
    """All ways to write it, the last of duplicate keys counting, give the same answer, state and tag."""
    plain = new_shard()
    expected = process_in_batches(plain, [Delivery(1, b'{"id":"a","x":[0.5,0.25]}')])
    shard = new_shard()
    assert process_in_batches(shard, [Delivery(1, body)]) == expected
    assert same_state(state_of(shard), state_of(plain))
    other = process_in_batches(new_shard(), [Delivery(1, b'{"id":"a","x":[0.25,0.5]}')])
    assert other.mark != expected.mark


@pytest.mark.parametrize(
    "identifier",
    [None, 0, -7, 2**63 - 1, -(2**63), "", "a", 'qu"o\\te\n', "é" * (_LIMITS.id_bytes // 2), "i" * _LIMITS.id_bytes],
)
@pytest.mark.parametrize("vector", [[0.5, 0.5], [0.5]])
def test_id_comes_back(identifier, vector):
    """Any id within its limit is echoed as it was, in answers and in rejections."""
    (reply,), _, _ = _ask(msgspec.json.encode({"id": identifier, "x": vector}))
    answer = msgspec.json.decode(reply)
    assert answer["id"] == identifier
    assert type(answer["id"]) is type(identifier)
    assert ("error" in answer) == (len(vector) == 1)


def test_body_at_its_limit_is_answered():
    """The limit itself is allowed."""
    (reply,), untouched, outcome = _ask(b'{"id":"a","x":[1,2]}'.ljust(_LIMITS.body_bytes))
    assert b'"label"' in reply
    assert not untouched
    assert outcome.rounds == 1


def test_float64_extremes_are_queries():
    """The largest, smallest and negative-zero values are numbers like others."""
    replies, _, outcome = _ask(
        b'{"x":[1.7976931348623157e308,-1.7976931348623157e308]}', b'{"x":[5e-324,-0.0]}', b'{"x":[1e-400,0]}'
    )
    assert outcome.rounds == 3
    assert all(b'"label"' in reply for reply in replies)


def test_answers_have_one_length():
    """Labels 0, 1 and none take the same number of bytes, wherever id, round and phase have as many digits."""
    lengths: dict[tuple[object, ...], set[int]] = {}
    labels: dict[tuple[object, ...], set[object]] = {}
    contents: list[bytes | None] = [b'{"x":[%f,0.5]}' % (number % 14 / 12) for number in range(1_000)]
    contents[::7] = [None] * len(contents[::7])
    replies, _, outcome = _ask(*contents)
    assert outcome.rounds == 1_000
    for reply in replies:
        answer = msgspec.json.decode(reply)
        key = (len(str(answer["round"])), len(str(answer["phase"])))
        lengths.setdefault(key, set()).add(len(reply))
        labels.setdefault(key, set()).add(answer["label"])
    assert all(len(found) == 1 for found in lengths.values())
    assert labels[3, 1] == {0, 1, None}


def test_answers_are_json_in_arrival_order():
    """Each answer names its id, the model, its round and its phase; rounds count up over a mixed batch."""
    good = bodies(5)
    replies, _, _ = _ask(good[0], b"?", None, good[1], b'{"id":"no"}', good[2])
    answers = [msgspec.json.decode(reply) for reply in replies]
    assert [answer["id"] for answer in answers] == ["q0", None, None, "q1", "no", "q2"]
    assert [answer.get("round") for answer in answers] == [0, None, 1, 2, None, 3]
    assert answers[2]["label"] is None
    assert all(answer["label"] in {0, 1} for index, answer in enumerate(answers) if index in {0, 3, 5})
    assert {answer["phase"] for answer in answers if "phase" in answer} == {1}


def test_rejection_quotes_nothing_of_the_message():
    """Features, unknown keys and texts of a bad message do not come back; only its id does."""
    for body in (
        b'{"id":"a","x":[123.456,"secret"]}',
        b'{"id":"a","x":{"a":123.456,"secret":1}}',
        b'{"id":"a","x":[123.456]}',
        b'{"id":"a","secret":123.456',
        b'{"id":"a","x":[123.456,1e999],"secret":0}',
    ):
        (reply,), _, _ = _ask(body)
        assert b"secret" not in reply
        assert b"123" not in reply


def test_infinity_past_the_parser_is_caught(monkeypatch):
    """A JSON parser that lets infinities through, as other versions may, does not bring them to the predictor."""
    monkeypatch.setattr(JsonCodec, "decode", lambda _, body: ("a", [0.5, float("inf")]) if body else ("b", [0.5, 0.5]))
    replies, _, outcome = _ask(b"", b'{"id":"a"}', b"")
    answers = [msgspec.json.decode(reply) for reply in replies]
    assert [answer.get("round") for answer in answers] == [0, None, 1]
    assert (answers[1]["error"], answers[1]["field"], answers[1]["id"]) == ("not-finite", "x[1]", "a")
    assert outcome.rounds == 2
