"""What one model's messages are in Avro: the schema that a query's writer may begin with, and that of all replies."""

from typing import Any, Final

from oracle.codec.registered.names import IDENTIFIER, field_names, plain_name
from oracle.errors import InputError
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan

__all__ = ["avro_answer", "avro_query", "namespace_of", "refuse_questions", "whole_labels"]

Schema = dict[str, Any]

_IDENTIFIER: Final = {"name": IDENTIFIER, "type": ["null", "string", "long"], "default": None}
_PRECISION: Final = 15
_PADDING: Final = "of such a length that all answers take as many bytes, whatever they say"


def refuse_questions(plan: Plan, field: str, value: str) -> None:
    """Refuse a model whose queries are questions: what they may say is a tree of names, and JSON only.

    Raises:
        InputError: It is one.
    """
    if isinstance(plan, QuestionPlan):
        raise InputError(field, value, "must be json: questions about tables and distributions are JSON only")


def namespace_of(plan: Plan) -> str:
    """Return the namespace, or package, of a model's messages."""
    return f"perpetua.{plain_name(plan.name)}"


def whole_labels(plan: Plan) -> bool:
    """Return whether labels are told as whole numbers: if all of them are; else each as a text."""
    return all(isinstance(label, int) for label in plan.labels)


def avro_query(plan: Plan) -> Schema:
    """Return the schema of a query."""
    named = zip(plan.features, field_names(plan.features), strict=True)
    fields = [_field(feature, name, missing=plan.takes_missing) for feature, name in named]
    return _record(plan, "Query", [dict(_IDENTIFIER), *fields])


def avro_answer(plan: Plan) -> Schema:
    """Return the schema of a reply: of an answer, of a round that the model rested in, and of a rejection."""
    outcome = "double" if plan.answers == "value" else "long" if whole_labels(plan) else "string"
    fields: list[Schema] = [
        dict(_IDENTIFIER),
        {"name": "model", "type": "string"},
        _optional(plan.answers, outcome),
        {"name": "padding", "type": "bytes", "default": "", "doc": _PADDING},
        _optional("round", "long"),
        _optional("phase", "int"),
        _optional("error", "string"),
        _optional("field", "string"),
        _optional("bound", "string"),
    ]
    return _record(plan, "Answer", fields)


def _record(plan: Plan, name: str, fields: list[Schema]) -> Schema:
    return {"type": "record", "name": name, "namespace": namespace_of(plan), "fields": fields}


def _optional(name: str, kind: object, doc: str = "") -> Schema:
    return {"name": name, "type": ["null", kind], "default": None} | ({"doc": doc} if doc else {})


def _field(feature: Feature, name: str, *, missing: bool) -> Schema:
    doc = "" if feature.name == name else feature.name
    kind = _type(feature)
    if missing:
        return _optional(name, kind, doc)
    return {"name": name, "type": kind} | ({"doc": doc} if doc else {})


def _type(feature: Feature) -> object:
    """Return the type of a feature's values. Any text may be a category: those that no list has are "other"."""
    if feature.kind == "number":
        return "double"
    if feature.kind == "date":
        return {"type": "int", "logicalType": "date"}
    if feature.kind == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": _PRECISION, "scale": feature.decimals}
    return "string"
