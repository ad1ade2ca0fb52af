"""What the types of settings say of their values, as JSON Schema and in words: for refusals and for the reference."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["bound_in_words", "range_of", "schema_of"]

_LIMITS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
"""JSON Schema's names of bounds, in words."""


def schema_of(kind: type[msgspec.Struct], field: str) -> dict[str, Any]:
    """Return what a field may be when it is set, as JSON Schema; choices are in the order in which they are declared.

    >>> schema_of(type("Half", (msgspec.Struct,), {"__annotations__": {"side": Literal["upper", "lower"]}}), "side")
    {'enum': ['upper', 'lower']}
    """
    schema: dict[str, Any] = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"][field]
    schema |= next(iter(schema.get("anyOf", ())), {})
    if "enum" in schema:
        hint = get_type_hints(kind)[field]
        choices = next((part for part in get_args(hint) if get_origin(part) is Literal), hint)
        schema["enum"] = list(get_args(choices))
    return schema


def range_of(kind: type[msgspec.Struct], field: str) -> tuple[float, float]:
    """Return the least and the largest value of a number that has both."""
    schema = schema_of(kind, field)
    return schema["minimum"], schema["maximum"]


def bound_in_words(schema: Mapping[str, Any]) -> str:
    """Return the bound that a type sets, or nothing if it sets none.

    Args:
        schema: JSON Schema of a number or a list, or with a `bound` that is in words already.

    >>> bound_in_words({"minimum": 0.05, "maximum": 50.0}), bound_in_words({"minimum": 1e-6, "exclusiveMaximum": 1})
    ('from 0.05 to 50', 'at least 1e-06 and below 1')
    >>> bound_in_words({"minItems": 1, "maxItems": 8, "unit": "features"})
    '1 to 8 features'
    """
    if "bound" in schema:
        return str(schema["bound"])
    for most, least, unit in (("maxItems", "minItems", "entries"), ("maxLength", "minLength", "characters")):
        if most in schema:
            low = f"{schema[least]} to" if least in schema else "at most"
            return f"{low} {schema[most]} {schema.get('unit', unit)}"
    if {"minimum", "maximum"} <= schema.keys():
        return f"from {schema['minimum']:.15g} to {schema['maximum']:.15g}"
    return " and ".join(f"{words} {schema[key]:.15g}" for key, words in _LIMITS.items() if key in schema)
