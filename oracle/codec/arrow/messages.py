"""Many queries as one Arrow IPC stream, and their answers as one.

In: one column a feature, by name, of any number type (of a string, a category, a date or a decimal what
`columns.COLUMNS` says); optionally `id` (string or integer). A null is a value that is missing, where the plan takes
these. A row whose features are all null is a round with no query. Dictionaries, views and bodies of LZ4 or zstd are
read within bounds; what would cost too much, or is of an extension type, is refused unread (`frames.py`).

Out: `id` if there was one, `label`, `round` (int64) and `phase` (int32), both -1 where the row was rejected, `error`
(null but for rejected rows, and for those of rounds that the model rested in, "resting"); the model's name is in the
schema's metadata. `label` takes as many bytes whatever it is. It is

* int8, -1 where there is none, if labels are 0 and 1;
* int64, null where there is none, if they are other whole numbers;
* int8, the class's place in the list that the field's metadata have as `classes` (JSON), -1 where there is none, if any
  of them is a text;
* of a model whose answers are numbers `value`, float64, NaN where there is none.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.answers import AnswerWriter
from oracle.codec.arrow.columns import COLUMNS, read_column, takes
from oracle.codec.arrow.frames import UnsupportedFrameError, read_frames
from oracle.codec.arrow.identifiers import given_back_as, read_identifiers
from oracle.codec.arrow.plain import LongTextsError, in_plain, text_bytes
from oracle.codec.arrow.streams import MALFORMED, Joined, read_joined, read_stream
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import columns_of
from oracle.planning.plan import Plan
from oracle.planning.serving import most_rows

__all__ = ["ID_BYTES", "ArrowCodec", "ArrowQueries", "ArrowRun"]


class ArrowQueries(NamedTuple):
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
    """Many messages, decoded together."""

    whole: ArrowQueries
    parts: list[ArrowQueries]


_NO_STREAM: Final = Rejection(Reason.MALFORMED, "body", "one Arrow IPC stream")
_LONGEST_RUN: Final = 64 << 20  # bytes

ID_BYTES: Final = 32
"""Bytes that the ids of a message may have for each row, beyond its own length: so much longer they may be unpacked."""


class ArrowCodec:
    """Reads and writes Arrow messages of one model."""

    def __init__(self, plan: Plan) -> None:
        self._features = plan.features
        self._names = {"id", *(feature.name for feature in plan.features)}
        self._starts = columns_of(plan.features)
        self._limits = plan.limits
        self._most_rows = most_rows(plan)
        self._long = Rejection(Reason.OVERSIZED, "body", f"at most {plan.limits.batch_bytes} bytes, unpacked")
        self._missing = plan.takes_missing
        self._writer = AnswerWriter(plan)

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
            if not read_frames(body).plain:  # unpacked it may be far longer than it came
                return None
            table = self._table(body)
            if isinstance(table, Rejection):
                return None
            tables.append(table)
        whole = pa.concat_tables(tables)
        chunks = [table.column(0).num_chunks if table.num_columns else 0 for table in tables]
        return Joined(whole, [table.num_rows for table in tables], chunks)

    def _table(self, body: bytes) -> pa.Table | Rejection:
        """Return a message's rows, all columns that count plain ones."""
        if len(body) > self._limits.batch_bytes:
            return Rejection(Reason.OVERSIZED, "body", f"at most {self._limits.batch_bytes} bytes")
        try:
            return self._read(body)
        except UnsupportedFrameError as exc:
            return Rejection(Reason.UNSUPPORTED_CONTENT, "body", str(exc))
        except LongTextsError:
            return self._long
        except MemoryError:
            raise  # as in `decode`; what the frames announce is bounded
        except MALFORMED:
            return _NO_STREAM

    def _read(self, body: bytes) -> pa.Table | Rejection:
        announced = read_frames(body)
        if announced.rows > self._most_rows:
            return Rejection(Reason.TOO_MANY_ROWS, "body", f"at most {self._most_rows} rows")
        if announced.unpacked > self._limits.batch_bytes:
            return self._long
        table = read_stream(body, self._limits.batch_bytes)
        return table if announced.plain else self._in_plain(table, len(body))

    def _in_plain(self, table: pa.Table, size: int) -> pa.Table | Rejection:
        """Return a table as `in_plain` does, if its ids are not so long that their answer would be too long."""
        table = in_plain(table, self._names, self._limits.batch_bytes)
        most = size + ID_BYTES * table.num_rows
        if "id" in table.column_names and text_bytes(table.column("id")) > most:
            return Rejection(Reason.BAD_ID, "id", f"at most {most} bytes of all ids together")
        return table

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
        features = np.empty((table.num_rows, self._starts[-1]))
        rejected = np.zeros(table.num_rows, dtype=np.int8)
        nulls: list[NDArray[np.bool_]] = []  # of columns that have some
        for index, feature in enumerate(self._features):
            column = table.column(feature.name).combine_chunks()
            read = read_column(feature, column)
            place = slice(self._starts[index], self._starts[index + 1])
            features[:, place] = read.values
            if read.fit is not None:
                rejected[~read.fit] = 3
            if self._missing and feature.kind == "number":
                rejected[read.values[:, 0] == MISSING] = 1  # a real value, as nulls are 0 here
            if column.null_count:
                null = column.is_null().to_numpy(zero_copy_only=False)
                nulls.append(null)
                if self._missing:
                    features[null, place] = MISSING
        present = np.ones(table.num_rows, dtype=np.bool_)
        finite = np.isfinite(features)
        if not finite.all():
            rejected[~finite.all(axis=1)] = 1
        if len(nulls) == len(self._features):
            np.logical_not(np.logical_and.reduce(nulls), out=present)
            features[~present] = 0.0
        if nulls and not self._missing:
            rejected[np.logical_or.reduce(nulls) & present] = 2
        return ArrowQueries(features, present, rejected, None)

    def encode(
        self,
        queries: ArrowQueries,
        outcomes: NDArray[np.int8] | NDArray[np.float64],
        first_round: int,
        phases: NDArray[np.int64],
    ) -> bytes:
        """Encode the answers to one message; `AnswerWriter.write` has their shapes."""
        return self._writer.write(queries.rejected, queries.identifiers, outcomes, first_round, phases)


def _parts(whole: ArrowQueries, counts: Sequence[int], identifiers: Sequence[pa.Array | None]) -> list[ArrowQueries]:
    features, present, rejected, _ = whole
    parts: list[ArrowQueries] = []
    stop = 0
    for count, identifier in zip(counts, identifiers, strict=True):
        start, stop = stop, stop + count
        rows = slice(start, stop)
        parts.append(ArrowQueries(features[rows], present[rows], rejected[rows], identifier))
    return parts
