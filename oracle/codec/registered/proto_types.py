"""A writer's Protobuf schema: its messages with their scalar fields, and no more. Needs proto-schema-parser, protobuf.

A registry gives out the text of a .proto file, or as it is (base64) the descriptor that a Python client registered. Of
either only names, numbers and scalar types of fields are taken over, so what is imported is of no interest, and nothing
that somebody wrote into a schema is ever built but numbers that were looked at. What a message has besides is unknown
to the library then, which passes it over.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from oracle.codec.registered.written import UnfitError

__all__ = ["SCALARS", "ProtoField", "ProtoMessage", "messages_of"]

SCALARS: Final = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "fixed64": FieldDescriptorProto.TYPE_FIXED64,
    "fixed32": FieldDescriptorProto.TYPE_FIXED32,
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "sfixed32": FieldDescriptorProto.TYPE_SFIXED32,
    "sfixed64": FieldDescriptorProto.TYPE_SFIXED64,
    "sint32": FieldDescriptorProto.TYPE_SINT32,
    "sint64": FieldDescriptorProto.TYPE_SINT64,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}
"""Types that a field of interest may have, by their names."""

_NAMES: Final = {number: name for name, number in SCALARS.items()}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_LONGEST_TEXT: Final = 1 << 16
_DEEPEST: Final = 32
_NO_PROTO: Final = f"a .proto file of at most {_LONGEST_TEXT >> 10} KiB, nested at most {_DEEPEST} deep"
_OPENING, _CLOSING = "{[(<", "}])>"


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field.

    Attributes:
        kind: Its scalar type; empty for any other.
        implicit: Whether a field that is not there has the value zero, or a text without characters.
    """

    name: str
    number: int
    kind: str
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message; within it lie others, by their numbers, None for one that the library makes of a map."""

    fields: list[ProtoField] = field(default_factory=list)
    nested: list["ProtoMessage | None"] = field(default_factory=list)


def messages_of(text: str) -> Sequence[ProtoMessage | None]:
    """Return the messages of a schema, by their numbers.

    Raises:
        UnfitError: It is none, or too long.
    """
    if _BASE64.fullmatch(text):
        try:
            found = FileDescriptorProto.FromString(base64.b64decode(text))
        except (binascii.Error, DecodeError) as exc:
            raise UnfitError(_NO_PROTO) from exc
        return [_described(one, proto3=found.syntax == "proto3") for one in found.message_type]
    if len(text) > _LONGEST_TEXT or _depth(text) > _DEEPEST:
        raise UnfitError(_NO_PROTO)
    try:
        file = Parser(setup_lexer=_strict, setup_parser=_strict).parse(text)
    except (MemoryError, RecursionError):
        raise
    except Exception as exc:  # the parser's errors are of many families
        raise UnfitError(_NO_PROTO) from exc
    return list(_written(file.file_elements, proto3=file.syntax == "proto3"))


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif character in _CLOSING:
            depth -= 1
    return deepest


class _Strict:
    """Refuses what the parser would mend, and say on standard error."""

    def syntaxError(self, *_: object) -> NoReturn:  # noqa: N802 -- the parser's name
        raise ValueError("not the text of a .proto file")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- other reports of the parser are about its speed
        return lambda *_: None


def _strict(recognizer: Any) -> None:  # noqa: ANN401 -- a lexer or a parser, without types
    recognizer.removeErrorListeners()
    recognizer.addErrorListener(_Strict())


def _written(elements: Sequence[object], *, proto3: bool) -> Iterator[ProtoMessage | None]:
    for element in elements:
        if isinstance(element, ast.Message | ast.Group):
            fields = list(_fields(element.elements, proto3=proto3))
            yield ProtoMessage(fields, list(_written(element.elements, proto3=proto3)))
        elif isinstance(element, ast.MapField):
            yield None


def _fields(elements: Sequence[object], *, proto3: bool) -> Iterator[ProtoField]:
    for element in elements:
        if isinstance(element, ast.OneOf):
            yield from _fields(element.elements, proto3=False)
        elif isinstance(element, ast.Field):
            repeated = element.cardinality is ast.FieldCardinality.REPEATED
            kind = "" if repeated or element.type not in SCALARS else element.type
            yield ProtoField(element.name, element.number, kind, proto3 and element.cardinality is None)


def _described(message: DescriptorProto, *, proto3: bool) -> ProtoMessage | None:
    if message.options.map_entry:
        return None
    fields: list[ProtoField] = []
    for one in message.field:
        repeated = one.label == FieldDescriptorProto.LABEL_REPEATED
        kind = "" if repeated else _NAMES.get(one.type, "")
        fields.append(ProtoField(one.name, one.number, kind, proto3 and not one.HasField("oneof_index")))
    return ProtoMessage(fields, [_described(inner, proto3=proto3) for inner in message.nested_type])
