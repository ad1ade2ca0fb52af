"""Arrow columns of every type: what a feature does not take is rejected by name, whatever comes beside or behind it."""

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, Delivery
from oracle.planning.features import Feature
from oracle.service.codec.arrow_messages import ArrowCodec, ArrowQueries
from oracle.service.codec.batches import BatchCodec
from oracle.service.codec.rejections import Reason, Rejection
from tests.fuzz.arrow import same_alone
from tests.predictors.plans import feature, tiny_plan
from tests.support.arrow_types import LEAVES, NESTS, any_array, unjoinable
from tests.support.shards import arrow_body

_NUMBER = tiny_plan([feature("a")])
_DECIMAL = tiny_plan([Feature(name="a", type="decimal", places=2)], slicing="sequential")
_WRONG = Rejection(Reason.WRONG_TYPE, "a", "one column of numbers")
_GOOD = arrow_body(pa.table({"a": [0.5, 0.25]}))


def _made(make, kinds):
    return make(*kinds)


def _nested(inner):
    return st.one_of([st.tuples(*[inner] * count).map(partial(_made, make)) for count, make in NESTS])


_TYPES = st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=5)


def _message(rng, kinds, sizes):
    """Return a stream of columns of these types and batches of these sizes; None if there are no such columns."""
    sink = pa.BufferOutputStream()
    whole = pa.schema(list(kinds.items()))
    try:
        with pa.ipc.new_stream(sink, whole) as writer:
            for rows in sizes:
                columns = [any_array(rng, kind, rows) for kind in kinds.values()]
                batch = pa.RecordBatch.from_arrays(columns, schema=whole)
                batch.validate(full=True)
                writer.write_batch(batch)
    except (pa.ArrowException, ValueError):
        return None
    return sink.getvalue().to_pybytes()


def _is_number(kind):
    return not isinstance(kind, pa.BaseExtensionType) and (pa.types.is_integer(kind) or pa.types.is_floating(kind))


@given(
    kind=_TYPES,
    sizes=st.lists(st.sampled_from([0, 1, 3]), max_size=3),
    place=st.sampled_from(["a", "id", "note"]),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 4),
)
def test_columns_of_any_type(kind, sizes, place, seed, count):
    """A message is answered or rejected, and told the same alone, beside others like it, and beside a good one."""
    body = _message(random.Random(seed), {"a": pa.float64()} | {place: kind}, sizes)  # noqa: S311  # test data
    assume(body is not None)
    found = ArrowCodec(_NUMBER).decode(body)
    if place == "a" and isinstance(found, ArrowQueries):
        assert _is_number(kind)
    if place == "a" and _is_number(kind):
        assert isinstance(found, ArrowQueries)
    if place == "note":
        assert isinstance(found, ArrowQueries) or found.reason in {"unsupported-content", "malformed"}
    codec = BatchCodec(_NUMBER)
    same_alone(_NUMBER, codec, [body] * count)
    same_alone(_NUMBER, codec, [_GOOD, *[body] * count, _GOOD])


@pytest.mark.parametrize("name", unjoinable())
@pytest.mark.parametrize("count", [1, 2, 40])
def test_columns_that_cannot_be_joined(name, count):
    """However many come together, each is rejected for its type, and what comes behind them is answered."""
    body = unjoinable()[name]
    batch = BatchCodec(_NUMBER).decode([Delivery(1, one, ARROW_STREAM) for one in [body] * count + [_GOOD]])
    wanted = Rejection(Reason.TOO_MANY_ROWS, "body", "at most 65536 rows") if _rows(body) > 65_536 else _WRONG
    assert batch.parts[:-1] == [wanted] * count
    assert batch.features.tolist() == [[0.5], [0.25]]
    together = BatchCodec(_NUMBER).decode([Delivery(1, body, ARROW_STREAM)] * count)
    assert together.parts == [wanted] * count


def _rows(body):
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all().num_rows


def _decimals(kind, units):
    data = b"".join(unit.to_bytes(kind.byte_width, "little", signed=True) for unit in units)
    return pa.Array.from_buffers(kind, len(units), [None, pa.py_buffer(data)])


@pytest.mark.parametrize("make", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
@pytest.mark.parametrize("scale", [-76, -39, -10, -1, 0, 2, 3, 10, 39, 76])
def test_decimals_of_every_scale(make, scale):
    """Arrow cannot write all of them down; those that the feature takes are answered, the others' rows are rejected."""
    digits = {pa.decimal32: 9, pa.decimal64: 18, pa.decimal128: 38, pa.decimal256: 76}[make]
    units = [0, 1, -1, 120, 10**digits - 1]
    kind = make(digits, scale)
    column = _decimals(kind, units)
    body = arrow_body(pa.table({"a": column}))
    found = ArrowCodec(_DECIMAL).decode(body)
    assert isinstance(found, ArrowQueries)
    exact = [unit * 10 ** max(-scale, 0) for unit in units]
    wanted = [number * 100 % 10 ** max(scale, 0) == 0 and abs(number) < 10 ** (13 + max(scale, 0)) for number in exact]
    assert (found.rejected == 0).tolist() == wanted
    numbers = np.array([number / 10 ** max(scale, 0) for number in exact])
    assert found.features[wanted, 0].tolist() == numbers[wanted].tolist()
    same_alone(_DECIMAL, BatchCodec(_DECIMAL), [body, body, arrow_body(pa.table({"a": pa.nulls(2, kind)}))])


def test_names_and_metadata_that_are_no_text():
    """Bytes that are no UTF-8 where a schema has names."""
    for place, reason in (("name", "malformed"), ("zone", "wrong-type"), ("metadata", None)):
        columns = {"a": pa.array([0.5])}
        if place == "name":
            columns["QQQ"] = pa.array([0.5])
        elif place == "zone":
            columns["a"] = pa.array([1], pa.timestamp("s", "QQQ"))
        table = pa.table(columns, metadata={"QQQ": "QQQ"} if place == "metadata" else None)
        body = arrow_body(table).replace(b"QQQ", b"\xff\xfe\xff")
        found = ArrowCodec(_NUMBER).decode(body)
        assert (found.reason if isinstance(found, Rejection) else None) == reason
        same_alone(_NUMBER, BatchCodec(_NUMBER), [body] * 3)
