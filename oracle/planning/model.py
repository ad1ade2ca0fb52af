"""The model file: what its owner declares before a plan is made. Nothing here is taken from private data."""

import difflib
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from oracle.errors import InputError

__all__ = ["Feature", "Limits", "Model", "parse_model"]

_NAME_LIMIT = 64
_FEATURE_LIMIT = 512
_CHOICES = {
    "predictor": ("rectangles",),
    "profile": ("tight", "paper"),
    "slicing": ("faces", "sequential", "rsc"),
    "sides": ("lower", "upper", "both", "none"),
}
_RANGES = (
    ("epsilon", 0.05, 50.0),  # below, no noise table is wide enough
    ("delta", 1e-18, 0.1),  # below, noise of 128 bits is too coarse for two phases
    ("alpha", 1e-6, 0.5),
    ("beta", 1e-12, 0.5),
    ("gamma", 1e-6, 1.0),
)
"""Least and largest value of each promise: outside, a plan would be absurd or its numbers too coarse."""

_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text",
}
"""msgspec's names of types, in words."""

_RESERVED = frozenset({"id", "x", "label"})


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One feature of a query.

    Attributes:
        name: Its name; also its key where a query names its features.
        sides: The sides that a box may have on it.
        bounds: Declared range, used to scale the faces; values outside are allowed.
    """

    name: str
    sides: Literal["lower", "upper", "both", "none"] = "both"
    bounds: tuple[float, float] | None = None


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
    """The `[model]` table. `Plan` explains the shared fields.

    Attributes:
        slicing: How a phase's points are shared out; where a model file names none, the profile's own.
        trim: Outermost points each side skips when it is armed at a phase start, against wrong labels.
        share: Overrides the planner's estimate of the part of a stripe that `faces` gives to its side.
        first_share: Fixes alpha_1's part of alpha instead of searching it: smaller asks for more training examples
            and makes the phases shorter.
    """

    name: str
    predictor: Literal["rectangles"]
    epsilon: float
    examples: int
    features: tuple[Feature, ...]
    profile: Literal["tight", "paper"] = "tight"
    delta: float = 1e-3
    alpha: float = 0.1
    beta: float = 0.05
    gamma: float = 1.0
    slicing: Literal["faces", "sequential", "rsc"] = "faces"
    trim: int = 0
    share: float | None = None
    first_share: float | None = None
    limits: Limits = Limits()


def parse_model(document: Mapping[str, object]) -> Model:
    """Check a parsed model file and return its model.

    Args:
        document: The whole TOML document; it must hold the table `model` and nothing else.

    Raises:
        InputError: A field is missing, unknown, of the wrong type or outside its bound.

    >>> parse_model({"model": {"name": "m", "predictor": "rectangles", "epsilon": -1.0, "examples": 9,
    ...     "features": [{"name": "a", "bounds": [0.0, 1.0]}]}})
    Traceback (most recent call last):
    ...
    oracle.errors.InputError: model.epsilon = -1.0: must be from 0.05 to 50
    """
    unknown = sorted(set(document) - {"model"})
    if unknown:
        raise InputError(unknown[0], "...", "unknown table; a model file holds [model] only")
    if "model" not in document:
        raise InputError("model", None, "the table [model] is missing")
    try:
        model = msgspec.convert(_with_slicing(document["model"]), Model)
    except msgspec.ValidationError as exc:
        raise _clear(str(exc), document["model"]) from exc
    _check_numbers(model)
    _check_features(model)
    _check_profile(model)
    return model


def _with_slicing(table: object) -> object:
    """Fill in the profile's own slicing where none is named."""
    if isinstance(table, dict) and table.get("profile") == "paper":
        return {"slicing": "rsc", **table}
    return table


def _clear(text: str, table: object) -> InputError:
    """Turn msgspec's complaint into one that names field, value and bound."""
    what, _, path = text.partition(" - at `$")
    path = "model" + path.rstrip("`")
    name = re.search(r"`(.*)`$", what)
    if what.startswith("Object contains unknown field") and name:
        kind = Feature if ".features[" in path else Limits if path.endswith(".limits") else Model
        near = difflib.get_close_matches(name[1], kind.__struct_fields__, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return InputError(f"{path}.{name[1]}", "...", f"unknown setting{hint}")
    if what.startswith("Object missing required field") and name:
        return InputError(f"{path}.{name[1]}", None, "must be set")
    field = path.rsplit(".", 1)[-1]
    value: object = table
    for step in re.findall(r"[^.\[\]]+", path)[1:]:
        value = value[int(step)] if isinstance(value, list) else value.get(step) if isinstance(value, dict) else value
    shown = value if isinstance(value, str | int | float | bool) else "..."
    if what.startswith("Invalid enum value"):
        return InputError(path, shown, f"must be one of {', '.join(_CHOICES.get(field, ()))}")
    return InputError(path, shown, _in_words(what))


def _in_words(complaint: str) -> str:
    """Return msgspec's complaint about a type without its names of types.

    >>> _in_words("Expected `float | null`, got `str`")
    'must be a number, not text'
    """
    words = re.sub(r"`(\w+)(?: \| null)?`", lambda match: _TYPES.get(match[1], match[0]), complaint)
    return re.sub(r"^must be (.*), got ", r"must be \1, not ", words.replace("Expected ", "must be ", 1))


def _check_numbers(model: Model) -> None:
    def within(field: str, value: float, low: float, high: float, *, closed: bool) -> None:
        if not (low < value and (value <= high if closed else value < high)):  # also false for NaN
            raise InputError(
                f"model.{field}", value, f"must be above {low:g} and {'at most' if closed else 'below'} {high:g}"
            )

    for field, least, most in _RANGES:
        value = getattr(model, field)
        if not least <= value <= most:  # also for NaN
            raise InputError(f"model.{field}", value, f"must be from {least:g} to {most:g}")
    within("examples", model.examples, 0, 2**48, closed=True)
    if model.share is not None:
        within("share", model.share, 0.0, 1.0, closed=True)
    if model.first_share is not None:
        within("first_share", model.first_share, 0.0, 1.0, closed=False)
    if not 0 <= model.trim <= model.examples:
        raise InputError("model.trim", model.trim, f"must be from 0 to examples ({model.examples})")
    for field, low, high in (
        ("body_bytes", 64, 2**30),
        ("batch_bytes", 1024, 2**30),
        ("id_bytes", 1, 4096),
        ("rows", 1, 2**24),
    ):
        value = getattr(model.limits, field)
        if not low <= value <= high:
            raise InputError(f"model.limits.{field}", value, f"must be from {low} to {high}")


def _check_profile(model: Model) -> None:
    paper = model.profile == "paper"
    if paper != (model.slicing == "rsc"):
        bound = 'must be "rsc" for profile = "paper"' if paper else 'is for profile = "paper" only'
        raise InputError("model.slicing", model.slicing, bound)
    for field, unused in (("trim", 0), ("share", None), ("first_share", None)):
        if paper and getattr(model, field) != unused:
            raise InputError(f"model.{field}", getattr(model, field), 'cannot be set for profile = "paper"')


def _check_name(where: str, name: str) -> None:
    if not name or len(name) > _NAME_LIMIT or name in _RESERVED:
        raise InputError(f"{where}.name", name, f"must be 1 to {_NAME_LIMIT} characters, not id, x or label")
    if not name.isprintable() or '"' in name or "\\" in name:  # the JSON decoder takes no such name
        raise InputError(f"{where}.name", name, "must have printable characters only, no quote and no backslash")


def _check_features(model: Model) -> None:
    if not model.name or len(model.name) > _NAME_LIMIT or not all(c.isalnum() or c in "-_." for c in model.name):
        raise InputError("model.name", model.name, f"must be 1 to {_NAME_LIMIT} letters, digits, '-', '_' or '.'")
    if not 1 <= len(model.features) <= _FEATURE_LIMIT:
        raise InputError("model.features", len(model.features), f"must be 1 to {_FEATURE_LIMIT} features")
    seen: set[str] = set()
    for index, feature in enumerate(model.features):
        where = f"model.features[{index}]"
        _check_name(where, feature.name)
        if feature.name in seen:
            raise InputError(f"{where}.name", feature.name, "must not be used twice")
        seen.add(feature.name)
        if feature.bounds is None:
            if feature.sides != "none" and model.slicing == "faces":
                raise InputError(f"{where}.bounds", None, 'must be declared as [low, high] for slicing = "faces"')
        else:
            low, high = feature.bounds
            if not (low < high and abs(low) < 1e150 and abs(high) < 1e150):  # noqa: PLR2004 -- squares must stay finite
                raise InputError(f"{where}.bounds", [low, high], "must be two finite numbers, low below high")
    if all(feature.sides == "none" for feature in model.features):
        raise InputError("model.features", "none", "at least one feature must have a side")
