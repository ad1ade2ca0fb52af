"""A hypothesis about a table as a file: its cells with their shares, or rows drawn by these."""

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.errors import InputError, RefusedError, StorageError
from oracle.planning.attributes import Attribute

__all__ = ["write_cube", "write_sample"]

_ROWS: Final = 1 << 18
_SHARE: Final = "share"

_Writer = pyarrow.csv.CSVWriter | pyarrow.parquet.ParquetWriter
_WRITERS: Final[dict[str, Callable[[BinaryIO, pa.Schema], _Writer]]] = {
    ".csv": pyarrow.csv.CSVWriter,
    ".parquet": pyarrow.parquet.ParquetWriter,
}


def write_cube(path: Path, attributes: Sequence[Attribute], shares: NDArray[np.float64]) -> None:
    """Write a row for each cell: its category, or its bin from `NAME_from` up to `NAME_to`, null for missing; `share`.

    Args:
        path: A new file, .csv or .parquet.
        attributes: The table's.
        shares: float64 of the table's shape.

    Raises:
        InputError: The path is not as it must be.
        RefusedError: Two columns would have one name.
        StorageError: It cannot be written.
    """
    columns = [column for attribute in attributes for column in _cell_columns(attribute)]
    axes = [axis for axis, attribute in enumerate(attributes) for _ in _cell_columns(attribute)]
    flat = shares.reshape(-1)

    def tables() -> Iterator[list[pa.Array]]:
        for start in range(0, len(flat), _ROWS):
            places = np.unravel_index(np.arange(start, min(start + _ROWS, len(flat))), shares.shape)
            taken = [values.take(pa.array(places[axis])) for axis, (_, values) in zip(axes, columns, strict=True)]
            yield [*taken, pa.array(flat[start : start + _ROWS])]

    _write(path, [*(name for name, _ in columns), _SHARE], tables())


def write_sample(
    path: Path, attributes: Sequence[Attribute], shares: NDArray[np.float64], count: int, seed: int
) -> None:
    """Write rows whose cells are drawn by their shares, and whose numbers and days lie uniformly in their bins.

    The randomness is public: whoever has the shares and the seed can draw the same rows.

    Args:
        path: A new file, .csv or .parquet.
        attributes: The table's.
        shares: float64 of the table's shape.
        count: Rows.
        seed: Of the draws.

    Raises:
        InputError: The path is not as it must be.
        StorageError: It cannot be written.
    """
    bounds = np.cumsum(shares.reshape(-1))

    def tables() -> Iterator[list[pa.Array]]:
        for start in range(0, count, _ROWS):
            rows = min(_ROWS, count - start)
            drawn = _uniform(f"{seed} {start}", rows) * bounds[-1]
            places = np.unravel_index(np.searchsorted(bounds, drawn, side="right"), shares.shape)
            yield [
                _drawn(attribute, cells, _uniform(f"{seed} {start} {attribute.name}", rows))
                for attribute, cells in zip(attributes, places, strict=True)
            ]

    _write(path, [attribute.name for attribute in attributes], tables())


def _cell_columns(attribute: Attribute) -> list[tuple[str, pa.Array]]:
    """Return names, and for each cell of an attribute its values."""
    if not attribute.edges:
        return [(attribute.name, pa.array(attribute.labels, pa.string()))]
    names = (f"{attribute.name}_from", f"{attribute.name}_to")
    sides = (attribute.edges[:-1], attribute.edges[1:])
    return [(name, _typed(attribute, np.array([*edges, np.nan]))) for name, edges in zip(names, sides, strict=True)]


def _typed(attribute: Attribute, values: NDArray[np.float64]) -> pa.Array:
    """Return numbers as what they are; NaN is null."""
    array = pa.array(values, from_pandas=True)
    return array.cast(pa.int32()).cast(pa.date32()) if attribute.kind == "date" else array


def _uniform(address: str, count: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1) that follow from an address, whatever version of NumPy there is."""
    words = np.frombuffer(hashlib.shake_256(address.encode()).digest(8 * count), dtype="<u8")
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _drawn(attribute: Attribute, cells: NDArray[np.int64], uniform: NDArray[np.float64]) -> pa.Array:
    if not attribute.edges:
        return pa.array(attribute.labels, pa.string()).take(pa.array(cells))
    edges = np.array([*attribute.edges, np.nan])
    low, high = edges[cells], edges[np.minimum(cells + 1, len(edges) - 1)]
    low = np.where(cells == attribute.missing, np.nan, low)
    values = np.minimum(low + (high - low) * uniform, np.nextafter(high, -np.inf))
    return _typed(attribute, np.floor(values) if attribute.kind == "date" else values)


def _write(path: Path, names: Sequence[str], tables: Iterable[Sequence[pa.Array]]) -> None:
    if len(set(names)) < len(names):
        raise RefusedError(f"attributes: two columns would be called {max(names, key=list(names).count)}")
    if path.suffix not in _WRITERS:
        raise InputError("--out", str(path), "must end in .csv or .parquet")
    try:
        with path.open("xb") as file, contextlib.ExitStack() as stack:
            writer: _Writer | None = None
            for arrays in tables:
                batch = pa.record_batch(list(arrays), names=list(names))
                if writer is None:
                    writer = stack.enter_context(contextlib.closing(_WRITERS[path.suffix](file, batch.schema)))
                writer.write_batch(batch)
    except FileExistsError as exc:
        raise InputError("--out", str(path), "must be a new file") from exc
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc
