"""Many queries as one Arrow IPC stream, and their answers as one.

In: one column a feature, by name, of any number type (of a string, a date or a decimal what `columns.COLUMNS` says);
optionally `id` (string or integer). A row whose features are all null is a round with no query. Streams that are
compressed, or have columns of dictionaries or views, are refused unread (`arrow_frames`). Out: `id` if there was one,
`label` (int8, -1 where there is none; of a model whose answers are numbers `value`, float64, NaN where there is none),
`round` (int64) and `phase` (int32), both -1 where the row was rejected, `error` (null but for rejected rows); the
model's name is in the schema's metadata.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from oracle.planning.features import columns_of
from oracle.planning.plan import Plan
from oracle.service.codec.arrow_frames import UnsupportedFrameError, count_rows
from oracle.service.codec.columns import COLUMNS, read_column
from oracle.service.codec.rejections import Reason, Rejection

__all__ = ["ArrowCodec", "ArrowQueries", "ArrowRun"]


@dataclass(frozen=True, slots=True)
class ArrowQueries:
    """The decoded rows of one message.

    Attributes:
        features: float64[n, D]; zero where not present.
        present: bool[n].
        rejected: int8[n]: 0, or 1 + the index in `REASONS` of why the row takes no round.
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
_Number = TypeVar("_Number", bound=np.generic)
_KINDS: Final = {
    np.dtype(kind.to_pandas_dtype()).char: kind for kind in (pa.int8(), pa.int32(), pa.int64(), pa.float64())
}
_LONGEST_RUN: Final = 64 << 20  # bytes
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream


class ArrowCodec:
    """Reads and writes Arrow messages of one model.

    Args:
        plan: Its features and limits say what counts as a query.
    """

    def __init__(self, plan: Plan) -> None:
        self._features = plan.features
        self._starts = columns_of(plan.features)
        self._limits = plan.limits
        self._most_rows = _most_rows(plan)
        schemas = {kind: _answers_schema(kind, plan) for kind in (None, pa.string(), pa.int64())}
        self._schemas = {kind: (schema, schema.serialize()) for kind, schema in schemas.items()}

    def decode(self, body: bytes) -> ArrowQueries | Rejection:
        """Return the rows of a message, or why the whole of it is rejected."""
        table = self._table(body)
        if isinstance(table, Rejection):
            return table
        rows = self._rows(table)
        if isinstance(rows, Rejection):
            return rows
        identifiers = self._identifiers(table)
        return identifiers if isinstance(identifiers, Rejection) else replace(rows, identifiers=identifiers)

    def decode_run(self, bodies: Sequence[bytes]) -> ArrowRun | None:
        """Return the rows of many messages, as `decode` would, if all have the same columns and none is rejected.

        None if not, or if they are so long that little is saved; then `decode` tells.
        """
        if sum(map(len, bodies)) > _LONGEST_RUN:
            return None
        tables: list[pa.Table] = []
        for body in bodies:
            table = self._table(body)
            if isinstance(table, Rejection):
                return None
            tables.append(table)
        whole = self._rows_of_all(tables)
        if whole is None:
            return None
        parts: list[ArrowQueries] = []
        stop = 0
        for table in tables:
            identifiers = self._identifiers(table)
            if isinstance(identifiers, Rejection):
                return None
            start, stop = stop, stop + table.num_rows
            rows = slice(start, stop)
            parts.append(ArrowQueries(whole.features[rows], whole.present[rows], whole.rejected[rows], identifiers))
        return ArrowRun(whole, parts)

    def _rows_of_all(self, tables: Sequence[pa.Table]) -> ArrowQueries | None:
        if 8 * self._starts[-1] * sum(table.num_rows for table in tables) > _LONGEST_RUN:
            return None
        try:
            whole = self._rows(pa.concat_tables(tables))
        except pa.ArrowException:
            return None
        return None if isinstance(whole, Rejection) else whole

    def _table(self, body: bytes) -> pa.Table | Rejection:
        if len(body) > self._limits.batch_bytes:
            return Rejection(Reason.OVERSIZED, "body", f"at most {self._limits.batch_bytes} bytes")
        try:
            if count_rows(body) > self._most_rows:
                return Rejection(Reason.TOO_MANY_ROWS, "body", f"at most {self._most_rows} rows")
            return _read(body)
        except UnsupportedFrameError as exc:
            return Rejection(Reason.UNSUPPORTED_CONTENT, "body", str(exc))
        except (pa.ArrowException, OSError, ValueError, IndexError, struct.error):
            return Rejection(Reason.MALFORMED, "body", "one Arrow IPC stream")

    def _rows(self, table: pa.Table) -> ArrowQueries | Rejection:
        features = np.zeros((table.num_rows, self._starts[-1]))
        rejected = np.zeros(table.num_rows, dtype=np.int8)
        nulls: NDArray[np.bool_] | None = None  # most messages have none
        for index, feature in enumerate(self._features):
            name, wanted = feature.name, COLUMNS[feature.kind]
            if table.schema.get_field_index(name) < 0:
                return Rejection(Reason.MISSING_FEATURE, name, wanted)
            column = table.column(name).combine_chunks()
            read = read_column(feature, column)
            if read is None:
                return Rejection(Reason.WRONG_TYPE, name, wanted)
            if column.null_count:
                nulls = np.zeros((table.num_rows, len(self._features)), dtype=np.bool_) if nulls is None else nulls
                nulls[:, index] = column.is_null().to_numpy(zero_copy_only=False)
            features[:, self._starts[index] : self._starts[index + 1]] = read.values
            if read.fit is not None:
                rejected[~read.fit] = 3
        present = np.ones(table.num_rows, dtype=np.bool_)
        finite = np.isfinite(features)
        if not finite.all():
            rejected[~finite.all(axis=1)] = 1
        if nulls is not None:
            np.logical_not(nulls.all(axis=1), out=present)
            rejected[nulls.any(axis=1) & present] = 2
            features[~present] = 0.0
        return ArrowQueries(features, present, rejected, None)

    def _identifiers(self, table: pa.Table) -> pa.Array | Rejection | None:
        if table.schema.get_field_index("id") < 0:
            return None
        kind = table.schema.field("id").type
        if pa.types.is_signed_integer(kind):
            return table.column("id").combine_chunks().cast(pa.int64())
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = table.column("id").combine_chunks()
            longest = pa.compute.max(pa.compute.binary_length(column)).as_py() or 0
            if longest > self._limits.id_bytes:
                return Rejection(Reason.BAD_ID, "id", f"at most {self._limits.id_bytes} bytes of UTF-8")
            return column.cast(pa.string())
        return Rejection(Reason.BAD_ID, "id", "a column of strings or signed integers")

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
        outcome: NDArray[np.generic] = outcomes
        phase, error = phases.astype(np.int32), _nulls(count)
        rounds: NDArray[np.int64] = np.arange(first_round, first_round + len(outcomes), dtype=np.int64)
        if len(outcomes) < count:
            asked = queries.rejected == 0
            outcome, rounds, phase = _spread(outcome, asked), _spread(rounds, asked), _spread(phase, asked)
            error = _errors().take(pa.array(queries.rejected))
        identifiers = queries.identifiers
        schema, head = self._schemas[None if identifiers is None else identifiers.type]
        # No slices of Arrow's here: it would pad each with what stands behind it, the answers to somebody else.
        columns = [*map(_column, (outcome, rounds, phase)), error]
        if identifiers is not None:
            columns.insert(0, identifiers)
        return b"".join((head, pa.RecordBatch.from_arrays(columns, schema=schema).serialize(), _END))


def _column(values: NDArray[np.generic]) -> pa.Array:
    """Return numbers as they are, without the look that `pa.array` has at what they might be."""
    return pa.Array.from_buffers(_KINDS[values.dtype.char], len(values), [None, pa.py_buffer(values)])


def _most_rows(plan: Plan) -> int:
    """Return the most rows of a message: short strings are unpacked to long ones, so these count at full length."""
    if all(feature.kind != "string" for feature in plan.features):
        return plan.limits.rows
    return max(min(plan.limits.rows, plan.limits.batch_bytes // (8 * plan.width)), 1)


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


def _read(body: bytes) -> pa.Table:
    """Read a message that is one stream and nothing behind it: queries of a second one would get no answer.

    Raises:
        ValueError: It is not (pyarrow's errors are of this kind, or OSError).
    """
    with pa.BufferReader(body) as stream, pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
        table.validate(full=True)
        if stream.tell() != len(body):
            msg = "bytes behind the stream"
            raise ValueError(msg)
    return table
