"""What all JSON messages have in common, whatever they ask: limits, ids, UTF-8, nesting, and how a rejection reads."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from oracle.codec.json.runs import read_together
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import Plan

__all__ = ["BAD_ID", "Identifier", "JsonBodies", "too_deep"]

Identifier = str | int | None

BAD_ID: Final = Rejection(Reason.BAD_ID, "id", "a string, or an integer of 64 bits")
_NUMBER_LIMIT: Final = 2**63

_DEPTH_LIMIT: Final = 64
_SHALLOW_BYTES: Final = 2 * _DEPTH_LIMIT  # JSON that is nested deeper than the limit is longer
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_TOO_DEEP: Final = Rejection(Reason.MALFORMED, "body", f"one JSON object, nested at most {_DEPTH_LIMIT} deep")


def too_deep(body: bytes) -> bool:
    """Return whether brackets outside strings are nested deeper than the limit.

    The decoder's own limit depends on the caller's stack, so it must never be what decides whether a message is a
    query.
    """
    if body.count(b"[") + body.count(b"{") <= _DEPTH_LIMIT:
        return False
    brackets = np.frombuffer(_STRINGS.sub(b"", body).translate(None, _NOT_BRACKETS), dtype=np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return bool(steps.size) and int(np.cumsum(steps).max()) > _DEPTH_LIMIT


class _OnlyId(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"null")


class JsonBodies:
    """Reads bodies that hold one object with an `id`, and writes rejections."""

    _values: ClassVar[str] = "x"
    """The field whose values are meant where the decoder does not tell which."""

    def __init__(self, plan: Plan) -> None:
        self._limits = plan.limits
        self._model = msgspec.json.encode(plan.name)
        self._id_decoder = msgspec.json.Decoder(_OnlyId)

    def _read_together(self, decoder: msgspec.json.Decoder[Any], bodies: Sequence[bytes]) -> list[Any] | None:
        """Return what `_read` would of each, if none is rejected; None if any is, or might be."""
        longest = max(map(len, bodies))
        if longest > self._limits.body_bytes or (longest > _SHALLOW_BYTES and any(map(too_deep, bodies))):
            return None
        messages = read_together(decoder, bodies)
        if messages is None or not self._are_identifiers([message.id for message in messages], longest):
            return None
        return messages

    def _are_identifiers(self, identifiers: Sequence[Identifier], longest: int) -> bool:
        """Return whether all ids are within their limits; `longest` is the longest body, and no id is longer."""
        kinds = set(map(type, identifiers))
        if int in kinds and not all(
            -_NUMBER_LIMIT <= one < _NUMBER_LIMIT for one in identifiers if isinstance(one, int)
        ):
            return False
        if longest <= self._limits.id_bytes:
            return True
        return all(
            len(one.encode(errors="surrogatepass")) <= self._limits.id_bytes
            for one in identifiers
            if isinstance(one, str)
        )

    def _read(self, decoder: msgspec.json.Decoder[Any], body: bytes) -> Any | Rejection:  # noqa: ANN401 -- a struct made at run time
        """Return the message of a body, or what is wrong with its bytes or its id.

        Raises:
            msgspec.ValidationError: It is JSON, but a field has another type.
        """
        limit = self._limits.body_bytes
        if len(body) > limit:
            return Rejection(Reason.OVERSIZED, "body", f"at most {limit} bytes")
        if too_deep(body):
            return _TOO_DEEP
        try:
            if not body.isascii():
                body.decode()  # also where the bad bytes are in a field that is not read
            message = decoder.decode(body)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            return self._not_json(body, exc)
        return self._bad_id(message.id) or message

    def _bad_id(self, identifier: Identifier) -> Rejection | None:
        if isinstance(identifier, str) and len(identifier.encode(errors="surrogatepass")) > self._limits.id_bytes:
            return Rejection(Reason.BAD_ID, "id", f"at most {self._limits.id_bytes} bytes of UTF-8")
        if isinstance(identifier, int) and not -_NUMBER_LIMIT <= identifier < _NUMBER_LIMIT:
            return BAD_ID
        return None

    def _not_json(self, body: bytes, error: Exception) -> Rejection:
        if isinstance(error, msgspec.DecodeError) and "out of range" in str(error):
            return Rejection(Reason.NOT_FINITE, self._values, "finite float64 numbers")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return Rejection(Reason.NOT_UTF8, "body", "UTF-8")
        if "NaN" in text or "Infinity" in text:
            return Rejection(Reason.NOT_FINITE, "body", "JSON, which has no NaN and no Infinity")
        return Rejection(Reason.MALFORMED, "body", "one JSON object")

    def encode_rejection(self, body: bytes | None, rejection: Rejection) -> bytes:
        """Encode a rejection; the asker's id is given back where it can be read and is within its limit."""
        return b'{"id":%b,"error":%b,"field":%b,"bound":%b,"model":%b}' % (
            self._readable_id(body),
            msgspec.json.encode(rejection.reason),
            msgspec.json.encode(rejection.field),
            msgspec.json.encode(rejection.bound),
            self._model,
        )

    def _readable_id(self, body: bytes | None) -> bytes:
        if body is None or len(body) > self._limits.body_bytes or too_deep(body):
            return b"null"
        try:
            identifier = msgspec.json.decode(self._id_decoder.decode(body).id, type=Identifier)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return b"null"
        shown = str(identifier).encode()
        return msgspec.json.encode(identifier) if len(shown) <= self._limits.id_bytes else b"null"
