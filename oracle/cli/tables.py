"""Rows from files, in batches of what a predictor takes: labelled ones, or cells of a table's attributes."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.cli.init.persons import Persons
from oracle.cli.table_files import TableFile, Unlike, format_of
from oracle.codec.arrow.cells import RowNumbers, read_cells, row_of
from oracle.codec.arrow.columns import type_name
from oracle.codec.arrow.rows import labels_in_words, read_feature, read_labels
from oracle.errors import DataError, SourceError
from oracle.mechanisms.persons import AtMost
from oracle.planning.attributes import Attribute
from oracle.planning.ensemble.model import Class, EnsembleModel
from oracle.planning.features import Feature
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TableModel, TablePlan
from oracle.predictors.base import Labels

__all__ = [
    "BothLabels",
    "Layout",
    "check_table",
    "labelled_batches",
    "layout_of",
    "order_by",
    "read_persons",
    "read_values",
]

_Inputs: TypeAlias = Sequence[Feature | Attribute]

_TEXT_TYPES: Final = {"number": pa.float64(), "string": pa.string(), "date": pa.date32()}
_FIELDS: Final = re.compile(r"Expected (\d+) columns, got (\d+)")


class Layout(NamedTuple):
    """What is read of each row, a column each.

    Attributes:
        inputs: Features, or a table's attributes, in the model's order.
        labels: What a label may be, in the order of their numbers.
    """

    inputs: _Inputs
    missing: bool = False
    labels: Sequence[Class] = (0, 1)


_NONE: Final = Layout(())


def layout_of(of: Model | Plan) -> Layout:
    """Return what is read of each row of a model; numbers of labels are the plan's."""
    if isinstance(of, TableModel | TablePlan):
        return Layout(of.attributes)
    if isinstance(of, Plan):
        return Layout(of.features, of.takes_missing, of.labels)
    if isinstance(of, EnsembleModel):
        return Layout(of.features, missing=True, labels=of.classes)
    return Layout(of.features)


def check_table(path: Path, layout: Layout, label: str | None) -> None:
    """Refuse what can be seen to be no table of such rows without reading them all.

    That is a file that is not there or cannot be opened, columns that are missing or of another type, and in a .csv
    file also what is wrong in its first rows.

    Raises:
        SourceError: The file cannot be read.
        DataError: A column is missing or does not hold what it should. No value is ever quoted.
    """
    with _opened(path, layout, label) as table:
        schema = table.schema()
        wanted = [field for field in schema if not pa.types.is_null(field.type)]  # in a file without rows it may be
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in wanted], schema=pa.schema(wanted))
        for one in layout.inputs:
            if one.source in empty.schema.names:
                _values(empty, one, layout)
        if label is not None and label in empty.schema.names:
            read_labels(label, empty.column(label), layout.labels)


def read_values(path: Path, columns: Sequence[str]) -> list[tuple[tuple[str, ...], NDArray[np.int64]]]:
    """Return of each column its values as text, in order, and int64[n], the number of each row's; no value is "".

    Raises:
        SourceError: The file cannot be read.
        DataError: A column is missing, or there are no rows.
    """
    layout = Layout(tuple(Attribute(name=name, categories=("",)) for name in columns))
    with _opened(path, layout, None, otherwise="; --attribute and --secret name columns") as table:
        batches, found = list(table.batches()), []
        if not sum(map(len, batches)):
            raise DataError(f"{path}: must have rows")
        for name in columns:
            texts = pa.chunked_array([batch.column(name) for batch in batches]).cast(pa.string()).fill_null("")
            encoded = texts.combine_chunks().dictionary_encode()
            values, order = np.unique(encoded.dictionary.to_pylist(), return_inverse=True)
            found.append((tuple(map(str, values)), order[encoded.indices.to_numpy()].astype(np.int64)))
        return found


class BothLabels:
    """Looks whether there are rows of both labels; without them there is nothing to learn."""

    def __init__(self, label: str | None) -> None:
        self._label = label
        self._seen: set[bool | int] = set()

    def look(self, labels: Labels) -> None:
        """Take the labels of some rows that are used."""
        self._seen.update(np.unique(labels).tolist())

    def check(self) -> None:
        """Refuse rows that all have the same label.

        Raises:
            DataError: They have.
        """
        if self._label is not None and len(self._seen) == 1:
            raise DataError(f"data: column {self._label}: all rows have the same label, so there is nothing to learn")


def read_persons(path: Path, column: str, choice: AtMost) -> Persons:
    """Return which rows of a file are kept of each person.

    Raises:
        SourceError: The file cannot be read.
        DataError: The column is missing, or does not say of every row whose it is.
    """
    with _opened(path, _NONE, None, person=column) as table:
        return Persons(column, choice, (batch.column(column) for batch in table.batches()))


def labelled_batches(
    path: Path, layout: Layout, label: str | None, persons: Persons | None = None
) -> Iterator[tuple[NDArray[np.float64], Labels]]:
    """Yield (features float64[n, D] or cells float64[n, A], labels as `read_labels` says) in the file's order.

    Args:
        path: A file that `TableFile` reads; "-" is standard input.
        layout: What is read of each row. An empty field of a .csv file is a text of no characters, and of any other
            type no value, which is refused unless values may be missing; `read_cells` says what cell a value is in.
        label: The label column. None: there is none, and all labels are True.
        persons: Which rows to leave out, if any.

    Raises:
        SourceError: The file cannot be read.
        DataError: A column is missing or does not hold what it should. No value is ever quoted.
    """
    if persons is not None:
        persons.begin()
    end = 0
    with _opened(path, layout, label, person=None if persons is None else persons.column) as table:
        for batch in table.batches():
            numbers = np.arange(end + 1, end + 1 + len(batch))
            end += len(batch)
            if persons is not None:
                keep = persons.kept(batch.column(persons.column))
                batch, numbers = batch.filter(pa.array(keep)), numbers[keep]  # noqa: PLW2901 -- those left out are none
            truth: Labels = np.ones(len(batch), dtype=np.bool_)
            if label is not None:
                truth = read_labels(label, batch.column(label), layout.labels, numbers)
            yield np.column_stack([_values(batch, one, layout, numbers) for one in layout.inputs]), truth


def order_by(path: Path, column: str) -> NDArray[np.int64]:
    """Return the order of a file's rows by one column, a time or a number: intp[n]; equal ones stay as they are.

    Raises:
        SourceError: The file cannot be read.
        DataError: The column is missing, has a row without a value, or holds what has no such order.
    """
    with _opened(path, _NONE, column, "--time") as table:
        parts = [batch.column(column) for batch in table.batches()]
        values = pa.chunked_array(parts) if parts else pa.chunked_array([], type=pa.float64())
        kind = values.type
        if not (pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise DataError(
                f"data: column {column}: must hold times, dates or numbers to put rows in order, not {type_name(kind)}"
            )
        if values.null_count:
            raise DataError(f"data: column {column}: every row must have a value")
        numbers = values.to_numpy()
        return np.argsort(numbers, kind="stable").astype(np.int64)


@contextlib.contextmanager
def _opened(  # noqa: PLR0913 -- what names a column otherwise is each command's
    path: Path,
    layout: Layout,
    label: str | None,
    option: str = "--label",
    *,
    person: str | None = None,
    otherwise: str = '; column = "..." in the model file names another',
) -> Iterator[TableFile]:
    """Lend a table; turn errors of the system and of Arrow into ours: a file or a column that holds something else.

    They never quote the file's content, which is private.
    """
    table, inputs = None, layout.inputs
    try:
        advice = dict.fromkeys((one.source for one in inputs), otherwise)
        types = _types(inputs)
        if format_of(path) in {"csv", "tsv"}:
            texts = [one.source for one in inputs if one.kind == "category"]
            named = [label] if any(isinstance(one, str) for one in layout.labels) else []
            types |= dict.fromkeys([*texts, *filter(None, [person, *named])], pa.string())  # 007 and 7 are two persons
        advice |= {label or "": f"; {option} names another", person or "": "; --person names another"}
        wanted = list(dict.fromkeys([*(one.source for one in inputs), *filter(None, (label, person))]))
        table = TableFile(path, wanted, types, advice)
        yield table
    except (OSError, pa.ArrowException, UnicodeDecodeError) as exc:
        shown = "standard input" if str(path) == "-" else str(path)
        if isinstance(exc, OSError) and exc.errno:  # Arrow's own text has the path again
            raise SourceError(f"{shown}: cannot be read: {os.strerror(exc.errno)}") from exc
        found = None if table is None or isinstance(exc, OSError) else table.first_unlike(exc)
        if found is not None and found.column is not None:
            raise DataError(_unlike(found, layout, label or person or "")) from exc
        where = "" if found is None or found.row is None else f", in row {found.row}"
        raise SourceError(f"{shown}: cannot be read as {format_of(path)}: {_malformed(exc)}{where}") from exc


def _malformed(exc: Exception) -> str:
    """Return what is wrong with a file as a whole, without quoting it.

    >>> _malformed(pa.ArrowInvalid("CSV parse error: Expected 3 columns, got 2: 1.0,true"))
    'a row has 2 fields, and the header 3'
    """
    if isinstance(exc, UnicodeDecodeError):
        return "its header is not UTF-8; save it with that encoding"
    if "Empty CSV file" in str(exc):
        return "it is empty"
    fields = _FIELDS.search(str(exc))
    return f"a row has {fields[2]} fields, and the header {fields[1]}" if fields else "not a well-formed file"


def _types(inputs: _Inputs) -> dict[str, pa.DataType]:
    """Return the types of columns in files of text; categories may be of several."""
    decimals = {one.source: pa.decimal128(38, one.decimals) for one in inputs if isinstance(one, Feature)}
    return {one.source: _TEXT_TYPES.get(one.kind) or decimals[one.source] for one in inputs if one.kind != "category"}


def _unlike(found: Unlike, layout: Layout, label: str) -> str:
    """Return what to say of a column of a text file that has a value of another type somewhere."""
    one = {one.source: one for one in layout.inputs}.get(found.column or "")
    where = "" if found.row is None else f"; the first is in row {found.row}"
    if one is None:
        return f"data: column {label}: must hold {labels_in_words(layout.labels)} in every row{where}"
    hint = "; write numbers with a decimal point, not with a comma" if found.comma else ""
    return f"data: column {one.source}: holds something that is not {one.accepts}{where}{hint}"


def _values(
    batch: pa.RecordBatch, one: Feature | Attribute, layout: Layout, numbers: RowNumbers = None
) -> NDArray[np.float64]:
    column = batch.column(one.source)
    if isinstance(one, Attribute):
        return read_cells(one, column, numbers)
    values = read_feature(one, column, numbers, missing=layout.missing)
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = row_of(numbers, int(finite.argmin()))
        raise DataError(
            f"data: column {one.source}: every value must be a finite number; the first that is not is in row {row}"
        )
    return values
