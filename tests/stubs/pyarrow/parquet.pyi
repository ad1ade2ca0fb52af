from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from pyarrow import NativeFile, RecordBatch, Schema, Table

class ParquetWriter:
    def __init__(self, where: IO[bytes], schema: Schema) -> None: ...
    def close(self) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...

class FileMetaData:
    num_columns: int
    num_rows: int
    num_row_groups: int
    def row_group(self, i: int) -> RowGroupMetaData: ...

class RowGroupMetaData:
    num_rows: int

class ParquetFile:
    metadata: FileMetaData
    num_row_groups: int
    schema_arrow: Schema
    def __init__(self, source: NativeFile | Path | str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def iter_batches(
        self, batch_size: int = ..., row_groups: Sequence[int] | None = ..., columns: Sequence[str] | None = ...
    ) -> Iterator[RecordBatch]: ...

def read_metadata(where: Path | str) -> FileMetaData: ...
def read_schema(where: Path | str) -> Schema: ...
def read_table(source: Path | str, *, columns: Sequence[str] | None = ..., partitioning: str | None = ...) -> Table: ...
def write_table(
    table: Table,
    where: Path | str | IO[bytes] | NativeFile,
    row_group_size: int | None = ...,
    *,
    compression: str = ...,
    use_dictionary: bool = ...,
    write_statistics: bool = ...,
    column_encoding: Mapping[str, str] | None = ...,
) -> None: ...
