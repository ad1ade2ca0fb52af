"""Hostile bytes and hostile schemas: each is a query or a rejection, alone and beside others the same."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import AVRO, PROTOBUF, Deliveries, Delivery
from oracle.codec.registered.avro_schemas import avro_query
from oracle.codec.registered.frames import frame_start
from oracle.codec.registered.proto_schemas import proto_query
from oracle.codec.registered.writers import Writers
from oracle.codec.rejections import Rejection
from oracle.planning.features import Feature
from tests.codec.registered.writing import WRITER, avro_body, codec_of_avro, codec_of_protobuf, decoded
from tests.predictors.plans import tiny_ensemble_plan
from tests.support.shards import small_plan

_MIXED = tiny_ensemble_plan((Feature(name="n"), Feature(name="c", categories=("EWR", "JFK")), Feature(name="m")))
_PLANS = [small_plan(), _MIXED]
_AVRO = [codec_of_avro(plan, json.dumps(avro_query(plan))) for plan in _PLANS]
_PROTOBUF = [codec_of_protobuf(plan, proto_query(plan)) for plan in _PLANS]
_SEEDS = {
    AVRO: [
        avro_body(avro_query(small_plan()), {"id": "q", "a": 0.5, "b": 2.0}),
        avro_body(avro_query(_MIXED), {"id": 7, "n": None, "c": "JFK", "m": 1.0}),
    ],
    PROTOBUF: [
        frame_start(WRITER, (0,)) + b"\x0a\x01q\x59" + bytes(8) + b"\x61" + bytes(8),
        frame_start(WRITER, (0,)) + b"\x10\x07\x62\x03JFK\x69" + bytes(8),
    ],
}


@st.composite
def _mutated(draw, seed):
    """Draw a body that was one: with bytes changed, taken out, put in or doubled."""
    body = bytearray(draw(st.sampled_from([seed, seed, b"", seed + seed])))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(body) - 1, 0)))
        body[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=12))
    if draw(st.booleans()):
        body[:5] = seed[:5]
    return bytes(body)


def _known(body):
    """Return whether a body's schema is one that the codec was told of; the source sees to the others."""
    return len(body) < 5 or body[0] != 0 or body[:5] == frame_start(WRITER)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kind", [AVRO, PROTOBUF])
@settings(max_examples=150)
@given(data=st.data())
def test_a_message_is_the_same_alone_and_beside_others(kind, which, data):
    """Decoding many never raises, and no message's fate depends on another's."""
    codec = (_AVRO if kind == AVRO else _PROTOBUF)[which]
    bodies = data.draw(st.lists(_mutated(_SEEDS[kind][which]).filter(_known), max_size=5))
    together = decoded(codec, [*bodies, _SEEDS[kind][which]])
    assert not isinstance(together.parts[-1], Rejection)
    rows = iter(together.features)
    for body, part in zip(bodies, together.parts, strict=False):
        alone = decoded(codec, [body])
        assert alone.parts == [part]
        if not isinstance(part, Rejection):
            assert np.array_equal(alone.features[0], next(rows))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["int", "null", "Q", "record", "array", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "namespace", "scale"]),
            inner,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300)
@given(schema=_JSON, payload=st.binary(max_size=40))
def test_no_schema_in_avro_breaks_the_codec(schema, payload):
    """Whatever somebody registers, a message of it is a query or is rejected."""
    fields = [{"name": "a", "type": "double"}, {"name": "b", "type": "double"}, {"name": "c", "type": schema}]
    for one in (schema, {"type": "record", "name": "Q", "fields": fields}):
        _decoded_by(AVRO, "AVRO", json.dumps(one), frame_start(WRITER) + payload)


@settings(max_examples=100)
@given(
    text=st.text(max_size=60) | _mutated(proto_query(small_plan()).encode()).map(lambda body: body.decode("latin-1"))
)
def test_no_schema_in_protobuf_breaks_the_codec(text):
    """Whatever somebody registers, a message of it is a query or is rejected."""
    _decoded_by(PROTOBUF, "PROTOBUF", text, _SEEDS[PROTOBUF][0])


def _decoded_by(content_type, kind, text, body):
    writers = Writers(small_plan(), content_type)
    writers.add(WRITER, kind, text, references=False)
    read = writers.read(body)
    assert isinstance(read, Rejection) or len(read.values) == 2


def test_deliveries_of_no_registered_kind_are_left_alone():
    """JSON and Arrow are decoded as without a registry, plain batches included."""
    bodies = [b'{"x": [0.5, 0.25]}'] * 40
    batch = _AVRO[0].decode(Deliveries.of(Delivery(place, body) for place, body in enumerate(bodies, 1)))
    assert batch.plain
    assert batch.features.tolist() == [[0.5, 0.25]] * 40
