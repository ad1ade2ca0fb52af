from pyarrow import NativeFile, Schema
from pyarrow.ipc import RecordBatchReader

class ParseOptions:
    def __init__(self, *, explicit_schema: Schema | None = ..., unexpected_field_behavior: str = ...) -> None: ...

def open_json(input_file: NativeFile, *, parse_options: ParseOptions | None = ...) -> RecordBatchReader: ...
