"""A writer's Protobuf schema: its messages with their scalar fields, and no more. Needs protobuf.

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
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from oracle.codec.registered.proto_text import Statement, read_statements
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
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]++={0,2}\s*+")
"""It gives nothing back: spaces that may be of either part would be looked at as often as there are spaces."""

_LONGEST_TEXT: Final = 1 << 16
_DEEPEST: Final = 32
_NO_PROTO: Final = f"a .proto file of at most {_LONGEST_TEXT >> 10} KiB, nested at most {_DEEPEST} deep"
_LABELS: Final = frozenset({"optional", "required", "repeated"})
_OTHERS: Final = {("option",), ("reserved",), ("extensions",), ("import",), ("package",), ("syntax",), ("edition",), ()}
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}|0[xX][0-9a-fA-F]{1,8}|0[0-7]{1,11}")


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
    if len(text) > _LONGEST_TEXT:
        raise UnfitError(_NO_PROTO)
    if _BASE64.fullmatch(text):
        try:
            found = FileDescriptorProto.FromString(base64.b64decode(text))
        except (binascii.Error, DecodeError) as exc:
            raise UnfitError(_NO_PROTO) from exc
        return _some([_described(one, proto3=found.syntax == "proto3") for one in found.message_type])
    statements = read_statements(text, _DEEPEST)
    if statements is None:
        raise UnfitError(_NO_PROTO)
    syntax = next((one.words[2] for one in statements if one.words[:2] == ("syntax", "=") and len(one.words) > 2), "")  # noqa: PLR2004
    return _some(list(_written(statements, proto3=syntax.strip("\"'") == "proto3")))


def _some(messages: list[ProtoMessage | None]) -> list[ProtoMessage | None]:
    if not messages:
        raise UnfitError(_NO_PROTO)
    return messages


def _written(statements: Sequence[Statement], *, proto3: bool) -> Iterator[ProtoMessage | None]:
    for one in statements:
        if one.words[:1] == ("message",) and one.block is not None:
            yield ProtoMessage(list(_fields(one.block, proto3=proto3)), list(_written(one.block, proto3=proto3)))
        elif one.words[:1] == ("map",) or "group" in one.words[:2]:
            yield None  # the library makes a message of it


def _fields(statements: Sequence[Statement], *, proto3: bool) -> Iterator[ProtoField]:
    for one in statements:
        if one.words[:1] == ("oneof",) and one.block is not None:
            yield from _fields(one.block, proto3=False)
        elif one.block is None and one.words[:1] not in _OTHERS:
            label, *words = one.words if one.words[0] in _LABELS else ("", *one.words)
            if words[2:3] != ["="]:
                continue  # of a map, or nothing that we know
            kind, name, _, number, *rest = [*words, ""]
            if not _NUMBER.fullmatch(number) or (rest[0] not in {"", "["}):
                raise UnfitError(_NO_PROTO)
            scalar = kind if kind in SCALARS and label != "repeated" else ""
            yield ProtoField(name, int(number, 0), scalar, proto3 and not label)


def _described(message: DescriptorProto, *, proto3: bool) -> ProtoMessage | None:
    if message.options.map_entry:
        return None
    fields: list[ProtoField] = []
    for one in message.field:
        repeated = one.label == FieldDescriptorProto.LABEL_REPEATED
        kind = "" if repeated else _NAMES.get(one.type, "")
        fields.append(ProtoField(one.name, one.number, kind, proto3 and not one.HasField("oneof_index")))
    return ProtoMessage(fields, [_described(inner, proto3=proto3) for inner in message.nested_type])
