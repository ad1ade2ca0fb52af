"""What one model's messages are in Protobuf: the file that a query's writer may begin with, and that of all replies.

A feature's number follows from its place in the model file, so it stays while features are added at the end.
"""

from typing import Final

from oracle.codec.registered.avro_schemas import namespace_of, whole_labels
from oracle.codec.registered.names import IDENTIFIER, IDENTIFIER_NUMBER, field_names
from oracle.planning.plan import Plan

__all__ = ["proto_answer", "proto_query"]

_FIRST: Final = 11
"""Number of the first feature; those before it are for what all queries have."""

_PADDING: Final = "  // Of such a length that all answers take as many bytes, whatever they say.\n  bytes padding = 5;"


def proto_query(plan: Plan) -> str:
    """Return the .proto file of a query. All features are optional there: so it is seen which are missing."""
    lines: list[str] = []
    for number, (feature, name) in enumerate(zip(plan.features, field_names(plan.features), strict=True), _FIRST):
        if feature.kind != "number" or feature.name != name:
            lines.append(f"  // {feature.name}: {feature.accepts}")
        lines.append(f"  optional {'double' if feature.kind == 'number' else 'string'} {name} = {number};")
    return _file(plan, "Query", [*_identifier(), "  reserved 3 to 10;", *lines])


def proto_answer(plan: Plan) -> str:
    """Return the .proto file of a reply: of an answer, of a round that the model rested in, and of a rejection."""
    outcome = "double" if plan.answers == "value" else "int64" if whole_labels(plan) else "string"
    lines = ["  string model = 3;", f"  optional {outcome} {plan.answers} = 4;", _PADDING]
    lines += ["  optional int64 round = 6;", "  optional int32 phase = 7;"]
    lines += [f"  optional string {name} = {number};" for number, name in enumerate(("error", "field", "bound"), 8)]
    return _file(plan, "Answer", [*_identifier(), *lines])


def _identifier() -> list[str]:
    return ["  oneof identifier {", f"    string {IDENTIFIER} = 1;", f"    int64 {IDENTIFIER_NUMBER} = 2;", "  }"]


def _file(plan: Plan, name: str, lines: list[str]) -> str:
    start = f'syntax = "proto3";\n\npackage {namespace_of(plan)};\n\nmessage {name} {{\n'
    return start + "\n".join(lines) + "\n}\n"
