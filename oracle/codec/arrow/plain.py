"""Columns of dictionaries and of views as plain ones, once it is known how long they are so.

Many views, and many places of a dictionary, may be of one text: what a short message says in so many words can be long.
So texts are counted, of views before they are validated (that looks at each text as often as it is pointed to).
"""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

__all__ = ["LongTextsError", "check_views", "in_plain", "plain_array", "plain_type", "text_bytes"]

_VIEW: Final = np.dtype([("length", "<i4"), ("rest", "V12")])


class LongTextsError(Exception):
    """Texts are longer than they may be together."""


def check_views(table: pa.Table, most_bytes: int) -> None:
    """Look how long views say that their texts are: of all columns, and of a dictionary with each of its batches.

    Args:
        table: Its buffers are as long as they must be; nothing else of it need be valid.
        most_bytes: Of all texts together.

    Raises:
        LongTextsError: They are longer.
        ValueError: One has a length below 0.
    """
    for column in table.columns:
        values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not _is_view(values):
            continue
        for chunk in column.chunks:
            lengths = _view_lengths(chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk)
            if len(lengths) and lengths.min() < 0:
                raise ValueError("a text of less than no bytes")
            most_bytes -= int(lengths.sum(dtype=np.int64))
            if most_bytes < 0:
                raise LongTextsError


def in_plain(table: pa.Table, names: Collection[str], most_bytes: int) -> pa.Table:
    """Return a table without columns of dictionaries and views: those of `names` are plain, others left out.

    Dictionaries of values that nothing takes stay what they are.

    Args:
        table: Fully validated, and `check_views` has let it through.
        names: Of columns that are wanted.
        most_bytes: Of their values together, as long as they are then.

    Raises:
        LongTextsError: They are longer.
    """
    for index in range(table.num_columns - 1, -1, -1):
        field, column = table.schema.field(index), table.column(index)
        kind = plain_type(field.type)
        if kind == field.type:
            continue
        if field.name not in names:
            table = table.remove_column(index)
        elif _is_text(kind) or _is_narrow(kind):
            chunks = []
            for chunk in column.chunks:
                values = _values(chunk) if isinstance(chunk, pa.DictionaryArray) else chunk
                most_bytes -= _size(chunk, values)
                if most_bytes < 0:
                    raise LongTextsError
                chunks.append(_decoded(chunk, values))
            table = table.set_column(index, pa.field(field.name, kind), pa.chunked_array(chunks, kind))
    return table


def text_bytes(column: pa.ChunkedArray) -> int:
    """Return how long the texts of a plain column are together; 0 of any other type."""
    return sum(int(_lengths(chunk).sum(dtype=np.int64)) for chunk in column.chunks if _is_text(chunk.type))


def plain_array(column: pa.Array) -> pa.Array:
    """Return a fully validated column of a dictionary or of views as a plain one, and any other as it is."""
    if plain_type(column.type) == column.type:
        return column
    return _decoded(column, _values(column) if isinstance(column, pa.DictionaryArray) else column)


def _is_view(kind: pa.DataType) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)


def _is_narrow(kind: pa.DataType) -> bool:
    """Return whether values are of some type whose values are of one length, and short."""
    types = pa.types
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return numbers or types.is_boolean(kind) or types.is_date(kind) or types.is_null(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column of dictionaries or views once it is plain."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if _is_view(kind) else kind


def _view_lengths(views: pa.Array) -> NDArray[np.int32]:
    """Return the lengths of texts, 0 where there is none: int32[n]."""
    data = views.buffers()[1]
    if data is None or not len(views):
        return np.zeros(len(views), dtype=np.int32)
    found = np.frombuffer(memoryview(data), dtype=_VIEW, count=len(views), offset=_VIEW.itemsize * views.offset)
    lengths: NDArray[np.int32] = np.where(_nulls(views), 0, found["length"])
    return lengths


def _nulls(values: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Return the same of plain ones: int64[n]."""
    found = pa.compute.binary_length(texts).fill_null(0)
    lengths: NDArray[np.int64] = found.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return lengths


def _values(chunk: pa.DictionaryArray) -> pa.Array:
    """Return a dictionary's values as plain ones."""
    values = chunk.dictionary
    return values.cast(plain_type(values.type)) if _is_view(values.type) else values


def _size(chunk: pa.Array, values: pa.Array) -> int:
    """Return the bytes of a chunk's values as they are written out; `values` are its dictionary's, or itself."""
    if not isinstance(chunk, pa.DictionaryArray):
        return int(_view_lengths(chunk).sum(dtype=np.int64))
    if not _is_text(values.type):
        return 0 if pa.types.is_null(values.type) else len(chunk) * values.type.bit_width // 8
    places = chunk.indices.filter(chunk.indices.is_valid()).cast(pa.int64()).to_numpy()
    return int(_lengths(values)[places].sum(dtype=np.int64))


def _decoded(chunk: pa.Array, values: pa.Array) -> pa.Array:
    if not isinstance(chunk, pa.DictionaryArray):
        return chunk.cast(plain_type(chunk.type))
    return pa.DictionaryArray.from_arrays(chunk.indices, values).dictionary_decode()
