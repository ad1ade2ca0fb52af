"""Questions about a table: their bits, their answers byte for byte, and what is said of those that are none."""

import itertools
import json

import msgspec
import numpy as np
import pytest

from connectors.base import ARROW_STREAM, JSON, RETAINED, Deliveries, Delivery
from oracle.codec import cuts
from oracle.codec.batches import BatchCodec
from oracle.codec.guarded import GuardedCodec
from oracle.codec.json.shares import ShareWriter
from oracle.codec.kinds import codec_of
from oracle.codec.questions import QuestionCodec
from oracle.codec.rejections import Reason, Rejection
from oracle.hosting.kafka_settings import largest_reply
from oracle.planning.attributes import Attribute
from oracle.planning.model import Limits
from oracle.planning.serving import row_bytes, serving
from oracle.predictors.base import NO_LABEL
from tests.predictors.plans import feature, tiny_plan
from tests.support.shards import process, same_state, state_of
from tests.support.tables import ATTRIBUTES, made_up_shard, share_answers, sparse_plan, statistics_plan

_PLAN = statistics_plan()
_SPARSE = sparse_plan()
_NAMES = 'the model\'s attributes: "carrier", "hour", "day", "dest"'
_CARRIERS = '"AA", "UA", "é", "other", or null for missing'
_HOURS = "a range [from, to) on bin edges: from 0 to 24 in steps of 1; or null for missing"
_DAYS = "a range [from, to) on bin edges: from 2013-01-01 to 2013-01-31 in steps of 5 days; or null for missing"
_D = ", ".join(f'"d{number}"' for number in range(12))
_OBJECT = "an object with attributes as names"


def _delivery(message, content=JSON, position=1):
    return Delivery(position, msgspec.json.encode(message) if isinstance(message, dict) else message, content)


def _masks(message, plan=_PLAN):
    """Return of each attribute the numbers of the cells that the one row of a message asks for."""
    batch = QuestionCodec(plan).decode(Deliveries.of([_delivery(message)]))
    assert batch.present.tolist() == [True]
    return [np.flatnonzero(mask[0]).tolist() for mask in plan.layout.masks(batch.features[:, : plan.layout.width])]


_ALL = [list(range(cells)) for cells in _PLAN.layout.shape]


@pytest.mark.parametrize(
    ("where", "asked"),
    [
        ({}, {}),
        ({"carrier": ["AA"]}, {0: [0]}),
        ({"carrier": "UA"}, {0: [1]}),
        ({"carrier": None}, {0: [4]}),
        ({"carrier": ["é", None, "other", "é"]}, {0: [2, 3, 4]}),
        ({"hour": [6, 9.0]}, {1: [6, 7, 8]}),
        ({"hour": [0, 24]}, {1: list(range(24))}),
        ({"hour": [5.9999999999, 9]}, {1: [6, 7, 8]}),
        ({"hour": None}, {1: [24]}),
        ({"day": ["2013-01-06", "2013-01-16"], "hour": [23, 24]}, {1: [23], 2: [1, 2]}),
        ({"dest": ["d0", "d51", "d52", "d104", "other", None]}, {3: [0, 51, 52, 104, 105, 106]}),
    ],
)
def test_cells_that_are_asked_for(where, asked):
    """Categories, ranges and null stand for their cells; an attribute that is not named may have any."""
    assert _masks({"where": where}) == [asked.get(place, cells) for place, cells in enumerate(_ALL)]
    assert _masks({"where": where, "above": 0.5}, _SPARSE) == _masks({"where": where})


@pytest.mark.parametrize("bounds", [(0.1, 0.7), (-0.3, 0.3), (0.0, 1.0), (1e-7, 7e-7), (-7e8, 5e9)])
@pytest.mark.parametrize("bins", [3, 6, 7, 60])
def test_edges_are_asked_for_as_people_write_them(bounds, bins):
    """Every edge may be written as it is shown, and as sums of floating-point numbers have it."""
    attribute = Attribute(name="a", bounds=bounds, bins=bins)
    plan = statistics_plan([attribute])
    low, high = bounds
    for first, last in itertools.combinations(range(bins + 1), 2):
        summed = [low + place * ((high - low) / bins) for place in (first, last)]
        shown = json.loads(json.dumps([attribute.edges[first], attribute.edges[last]]))
        for given in (summed, shown):
            assert _masks({"where": {"a": given}}, plan) == [list(range(first, last))]


def test_a_thresholds_share_stands_behind_the_cells():
    """It is the last number of a sparse vector's row, and never -0.0."""
    messages = [{"where": {}, "above": 0.25}, b'{"where":{},"above":-0.0}', {"by": ["carrier"], "above": 1}]
    features = QuestionCodec(_SPARSE).decode(Deliveries.of([_delivery(message) for message in messages])).features
    assert features[:, -1].tolist() == [0.25, 0.0, *[1.0] * 5]
    assert not np.signbit(features[1, -1])


_REJECTED = [
    (b'{"id":7,"where":5}', "wrong-type", "where", _OBJECT),
    (b'{"id":7,"where":null}', "wrong-type", "where", _OBJECT),
    (b'{"id":7}', "missing-feature", "where", f"{_OBJECT}, or by"),
    (b'{"id":7,"where":{"nobody":["AA"]}}', "unknown-feature", "where.nobody", _NAMES),
    (b'{"id":7,"where":{"hour":[6,9],"":1}}', "unknown-feature", "where.", _NAMES),
    (b'{"id":7,"where":{"%b":1}}' % (b"x" * 65), "unknown-feature", f"where.{'x' * 64}...", _NAMES),
    (b'{"id":7,"where":{"a\\u0007\\u202e\\"\xc3\xa9":1}}', "unknown-feature", r'where.a\x07\u202e"\xe9', _NAMES),
    (b'{"id":7,"where":{"carrier":["AA","ZZ"]}}', "outside-domain", "where.carrier[1]", f"one of {_CARRIERS}"),
    (b'{"id":7,"where":{"carrier":"ZZ"}}', "outside-domain", "where.carrier", f"one of {_CARRIERS}"),
    (b'{"id":7,"where":{"carrier":[5]}}', "wrong-type", "where.carrier[0]", f"one of {_CARRIERS}"),
    (b'{"id":7,"where":{"carrier":[]}}', "outside-domain", "where.carrier", f"at least one category: {_CARRIERS}"),
    (
        b'{"id":7,"where":{"carrier":true}}',
        "wrong-type",
        "where.carrier",
        'a list of categories: "AA", "UA", "é", "other", and null for missing',
    ),
    (
        b'{"id":7,"where":{"dest":["x"]}}',
        "outside-domain",
        "where.dest[0]",
        f'one of {_D}, ... (105 in all), "other", or null for missing',
    ),
    (b'{"id":7,"where":{"hour":[6.5,9]}}', "outside-domain", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":[9,6]}}', "outside-domain", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":[6,6]}}', "outside-domain", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":[-1,25]}}', "outside-domain", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":[6]}}', "wrong-type", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":"ab"}}', "wrong-type", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":["6","9"]}}', "wrong-type", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":[6,true]}}', "wrong-type", "where.hour", _HOURS),
    (b'{"id":7,"where":{"hour":[6,1e999]}}', "not-finite", "where.hour", "finite float64 numbers"),
    (b'{"id":7,"where":{"day":["2013-01-01","2013-01-02"]}}', "outside-domain", "where.day", _DAYS),
    (b'{"id":7,"where":{"day":[15706,15711]}}', "wrong-type", "where.day", _DAYS),
    (b'{"id":7,"where":{"hour":5},"where":{}}', "wrong-type", "where", _OBJECT),
    (b'{"id":7,"by":"carrier"}', "wrong-type", "by", f"a list of {_NAMES}"),
    (b'{"id":7,"by":[1]}', "wrong-type", "by[0]", _NAMES),
    (b'{"id":7,"by":[]}', "outside-domain", "by", f"at least one of {_NAMES}"),
    (b'{"id":7,"by":["carrier","nobody"]}', "unknown-feature", "by[1]", _NAMES),
    (b'{"id":7,"by":["hour","carrier","hour"]}', "outside-domain", "by[2]", "each attribute once"),
    (b'{"id":7,"by":["carrier","hour","dest"]}', "too-many-rows", "by", "at most 1,000 cells, within where"),
    (b'{"id":7,"where":{},"above":0.5}', "unknown-feature", "above", "nothing: it is for sparse vectors"),
    (b'{"id":7,"where":{},"above":null}', "wrong-type", "above", "nothing: it is for sparse vectors"),
    (b'{"id":7.5,"where":{}}', "bad-id", "id", "a string, or an integer of 64 bits"),
    (b'{"id":"%b","where":{}}' % (b"i" * 257), "bad-id", "id", "at most 256 bytes of UTF-8"),
    (b'{"id":7,"where":{}', "malformed", "body", "one JSON object"),
    (b'{"id":7,"where":{"hour":[NaN,1]}}', "not-finite", "body", "JSON, which has no NaN and no Infinity"),
    (b'{"id":7,"where":{"carrier":["\xff"]}}', "not-utf8", "body", "UTF-8"),
    (b'{"id":7,"where":{"carrier":%b}}' % (b"[" * 70), "malformed", "body", "one JSON object, nested at most 64 deep"),
    (b'{"id":7,"where":{}}' + b" " * 65_536, "oversized", "body", "at most 65536 bytes"),
    (b"[]", "wrong-type", "body", "a JSON object"),
]
_THRESHOLDS = [
    (b'{"id":7,"where":{}}', "missing-feature"),
    (b'{"id":7,"where":{},"above":1.5}', "outside-domain"),
    (b'{"id":7,"where":{},"above":-1e-9}', "outside-domain"),
    (b'{"id":7,"where":{},"above":"0.5"}', "wrong-type"),
    (b'{"id":7,"where":{},"above":1e999}', "not-finite"),
]


@pytest.mark.parametrize(("body", "reason", "field", "bound"), _REJECTED)
def test_rejections_name_field_and_bound(body, reason, field, bound):
    """No round is taken, no bit of the state changes, and the asker is told what would have been accepted."""
    plan = statistics_plan(limits=Limits(rows=1_000))
    _check_rejected(plan, body, reason, field, bound)


@pytest.mark.parametrize(("body", "reason"), _THRESHOLDS)
def test_thresholds_are_shares(body, reason):
    """A sparse vector needs one from 0 to 1."""
    _check_rejected(_SPARSE, body, reason, "above", "a share of the rows, from 0 to 1")


def _check_rejected(plan, body, reason, field, bound):
    shard = made_up_shard(plan)
    before = state_of(shard)
    good = _delivery({"where": {}, "above": 0.5} if plan is _SPARSE else {"where": {}})
    outcome = process(shard, [_delivery(body), *[good] * 40])
    told = json.loads(outcome.commit.replies.bodies[0])
    expected = {"id": 7, "error": reason, "field": field, "bound": bound, "model": "s"}
    assert told | {"id": 7} == expected
    assert list(told) == list(expected)
    assert told["id"] == 7 or field in {"id", "body"}
    assert (outcome.rounds, list(outcome.rejections)) == (40, [Reason(reason)])
    alone = made_up_shard(plan)
    assert not process(alone, [_delivery(body)]).rounds
    assert same_state(before, state_of(alone))


@pytest.mark.parametrize(
    ("content", "reason", "field", "bound"),
    [
        (ARROW_STREAM, "unsupported-content", "content type", "application/json only"),
        ("text/plain", "unsupported-content", "content type", "application/json only"),
        (RETAINED, "retained", "retain flag", "not set"),
    ],
)
def test_only_json_is_read(content, reason, field, bound):
    """Arrow messages and others are refused by name."""
    shard = made_up_shard(_PLAN)
    outcome = process(shard, [_delivery({"id": "a", "where": {}}, content)])
    told = json.loads(outcome.commit.replies.bodies[0])
    assert told == {"id": "a", "error": reason, "field": field, "bound": bound, "model": "s"}
    assert outcome.rounds == 0


def _encode(plan, messages, answers):
    codec = codec_of(plan)
    batch = codec.decode(
        Deliveries.of([_delivery(message, position=place) for place, message in enumerate(messages, 1)])
    )
    return list(codec.encode(batch, answers).bodies)


def test_answers_of_statistics():
    """They are exact to the byte: numbers are the shortest text that reads as them; no error where none is promised."""
    messages = [{"id": "1", "where": {"carrier": ["AA"]}}, {"id": 2, "where": {}}, None]
    answers = share_answers([0.1, 1e-07, np.nan], paid=[17, 18, 18], verified=[True, False, False], first_round=998)
    assert _encode(_PLAN, messages, answers) == [
        b'{"id":"1","value":0.1,"error":0.02,"paid":17,"verified":true,"model":"s","round":998}',
        b'{"id":2,"value":1e-7,"error":null,"paid":18,"verified":false,"model":"s","round":999}',
        b'{"id":null,"value":null,"error":null,"paid":18,"verified":false,"model":"s","round":1000}',
    ]


def test_answers_of_sparse_vectors():
    """Free answers have no value, and one behind the last paid one says so."""
    messages = [{"id": str(number), "where": {}, "above": 0.05} for number in range(4)] + [None]
    answers = share_answers(
        [np.nan, 0.061, np.nan, np.nan, np.nan],
        paid=[3, 4, 4, 4, 4],
        verified=[True, True, True, False, True],
        labels=[0, 1, 1, 0, NO_LABEL],
    )
    assert _encode(_SPARSE, messages, answers) == [
        b'{"id":"0","above":false,"paid":3,"model":"s","round":0}',
        b'{"id":"1","above":true,"value":0.061,"error":0.02,"paid":4,"model":"s","round":1}',
        b'{"id":"2","above":true,"paid":4,"model":"s","round":2}',
        b'{"id":"3","error":"budget-spent","paid":4,"model":"s","round":3}',
        b'{"id":null,"above":null,"paid":4,"model":"s","round":4}',
    ]


def test_behind_the_first_questions_nothing_is_promised():
    """The error of a sparse vector's value is null from there on, and that of a breakdown which reaches beyond."""
    messages = [{"id": str(number), "where": {}, "above": 0.05} for number in range(3)]
    answers = share_answers([0.5] * 3, labels=[1] * 3, first_round=_SPARSE.questions - 2)
    told = [json.loads(body) for body in _encode(_SPARSE, messages, answers)]
    assert [one["error"] for one in told] == [0.02, 0.02, None]
    for first, error in ((_SPARSE.questions - 3, 0.02), (_SPARSE.questions - 2, None)):
        answers = share_answers([0.5] * 3, labels=[1] * 3, first_round=first)
        (body,) = _encode(_SPARSE, [{"where": {"hour": [0, 3]}, "by": ["hour"], "above": 0.1}], answers)
        assert json.loads(body)["error"] == error


@pytest.mark.parametrize("verified", [[True] * 3, [True, False, True], [False] * 3])
def test_a_breakdowns_error_is_of_all_its_values(verified):
    """It is null where one of them is not verified."""
    answers = share_answers([0.5] * 3, verified=verified)
    (body,) = _encode(_PLAN, [{"where": {"hour": [0, 3]}, "by": ["hour"]}], answers)
    told = json.loads(body)
    assert told["error"] == (0.02 if all(verified) else None)
    assert [value["verified"] for value in told["values"]] == verified


def test_breakdowns():
    """`by` asks for each cell that `where` allows, the last attribute's fastest, a round each, in one answer."""
    message = {
        "id": "b",
        "where": {"carrier": ["UA", None], "day": ["2013-01-26", "2013-01-31"]},
        "by": ["day", "carrier"],
    }
    batch = QuestionCodec(_PLAN).decode(
        Deliveries.of([_delivery({"where": {}}), _delivery(message), _delivery({"where": {}})])
    )
    assert batch.ends == [1, 3, 4]
    masks = _PLAN.layout.masks(batch.features[1:3])
    assert [np.flatnonzero(row).tolist() for row in masks[0]] == [[1], [4]]
    assert [np.flatnonzero(row).tolist() for row in masks[2]] == [[5], [5]]
    assert masks[1].all()
    assert masks[3].all()
    answers = share_answers([1.0, 0.25, 0.5, 1.0], paid=[1, 1, 2, 2], verified=[True, True, False, True], first_round=5)
    _, body, last = QuestionCodec(_PLAN).encode(batch, answers).bodies
    assert body == (
        b'{"id":"b","model":"s","round":6,"error":null,"paid":2,"values":['
        b'{"day":["2013-01-26","2013-01-31"],"carrier":"UA","value":0.25,"verified":true},'
        b'{"day":["2013-01-26","2013-01-31"],"carrier":null,"value":0.5,"verified":false}]}'
    )
    assert json.loads(last)["round"] == 8


def test_breakdowns_of_sparse_vectors():
    """Each cell has its own outcome."""
    answers = share_answers(
        [np.nan, 0.5, np.nan], paid=[0, 1, 1], verified=[True, True, False], labels=[0, 1, 0], first_round=9
    )
    (body,) = _encode(_SPARSE, [{"where": {"hour": [0, 3]}, "by": ["hour"], "above": 0.1}], answers)
    assert body == (
        b'{"id":null,"model":"s","round":9,"error":0.02,"paid":1,"values":[{"hour":[0.0,1.0],"above":false},'
        b'{"hour":[1.0,2.0],"above":true,"value":0.5},{"hour":[2.0,3.0],"error":"budget-spent"}]}'
    )


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.name)
def test_cells_of_an_answer_may_be_asked_for(attribute):
    """What a breakdown calls a cell, `where` takes: an analyst drills down with what was answered."""
    message = {"by": [attribute.name]}
    (body,) = _encode(_PLAN, [message], share_answers([0.5] * attribute.cells))
    place = ATTRIBUTES.index(attribute)
    for cell, item in enumerate(json.loads(body)["values"]):
        assert _masks({"where": {attribute.name: item[attribute.name]}})[place] == [cell]


def test_questions_of_one_row_are_read_together():
    """Questions without `by` are, with tombstones among them."""
    bodies = [None if place % 9 == 4 else b'{"id":"q","where":{"hour":[6,9]}}' for place in range(300)]
    assert made_up_shard(_PLAN).decode(Deliveries.of(_delivery(body) for body in bodies)).plain


def test_batches_count_the_rows_of_breakdowns(monkeypatch):
    """A batch ends before a breakdown that would make its rows too many, also one whose `by` is escaped."""
    monkeypatch.setattr(cuts, "BATCH_BYTES", 10 * row_bytes(_PLAN))
    shard = made_up_shard(_PLAN)
    waiting = Deliveries.of([_delivery({"where": {}})] * 6 + [_delivery(b'{"\\u0062y":["carrier"]}')] * 3)
    sizes = []
    while waiting:
        batch = shard.decode_leading(waiting)
        sizes.append(len(batch.deliveries))
        waiting = waiting.part(len(batch.deliveries))
    assert sizes == [6, 2, 1]


def test_one_message_has_rows_of_32_mib_at_most():
    """A breakdown by many categories, whose rows are long, is bounded by what they take, and so is the daemon."""
    wide = Attribute(name="w", categories=tuple(map(str, range(20_000))))
    plan = statistics_plan([wide])
    told = QuestionCodec(plan).decode(Deliveries.of([_delivery({"by": ["w"]})])).parts[0]
    bound = f"at most {2**22 // plan.width:,} cells, within where"
    assert told == Rejection(Reason.TOO_MANY_ROWS, "by", bound)
    assert serving(plan).daemon < 2 << 30


def test_an_answer_that_cannot_be_written_costs_that_one_only(monkeypatch):
    """Its asker is told of an internal error, and the others of their answers."""
    real = ShareWriter.several

    def broken(self, message, rows, answers):
        if message.id == "bad":
            raise KeyError("private")
        return real(self, message, rows, answers)

    monkeypatch.setattr(ShareWriter, "several", broken)
    codec = GuardedCodec(QuestionCodec(_PLAN))
    batch = codec.decode(Deliveries.of([_delivery({"id": name, "by": ["carrier"]}) for name in ("a", "bad", "c")]))
    replies = [json.loads(body) for body in codec.encode(batch, share_answers([0.5] * 15)).bodies]
    assert [reply.get("error") for reply in replies] == [0.02, "internal", 0.02]
    assert replies[2]["round"] == 10


def test_the_plan_chooses_the_codec():
    """Of tables, questions; of all others, queries with features."""
    assert isinstance(codec_of(_PLAN), QuestionCodec)
    assert isinstance(codec_of(_SPARSE), QuestionCodec)
    assert isinstance(codec_of(tiny_plan([feature("a")])), BatchCodec)


@pytest.mark.parametrize("make", [statistics_plan, sparse_plan])
def test_no_answer_is_larger_than_the_bound(make):
    """The largest breakdown with the longest names, ids and numbers is within what topics are asked to take."""
    names = ["\U0001f600" * 64, "'" * 64]
    attributes = [
        Attribute(name=names[0], categories=("\x00" * 256, "a")),
        Attribute(name=names[1], bounds=(-1 / 3, 7e99), bins=60),
    ]
    plan = make(attributes, name="é" * 64, limits=Limits(rows=244))
    body = msgspec.json.encode({"id": "\x00" * 256, "by": names, **({"above": 1} if make is sparse_plan else {})})
    batch = QuestionCodec(plan).decode(Deliveries.of([_delivery(body)]))
    assert len(batch.features) == plan.layout.size == 244
    answers = share_answers([-1.2345678901234567e-300] * 244, [2**40] * 244, [False] * 244, first_round=2**48)
    (reply,) = QuestionCodec(plan).encode(batch, answers).bodies
    assert len(reply) + len(body) <= largest_reply(plan, len(body))
