"""Answers with classes of any name, and of rounds that the model rested in."""

import json

import numpy as np
import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery
from oracle.codec.batches import BatchCodec
from oracle.planning.features import Feature
from oracle.predictors.base import NO_LABEL, Answers
from tests.predictors.plans import tiny_ensemble_plan
from tests.support.shards import arrow_body

_FEATURES = (Feature(name="n"), Feature(name="c", categories=("EWR", "JFK")))
_CLASSES = ("on time", 'very "late"', "gestrichen für heute", "x")


def _codec(classes):
    return BatchCodec(tiny_ensemble_plan(_FEATURES, classes=tuple(classes)))


def _answers(labels, verified=None):
    count = len(labels)
    return Answers(
        labels=np.array(labels, dtype=np.int8),
        first_round=5,
        phases=np.ones(count, dtype=np.int64),
        tag=np.zeros(2, dtype=np.uint64),
        events=(),
        verified=None if verified is None else np.array(verified),
    )


def _asked(*queries):
    return [Delivery(i, query if query is None else json.dumps(query).encode()) for i, query in enumerate(queries)]


def _replies(codec, deliveries, answers):
    return list(codec.encode(codec.decode(Deliveries.of(deliveries)), answers).rows())


def _table(reply):
    with pa.ipc.open_stream(reply.body) as reader:
        return reader.read_all()


@pytest.mark.parametrize("classes", [(0, 1), (1, 0), (-3, 12_345, 0), _CLASSES, ("a", "b")])
def test_a_label_is_its_class_and_takes_as_many_bytes_as_any(classes):
    """As JSON has it, and null where there was no query."""
    codec = _codec(classes)
    deliveries = _asked(*[{"id": "q", "x": [1, "EWR"]}] * len(classes), None)
    replies = _replies(codec, deliveries, _answers([*range(len(classes)), NO_LABEL]))
    assert [json.loads(reply.body)["label"] for reply in replies] == [*classes, None]
    assert len({len(reply.body) for reply in replies[:-1]}) == 1
    assert len(replies[-1].body) - len(b"null") == len(replies[0].body) - len(b'"q"')


def test_zero_and_one_are_written_as_they_always_were():
    """Whatever the predictor."""
    (reply,) = _replies(_codec((0, 1)), _asked({"id": 3, "x": [1, None]}), _answers([1]))
    assert reply.body == b'{"id":3,"label":1   ,"model":"tiny","round":5,"phase":1}'


@pytest.mark.parametrize("count", [1, 40])
def test_a_resting_round_has_an_error(count):
    """Which says its round; where there was no query it is null, whatever the predictor says of it."""
    codec = _codec(("a", "b"))
    deliveries = _asked(*[{"id": i, "x": [1, "EWR"]} for i in range(count)], None, {"id": "z", "x": [1, "EWR"]})
    answers = _answers([0] * count + [NO_LABEL, 1], [False] * (count + 1) + [True])
    bodies = [json.loads(reply.body) for reply in _replies(codec, deliveries, answers)]
    assert bodies[:count] == [
        {"id": i, "error": "resting", "model": "tiny", "round": 5 + i, "phase": 1} for i in range(count)
    ]
    assert bodies[count]["label"] is None
    assert bodies[count + 1]["label"] == "b"


_ROWS = pa.table(
    {"id": ["a", "b", "c", "d"], "n": [1.0, 2.0, float("inf"), None], "c": pa.array(["EWR"] * 3 + [None], pa.string())}
)


@pytest.mark.parametrize(
    ("classes", "kind", "labels"),
    [
        ((0, 1), pa.int8(), [1, -1, -1, -1]),
        ((7, -300), pa.int64(), [-300, None, None, None]),
        (("no", "yes"), pa.int8(), [1, -1, -1, -1]),
        ((0, "yes"), pa.int8(), [1, -1, -1, -1]),
    ],
)
def test_labels_in_arrow_are_of_one_width(classes, kind, labels):
    """Whole numbers as they are, texts by their places; rejected, resting and empty rows have none."""
    codec = _codec(classes)
    answers = _answers([1, 0, NO_LABEL], [True, False, False])  # the third row takes no round
    (reply,) = _replies(codec, [Delivery(0, arrow_body(_ROWS), ARROW_STREAM)], answers)
    table = _table(reply)
    assert table.schema.field("label").type == kind
    assert table.column("label").to_pylist() == labels
    assert table.column("error").to_pylist() == [None, "resting", "not-finite", None]
    assert table.column("round").to_pylist() == [5, 6, -1, 7]
    metadata = table.schema.field("label").metadata
    assert json.loads(metadata[b"classes"]) == list(classes) if "yes" in classes else metadata is None


@pytest.mark.parametrize("classes", [(0, 1), (5, 10**12), _CLASSES])
def test_an_arrow_message_is_as_long_whatever_it_says(classes):
    """Of the same rows."""
    codec = _codec(classes)
    body = arrow_body(pa.table({"n": np.arange(50.0), "c": ["EWR"] * 50}))
    lengths = {
        len(_replies(codec, [Delivery(0, body, ARROW_STREAM)], _answers(labels))[0].body)
        for labels in ([0] * 50, [1] * 50, [0, 1] * 25)
    }
    assert len(lengths) == 1


def test_a_reply_in_json_is_json():
    """Also among rejected ones, where messages are answered one by one."""
    codec = _codec(_CLASSES)
    replies = _replies(codec, _asked({"id": 1, "x": [1, "EWR"]}, {"x": [1]}), _answers([2]))
    assert [reply.content_type for reply in replies] == [JSON, JSON]
    assert json.loads(replies[0].body)["label"] == "gestrichen für heute"
    assert json.loads(replies[1].body)["error"] == "wrong-dimension"
