"""Labelled rows from CSV or Parquet, in batches."""

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.errors import DataError, InputError, SourceError
from oracle.planning.features import Feature
from oracle.service.codec.columns import COLUMNS, read_column, takes

__all__ = ["check_table", "labelled_batches"]

_CSV_TYPES: Final = {"number": pa.float64(), "string": pa.string(), "date": pa.date32()}
_LABELS: Final = "booleans, or the numbers 0 and 1"


def check_table(path: Path, features: Sequence[Feature], label: str) -> None:
    """Refuse what can be seen to be no table of labelled rows without reading them all.

    That is a file that is not there or cannot be opened, columns that are missing or of another type, and in a .csv
    file also what is wrong in its first rows.

    Args:
        path: As in `labelled_batches`, and so are the others.
        features: The features.
        label: The label column.

    Raises:
        SourceError: The file cannot be read.
        DataError: A column is missing or does not hold what it should. No value is ever quoted.
    """
    with _told(path, features, label):
        schema = _schema(path, features, label)
        wanted = [field for field in schema if not pa.types.is_null(field.type)]  # in a file without rows it may be
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in wanted], schema=pa.schema(wanted))
        for feature in features:
            if feature.name in empty.schema.names:
                _values(empty, feature)
        if label in empty.schema.names:
            _labels(empty, label)


def labelled_batches(
    path: Path, features: Sequence[Feature], label: str
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Yield (features float64[n, D], labels bool[n]) in the file's order.

    Args:
        path: A .csv file with a header, or a .parquet file.
        features: The features, each a column of its name, in the model's order. An empty field of a .csv file is a
            string of no bytes, and no value of any other type.
        label: The label column: booleans, or the numbers 0 and 1.

    Raises:
        SourceError: The file cannot be read.
        DataError: A column is missing or does not hold what it should. No value is ever quoted.
    """
    with _told(path, features, label):
        for batch in _batches(path, features, label):
            columns = [_values(batch, feature) for feature in features]
            yield np.column_stack(columns), _labels(batch, label)


@contextlib.contextmanager
def _told(path: Path, features: Sequence[Feature], label: str) -> Iterator[None]:
    """Turn errors of the system and of Arrow into ours: a file that is none, or a column that holds something else.

    They never quote the file's content, which is private; a name is told only if the model declares it.
    """
    if path.suffix not in {".csv", ".parquet"}:
        raise InputError("--data", str(path), "must end in .csv or .parquet")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        yield
    except (OSError, pa.ArrowException) as exc:
        if isinstance(exc, OSError) and exc.errno:
            msg = f"{path}: cannot be read: {os.strerror(exc.errno)}"  # Arrow's own text has the path again
            raise SourceError(msg) from exc
        column = re.match(r"In CSV column #(\d+): ", str(exc))
        if column:
            raise DataError(_unlike(path, int(column[1]), features, label)) from exc
        msg = f"{path}: cannot be read as {path.suffix.removeprefix('.')}: not a well-formed file"
        raise SourceError(msg) from exc


def _unlike(path: Path, number: int, features: Sequence[Feature], label: str) -> str:
    """Return what to say of a column of a .csv file that has a value of another type somewhere."""
    with pyarrow.csv.open_csv(path) as reader:
        column = reader.schema.field(number)
    if column.name == label:
        return f"data: column {label}: must hold {_LABELS} in every row"
    feature = next(feature for feature in features if feature.name == column.name)
    found = "" if _may_be(feature, column.type) else f"; its first rows have type {_type_name(column.type)}"
    return f"data: column {feature.name}: holds something that is not {feature.accepts}{found}"


def _may_be(feature: Feature, kind: pa.DataType) -> bool:
    """Return whether texts that Arrow reads as this type can be values of a feature."""
    return takes(feature, kind) or (feature.kind == "decimal" and pa.types.is_floating(kind))


def _type_name(kind: pa.DataType) -> str:
    """Return Arrow's name of a type, without the names of columns within it.

    >>> _type_name(pa.timestamp("ms")), _type_name(pa.struct({"age": pa.int8()}))
    ('timestamp[ms]', 'struct')
    """
    return str(kind).partition("<")[0]


def _batches(path: Path, features: Sequence[Feature], label: str) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".csv":
        with _open_csv(path, features, label) as reader:
            yield from reader
    else:
        with _open_parquet(path, features, label) as file:
            yield from file.iter_batches(batch_size=65_536, columns=_wanted(features, label))


def _schema(path: Path, features: Sequence[Feature], label: str) -> pa.Schema:
    """Return the fields of the columns in use."""
    opened = _open_csv(path, features, label) if path.suffix == ".csv" else _open_parquet(path, features, label)
    with opened as reader:
        schema = reader.schema if path.suffix == ".csv" else reader.schema_arrow
        return pa.schema([schema.field(name) for name in _wanted(features, label)])


def _wanted(features: Sequence[Feature], label: str) -> list[str]:
    return [*(feature.name for feature in features), label]


def _open_csv(path: Path, features: Sequence[Feature], label: str) -> pyarrow.csv.CSVStreamingReader:
    wanted = _wanted(features, label)
    with pyarrow.csv.open_csv(path) as reader:
        _check_columns(path, reader.schema, wanted)
    types = {feature.name: _CSV_TYPES.get(feature.kind) or pa.decimal128(38, feature.decimals) for feature in features}
    options = pyarrow.csv.ConvertOptions(column_types=types, include_columns=wanted)
    return pyarrow.csv.open_csv(path, convert_options=options)


def _open_parquet(path: Path, features: Sequence[Feature], label: str) -> pyarrow.parquet.ParquetFile:
    file = pyarrow.parquet.ParquetFile(path)
    try:
        _check_columns(path, file.schema_arrow, _wanted(features, label))
    except DataError:
        file.close()
        raise
    return file


def _check_columns(path: Path, schema: pa.Schema, wanted: list[str]) -> None:
    for name in wanted:
        found = len(schema.get_all_field_indices(name))
        if found != 1:
            msg = f"{path}: column {name} {'is there twice or more' if found else 'is missing'}"
            raise DataError(msg)


def _values(batch: pa.RecordBatch, feature: Feature) -> NDArray[np.float64]:
    name, column = feature.name, batch.column(feature.name)
    if not takes(feature, column.type):
        wanted = COLUMNS[feature.kind].removeprefix("one column of ")
        msg = f"data: column {name}: must hold {wanted}, not {_type_name(column.type)}"
        raise DataError(msg)
    if feature.kind != "number":
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as exc:
            msg = f"data: column {name}: every value must be {feature.accepts}"
            raise DataError(msg) from exc
    read = read_column(feature, column)
    if column.null_count:
        more = " (NaN counts as none)" if feature.kind == "number" else ""
        msg = f"data: column {name}: every row must have a value{more}"
        raise DataError(msg)
    if read.fit is not None and not read.fit.all():
        msg = f"data: column {name}: every value must be {feature.accepts}"
        raise DataError(msg)
    return read.values


def _labels(batch: pa.RecordBatch, name: str) -> NDArray[np.bool_]:
    column = batch.column(name)
    if column.null_count:
        msg = f"data: column {name}: every row must have a label"
        raise DataError(msg)
    if pa.types.is_boolean(column.type):
        flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
        return flags
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if np.isin(numbers, (0.0, 1.0)).all():
            return np.asarray(numbers == 1.0)
        msg = f"data: column {name}: must hold {_LABELS}; its type is {_type_name(column.type)}, with other numbers"
        raise DataError(msg)
    msg = f"data: column {name}: must hold {_LABELS}, not {_type_name(column.type)}"
    raise DataError(msg)
