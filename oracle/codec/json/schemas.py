"""What one model's JSON messages are, as JSON Schema (2020-12): for registries, code generators, checks before sending.

A schema accepts every message that the codecs accept. It refuses fewer than they do: sizes in bytes, days that no month
has, digits of decimals and edges of bins, which rounding may have moved a little, are not said in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from oracle.codec.rejections import Reason
from oracle.mechanisms.scalars import largest_decimal
from oracle.planning.attributes import Attribute
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.planning.serving import most_rows
from oracle.planning.statistics.model import SparseVectorPlan, TablePlan

__all__ = ["answer_schema", "query_schema"]

Schema = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_INTEGER: Final = {"minimum": -(2**63), "maximum": 2**63 - 1}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_SHARE: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
_MAYBE: Final[Schema] = {"type": ["number", "null"]}
_DATE: Final[Schema] = {"type": "string", "format": "date", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?$"


def query_schema(plan: Plan) -> Schema:
    """Return the schema of a query: a row of features, or a question about a table or a distribution."""
    if isinstance(plan, TablePlan):
        body = _question(plan)
    elif isinstance(plan, DistributionPlan):
        body = _quantiles(plan)
    else:
        body = _row(plan)
    identifier = {"type": ["string", "integer", "null"], "maxLength": plan.limits.id_bytes, **_INTEGER}
    body["properties"] = {"id": identifier, **body["properties"]}
    return _document(f"Query of {plan.name}", body)


def answer_schema(plan: Plan) -> Schema:
    """Return the schema of a reply: an answer, or why the message was no query."""
    if isinstance(plan, SparseVectorPlan):
        answer = _above()
    elif isinstance(plan, TablePlan | DistributionPlan):
        answer = _public(quantiles=isinstance(plan, DistributionPlan))
    else:
        answer = _outcome(plan)
    error = _object({"error": {"enum": list(Reason)}, "field": {"type": "string"}, "bound": {"type": "string"}})
    for one in (answer, error):
        one["properties"] |= {"id": {"type": ["string", "integer", "null"]}, "model": {"const": plan.name}}
        one["required"] += ["id", "model"]
    return _document(f"Reply of {plan.name}", {"anyOf": [answer, error]})


def _document(title: str, body: Schema) -> Schema:
    return {"$schema": _DIALECT, "title": title, **body}


def _object(properties: Mapping[str, Any], optional: Sequence[str] = (), **more: object) -> Schema:
    """Return the schema of an object that has these properties, all but some of them always, and no others."""
    required = [name for name in properties if name not in optional]
    fixed = {"type": "object", "required": required, "additionalProperties": False}
    return {**fixed, "properties": dict(properties), **more}


def _list(item: Schema, most: int) -> Schema:
    return {"type": "array", "minItems": 1, "maxItems": most, "items": item}


def _row(plan: Plan) -> Schema:
    """Return the schema of a row: `x` with the values, in order or by name; or the values beside the id, by name."""
    values = {feature.name: _value(feature, missing=plan.takes_missing) for feature in plan.features}
    ordered = {"type": "array", "prefixItems": list(values.values()), "minItems": len(values), "maxItems": len(values)}
    return {
        "type": "object",
        "anyOf": [{"required": ["x"]}, {"required": list(values)}],
        "properties": {"x": {"anyOf": [ordered, _object(values)]}, **values},
    }


def _value(feature: Feature, *, missing: bool) -> Schema:
    """Return the schema of one value."""
    schema: Schema = {"type": "number"}
    if feature.kind == "string":
        schema = {"type": "string", "maxLength": feature.longest}
    elif feature.kind == "category":
        schema = {"type": "string", "examples": msgspec.to_builtins(feature.categories)}
    elif feature.kind == "date":
        schema = dict(_DATE)
    elif feature.kind == "decimal":
        limit = largest_decimal(feature.decimals)
        ends = {"exclusiveMinimum": -limit, "exclusiveMaximum": limit}
        schema = {"type": ["number", "string"], "pattern": _DECIMAL, **ends}
    return {"anyOf": [schema, {"type": "null"}]} if missing else schema


def _question(plan: TablePlan) -> Schema:
    """Return the schema of a question about a table."""
    where = {attribute.name: _cells(attribute) for attribute in plan.attributes}
    by = _list({"enum": list(where)}, len(where)) | {"uniqueItems": True}
    above = _SHARE if isinstance(plan, SparseVectorPlan) else False
    schema: Schema = {
        "type": "object",
        "anyOf": [{"required": ["where"]}, {"required": ["by"]}],
        "properties": {"where": _object(where, optional=list(where)), "by": by, "above": above},
    }
    return schema if above is False else {**schema, "required": ["above"]}


def _cells(attribute: Attribute) -> Schema:
    """Return the schema of what stands behind an attribute's name."""
    if attribute.edges:
        end = _DATE if attribute.kind == "date" else {"type": "number"}
        return {"anyOf": [{"type": "array", "items": end, "minItems": 2, "maxItems": 2}, {"type": "null"}]}
    one = {"enum": list(attribute.labels)}
    return {"anyOf": [one, {"type": "array", "minItems": 1, "items": one}]}


def _quantiles(plan: DistributionPlan) -> Schema:
    """Return the schema of a question about a distribution."""
    value, most = _value(plan.features[0], missing=False), most_rows(plan)
    properties = {
        "id": {},
        "at": {"anyOf": [value, _list(value, most)]},
        "quantile": {"anyOf": [_SHARE, _list(_SHARE, most)]},
    }
    return _object(properties, optional=list(properties), oneOf=[{"required": ["at"]}, {"required": ["quantile"]}])


def _outcome(plan: Plan) -> Schema:
    """Return the schema of a label or a number, or of a round that rested."""
    told = {"round": _COUNT, "phase": {"type": "integer", "minimum": 1}}
    name, outcome = ("value", _MAYBE) if plan.answers == "value" else ("label", {"enum": [*plan.labels, None]})
    if not plan.rests:
        return _object({name: outcome, **told})
    resting = {"error": {"const": "resting"}}
    either = [{"required": [name]}, {"required": ["error"]}]
    return _object({name: outcome, **resting, **told}, optional=[name, "error"], oneOf=either)


def _public(*, quantiles: bool) -> Schema:
    """Return the schema of the shares that answer a question, or several."""
    one: Schema = {"value": _MAYBE, "verified": {"type": "boolean"}}
    found: Schema = {"quantile": {"type": ["number", "string"]}} if quantiles else {}
    cells = {"type": "array", "items": {"type": "object", "required": list(one), "properties": {**one, **found}}}
    told = {"error": _MAYBE, "paid": _COUNT, "round": _COUNT, "values": cells}
    either = [{"required": list(one)}, {"required": ["values"]}]
    return _object({**one, **found, **told}, optional=[*one, *found, "values"], oneOf=either)


def _above() -> Schema:
    """Return the schema of what a sparse vector says of a threshold, or of several."""
    told = {"paid": _COUNT, "round": _COUNT}
    some: Schema = {
        "above": {"type": ["boolean", "null"]},
        "value": {"type": "number"},
        "error": {"anyOf": [_MAYBE, {"const": "budget-spent"}]},
        "values": {"type": "array", "items": {"type": "object"}},
    }
    return _object({**some, **told}, optional=list(some))
