"""CloudEvents in structured mode (one JSON object, version 1.0): what is in them, and their answers as such events.

The data is what a message is without an envelope: JSON as `data`, anything in base64 as `data_base64`, of the type that
`datacontenttype` says. The envelope counts towards the limits, and is as deep as any JSON may be.
"""

import base64
import dataclasses
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from connectors.base import ARROW_STREAM, JSON, REGISTERED, Deliveries, Rejected, Replies
from connectors.events import ANSWER_ID, CAUSE, CLOUD_EVENT, TYPE, VERSION, source_of
from oracle.codec.decoded import DecodedBatch
from oracle.codec.guarded import Codec
from oracle.codec.json.bodies import too_deep
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.model import Limits
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers

__all__ = ["Event", "EventCodec", "data_of", "open_events"]

_BATCH: Final = "application/cloudevents-batch+json"
_REFUSED: Final = "refused"
"""In place of a content type: what an envelope that is none has; no codec takes it."""

_WHOLE: Final = "one CloudEvent as JSON: specversion, id, source, type, and data or data_base64"
_BACK: Final = ("subject", "correlationid", "partitionkey", "traceparent", "tracestate")
_NOTHING: Final = msgspec.Raw(b"")


class Event(NamedTuple):
    """What an envelope holds.

    Attributes:
        body: Its data; or why there is none.
        content_type: Of the data.
        attributes: What its answer gives back: names and JSON.
    """

    body: bytes | Rejection
    content_type: str
    attributes: tuple[tuple[str, bytes], ...] = ()


class _Envelope(msgspec.Struct):
    """Attributes that are looked at; all others are passed over."""

    specversion: str
    id: msgspec.Raw
    source: str
    type: str
    datacontenttype: str | None = None
    data: msgspec.Raw = _NOTHING
    data_base64: bytes | None = None
    subject: msgspec.Raw = _NOTHING
    correlationid: msgspec.Raw = _NOTHING
    partitionkey: msgspec.Raw = _NOTHING
    traceparent: msgspec.Raw = _NOTHING
    tracestate: msgspec.Raw = _NOTHING


_decoder = msgspec.json.Decoder(_Envelope)


class EventCodec:
    """Decodes and encodes as another codec does, events too.

    Args:
        codec: That one.
        plan: Whose limits an envelope must keep.
    """

    def __init__(self, codec: Codec, plan: Plan) -> None:
        self._codec = codec
        self._limits = plan.limits
        head = {"source": source_of(plan.name), "type": TYPE}
        self._head = msgspec.json.encode({"specversion": VERSION} | head)[:-1]

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries in order."""
        events = open_events(deliveries, self._limits)
        if not events:
            return self._codec.decode(deliveries)
        batch = self._codec.decode(data_of(deliveries, events))
        parts = [
            event.body if event is not None and isinstance(event.body, Rejection) else part
            for event, part in zip(events, batch.parts, strict=True)
        ]
        return dataclasses.replace(batch, deliveries=deliveries, parts=parts)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode one reply for each delivery; those to events are events, one to a batch of them is not."""
        given = batch.deliveries
        events = open_events(given, self._limits)
        if not events:
            return self._codec.encode(batch, answers)
        made = self._codec.encode(dataclasses.replace(batch, deliveries=data_of(given, events)), answers)
        bodies, kinds, headers, rejected = map(
            list[object], (made.bodies, made.content_types, made.headers, made.rejected)
        )
        for number, event in enumerate(events):
            if event is None:
                continue
            if given.content_types[number] == CLOUD_EVENT:
                own = dict(given.headers[number])[ANSWER_ID]
                bodies[number] = self._packed(made.bodies[number], made.content_types[number], own, event)
                kinds[number] = CLOUD_EVENT
                headers[number] = tuple(pair for pair in given.headers[number] if pair[0] != ANSWER_ID)
            note = made.rejected[number]
            if note is not None:
                rejected[number] = Rejected(note.reason, note.position, given.bodies[number] or b"")
        return Replies(bodies, kinds, headers, made.keys, rejected)  # type: ignore[arg-type] # of what they were

    def _packed(self, body: bytes, content_type: str, own: bytes, event: Event) -> bytes:
        kind, data = b'"datacontenttype":' + msgspec.json.encode(content_type), b'"data":' + body
        if content_type != JSON:
            data = b'"data_base64":"' + base64.b64encode(body) + b'"'
        back = [b'"%b":%b' % (name.encode(), value) for name, value in event.attributes]
        return b"%b}" % b",".join([self._head, b'"id":"%b"' % own, *back, kind, data])


def open_events(deliveries: Deliveries, limits: Limits) -> Sequence[Event | None]:
    """Return what is in each delivery that is an event in structured mode, None for any other; [] if none is."""
    kinds = deliveries.content_types
    if kinds.count(JSON) == len(kinds) or kinds.count(CLOUD_EVENT) + kinds.count(_BATCH) == 0:
        return []
    return [
        _opened(body, limits, kind) if body is not None and kind in {CLOUD_EVENT, _BATCH} else None
        for body, kind in zip(deliveries.bodies, kinds, strict=True)
    ]


def data_of(deliveries: Deliveries, events: Sequence[Event | None]) -> Deliveries:
    """Return deliveries as if the data of events had come without envelopes; `events` is what `open_events` gives."""
    if not events:
        return deliveries
    pairs = list(zip(events, deliveries.bodies, deliveries.content_types, strict=True))
    bodies = [body if event is None else _bytes(event.body) for event, body, _ in pairs]
    kinds = [_plain_kind(kind, body) if event is None else event.content_type for event, body, kind in pairs]
    return dataclasses.replace(deliveries, bodies=bodies, content_types=kinds)


def _bytes(body: bytes | Rejection) -> bytes:
    return b"" if isinstance(body, Rejection) else body


def _plain_kind(kind: str, body: bytes | None) -> str:
    """Return the content type of what is no event; a round with no query is one whatever it says that it is."""
    return JSON if body is None and kind != REGISTERED else kind


def _refused(reason: Reason, field: str, bound: str, attributes: tuple[tuple[str, bytes], ...] = ()) -> Event:
    return Event(Rejection(reason, field, bound), _REFUSED, attributes)


def _opened(body: bytes, limits: Limits, content_type: str) -> Event:
    if content_type == _BATCH:
        return _refused(Reason.UNSUPPORTED_CONTENT, "content type", f"{CLOUD_EVENT}, one event a message")
    most = max(limits.body_bytes, limits.batch_bytes)
    if len(body) > most:
        return _refused(Reason.OVERSIZED, "body", f"at most {most} bytes")
    try:
        envelope = _read(body)
    except UnicodeDecodeError:
        return _refused(Reason.NOT_UTF8, "body", "UTF-8")
    except (msgspec.DecodeError, RecursionError):
        envelope = None
    if envelope is None:
        return _refused(Reason.MALFORMED, "body", _WHOLE)
    return _checked(envelope, len(body), limits)


def _read(body: bytes) -> _Envelope | None:
    if too_deep(body):
        return None
    if not body.isascii():
        body.decode()
    return _decoder.decode(body)


def _checked(envelope: _Envelope, size: int, limits: Limits) -> Event:
    given = [(CAUSE, bytes(envelope.id)), *((name, bytes(getattr(envelope, name))) for name in _BACK)]
    back = tuple((name, text) for name, text in given if text.startswith(b'"'))
    for name, text in given:
        if (text and not text.startswith(b'"')) or (name == CAUSE and text == b'""'):
            return _refused(Reason.MALFORMED, "id" if name == CAUSE else name, "a string of some characters", back)
    kind = (envelope.datacontenttype or "").partition(";")[0].strip().lower() or JSON
    most = limits.batch_bytes if kind == ARROW_STREAM else limits.body_bytes
    if envelope.specversion != VERSION:
        return _refused(Reason.MALFORMED, "specversion", f'"{VERSION}"', back)
    if size > most:
        return _refused(Reason.OVERSIZED, "body", f"at most {most} bytes", back)
    if bool(bytes(envelope.data)) == (envelope.data_base64 is not None):
        return _refused(Reason.MALFORMED, "data", "data or data_base64", back)
    data = envelope.data_base64
    return Event(bytes(envelope.data) if data is None else data, kind, back)
