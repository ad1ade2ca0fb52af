"""Attributes of a table: finite domains, declared in public, and the product of their cells.

A cell of an attribute is one of its categories or bins, or one that everybody has without asking: "other" behind the
categories, for what is none of them, and "missing" behind all. Numbers outside `bounds` belong to the bin at that end.
A question is a product predicate: of each attribute a set of cells, held as a row of float64 numbers, 52 cells each.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.planning.features import BOUNDS, NAME_LIMIT

__all__ = ["MOST_ATTRIBUTES", "MOST_CELLS", "OTHER", "WORD", "Attribute", "Layout", "check_attributes"]

MOST_CELLS: Final = 2**26
"""Most cells of a table: its hypothesis is held whole."""

OTHER: Final = "other"
"""The category of what is none of the declared ones."""

WORD: Final = 52
"""Cells whose membership one float64 number holds: all whole numbers below 2^52 are exact, and none is -0.0."""

MOST_ATTRIBUTES: Final = 64
"""Most attributes of a table."""

_RESERVED: Final = frozenset({"id", "where", "by", "above", "value", "verified", "error", "share"})
_DIGITS: Final = 13  # of an edge
_NAMES: Final = f"1 to {NAME_LIMIT} printable characters, no quote and no backslash"


class Attribute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attribute of a table: `categories`, or `bounds` and `bins`.

    Attributes:
        name: Its name, by which questions ask.
        categories: What a value may be; anything else belongs to "other", which may be among them. They are texts:
            "true", "7", "0.5" and "2013-01-01" are also values of other types.
        bounds: Lowest edge and highest edge of the bins; what lies outside belongs to the bin at that end.
        bins: How many bins of one width there are between them.
        type: What its values are, where it has bins.
        column: The training data's column, where it is not the name.
    """

    name: Annotated[str, Meta(extra_json_schema={"bound": _NAMES})]
    categories: (
        Annotated[
            tuple[Annotated[str, Meta(max_length=256)], ...],
            Meta(min_length=1, max_length=65_536, extra_json_schema={"unit": "categories"}),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    bounds: Annotated[tuple[float, float], Meta(extra_json_schema={"bound": BOUNDS})] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    bins: Annotated[int, Meta(ge=1, le=65_536, extra_json_schema={"unit": "bins"})] | msgspec.UnsetType = msgspec.UNSET
    type: Literal["number", "date"] | msgspec.UnsetType = msgspec.UNSET
    column: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def source(self) -> str:
        """The training data's column."""
        return self.name if self.column is msgspec.UNSET else self.column

    @property
    def kind(self) -> Literal["category", "number", "date"]:
        """What its values are."""
        if self.categories is not msgspec.UNSET:
            return "category"
        return "number" if self.type is msgspec.UNSET else self.type

    @property
    def accepts(self) -> str:
        """What a value must be, in words."""
        if self.kind == "category":
            return "text of UTF-8, or of the same type as the first value"
        return "a date from 0001-01-01 to 9999-12-31, as YYYY-MM-DD" if self.kind == "date" else "a number"

    @property
    def declared(self) -> int:
        """How many cells were declared; they come first."""
        if self.categories is not msgspec.UNSET:
            return len(self.categories)
        return 0 if self.bins is msgspec.UNSET else self.bins

    @property
    def other(self) -> int | None:
        """Number of the cell of what is no declared category; None for bins."""
        if self.categories is msgspec.UNSET:
            return None
        return self.categories.index(OTHER) if OTHER in self.categories else len(self.categories)

    @property
    def missing(self) -> int:
        """Number of the cell of rows that have no value: the last one."""
        return self.cells - 1

    @property
    def cells(self) -> int:
        """How many cells there are."""
        added = self.categories is not msgspec.UNSET and OTHER not in self.categories
        return self.declared + added + 1

    @property
    def labels(self) -> tuple[str | None, ...]:
        """What each cell of categories is called; None is "missing"."""
        if self.categories is msgspec.UNSET:
            return ()
        return (*self.categories, *(() if OTHER in self.categories else (OTHER,)), None)

    @property
    def edges(self) -> tuple[float, ...]:
        """The bins' edges, one more than there are bins; none for categories.

        Rounded to 13 digits of the largest, so that they are what people write: 0.3, not 0.30000000000000004.
        """
        if self.bounds is msgspec.UNSET or self.bins is msgspec.UNSET:
            return ()
        low, high = self.bounds
        inner = (low + (high - low) * number / self.bins for number in range(1, self.bins))
        largest = max(abs(low), abs(high))
        if not 0.0 < largest < math.inf:
            return (low, *inner, high)  # no bounds at all: they will be refused
        digits = _DIGITS - math.ceil(math.log10(largest))
        return (low, *(round(edge, digits) + 0.0 for edge in inner), high)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an attribute's cells stand in a table, and in a question's row.

    Attributes:
        shape: Cells of each attribute.
        words: Numbers that a row has for each attribute.
        size: Cells of the table: the product of `shape`.
        width: Numbers of a row.
    """

    shape: tuple[int, ...]
    words: tuple[int, ...]
    size: int
    width: int

    @classmethod
    def of(cls, attributes: Sequence[Attribute]) -> "Layout":
        """Return the layout of a table with these attributes.

        >>> Layout.of([Attribute(name="a", categories=("x", "y")), Attribute(name="b", bounds=(0.0, 1.0), bins=60)])
        Layout(shape=(4, 61), words=(1, 2), size=244, width=3)
        """
        shape = tuple(attribute.cells for attribute in attributes)
        words = tuple(-(-cells // WORD) for cells in shape)
        size = 1
        for cells in shape:
            size *= cells
        return cls(shape, words, size, sum(words))

    def row(self, masks: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
        """Return the row of one question: float64[width].

        Args:
            masks: bool[cells] of each attribute.
        """
        parts = []
        for mask, words in zip(masks, self.words, strict=True):
            bits = np.zeros(words * WORD)
            bits[: len(mask)] = mask
            parts.append(bits.reshape(words, WORD) @ _POWERS)  # sums of powers of 2 below 2^52: exact
        return np.concatenate(parts)

    def holds(self, rows: NDArray[np.float64]) -> bool:
        """Return whether all of float64[n, width] are rows of questions: whole numbers, of existing cells only."""
        most = np.concatenate(
            [
                np.ldexp(1.0, np.minimum(cells - WORD * np.arange(words), WORD)) - 1.0
                for cells, words in zip(self.shape, self.words, strict=True)
            ]
        )
        return bool(((rows >= 0.0) & (rows <= most) & (rows == np.floor(rows))).all())

    def masks(self, rows: NDArray[np.float64]) -> list[NDArray[np.bool_]]:
        """Return bool[n, cells] of each attribute: what questions ask for.

        Args:
            rows: float64[n, width], as `row` makes them; bits beyond an attribute's cells are ignored.
        """
        found = []
        start = 0
        for cells, words in zip(self.shape, self.words, strict=True):
            packed = rows[:, start : start + words].astype(np.uint64)
            bits = (packed[:, :, None] >> _SHIFTS) & np.uint64(1)
            found.append(bits.reshape(len(rows), words * WORD)[:, :cells].astype(np.bool_))
            start += words
        return found


_POWERS: Final = np.ldexp(1.0, np.arange(WORD))
_SHIFTS: Final = np.arange(WORD, dtype=np.uint64)


def check_attributes(attributes: Sequence[Attribute]) -> None:
    """Refuse attributes that make no table.

    Raises:
        InputError: One has no finite domain, or two of one name, or there are too many cells.
    """
    if not 1 <= len(attributes) <= MOST_ATTRIBUTES:
        raise InputError("model.attributes", len(attributes), f"must be 1 to {MOST_ATTRIBUTES} attributes")
    seen: set[str] = set()
    for index, attribute in enumerate(attributes):
        where = f"model.attributes[{index}]"
        name = attribute.name
        if not 0 < len(name) <= NAME_LIMIT or not name.isprintable() or '"' in name or "\\" in name:
            raise InputError(f"{where}.name", name, f"must be {_NAMES}")
        if name in seen or name in _RESERVED:
            raise InputError(f"{where}.name", name, f"must not be used twice, nor be {', '.join(sorted(_RESERVED))}")
        seen.add(name)
        _check_domain(where, attribute)
    size = Layout.of(attributes).size
    if size > MOST_CELLS:
        raise InputError(
            "model.attributes", f"{size:,} cells", f"must have at most {MOST_CELLS:,} cells together (the product)"
        )


def _check_domain(where: str, attribute: Attribute) -> None:
    if attribute.categories is not msgspec.UNSET:
        for field in ("bounds", "bins", "type"):
            if getattr(attribute, field) is not msgspec.UNSET:
                raise InputError(f"{where}.{field}", "...", "must be left out beside categories")
        if len(set(attribute.categories)) < len(attribute.categories):
            raise InputError(f"{where}.categories", "...", "must all be different")
        return
    for field in ("bounds", "bins"):
        if getattr(attribute, field) is msgspec.UNSET:
            raise InputError(f"{where}.{field}", None, "must be set, or categories")
    edges = attribute.edges
    if not (all(low < high for low, high in pairwise(edges)) and all(map(math.isfinite, edges))):
        bound = "two dates, the earlier one first" if attribute.kind == "date" else BOUNDS
        raise InputError(f"{where}.bounds", "...", f"must be {bound}, far enough apart for the bins")
    days = round(edges[-1] - edges[0])
    if attribute.kind == "date" and days % attribute.declared:
        near = " or ".join(f"{bins:,}" for bins in _divisors_near(days, attribute.declared))
        raise InputError(f"{where}.bins", attribute.bins, f"must divide the {days:,} days between the bounds: {near}")


def _divisors_near(number: int, wanted: int) -> list[int]:
    """Return the next divisors of a number below and above another one: the only one where there are not both.

    >>> _divisors_near(364, 50), _divisors_near(364, 400)
    ([28, 52], [364])
    """
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    divisors = sorted({*small, *(number // divisor for divisor in small)})
    place = bisect_left(divisors, wanted)
    return divisors[max(place - 1, 0) : place + 1]
