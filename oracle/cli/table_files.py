"""Files of labelled rows as Arrow record batches: CSV (also with tabs or semicolons), Parquet, JSON lines, Arrow."""

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from connectors.local.arrowfiles import arrow_reader
from oracle.errors import DataError, InputError

__all__ = ["FORMATS", "TableFile", "Unlike", "format_of"]

FORMATS: Final = ("csv", "tsv", "parquet", "jsonl", "arrow")
"""What a file's name may end in."""

_STANDARD_INPUT: Final = Path("-")
_MAGIC: Final = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"), (b"{", "jsonl"))
_BATCH_ROWS: Final = 65_536
_HEADER_BYTES: Final = 1 << 20
_ROW: Final = re.compile(r"Row #(\d+): ")
_CSV_COLUMN: Final = re.compile(r"In CSV column #(\d+): ")
_LINES: Final = 1024
"""Lines of JSON that are tried together."""
_DECIMAL_COMMA: Final = re.compile(r"(?:invalid value|The string) '\s*[-+]?\d+,\d+\s*'")

_Reader: TypeAlias = "pyarrow.parquet.ParquetFile | pa.RecordBatchFileReader | pa.RecordBatchReader"


class Unlike(NamedTuple):
    """The first value of a text file that is not of its column's type, or the first row that is none.

    Attributes:
        column: Its column; None if the row is none.
        row: From 1; None where it cannot be told.
        comma: Whether it is a number with a decimal comma.
    """

    column: str | None
    row: int | None
    comma: bool = False


class TableFile:
    """A file of rows, opened anew for each reading.

    Args:
        path: The file; "-" is standard input, which is kept in memory, as it may be read more than once.
        types: Types of some of them, for formats whose texts have none.

    Raises:
        InputError: Its name ends in none of `FORMATS`.
        DataError: A wanted column is missing, or there twice.
        OSError: It cannot be read.
        pyarrow.ArrowException: It is not what its name says.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], types: Mapping[str, pa.DataType], advice_for: Mapping[str, str]
    ) -> None:
        self._path = path
        self._columns = list(columns)
        self._types = dict(types)
        self._format = format_of(path)
        names = self._names()
        for name in columns:
            if names.count(name) != 1:
                found = "appears more than once" if name in names else f"is missing: {_there_are(names)}"
                advice = advice_for.get(name, "") if name not in names else ""
                raise DataError(f"{_shown(path)}: column {name} {found}{advice}")

    @property
    def format(self) -> str:
        """One of `FORMATS`."""
        return self._format

    def schema(self) -> pa.Schema:
        """Return the wanted columns' fields: those of the first rows, where types are found by looking at values."""
        with self._reader(typed=True) as reader:
            return pa.schema([_schema_of(reader).field(name) for name in self._columns])

    def first_unlike(self, error: Exception) -> Unlike | None:
        """Return what a text file could not be read for, by Arrow's error; None if that cannot be told.

        It reads the file again, as Arrow counts rows only where it reads them in one thread, and of JSON not at all.
        """
        if self._format == "jsonl":
            return self._first_unlike_object()
        if self._format not in {"csv", "tsv"}:
            return None
        try:
            with self._csv_reader(self._source(), typed=True, threads=False) as reader:
                for _ in reader:
                    pass
        except pa.ArrowException as exc:
            error = exc
        column, row = _CSV_COLUMN.search(str(error)), _ROW.search(str(error))
        name = self._names()[int(column[1])] if column else None
        comma = _DECIMAL_COMMA.search(str(error)) is not None
        return Unlike(name, int(row[1]) - 1 if row else None, comma)  # the header is row 1 of Arrow's

    def _first_unlike_object(self) -> Unlike | None:
        schema = self._json_schema()
        lines = (line for line in io.BufferedReader(self._source()) if line.strip())  # type: ignore[type-var] # it is a file
        end = 0
        while some := list(islice(lines, _LINES)):
            if not _is_json(b"".join(some), schema):
                for row, line in enumerate(some, end + 1):
                    if not _is_json(line, schema):
                        bad = (field.name for field in schema if not _is_json(line, pa.schema([field])))
                        return Unlike(next(bad, None) if _is_json(line, pa.schema([])) else None, row)
            end += len(some)
        return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns, in the file's order of rows."""
        with self._reader(typed=True) as reader:
            if isinstance(reader, pyarrow.parquet.ParquetFile):
                yield from reader.iter_batches(batch_size=_BATCH_ROWS, columns=self._columns)
            elif isinstance(reader, pa.ipc.RecordBatchFileReader):
                yield from (reader.get_batch(index).select(self._columns) for index in range(reader.num_record_batches))
            else:
                yield from (batch.select(self._columns) for batch in reader)

    def _names(self) -> list[str]:
        if self._format == "jsonl":
            return list(self._first_object())
        with self._reader(typed=False) as reader:
            return list(_schema_of(reader).names)

    def _reader(self, *, typed: bool) -> _Reader:
        source = self._source()
        if self._format == "parquet":
            return pyarrow.parquet.ParquetFile(source)
        if self._format == "arrow":
            return arrow_reader(source)
        if self._format == "jsonl":
            return pyarrow.json.open_json(source, parse_options=_options(self._json_schema()))
        return self._csv_reader(source, typed=typed)

    def _csv_reader(self, source: pa.NativeFile, *, typed: bool, threads: bool = True) -> pa.RecordBatchReader:
        return pyarrow.csv.open_csv(
            source,
            read_options=pyarrow.csv.ReadOptions(use_threads=threads),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=_delimiter(source, self._format),
                # Where only the header is wanted. Its types do not know it.
                invalid_row_handler=None if typed else _pass_over,  # type: ignore[call-arg]
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=self._columns if typed else None, column_types=self._types if typed else None
            ),
        )

    def _first_object(self) -> dict[str, object]:
        """Return the first line of JSON; columns that nobody wants may hold anything."""
        line = self._source().read(_HEADER_BYTES).partition(b"\n")[0]
        try:
            return msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise pa.ArrowInvalid("the first line is not a JSON object") from exc

    def _first_values(self) -> dict[str, object]:
        """Return of each column the first value that is not null, as far as the file's beginning has one."""
        found = self._first_object()
        for line in self._source().read(_HEADER_BYTES).split(b"\n")[1:]:
            if all(found.get(name) is not None for name in self._columns):
                break
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                more = msgspec.json.decode(line, type=dict[str, object])
                found |= {name: more.get(name) for name in self._columns if found.get(name) is None}
        return found

    def _json_schema(self) -> pa.Schema:
        first = self._first_values() if set(self._columns) - set(self._types) else {}
        kinds = {name: self._types.get(name) or _inferred(first.get(name)) for name in self._columns}
        fields = [(name, pa.string() if pa.types.is_date(kind) else kind) for name, kind in kinds.items()]
        return pa.schema(fields)

    def _source(self) -> pa.NativeFile:
        if self._path == _STANDARD_INPUT:
            return pa.BufferReader(_standard_input())
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return pa.OSFile(str(self._path))


def _options(schema: pa.Schema) -> pyarrow.json.ParseOptions:
    return pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def _is_json(lines: bytes, schema: pa.Schema) -> bool:
    try:
        for _ in pyarrow.json.open_json(pa.BufferReader(lines), parse_options=_options(schema)):
            pass
    except pa.ArrowException:
        return False
    return True


def _pass_over(_row: object) -> str:
    return "skip"


def _schema_of(reader: _Reader) -> pa.Schema:
    return reader.schema_arrow if isinstance(reader, pyarrow.parquet.ParquetFile) else reader.schema


def _inferred(value: object) -> pa.DataType:
    """Return the type of a column of JSON by its first value; all may be null."""
    if isinstance(value, bool):
        return pa.bool_()
    return pa.string() if isinstance(value, str) else pa.float64()


def format_of(path: Path) -> str:
    """Return which of `FORMATS` a file has.

    Raises:
        InputError: Its name ends in none of them.
    """
    if path == _STANDARD_INPUT:
        start = bytes(_standard_input()[:8])
        return next((name for magic, name in _MAGIC if start.startswith(magic)), "csv")
    name = path.suffix.removeprefix(".").lower()
    if name not in FORMATS:
        endings = ", ".join(f".{one}" for one in FORMATS)
        raise InputError("--data", str(path), f"must end in one of {endings}, or be - for standard input")
    return name


@cache
def _standard_input() -> memoryview:
    return memoryview(sys.stdin.buffer.read())


def _delimiter(source: pa.NativeFile, kind: str) -> str:
    """Return what parts the fields: a tab in .tsv, and else what the header has most of, quoted text apart."""
    if kind == "tsv":
        return "\t"
    header = source.read(_HEADER_BYTES).partition(b"\n")[0].decode(errors="replace")
    source.seek(0)
    bare = "".join(header.split('"')[::2])
    return max(",;\t", key=bare.count)


def _shown(path: Path) -> str:
    return "standard input" if path == _STANDARD_INPUT else str(path)


def _there_are(names: Sequence[str], most: int = 20) -> str:
    """Return the names of the columns there are; of a file without a header they would be a private row's values.

    >>> _there_are(["age", "income"])
    'there are age, income'
    >>> _there_are(["39", "State-gov"])
    'its first line looks like a row, not like a header'
    """
    if any(map(_is_number, names)):
        return "its first line looks like a row, not like a header"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"there are {', '.join(names[:most])}{more}" if names else "there are none"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True
