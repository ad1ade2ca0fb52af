"""Answers that are numbers: in JSON and in Arrow, one length, nothing lost."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery
from oracle.codec.batches import BatchCodec
from oracle.predictors.base import NO_LABEL, Answers
from tests.predictors.plans import tiny_bisection_plan
from tests.support.shards import arrow_body, new_shard, process

_PLAN = tiny_bisection_plan(100, 100)


def _answers(values, first=0):
    return Answers(
        labels=np.where(np.isnan(values), NO_LABEL, 0).astype(np.int8),
        first_round=first,
        phases=np.ones(len(values), dtype=np.int64),
        tag=np.zeros(2, dtype=np.uint64),
        events=(),
        values=np.array(values),
    )


@pytest.mark.parametrize("count", [1, 3, 40, 300])
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_numbers_come_back_and_have_one_length(count, data):
    """Any float64, few answers or many: what a reader of JSON gets is the same double, and all lines are as long."""
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    values = np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)))
    codec = BatchCodec(_PLAN)
    batch = codec.decode(
        Deliveries.of([Delivery(position, b'{"id":"abc","x":[0.5,0.25]}', JSON) for position in range(1, count + 1)])
    )
    bodies = list(codec.encode(batch, _answers(values, first=1000)).bodies)
    read = [json.loads(body) for body in bodies]
    assert np.array([one["value"] for one in read]).tobytes() == values.tobytes()
    assert len({len(body) for body in bodies}) == 1
    assert list(read[0]) == ["id", "value", "model", "round", "phase"]


def test_tombstones_have_no_value():
    """Null, as long as any number; among few answers and among many."""
    codec = BatchCodec(_PLAN)
    for count in (2, 200):
        bodies = [None if position % 2 else b'{"x":[0.5,0.25]}' for position in range(count)]
        batch = codec.decode(Deliveries.of([Delivery(position, body, JSON) for position, body in enumerate(bodies, 1)]))
        values = np.where(batch.present, 0.125, np.nan)
        replies = list(codec.encode(batch, _answers(values, first=1000)).bodies)
        assert [json.loads(reply)["value"] for reply in replies] == [0.125, None] * (count // 2)
        assert len({len(reply) for reply in replies}) == 1


def test_arrow_answers_have_a_column_of_numbers():
    """NaN where there is none: for a round with no query, and for a rejected row, which has an error."""
    table = pa.table({"a": [0.5, None, float("nan"), 0.75], "b": [0.5, None, 0.5, 0.25]})
    codec = BatchCodec(_PLAN)
    batch = codec.decode(Deliveries.of([Delivery(1, arrow_body(table), ARROW_STREAM)]))
    (body,) = codec.encode(batch, _answers([1.5, np.nan, -2.5])).bodies
    with pa.ipc.open_stream(io.BytesIO(body)) as reader:
        answers = reader.read_all()
    assert answers.column_names == ["value", "round", "phase", "error"]
    assert [str(value) for value in answers["value"].to_pylist()] == ["1.5", "nan", "nan", "-2.5"]
    assert answers["error"].to_pylist() == [None, None, "not-finite", None]
    assert answers["round"].to_pylist() == [0, 1, -1, 2]


def test_the_ledger_says_whom_it_covers():
    """Every phase of a shard that protects its training rows only says so."""
    shard = new_shard(_PLAN)
    bodies = [b'{"x":[0.5,0.25]}'] * 150
    outcome = process(shard, [Delivery(position, body) for position, body in enumerate(bodies, 1)])
    events = [json.loads(event) for event in outcome.commit.ledger]
    started = [event for event in events if event["kind"] == "phase-started"]
    assert [event["covers"] for event in started] == ["training", "training"]
    assert [event["delta"] for event in started] == [_PLAN.phases[0].delta, 0.0]
    assert started[1]["delta_spent"] == started[0]["delta_spent"] == _PLAN.declared * _PLAN.phases[0].delta
