"""The model file: from a parsed document to the checked model of the predictor that it names."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from oracle.errors import InputError, did_you_mean
from oracle.mechanisms.scalars import day_of
from oracle.planning.attributes import Attribute
from oracle.planning.features import NO_SCALE
from oracle.planning.kinds import KINDS, Kind
from oracle.planning.model import Feature, Limits, Model, Truth, check_data
from oracle.planning.schemas import bound_in_words, schema_of

__all__ = ["parse_model"]

_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text",
}
"""msgspec's names of types, in words."""

_BOUNDS = {
    "number": "two numbers without quotes, such as bounds = [0.0, 10.0]",
    "decimal": "two numbers without quotes, such as bounds = [0.0, 9.99]",
    "date": 'two dates, such as bounds = ["2013-01-01", "2013-12-31"]',
}
"""How the bounds of a feature or an attribute are written, by its type."""


_PARTS: Mapping[str, type[Feature | Attribute | Limits | Truth]] = {
    ".features[": Feature,
    ".attributes[": Attribute,
    ".limits": Limits,
    ".truth": Truth,
}
"""What a setting with such a part in its path belongs to; any other belongs to the model."""


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
    if "model" not in document and "source" in document:
        raise InputError("MODEL.toml", "...", "this is a configuration; name the model file, which holds [model] only")
    unknown = sorted(set(document) - {"model"})
    if unknown:
        raise InputError(unknown[0], "...", "unknown table; a model file holds [model] only")
    if "model" not in document:
        raise InputError("model", None, "the table [model] is missing")
    table = document["model"]
    kind = _kind(table)
    if isinstance(table, dict):
        table = kind.fill(_with_days(table))
    try:
        model: Model = msgspec.convert(table, kind.model)
    except msgspec.ValidationError as exc:
        raise _clear(str(exc), table, kind.model) from exc
    kind.check_model(model)
    check_data(model)
    return model


def _kind(table: object) -> Kind[Any, Any]:
    """Return the kind that the table names; where it names none, any: what is missing is complained of later."""
    name = table.get("predictor", "rectangles") if isinstance(table, dict) else "rectangles"
    if not isinstance(name, str):
        return KINDS["rectangles"]  # its type complains
    if name not in KINDS:
        raise InputError("model.predictor", name, f"must be one of {', '.join(KINDS)}{did_you_mean(name, KINDS)}")
    return KINDS[name]


def _with_days(table: dict[str, object]) -> dict[str, object]:
    """Return the table with the bounds of features and attributes that are dates as days since 1970-01-01.

    Raises:
        InputError: They are no dates.
    """
    return table | {key: _columns_with_days(key, table[key]) for key in ("features", "attributes") if key in table}


def _columns_with_days(key: str, columns: object) -> object:
    if not isinstance(columns, list):
        return columns
    changed = list(columns)
    for index, column in enumerate(columns):
        if isinstance(column, dict) and column.get("type") == "date" and isinstance(column.get("bounds"), list):
            days = [day_of(str(bound)) for bound in column["bounds"]]  # of TOML's own dates too
            if None in days:
                where = f"model.{key}[{index}].bounds"
                raise InputError(where, "...", f"must be two dates, as YYYY-MM-DD{_how_to_bound(column)}")
            changed[index] = {**column, "bounds": days}
    return changed


def _how_to_bound(column: Mapping[str, object]) -> str:
    """Return how to write the bounds of a feature or an attribute, or nothing if it has no known type.

    >>> print(_how_to_bound({"name": "price", "type": "decimal", "bounds": ["0.00", "9.99"]}))
    ; write the bounds of 'price' as two numbers without quotes, such as bounds = [0.0, 9.99]
    """
    how = _BOUNDS.get(str(column.get("type", "number")))
    name = column.get("name")
    whose = repr(name) if isinstance(name, str) else "this column"
    bounds = column.get("bounds")
    if (
        how
        and "type" not in column
        and bounds
        and isinstance(bounds, list)
        and None not in map(day_of, map(str, bounds))
    ):
        return f'; where {whose} is a date, add type = "date"'
    return f"; write the bounds of {whose} as {how}" if how else ""


def _clear(text: str, table: object, model: type[Model]) -> InputError:
    """Turn msgspec's complaint into one that names field, value and bound."""
    what, _, path = text.partition(" - at `$")
    path = "model" + path.rstrip("`")
    name = re.search(r"`(.*)`$", what)
    kind = next((found for part, found in _PARTS.items() if part in path), model)
    if what.startswith("Object contains unknown field") and name:
        return InputError(f"{path}.{name[1]}", "...", _unknown(name[1], kind))
    if what.startswith("Object missing required field") and name:
        return InputError(f"{path}.{name[1]}", None, "must be set")
    field = path.rsplit(".", 1)[-1]
    value: object = table
    feature: object = None
    for step in re.findall(r"[^.\[\]]+", path)[1:]:
        feature = value if step == "bounds" else feature
        value = value[int(step)] if isinstance(value, list) else value.get(step) if isinstance(value, dict) else value
    bounded = re.match(r"Expected `\w+` (of length )?[<>]", what) and field in kind.__struct_fields__
    if bounded and isinstance(value, list):
        value = len(value)
    shown = value if isinstance(value, str | int | float | bool) else "..."
    bound = (
        f"must be {bound_in_words(schema_of(kind, field))}" if bounded else _bound(what, shown, kind, field, feature)
    )
    return InputError(path, shown, bound)


def _bound(what: str, shown: object, kind: type[msgspec.Struct], field: str, feature: object) -> str:
    """Return what would have been accepted in the place of a value of another type, or of none of the choices."""
    if what.startswith("Invalid enum value"):
        choices = schema_of(kind, field)["enum"]
        return f"must be one of {', '.join(choices)}{did_you_mean(shown, choices)}"
    if isinstance(feature, dict) and feature.get("type") == "string":
        return NO_SCALE
    if what == "Expected `int`, got `float`" and isinstance(shown, float) and shown.is_integer():
        return f"must be a whole number, written without a point or an exponent: {shown:.0f}"
    how = _how_to_bound(feature) if isinstance(feature, dict) else ""
    return f"{_in_words(what)}{how}"


def _unknown(name: str, kind: type[Model | Feature | Attribute | Limits | Truth]) -> str:
    """Return what to say of a setting that there is none of: the nearest one, or the predictors that have it."""
    near = did_you_mean(name, kind.__struct_fields__)
    others = [other for other, has in KINDS.items() if name in has.model.__struct_fields__ and issubclass(kind, Model)]
    hint = f"; it is for predictor {' and '.join(others)}" if others else near
    return f"unknown setting of a model file{hint}"


def _in_words(complaint: str) -> str:
    """Return msgspec's complaint about a type without its names of types.

    >>> _in_words("Expected `float | null`, got `str`")
    'must be a number, not text'
    """
    words = re.sub(r"`(\w+)(?: \| null)?`", lambda match: _TYPES.get(match[1], match[0]), complaint)
    return re.sub(r"^must be (.*), got ", r"must be \1, not ", words.replace("Expected ", "must be ", 1))
