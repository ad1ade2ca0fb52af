"""deploy/REFERENCE.md: every key of model files and configurations, as one page of tables."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from oracle.planning.schemas import bound_in_words
from tests.reference.examples import FILES, at, where
from tests.reference.keys import Key, Table, config_tables, model_tables

_HEAD: Final = """\
# Every key

Made by `make reference` from the types that read the files; do not edit it. Tests hold it against them: every key is
here, every example is read, and what is outside a range is refused by name.

A dash is no default: the key is left out. A relative path is relative to the folder that the command is run in.

## The model file

What `perpetua plan`, `evaluate` and `init` read. It holds the table `[model]` and nothing else.
"""

_CONFIGURATION: Final = """\
## The configuration

What `perpetua serve`, `check` and `topics` read. Every key can come from the environment instead, which goes before the
file: `PERPETUA_`, the names of the tables and the key in capitals, and two underscores between them, as in
`PERPETUA_SERVICE__LOG=json`. Where there are `[[models]]`, it goes before each of them.

`source.kind` and `sink.kind` say which keys `[source]` and `[sink]` have: `jsonl` or `parquet` (both of them, or
neither), `stdin` and `stdout`, `kafka` with `[kafka]`, `mqtt` with `[mqtt]`, `http` with `[http]`.
"""

_TYPES: Final = {
    "boolean": "`true` or `false`",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "a table",
}
"""JSON Schema's types, in words."""


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD, *map(_table, model_tables()), _CONFIGURATION, *map(_table, config_tables())]
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = f"### {table.title}\n\n{table.says}\n"
    if not table.keys:
        return head
    rows = "".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in _row(table, key))} |\n" for key in table.keys
    )
    return f"{head}\n| key | may be | unit | default | what it says | example |\n|---|---|---|---|---|---|\n{rows}"


def _row(table: Table, key: Key) -> Iterator[str]:
    yield f"`{key.name}`"
    yield _may_be(key.schema)
    yield key.unit
    yield _default(key)
    yield key.says
    yield _example(table, key)


def _may_be(schema: Mapping[str, Any]) -> str:
    """Return type and range."""
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{_toml(choice)}`" for choice in schema.get("enum", [schema.get("const")]))
    if "$ref" in schema:
        return "a table"
    if schema.get("format") == "path":
        return "a path"
    bound = bound_in_words(schema)
    number = schema.get("type") in {"integer", "number"}
    if bound and not number:
        each = bound_in_words(schema.get("items") or {})
        return f"{bound}, each {each}" if each else bound
    comma = "" if not bound or bound.startswith(("from", "above")) else ","
    return f"{_TYPES[schema['type']]}{comma} {bound}".rstrip()


def _default(key: Key) -> str:
    default = key.schema.get("default")
    if key.required:
        return "must be set"
    return "–" if default is None or isinstance(default, dict) else f"`{_toml(default)}`"


def _example(table: Table, key: Key) -> str:
    if key.schema.get("writeOnly"):
        return f"`PERPETUA_{'__'.join((*table.path, key.name)).upper()}=...`"
    place = next(where(table.path, key.name, table.chosen))
    name = ".".join((*table.path, key.name))
    if "$ref" in key.schema:
        return f"`[{name}]`"
    value = at(FILES[place.file], (*place.path, key.name))
    if "$ref" in (key.schema.get("items") or {}) and value:
        return f"`[[{name}]]`"
    return f"`{key.name} = {_toml(value)}`"


def _toml(value: object) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(inner)}' for key, inner in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
