"""The schemas that queries were written by, each read once and kept: by their ids, which never change their meaning."""

from collections.abc import Callable, Sequence
from typing import Final

from connectors.base import AVRO
from oracle.codec.registered.frames import NO_FRAME, frame_of
from oracle.codec.registered.written import Read, Reader, UnfitError, refused_identifier
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import Plan

__all__ = ["UNKNOWN", "Writers"]

UNKNOWN: Final = Rejection(Reason.UNKNOWN_SCHEMA, "schema", "the id of a schema that the registry has")

_Read = Callable[[Sequence[int]], Reader | Rejection]
"""From the way to a message within a schema to its reader."""


class Writers:
    """Reads the messages of one model, whosever schema they are in.

    Args:
        content_type: `AVRO` or `PROTOBUF`: what all of them are in.
    """

    def __init__(self, plan: Plan, content_type: str) -> None:
        self.content_type = content_type
        self._plan = plan
        self._known: dict[int, _Read] = {}
        self._texts: dict[int, tuple[str, str, bool]] = {}

    def __contains__(self, schema: int) -> bool:
        return schema in self._known

    def add(self, schema: int, kind: str, text: str, *, references: bool) -> None:
        """Take a schema in, as its registry gives it out: it may be anything, and takes a while.

        Args:
            schema: Its id.
            kind: What it is in, by the registry's own names.
            text: The schema; empty where it was too long.
            references: Whether it names other schemas.
        """
        given = kind, text, references
        if self._texts.get(schema) == given:
            return
        try:
            read = self._avro if self.content_type == AVRO else self._protobuf
            self._known[schema] = read(kind, text, references=references)
        except (MemoryError, RecursionError, OSError):
            raise  # of the machine or the caller: nothing may be unfit for it
        except Exception as exc:  # noqa: BLE001 -- of libraries: whoever registers a schema must not stop the daemon
            rejection = (exc if isinstance(exc, UnfitError) else UnfitError("one that can be read")).rejection
            self._known[schema] = lambda _path: rejection
        self._texts[schema] = given

    def _avro(self, kind: str, text: str, *, references: bool) -> _Read:
        from oracle.codec.registered.avro import AvroReader  # noqa: PLC0415 -- the extra is optional

        if kind != "AVRO" or references or not text:
            raise UnfitError("one in Avro, of at most 1 MiB, without references to others")
        reader = AvroReader(self._plan, text)
        return lambda _path: reader

    def _protobuf(self, kind: str, text: str, *, references: bool) -> _Read:  # noqa: ARG002 -- what is imported is not read
        from oracle.codec.registered.protobuf import ProtobufFile  # noqa: PLC0415 -- the extra is optional

        if kind != "PROTOBUF" or not text:
            raise UnfitError("one in Protobuf, of at most 1 MiB")
        return ProtobufFile(self._plan, text).reader

    def read(self, body: bytes) -> Read | Rejection:
        """Return a query's id and values, or why it is none. Its schema must be known."""
        limits = self._plan.limits
        if len(body) > limits.body_bytes:
            return Rejection(Reason.OVERSIZED, "body", f"at most {limits.body_bytes} bytes")
        frame = frame_of(body, self.content_type)
        if frame is None:
            return NO_FRAME
        reader = self._known[frame.schema](frame.path)
        read = reader if isinstance(reader, Rejection) else reader.read(frame.payload)
        if isinstance(read, Rejection):
            return read
        return refused_identifier(read.identifier, limits.id_bytes) or read
