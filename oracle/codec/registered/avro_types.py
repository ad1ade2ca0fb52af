"""A writer's Avro schema, made harmless before the library sees it.

Whoever may register a schema may register one whose messages never end, or a schema that unpacks to a thousand times
its length. So from the text nothing is taken over but names, types, symbols and sizes, and refused is

  * what takes no bytes outside a union (null, fixed of size 0, records without fields): an array may claim 2^62 of it;
  * what contains itself, and what is nested more than 16 deep with all names resolved.

What is left is read in time proportional to a message's length. Logical types mean nothing here but that of a decimal,
whose digits after the point are noted.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from oracle.codec.json.bodies import too_deep
from oracle.codec.registered.written import UnfitError

__all__ = ["harmless", "scale_of", "types_of"]

_PLAIN: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_DEEPEST: Final = 16
_LARGEST: Final = 4096
"""Most types of a schema, with all names resolved."""

_MOST_SYMBOLS: Final = 1 << 16
"""Of all enums together, with all names resolved."""

_LARGEST_FIXED: Final = 1 << 20
_TOO_LARGE: Final = f"at most {_LARGEST} types, nested at most {_DEEPEST} deep, none within itself"
_NO_AVRO: Final = "a schema in Avro"


def harmless(text: str) -> dict[str, Any]:
    """Return a schema of a record with what messages are read by, and no more.

    Raises:
        UnfitError: It is none, or would do harm.
    """
    data = text.encode(errors="surrogatepass")
    if too_deep(data):
        raise UnfitError(_TOO_LARGE)
    try:
        schema = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise UnfitError(_NO_AVRO) from exc
    found = _Walk().visit(schema, "", 0)
    if not isinstance(found, dict) or found["type"] != "record":
        raise UnfitError("a record")
    return found


def types_of(kind: Any) -> set[str]:  # noqa: ANN401 -- a part of a schema
    """Return what values of a harmless type may be: names of types, of a union those of its branches."""
    branches = kind if isinstance(kind, list) else [kind]
    return {branch["type"] if isinstance(branch, dict) else branch for branch in branches}


def scale_of(kind: Any) -> int | None:  # noqa: ANN401 -- a part of a schema
    """Return the digits behind the point of a harmless type's decimals; None if there are none, or two kinds."""
    branches = kind if isinstance(kind, list) else [kind]
    scales = {one["scale"] for one in branches if isinstance(one, dict) and "scale" in one}
    return scales.pop() if len(scales) == 1 else None


class _Walk:
    """One walk through a schema. A name that is met again is resolved: its type is written out once more."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self._count = 0
        self._symbols = 0

    def visit(self, node: Any, space: str, depth: int, *, in_union: bool = False) -> Any:  # noqa: ANN401, C901, PLR0911
        self._count += 1
        if depth > _DEEPEST or self._count > _LARGEST:
            raise UnfitError(_TOO_LARGE)
        if isinstance(node, str):
            if node in _PLAIN or (node == "null" and in_union):
                return node
            return self._again(node, space, depth)
        if isinstance(node, list) and node and not in_union:
            return [self.visit(branch, space, depth + 1, in_union=True) for branch in node]
        if not isinstance(node, Mapping):
            raise UnfitError(_NO_AVRO)
        kind = node.get("type")
        if kind == "array":
            return {"type": "array", "items": self.visit(node.get("items"), space, depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.visit(node.get("values"), space, depth + 1)}
        if kind == "record":
            return self._record(node, space, depth)
        if kind == "enum":
            return self._enum(node, space)
        if kind == "fixed":
            return self._fixed(node, space)
        if kind == "bytes":
            return _decimal(node, "bytes")
        return self.visit(kind, space, depth + 1, in_union=in_union)

    def _again(self, name: str, space: str, depth: int) -> Any:  # noqa: ANN401 -- a part of a schema
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self._named or full in self._open else name
        if full in self._open or full not in self._named:
            raise UnfitError(_TOO_LARGE if full in self._open else _NO_AVRO)
        original, its_space = self._named[full]
        return self._defined(original, its_space, depth)

    def _defined(self, node: Mapping[str, Any], space: str, depth: int) -> Any:  # noqa: ANN401 -- a part of a schema
        kept = dict(self._named)
        try:
            return self.visit(node, space, depth)
        finally:
            self._named = kept

    def _name(self, node: Mapping[str, Any], space: str) -> tuple[str, str]:
        """Note a name, and return it in full with the namespace of what is within."""
        name, declared = node.get("name"), node.get("namespace", space)
        if not isinstance(name, str) or not isinstance(declared, str) or not name:
            raise UnfitError(_NO_AVRO)
        full = name if "." in name or not declared else f"{declared}.{name}"
        self._named[full] = (node, space)
        return full, full.rpartition(".")[0]

    def _record(self, node: Mapping[str, Any], space: str, depth: int) -> dict[str, Any]:
        full, inner = self._name(node, space)
        fields = node.get("fields")
        if not isinstance(fields, list) or not fields:
            raise UnfitError("records with fields")
        self._open.add(full)
        found: list[dict[str, Any]] = []
        for field in fields:
            if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
                raise UnfitError(_NO_AVRO)
            found.append({"name": field["name"], "type": self.visit(field.get("type"), inner, depth + 1)})
        self._open.discard(full)
        only = found[0]["type"]
        if depth and len(found) == 1 and isinstance(only, dict) and only["type"] == "record":
            return only  # of the same bytes: else a byte would become an object for each of them
        return {"type": "record", "name": self._own_name(), "fields": found}

    def _enum(self, node: Mapping[str, Any], space: str) -> dict[str, Any]:
        self._name(node, space)
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not symbols:
            raise UnfitError(_NO_AVRO)
        self._symbols += len(symbols)
        if self._symbols > _MOST_SYMBOLS:
            raise UnfitError(f"at most {_MOST_SYMBOLS} symbols of all enums together")
        if not all(isinstance(one, str) for one in symbols):
            raise UnfitError(_NO_AVRO)
        return {"type": "enum", "name": self._own_name(), "symbols": symbols}

    def _fixed(self, node: Mapping[str, Any], space: str) -> dict[str, Any]:
        self._name(node, space)
        size = node.get("size")
        if type(size) is not int or not 0 < size <= _LARGEST_FIXED:
            raise UnfitError(f"fixed sizes from 1 to {_LARGEST_FIXED} bytes")
        return _decimal(node, "fixed") | {"name": self._own_name(), "size": size}

    def _own_name(self) -> str:
        """Return a name for a type that is written out: two of the same name would be one to the library."""
        self._count += 1
        return f"T{self._count}"


def _decimal(node: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return bytes, with `scale` where they are a decimal's; the library passes the word over."""
    scale = node.get("scale", 0)
    if node.get("logicalType") == "decimal" and type(scale) is int and 0 <= scale <= 15:  # noqa: PLR2004 -- a decimal's digits
        return {"type": kind, "scale": scale}
    return {"type": kind}
