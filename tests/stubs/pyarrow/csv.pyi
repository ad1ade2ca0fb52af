from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from pyarrow import DataType, NativeFile, RecordBatch, Schema, Table
from pyarrow.ipc import RecordBatchReader

class ReadOptions:
    def __init__(self, *, use_threads: bool = ...) -> None: ...

class ParseOptions:
    def __init__(self, *, delimiter: str = ...) -> None: ...

class WriteOptions:
    def __init__(self, *, delimiter: str = ...) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        include_columns: Sequence[str] | None = ...,
        column_types: Mapping[str, DataType] | None = ...,
        null_values: Sequence[str] = ...,
        strings_can_be_null: bool = ...,
        quoted_strings_can_be_null: bool = ...,
    ) -> None: ...

class CSVWriter:
    def __init__(self, sink: IO[bytes], schema: Schema) -> None: ...
    def close(self) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...

def open_csv(
    input_file: NativeFile,
    read_options: ReadOptions | None = ...,
    parse_options: ParseOptions | None = ...,
    convert_options: ConvertOptions | None = ...,
) -> RecordBatchReader: ...
def read_csv(
    input_file: Path | str | IO[bytes] | NativeFile, *, convert_options: ConvertOptions | None = ...
) -> Table: ...
def write_csv(data: Table, output_file: Path | str, write_options: WriteOptions | None = ...) -> None: ...
