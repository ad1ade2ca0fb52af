"""What the owner of a model declares before a plan is made, as far as all predictors have it in common.

Nothing here is taken from private data. Each predictor has a model class of its own (`oracle.planning.kinds`).
"""

from typing import Final

import msgspec

from oracle.errors import InputError
from oracle.planning.features import Feature, check_types

__all__ = [
    "RANGES",
    "Feature",
    "Limits",
    "Model",
    "check_feature_limit",
    "check_features",
    "check_promises",
    "check_share",
]

_NAME_LIMIT = 64
RANGES: Final = {
    "epsilon": (0.05, 50.0),  # below, no noise table is wide enough
    "delta": (1e-18, 0.1),  # below, noise of 128 bits is too coarse for two phases
    "alpha": (1e-6, 0.5),
    "beta": (1e-12, 0.5),
    "gamma": (1e-6, 1.0),
    "examples": (1, 2**48),
}
"""Least and largest value of each promise: outside, a plan would be absurd or its numbers too coarse."""

_LEAST_SHARE = 1e-6

_RESERVED = frozenset({"id", "x", "label"})


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message may be at most, to count as a query.

    Attributes:
        body_bytes: Most bytes of a JSON message.
        batch_bytes: Most bytes of an Arrow message.
        id_bytes: Most bytes of an id, UTF-8.
        rows: Most rows of one Arrow message.
    """

    body_bytes: int = 65_536
    batch_bytes: int = 67_108_864
    id_bytes: int = 256
    rows: int = 131_072


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table, as far as all predictors have it in common. `Plan` explains the fields.

    Attributes:
        predictor: Name of the predictor (`oracle.planning.kinds`).
    """

    name: str
    predictor: str
    epsilon: float
    examples: int
    features: tuple[Feature, ...]
    profile: str = "tight"
    delta: float = 1e-3
    alpha: float = 0.1
    beta: float = 0.05
    gamma: float = 1.0
    limits: Limits = Limits()


def check_share(field: str, value: float, *, closed: bool) -> None:
    """Refuse a part of a whole that is too small for any plan, or above 1; also 1 itself, unless `closed`."""
    if not (_LEAST_SHARE <= value <= 1.0 and (closed or value < 1.0)):  # also for NaN
        most = "at most 1" if closed else "below 1"
        raise InputError(f"model.{field}", value, f"must be at least {_LEAST_SHARE:g} and {most}")


def check_promises(model: Model) -> None:
    """Refuse promises and limits outside their ranges.

    Raises:
        InputError: One of them is.
    """
    for field, (least, most) in RANGES.items():
        value = getattr(model, field)
        if not least <= value <= most:  # also for NaN
            raise InputError(f"model.{field}", value, f"must be from {least:g} to {most:g}")
    for field, low, high in (
        ("body_bytes", 64, 2**30),
        ("batch_bytes", 1024, 2**30),
        ("id_bytes", 1, 4096),
        ("rows", 1, 2**24),
    ):
        value = getattr(model.limits, field)
        if not low <= value <= high:
            raise InputError(f"model.limits.{field}", value, f"must be from {low} to {high}")


def _check_name(where: str, name: str) -> None:
    if not name or len(name) > _NAME_LIMIT or name in _RESERVED:
        raise InputError(
            f"{where}.name",
            name,
            f"must be 1 to {_NAME_LIMIT} characters, not id, x or label"
            '; column = "..." names the data\'s column where it is another',
        )
    if not name.isprintable() or '"' in name or "\\" in name:  # the JSON decoder takes no such name
        raise InputError(f"{where}.name", name, "must have printable characters only, no quote and no backslash")


def check_feature_limit(model: Model, most: int) -> None:
    """Refuse a model without features, or with more than `most`."""
    if not 1 <= len(model.features) <= most:
        raise InputError("model.features", len(model.features), f"must be 1 to {most} features")


def check_features(model: Model) -> None:
    """Refuse names that no query could use, and bounds that are none.

    Raises:
        InputError: One is.
    """
    if not model.name or len(model.name) > _NAME_LIMIT or not all(c.isalnum() or c in "-_." for c in model.name):
        raise InputError("model.name", model.name, f"must be 1 to {_NAME_LIMIT} letters, digits, '-', '_' or '.'")
    seen: set[str] = set()
    for index, feature in enumerate(model.features):
        where = f"model.features[{index}]"
        _check_name(where, feature.name)
        if feature.name in seen:
            raise InputError(f"{where}.name", feature.name, "must not be used twice")
        seen.add(feature.name)
        if feature.bounds is not None:
            low, high = feature.bounds
            if not (low < high and abs(low) < 1e150 and abs(high) < 1e150):  # noqa: PLR2004 -- squares must stay finite
                if feature.kind == "date":
                    raise InputError(f"{where}.bounds", "...", "must be two dates, the earlier one first")
                raise InputError(f"{where}.bounds", [low, high], "must be two finite numbers, low below high")
    check_types(model.features)
    if all(feature.sides == "none" for feature in model.features):
        raise InputError("model.features", "none", "at least one feature must have a side")
