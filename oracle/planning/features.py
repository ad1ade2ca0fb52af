"""Features: names, sides, and the types of their values, all of which have a total order.

A query's features become one row of float64 numbers. A number, a date or a decimal takes one of them, and is compared
as it; a string takes one for every `oracle.mechanisms.orders.DIGIT_BYTES` bytes that it may have.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from oracle.errors import InputError
from oracle.mechanisms.orders import NUMBER_BYTES, code_bytes, digit_count

__all__ = [
    "BOUNDS",
    "NAMES",
    "NAME_LIMIT",
    "NO_SCALE",
    "Feature",
    "batch_bytes",
    "check_types",
    "columns_of",
    "key_bytes",
    "refuse_types",
    "stand_in",
]

NO_SCALE: Final = "must be left out: strings have an order and no scale"
"""Why strings have no bounds."""

NAME_LIMIT: Final = 64
"""Most characters of a name."""

NAMES: Final = f"1 to {NAME_LIMIT} printable characters, no quote and no backslash, not id, x or label"
"""What a feature may be called."""

BOUNDS: Final = "two finite numbers, low below high"
"""What bounds may be."""

_MAX_BYTES: Final = 32
_ALL_BYTES: Final = 1024
"""Bytes of all strings of a query together, so that a short message of many empty ones does not unpack to much."""

_BATCH: Final = 16_384
"""Queries of a batch whose keys a plan counts: as many as a daemon answers at once if nothing else is set."""


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One feature of a query.

    Attributes:
        name: Its name; also its key where a query names its features.
        sides: The sides that a box may have on it, or the ways a stump may cut: "lower" says 1 above its edge.
        bounds: Scale of the feature for a classical box with slicing "faces"; nothing else goes by it, and values
            outside are allowed. Of dates, two dates; strings have none.
        type: What its values are; "number" where it is not set. Strings are ordered by the bytes of their UTF-8, which
            is the order of their code points: there is no collation and no normalisation. Dates are those of the
            proleptic Gregorian calendar, years 1 to 9999. A decimal has at most 15 digits, `places` of them after the
            point.
        max_bytes: Most bytes of a string, UTF-8; 32 where it is not set. All strings of a query together: 1,024.
        places: Digits that a decimal may have after the point; must be set for decimals.
        column: The training data's column, where it is not the name.
        categories: Of an ensemble's feature: what its values may be, in place of a type; anything else is "other".
    """

    name: Annotated[str, Meta(extra_json_schema={"bound": NAMES})]
    sides: Literal["lower", "upper", "both", "none"] = "both"
    bounds: Annotated[tuple[float, float] | None, Meta(extra_json_schema={"bound": BOUNDS})] = None
    type: Literal["number", "string", "date", "decimal"] | msgspec.UnsetType = msgspec.UNSET
    max_bytes: Annotated[int, Meta(ge=1, le=256)] | msgspec.UnsetType = msgspec.UNSET
    places: Annotated[int, Meta(ge=0, le=12, extra_json_schema={"unit": "digits"})] | msgspec.UnsetType = msgspec.UNSET
    column: str | msgspec.UnsetType = msgspec.UNSET
    categories: (
        Annotated[
            tuple[Annotated[str, Meta(max_length=256)], ...],
            Meta(min_length=1, max_length=4096, extra_json_schema={"unit": "categories"}),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET

    @property
    def source(self) -> str:
        """The training data's column."""
        return self.name if self.column is msgspec.UNSET else self.column

    @property
    def kind(self) -> Literal["number", "string", "date", "decimal", "category"]:
        """What its values are."""
        if self.categories is not msgspec.UNSET:
            return "category"
        return "number" if self.type is msgspec.UNSET else self.type

    @property
    def longest(self) -> int:
        """Most bytes of a string."""
        return _MAX_BYTES if self.max_bytes is msgspec.UNSET else self.max_bytes

    @property
    def decimals(self) -> int:
        """Digits after the point of a decimal."""
        return 0 if self.places is msgspec.UNSET else self.places

    @property
    def width(self) -> int:
        """How many numbers a value takes."""
        return digit_count(self.longest) if self.kind == "string" else 1

    @property
    def accepts(self) -> str:
        """What a value must be, in words."""
        if self.kind == "string":
            return f"a text of at most {self.longest} bytes of UTF-8"
        if self.kind == "category":
            return "a text"
        if self.kind == "date":
            return "a date from 0001-01-01 to 9999-12-31, as YYYY-MM-DD"
        if self.kind == "decimal":
            return f"a decimal below 1e{15 - self.decimals}, with at most {self.decimals} digits after the point"
        return "a number"


def columns_of(features: Sequence[Feature]) -> tuple[int, ...]:
    """Return where each feature's numbers begin in a row, and at last how many there are.

    >>> columns_of([Feature(name="a"), Feature(name="b", type="string", max_bytes=7), Feature(name="c")])
    (0, 1, 3, 4)
    """
    starts = [0]
    for feature in features:
        starts.append(starts[-1] + feature.width)
    return tuple(starts)


def key_bytes(features: Sequence[Feature]) -> int:
    """Return the bytes of a key, by which a value is compared: those of the longest, if a string may have a side.

    >>> key_bytes([Feature(name="a"), Feature(name="b", type="string", max_bytes=7)])
    13
    >>> key_bytes([Feature(name="a"), Feature(name="b", type="string", sides="none")])
    8
    """
    widths = [feature.width for feature in features if feature.kind == "string" and feature.sides != "none"]
    return code_bytes(max(widths)) if widths else NUMBER_BYTES


def batch_bytes(features: Sequence[Feature], sides: int) -> int:
    """Return the bytes that a plan counts for a batch between its answers and their bookkeeping, where it has strings.

    Of each query its key and a flag for each side, its round, its hash and its label: more than is held today
    (`Plan.waiting_bytes`), but plans are bound to their figures. 0 where keys are numbers: plans of these have never
    counted the batch.

    >>> batch_bytes([Feature(name="a", type="string")], 2), batch_bytes([Feature(name="a")], 2)
    (1523712, 0)
    """
    key = key_bytes(features)
    return 0 if key == NUMBER_BYTES else _BATCH * (sides * (key + 1) + 2 * 8 + 1)


def stand_in(features: Sequence[Feature], sides: Literal["lower", "both"]) -> Feature:
    """Return a feature with these sides, whose keys take as many bytes as those of all features together."""
    strings = [feature for feature in features if feature.kind == "string" and feature.sides != "none"]
    if not strings:
        return Feature(name="stump", sides=sides)
    return Feature(name="stump", sides=sides, type="string", max_bytes=max(string.longest for string in strings))


def check_types(features: Sequence[Feature]) -> None:
    """Refuse settings that do not go with a feature's type.

    Raises:
        InputError: One does not.
    """
    for index, feature in enumerate(features):
        _check_type(f"model.features[{index}]", feature)
    together = sum(feature.longest for feature in features if feature.kind == "string")
    if together > _ALL_BYTES:
        raise InputError("model.features", together, f"max_bytes of all strings must sum to at most {_ALL_BYTES}")


def _check_type(where: str, feature: Feature) -> None:
    if feature.max_bytes is not msgspec.UNSET and feature.kind != "string":
        raise InputError(f"{where}.max_bytes", feature.max_bytes, 'is for type = "string" only')
    if feature.places is not msgspec.UNSET and feature.kind != "decimal":
        raise InputError(f"{where}.places", feature.places, 'is for type = "decimal" only')
    if feature.kind == "string" and feature.bounds is not None:
        raise InputError(f"{where}.bounds", "...", NO_SCALE)
    if feature.kind == "decimal" and feature.places is msgspec.UNSET:
        raise InputError(f"{where}.places", None, "must be set for a decimal, from 0 to 12")


def refuse_types(features: Sequence[Feature], allowed: Sequence[str], reason: str) -> None:
    """Refuse features of other types.

    Raises:
        InputError: One has another type.
    """
    for index, feature in enumerate(features):
        if feature.kind not in allowed:
            raise InputError(f"model.features[{index}].type", feature.kind, reason)
