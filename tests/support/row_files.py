"""Files of rows, in every format that commands read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

_DELIMITERS: Final = {".semicolon.csv": ";", ".tab.csv": "\t", ".tsv": "\t"}


def write_rows(path: Path, rows: pa.Table | Mapping[str, Any]) -> Path:
    """Write a table, or columns by their names, in the format that the file's name ends in; return its path.

    JSON has a column more, of no one type, which nobody may want.
    """
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    ending = "".join(path.suffixes)
    if path.suffix in {".csv", ".tsv"}:
        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter=_DELIMITERS.get(ending, ",")))
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".jsonl":
        lines = [
            json.dumps({**row, "more": number % 2 or "a"}, default=str) for number, row in enumerate(table.to_pylist())
        ]
        path.write_text("\n".join([*lines, ""]))
    else:
        make = pa.ipc.new_stream if ending == ".stream.arrow" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as writer:
            writer.write_table(table)
    return path
