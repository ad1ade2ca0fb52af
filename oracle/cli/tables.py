"""Labelled rows from CSV or Parquet, in batches."""

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
from oracle.service.codec.columns import COLUMNS, read_column

__all__ = ["labelled_batches"]

_CSV_TYPES: Final = {"number": pa.float64(), "string": pa.string(), "date": pa.date32()}


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
    if not path.is_file():
        msg = f"{path}: cannot be read: No such file or directory"
        raise SourceError(msg)
    try:
        for batch in _batches(path, features, label):
            columns = [_values(batch, feature) for feature in features]
            yield np.column_stack(columns), _labels(batch, label)
    except (OSError, pa.ArrowException) as exc:
        msg = f"{path}: cannot be read as {path.suffix.lstrip('.') or 'a table'}: {_cause(exc, path, features)}"
        raise SourceError(msg) from exc


def _cause(error: Exception, path: Path, features: Sequence[Feature]) -> str:
    """Say why without quoting the file's content, which is private; a name is told only if the model declares it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    column = re.search(r"CSV column #(\d+): ", str(error))
    if column:
        with pyarrow.csv.open_csv(path) as reader:
            name = reader.schema.names[int(column[1])]
        accepts = {feature.name: feature.accepts for feature in features}
        if name in accepts:
            return f"column {name} holds something that is not {accepts[name]}"
    return "not a well-formed file"


def _batches(path: Path, features: Sequence[Feature], label: str) -> Iterator[pa.RecordBatch]:
    wanted = [*(feature.name for feature in features), label]
    if path.suffix == ".csv":
        with pyarrow.csv.open_csv(path) as reader:
            _check_columns(path, reader.schema, wanted)
        types = {
            feature.name: _CSV_TYPES.get(feature.kind) or pa.decimal128(38, feature.decimals) for feature in features
        }
        options = pyarrow.csv.ConvertOptions(column_types=types, include_columns=wanted)
        with pyarrow.csv.open_csv(path, convert_options=options) as reader:
            yield from reader
    elif path.suffix == ".parquet":
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow, wanted)
            yield from file.iter_batches(batch_size=65_536, columns=wanted)
    else:
        raise InputError("--data", str(path), "must end in .csv or .parquet")


def _check_columns(path: Path, schema: pa.Schema, wanted: list[str]) -> None:
    for name in wanted:
        if schema.get_field_index(name) < 0:
            msg = f"{path}: column {name} is missing (or there are two)"
            raise DataError(msg)


def _values(batch: pa.RecordBatch, feature: Feature) -> NDArray[np.float64]:
    name, column = feature.name, batch.column(feature.name)
    if feature.kind != "number":
        column.validate(full=True)
    read = read_column(feature, column)
    if read is None:
        msg = f"data: column {name}: must hold {COLUMNS[feature.kind].removeprefix('one column of ')}"
        raise DataError(msg)
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
    msg = f"data: column {name}: must hold booleans, or the numbers 0 and 1"
    raise DataError(msg)
