"""Messages in Protobuf: queries of any writer's schema that fits the model, and replies. Needs protobuf."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from connectors.base import PROTOBUF
from oracle.codec.json.bodies import Identifier
from oracle.codec.json.messages import RESTING
from oracle.codec.registered.frames import frame_start
from oracle.codec.registered.names import IDENTIFIER, IDENTIFIER_NUMBER, field_names
from oracle.codec.registered.padding import padded
from oracle.codec.registered.proto_schemas import proto_answer
from oracle.codec.registered.proto_types import SCALARS, ProtoField, ProtoMessage, messages_of
from oracle.codec.registered.written import NOT_ONE, Read, Reader, UnfitError, refuse_strangers
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL

__all__ = ["ProtobufAnswers", "ProtobufFile", "protobuf_answers"]

_WHOLE: Final = frozenset(kind for kind in SCALARS if "int" in kind or "fixed" in kind)
_NUMBERS: Final = _WHOLE | {"double", "float"}
_TAKES: Final = {
    "number": _NUMBERS,
    "string": frozenset({"string"}),
    "category": frozenset({"string"}),
    "date": _WHOLE | {"string"},
    "decimal": _WHOLE | {"string"},
}
_NO_MESSAGE: Final = Rejection(Reason.MALFORMED, "body", "the number of a message that its schema has")


class ProtobufFile:
    """Reads what one schema wrote: each of its messages by itself, by the names of its fields.

    Raises:
        UnfitError: It is no schema in Protobuf.
    """

    def __init__(self, plan: Plan, text: str) -> None:
        self._plan = plan
        self._messages = messages_of(text)
        self._readers: dict[tuple[int, ...], Reader | Rejection] = {}

    def reader(self, path: Sequence[int]) -> Reader | Rejection:
        """Return the reader of the message at a path, or why there is none."""
        key = tuple(path)
        if key not in self._readers:
            message = self._at(key)
            if message is None:
                return _NO_MESSAGE  # not kept: there is no end of such paths
            try:
                self._readers[key] = _MessageReader(self._plan, message)
            except UnfitError as exc:
                self._readers[key] = exc.rejection
        return self._readers[key]

    def _at(self, path: Sequence[int]) -> ProtoMessage | None:
        found, within = None, self._messages
        for index in path:
            found = within[index] if 0 <= index < len(within) else None
            if found is None:
                return None
            within = found.nested
        return found


class _MessageReader:
    """Reads one message of a schema."""

    def __init__(self, plan: Plan, message: ProtoMessage) -> None:
        given = {field.name: field for field in message.fields}
        self._fields = field_names(plan.features)
        refuse_strangers(plan, self._fields, given)
        for feature, name in zip(plan.features, self._fields, strict=True):
            if name in given and given[name].kind not in _TAKES[feature.kind]:
                raise UnfitError(f"{' or '.join(sorted(_TAKES[feature.kind]))}, for {feature.accepts}", name)
        identifiers = [name for name in (IDENTIFIER, IDENTIFIER_NUMBER) if name in given and given[name].kind]
        asked = [given[name] for name in (*self._fields, *identifiers) if name in given]
        self._implicit = {field.name for field in asked if field.implicit}
        self._there = {field.name for field in asked}
        self._identifiers = identifiers
        self._class = _message_class(asked)

    def read(self, payload: bytes) -> Read | Rejection:
        """See `Reader.read`."""
        try:
            message = self._class.FromString(payload)
        except DecodeError:
            return NOT_ONE
        has, implicit = message.HasField, self._implicit
        identifier = None
        for name in self._identifiers:
            if has(name):
                identifier = getattr(message, name)
                break
        there = self._there
        values = [
            getattr(message, name) if name in implicit or (name in there and has(name)) else None
            for name in self._fields
        ]
        return Read(identifier, values)


def _message_class(fields: Sequence[ProtoField]) -> Any:  # noqa: ANN401 -- a class made at run time
    """Return a class of messages that have these fields, each there or not there.

    Raises:
        UnfitError: Names or numbers are none, or used twice.
    """
    try:
        file = FileDescriptorProto(name="message.proto", syntax="proto3")
        message = file.message_type.add(name="Message")
        for index, field in enumerate(fields):
            message.field.add(
                name=field.name,
                number=field.number,
                type=SCALARS[field.kind],
                label=FieldDescriptorProto.LABEL_OPTIONAL,
                oneof_index=index,
                proto3_optional=True,
                json_name=f"f{index}",
            )
            message.oneof_decl.add(name=f"_{index}")
        pool = DescriptorPool()
        pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName("Message"))
    except (TypeError, ValueError, KeyError) as exc:
        raise UnfitError("fields with names and numbers of their own") from exc


def protobuf_answers(plan: Plan) -> Callable[[bytes], Mapping[str, Any] | None]:
    """Return what reads the replies of a model: the fields that one has, or None of a payload that is not one."""
    kind = _answer_class(plan)

    def read(payload: bytes) -> Mapping[str, Any] | None:
        try:
            message = kind.FromString(payload)
        except DecodeError:
            return None
        return {field.name: value for field, value in message.ListFields()}

    return read


def _answer_class(plan: Plan) -> Any:  # noqa: ANN401 -- a class made at run time
    (message,) = messages_of(proto_answer(plan))
    return _message_class([] if message is None else message.fields)


class ProtobufAnswers:
    """Writes replies of one model; those that answer take as many bytes whatever they say.

    Args:
        schema: The id of the schema of replies (`proto_answer`).
    """

    content_type = PROTOBUF

    def __init__(self, plan: Plan, schema: int) -> None:
        self._start = frame_start(schema, (0,))
        self._class = _answer_class(plan)
        self._outcome = plan.answers
        self._model = self._part(model=plan.name)
        told: dict[int, Any] = dict(enumerate(plan.labels)) if plan.answers == "label" else {0: 0.0}
        if not all(isinstance(label, int | float) for label in told.values()):
            told = {number: str(label) for number, label in told.items()}
        written = {number: self._part(**{self._outcome: label}) for number, label in told.items()}
        written[NO_LABEL] = b""
        self._padding = padded(written, lambda size: self._part(padding=bytes(size)))
        self._before = {number: part + self._padding[number] for number, part in written.items()}

    def answers(
        self, identifiers: Sequence[Identifier], outcomes: Sequence[float], first_round: int, phases: Sequence[int]
    ) -> list[bytes]:
        """Return the answers of consecutive rounds: see `JsonCodec.encode_answers`."""
        ends = {phase: self._part(phase=phase) for phase in set(phases)}
        rested = self._part(error="resting")
        bodies: list[bytes] = []
        for number, (identifier, outcome, phase) in enumerate(zip(identifiers, outcomes, phases, strict=True)):
            resting = self._outcome == "label" and outcome == RESTING
            middle = b"" if resting else self._told(outcome)
            parts = (self._start, self._identifier(identifier), self._model, middle)
            told = self._part(round=first_round + number)
            bodies.append(b"".join((*parts, told, ends[phase], rested if resting else b"")))
        return bodies

    def _told(self, outcome: float) -> bytes:
        if self._outcome == "label":
            return self._before[int(outcome)]
        if outcome != outcome:  # noqa: PLR0124 -- NaN: there is none
            return self._before[NO_LABEL]
        return self._part(value=outcome) + self._padding[0]

    def rejection(self, identifier: Identifier, rejection: Rejection) -> bytes:
        """Return the reply to a message that is no query."""
        told = self._part(error=str(rejection.reason), field=rejection.field, bound=rejection.bound)
        return self._start + self._identifier(identifier) + self._model + told

    def _identifier(self, identifier: Identifier) -> bytes:
        if identifier is None:
            return b""
        name = IDENTIFIER if isinstance(identifier, str) else IDENTIFIER_NUMBER
        return self._part(**{name: identifier})

    def _part(self, **fields: object) -> bytes:
        """Return some fields; a message is all of them, one behind the other."""
        data: bytes = self._class(**fields).SerializeToString(deterministic=True)
        return data
