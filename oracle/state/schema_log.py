"""What a registry said of schemas, kept beside a shard's snapshots, so that a log means the same when read again.

A file of one JSON object a line, all of it public:

    {"id":7,"kind":"AVRO","schema":"...","references":false}    what a schema's id means, for ever
    {"unknown":[1042,1043]}                                     messages that end there had a schema that nobody knew

A line is durable before any answer to the messages that it is about is. What the registry had not when a message was
first read may be there later: so it is the message's position that is kept, and only while the message may be read
again. A crash may leave a line cut; then none of its messages was answered, and it is passed over.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from oracle import durable
from oracle.errors import StorageError
from oracle.state.files import replace_durably

__all__ = ["KeptSchema", "SchemaLog"]


class KeptSchema(msgspec.Struct, frozen=True):
    """What an id means.

    Attributes:
        kind: What the schema is in, by the registry's own names.
        references: Whether it names other schemas.
    """

    id: int
    kind: str
    schema: str
    references: bool = False


class _Line(msgspec.Struct):
    id: int = -1
    kind: str = ""
    schema: str = ""
    references: bool = False
    unknown: list[int] = []


class SchemaLog:
    """One shard's file, for one registry.

    Several processes may hold the shard's folder, of which only one can commit: lines are whole writes, and what the
    others add or miss is about messages that they will not answer.

    Args:
        path: The file; nothing is made before there is something to keep.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(_Line)

    def open(self, position: int, saved: int = 0) -> tuple[list[KeptSchema], frozenset[int]]:
        """Return all schemas, and the positions behind `position` of messages whose schema was unknown.

        Positions up to `saved` are dropped from the file: no message up to there is read again.

        Raises:
            StorageError: It cannot be read or written.
        """
        try:
            lines = durable.read(self._path).split(b"\n")
        except FileNotFoundError:
            return [], frozenset()
        except OSError as exc:
            raise StorageError(f"{self._path}: cannot be read: {exc.strerror}") from exc
        schemas: dict[int, KeptSchema] = {}
        unknown: set[int] = set()
        for line in filter(None, lines):
            try:
                found = self._decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            unknown.update(found.unknown)
            if found.id >= 0:
                schemas[found.id] = KeptSchema(found.id, found.kind, found.schema, found.references)
        needed = sorted(one for one in unknown if one > saved)
        if len(needed) < len(unknown):
            kept: list[object] = [*schemas.values(), *([{"unknown": needed}] if needed else [])]
            replace_durably(self._path, b"".join(map(_line, kept)))
        return list(schemas.values()), frozenset(one for one in unknown if one > position)

    def keep(self, schemas: Iterable[KeptSchema], unknown: Iterable[int]) -> None:
        """Add what schemas mean, and positions of messages whose schema is unknown; all durable, or `StorageError`."""
        positions = list(unknown)
        lines: list[object] = [*schemas, *([{"unknown": positions}] if positions else [])]
        if not lines:
            return
        try:
            descriptor = durable.open_lasting(self._path, os.O_APPEND)
            try:
                durable.write_all(descriptor, b"".join(map(_line, lines)))
                durable.sync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as exc:
            raise StorageError(f"{self._path}: cannot be written: {exc.strerror}") from exc


def _line(content: object) -> bytes:
    return b"\n" + msgspec.json.encode(content) + b"\n"
