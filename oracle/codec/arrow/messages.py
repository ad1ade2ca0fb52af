"""Many queries as one Arrow IPC stream, and their answers as one.

In: one column a feature, by name, of any number type (of a string, a date or a decimal what `columns.COLUMNS` says);
optionally `id` (string or integer). A row whose features are all null is a round with no query. Streams that are
compressed, or have columns of dictionaries, views or extension types, are refused unread (`arrow_frames`). Out: `id` if
there was one, `label` (int8, -1 where there is none; of a model whose answers are numbers `value`, float64, NaN where
there is none), `round` (int64) and `phase` (int32), both -1 where the row was rejected, `error` (null but for rejected
rows); the model's name is in the schema's metadata.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.columns import COLUMNS, read_column, takes
from oracle.codec.arrow.frames import UnsupportedFrameError, read_frames
from oracle.codec.arrow.identifiers import given_back_as, read_identifiers
from oracle.codec.arrow.streams import END, MALFORMED, Joined, read_joined, read_stream
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.features import columns_of
from oracle.planning.plan import Plan
from oracle.planning.serving import most_rows

__all__ = ["ArrowCodec", "ArrowQueries", "ArrowRun"]


class Numbers(NamedTuple):
    """The numbers of a message's answers; contiguous.

    Attributes:
        outcome: int8[n] or float64[n].
        rounds: int64[n].
        phases: int32[n].
    """

    outcome: NDArray[Any]
    rounds: NDArray[np.int64]
    phases: NDArray[np.int32]


class ArrowQueries(NamedTuple):
    """The decoded rows of one message.

    Attributes:
        features: float64[n, D]; zero where not present.
        present: bool[n].
        rejected: int8[n]: 0, or 1 + the index in `_REASONS` of why the row takes no round.
        identifiers: The message's `id` column, or None.
    """

    features: NDArray[np.float64]
    present: NDArray[np.bool_]
    rejected: NDArray[np.int8]
    identifiers: pa.Array | None


class ArrowRun(NamedTuple):
    """Many messages, decoded together.

    Attributes:
        whole: The rows of all, without their ids.
        parts: The messages.
    """

    whole: ArrowQueries
    parts: list[ArrowQueries]


_REASONS = (Reason.NOT_FINITE, Reason.MISSING_FEATURE, Reason.WRONG_TYPE)
_NO_STREAM: Final = Rejection(Reason.MALFORMED, "body", "one Arrow IPC stream")
_Number = TypeVar("_Number", bound=np.generic)
_KINDS: Final = {
    np.dtype(kind.to_pandas_dtype()).char: kind for kind in (pa.int8(), pa.int32(), pa.int64(), pa.float64())
}
_LONGEST_RUN: Final = 64 << 20  # bytes


class ArrowCodec:
    """Reads and writes Arrow messages of one model.

    Args:
        plan: Its features and limits say what counts as a query.
    """

    def __init__(self, plan: Plan) -> None:
        self._features = plan.features
        self._starts = columns_of(plan.features)
        self._limits = plan.limits
        self._most_rows = most_rows(plan)
        schemas = {kind: _answers_schema(kind, plan) for kind in (None, pa.string(), pa.int64())}
        self._write = partial(_written, {kind: (schema, schema.serialize()) for kind, schema in schemas.items()})

    def decode(self, body: bytes) -> ArrowQueries | Rejection:
        """Return the rows of a message, or why the whole of it is rejected.

        Raises:
            MemoryError: There is none; no other error of Arrow's comes out of here.
        """
        table = self._table(body)
        if isinstance(table, Rejection):
            return table
        try:
            return self._queries(table)
        except MemoryError:
            raise  # Arrow's own too: it may pass, and what is a query must not depend on it
        except pa.ArrowException:
            return _NO_STREAM

    def _queries(self, table: pa.Table) -> ArrowQueries | Rejection:
        wrong = self._wrong(table.schema)
        if wrong is not None:
            return wrong
        rows = self._rows(table)
        identifiers = read_identifiers(table, [table.column(0).num_chunks], self._limits.id_bytes)
        return identifiers if isinstance(identifiers, Rejection) else rows._replace(identifiers=identifiers[0])

    def decode_run(self, bodies: Sequence[bytes]) -> ArrowRun | None:
        """Return the rows of many messages, as `decode` would, if all have the same columns and none is rejected.

        None if not, or if they are so long that little is saved, or if anything goes wrong; then `decode` tells: what
        one of them is must never depend on the others.
        """
        try:
            return self._run(bodies)
        except MALFORMED:
            return None

    def _run(self, bodies: Sequence[bytes]) -> ArrowRun | None:
        if sum(map(len, bodies)) > _LONGEST_RUN:
            return None
        joined = read_joined(bodies, self._most_rows, self._limits.batch_bytes) or self._concatenated(bodies)
        if joined is None or 8 * self._starts[-1] * joined.table.num_rows > _LONGEST_RUN:
            return None
        if self._wrong(joined.table.schema) is not None:
            return None
        whole = self._rows(joined.table)
        identifiers = read_identifiers(joined.table, joined.batches, self._limits.id_bytes)
        if isinstance(identifiers, Rejection):
            return None
        return ArrowRun(whole, _parts(whole, joined.rows, identifiers))

    def _concatenated(self, bodies: Sequence[bytes]) -> Joined | None:
        """Read messages one by one; they may differ in how their columns are announced, or have nested ones."""
        tables: list[pa.Table] = []
        for body in bodies:
            table = self._table(body)
            if isinstance(table, Rejection):
                return None
            tables.append(table)
        whole = pa.concat_tables(tables)
        chunks = [table.column(0).num_chunks if table.num_columns else 0 for table in tables]
        return Joined(whole, [table.num_rows for table in tables], chunks)

    def _table(self, body: bytes) -> pa.Table | Rejection:
        if len(body) > self._limits.batch_bytes:
            return Rejection(Reason.OVERSIZED, "body", f"at most {self._limits.batch_bytes} bytes")
        try:
            if read_frames(body).rows > self._most_rows:
                return Rejection(Reason.TOO_MANY_ROWS, "body", f"at most {self._most_rows} rows")
            return read_stream(body)
        except UnsupportedFrameError as exc:
            return Rejection(Reason.UNSUPPORTED_CONTENT, "body", str(exc))
        except MemoryError:
            raise  # as in `decode`; what the frames announce is bounded
        except MALFORMED:
            return _NO_STREAM

    def _wrong(self, schema: pa.Schema) -> Rejection | None:
        """Return what columns of these types are rejected for: Arrow cannot even join chunks of every type."""
        for feature in self._features:
            index = schema.get_field_index(feature.name)
            if index < 0:
                return Rejection(Reason.MISSING_FEATURE, feature.name, COLUMNS[feature.kind])
            if not takes(feature, schema.field(index).type):
                return Rejection(Reason.WRONG_TYPE, feature.name, COLUMNS[feature.kind])
        index = schema.get_field_index("id")
        if index >= 0 and given_back_as(schema.field(index).type) is None:
            return Rejection(Reason.BAD_ID, "id", "a column of strings or signed integers")
        return None

    def _rows(self, table: pa.Table) -> ArrowQueries:
        """Return the rows of columns that have the right types."""
        features = np.empty((table.num_rows, self._starts[-1]))
        rejected = np.zeros(table.num_rows, dtype=np.int8)
        nulls: list[NDArray[np.bool_]] = []  # of columns that have some
        for index, feature in enumerate(self._features):
            column = table.column(feature.name).combine_chunks()
            read = read_column(feature, column)
            if column.null_count:
                nulls.append(column.is_null().to_numpy(zero_copy_only=False))
            features[:, self._starts[index] : self._starts[index + 1]] = read.values
            if read.fit is not None:
                rejected[~read.fit] = 3
        present = np.ones(table.num_rows, dtype=np.bool_)
        finite = np.isfinite(features)
        if not finite.all():
            rejected[~finite.all(axis=1)] = 1
        if len(nulls) == len(self._features):
            np.logical_not(np.logical_and.reduce(nulls), out=present)
            features[~present] = 0.0
        if nulls:
            rejected[np.logical_or.reduce(nulls) & present] = 2
        return ArrowQueries(features, present, rejected, None)

    def encode(
        self,
        queries: ArrowQueries,
        outcomes: NDArray[np.int8] | NDArray[np.float64],
        first_round: int,
        phases: NDArray[np.int64],
    ) -> bytes:
        """Encode the answers to one message.

        Args:
            queries: The decoded message.
            outcomes: int8[m], labels of its m rows that were not rejected; or float64[m], their values.
            first_round: Round of the first of them.
            phases: int64[m], their phases.
        """
        count = len(queries.rejected)
        rounds: NDArray[np.int64] = np.arange(first_round, first_round + len(outcomes), dtype=np.int64)
        numbers = Numbers(outcomes, rounds, phases.astype(np.int32))
        if len(outcomes) < count:
            asked = queries.rejected == 0
            error = _errors().take(pa.array(queries.rejected))
            return self._write(Numbers(*(_spread(column, asked) for column in numbers)), error, queries.identifiers)
        return self._write(numbers, identifiers=queries.identifiers)


def _parts(whole: ArrowQueries, counts: Sequence[int], identifiers: Sequence[pa.Array | None]) -> list[ArrowQueries]:
    """Cut the rows of many messages into those of each."""
    features, present, rejected, _ = whole
    parts: list[ArrowQueries] = []
    stop = 0
    for count, identifier in zip(counts, identifiers, strict=True):
        start, stop = stop, stop + count
        rows = slice(start, stop)
        parts.append(ArrowQueries(features[rows], present[rows], rejected[rows], identifier))
    return parts


def _written(
    schemas: Mapping[pa.DataType | None, tuple[pa.Schema, pa.Buffer]],
    numbers: Numbers,
    error: pa.Array | None = None,
    identifiers: pa.Array | None = None,
) -> bytes:
    """Return columns as one stream; without `error` no row has one."""
    schema, head = schemas[None if identifiers is None else identifiers.type]
    # No slices of Arrow's here: it would pad each with what stands behind it, the answers to somebody else.
    columns = [*map(_column, numbers), _nulls(len(numbers.outcome)) if error is None else error]
    if identifiers is not None:
        columns.insert(0, identifiers)
    return b"".join((head, pa.RecordBatch.from_arrays(columns, schema=schema).serialize(), END))


def _column(values: NDArray[np.generic]) -> pa.Array:
    """Return numbers as they are, without the look that `pa.array` has at what they might be."""
    return pa.Array.from_buffers(_KINDS[values.dtype.char], len(values), [None, pa.py_buffer(values)])


def _answers_schema(identifier: pa.DataType | None, plan: Plan) -> pa.Schema:
    outcome = ("label", pa.int8()) if plan.answers == "label" else ("value", pa.float64())
    fields = [outcome, ("round", pa.int64()), ("phase", pa.int32()), ("error", pa.string())]
    if identifier is not None:
        fields.insert(0, ("id", identifier))
    return pa.schema(fields, metadata={"model": plan.name})


def _spread(column: NDArray[_Number], asked: NDArray[np.bool_]) -> NDArray[_Number]:
    """Return a column for all rows; where nothing was asked -1, or NaN in one of float64."""
    whole = np.full(len(asked), np.nan if column.dtype == np.float64 else -1, dtype=column.dtype)
    whole[asked] = column
    return whole


@cache
def _errors() -> pa.Array:
    """Return what `ArrowQueries.rejected` counts. Not at import: given a list, pyarrow imports pandas where it can."""
    return pa.array([None, *map(str, _REASONS)], pa.string())


@lru_cache(maxsize=8)
def _nulls(count: int) -> pa.Array:
    """Return so many null strings; most messages of a stream have as many rows."""
    return pa.nulls(count, pa.string())
