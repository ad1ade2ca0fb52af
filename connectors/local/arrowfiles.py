"""Parquet and Arrow files as record batches, and record batches as Arrow messages of plain columns."""

from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.errors import InputError

__all__ = ["ROWS", "arrow_reader", "batches_from", "check_suffix", "plain", "split", "stream_bytes", "stream_of"]

ROWS = 65_536
"""Rows that are read at once."""

_VALUES = 1 << 20
"""Values that are read at once of a file with many columns; each takes far more memory there than in a message."""

_FILE_MAGIC = b"ARROW1"


def check_suffix(path: Path) -> None:
    """Refuse a path that ends in neither .parquet nor .arrow.

    Raises:
        InputError: It does.
    """
    if path.suffix not in {".parquet", ".arrow"}:
        raise InputError("path", str(path), "must end in .parquet or .arrow")


def batches_from(path: Path, start: int) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows behind the first `start`, as record batches of any size."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            groups = list(range(file.num_row_groups))
            while groups and start >= (rows := file.metadata.row_group(groups[0]).num_rows):
                groups, start = groups[1:], start - rows
            rows = min(ROWS, max(_VALUES // max(file.metadata.num_columns, 1), 1))
            yield from _drop(file.iter_batches(batch_size=rows, row_groups=groups), start)
    else:
        with pa.OSFile(str(path)) as file:
            yield from _drop(_arrow_batches(file), start)


def arrow_reader(file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    """Return the reader of an Arrow file or of a stream in a file, whichever it is."""
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _arrow_batches(file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    reader = arrow_reader(file)
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from (reader.get_batch(index) for index in range(reader.num_record_batches))
    else:
        yield from reader


def _drop(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)


def split(batches: list[pa.RecordBatch], rows: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the first `rows` rows, which end within the last batch, and the rest."""
    *head, last = batches
    within = rows - sum(batch.num_rows for batch in head)
    rest = [last.slice(within)] if within < last.num_rows else []
    return [*head, last.slice(0, within)], rest


def stream_bytes(batches: list[pa.RecordBatch]) -> bytes:
    """Return the rows as an Arrow stream of one batch, the same bytes however the rows came in batches."""
    return stream_of(pa.Table.from_batches(batches))


def stream_of(table: pa.Table) -> bytes:
    """Return a table as one Arrow stream whose bytes depend on its rows only."""
    table = plain(table)
    # `take` copies: offsets, and whatever stands in the slots of nulls, become the same for the same rows.
    every = _every(table.num_rows)
    columns = [column.combine_chunks().take(every) for column in table.columns]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=table.schema))
    return bytes(sink.getvalue())


@lru_cache(maxsize=2)
def _every(rows: int) -> pa.Array:
    """Return 0, 1, ..., rows - 1; all messages of a file but the last have as many rows."""
    numbers = pa.py_buffer(array("q", range(rows)))  # `pa.array(range(rows))` would import pandas where there is one
    return pa.Array.from_buffers(pa.int64(), rows, [None, numbers])


def plain(table: pa.Table, *, described: bool = False) -> pa.Table:
    """Drop the metadata, decode dictionaries, and take types that others have made for what they are stored as.

    Nothing of that is part of the rows: it depends on who wrote them, and on what this process knows of. But the
    metadata of our own answers' fields say what a label stands for: `described` keeps these.
    """
    fields = [
        pa.field(field.name, _plain_type(field.type), field.nullable, field.metadata if described else None)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind
