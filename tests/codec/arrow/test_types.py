"""Arrow columns of every type: what a feature does not take is rejected by name, whatever comes beside or behind it."""

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, Deliveries, Delivery
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.batches import BatchCodec
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.features import Feature
from tests.predictors.plans import feature, tiny_plan
from tests.storms.fuzz.arrow import same_alone
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


_NESTED = pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.null()))


def _is_number(kind):
    if pa.types.is_dictionary(kind):
        return _is_number(kind.value_type) and not pa.types.is_dictionary(kind.value_type)
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)
    return not isinstance(kind, pa.BaseExtensionType) and numbers


@example(kind=_NESTED, sizes=[], place="a", seed=0, count=1)
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
    if pa.types.is_dictionary(kind):  # with no batch, Arrow writes one of dictionaries as one of their values
        kind = pa.ipc.open_stream(body).schema.field(place).type
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
    batch = BatchCodec(_NUMBER).decode(
        Deliveries.of([Delivery(1, one, ARROW_STREAM) for one in [body] * count + [_GOOD]])
    )
    wanted = Rejection(Reason.TOO_MANY_ROWS, "body", "at most 65536 rows") if _rows(body) > 65_536 else _WRONG
    assert batch.parts[:-1] == [wanted] * count
    assert batch.features.tolist() == [[0.5], [0.25]]
    together = BatchCodec(_NUMBER).decode(Deliveries.of([Delivery(1, body, ARROW_STREAM)] * count))
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


class _Ours(pa.ExtensionType):
    """A type that a process may know of or not; it cannot be read without what it was made with."""

    def __init__(self):
        super().__init__(pa.float64(), "tests.ours")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        raise ValueError(storage, serialized)


def _of_others(kind, values, name, place):
    """Return a message with a column of a type that others have made, as its storage and the type's name."""
    field = pa.field(place, kind, metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": "{}"})
    fields, columns = [pa.field("a", pa.float64())], [pa.array([0.5])]
    if place == "within":
        field = pa.field(place, pa.list_(field))
        values = [values]
    if place == "a":
        fields, columns = [], []
    sink = pa.BufferOutputStream()
    whole = pa.schema([*fields, field])
    with pa.ipc.new_stream(sink, whole) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([*columns, pa.array(values, field.type)], schema=whole))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("place", ["a", "id", "note", "within"])
@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        (pa.float64(), [0.5], "tests.ours"),  # of a name that nobody knows it is read as a plain number
        (pa.int64(), [1], "pandas.period"),  # which it is until somebody imports a part of pandas
        (pa.int8(), [1], "arrow.bool8"),  # before pyarrow 18
        (pa.string(), ["1"], "arrow.json"),  # before pyarrow 19
    ],
)
def test_what_a_process_knows_of_does_not_decide_what_is_a_query(kind, values, name, place):
    """A column of a type that others have made is refused by its name, before that is looked up."""
    body = _of_others(kind, values, name, place)
    wanted = Rejection(Reason.UNSUPPORTED_CONTENT, "body", "columns without extension types")
    assert ArrowCodec(_NUMBER).decode(body) == wanted
    same_alone(_NUMBER, BatchCodec(_NUMBER), [_GOOD, *[body] * 3, _GOOD])
    pa.register_extension_type(_Ours())
    try:
        assert ArrowCodec(_NUMBER).decode(body) == wanted
        same_alone(_NUMBER, BatchCodec(_NUMBER), [_GOOD, *[body] * 3, _GOOD])
    finally:
        pa.unregister_extension_type("tests.ours")
