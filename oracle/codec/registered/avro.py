"""Messages in Avro: queries of any writer's schema that fits the model, and replies. Needs fastavro."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from io import BytesIO
from typing import Any, Final

import fastavro
import numpy as np

from connectors.base import AVRO
from oracle.codec.json.bodies import Identifier
from oracle.codec.json.messages import RESTING
from oracle.codec.registered.avro_schemas import avro_answer, whole_labels
from oracle.codec.registered.avro_types import harmless, scale_of, types_of
from oracle.codec.registered.frames import frame_start, zigzag
from oracle.codec.registered.names import IDENTIFIER, field_names
from oracle.codec.registered.padding import padded
from oracle.codec.registered.written import NOT_ONE, Read, UnfitError, refuse_strangers
from oracle.codec.rejections import Rejection
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL

__all__ = ["AvroAnswers", "AvroReader", "avro_answers"]

_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_TEXTS: Final = frozenset({"string", "enum"})
_TAKES: Final = {
    "number": _NUMBERS,
    "string": _TEXTS,
    "category": _TEXTS,
    "date": frozenset({"int", "string"}),
    "decimal": frozenset({"bytes", "fixed", "int", "long", "string"}),
}
_NO_VALUE: Final = object()
"""In place of arrays, maps and records, which no feature takes: kept until others are read they could fill memory."""

_LARGEST_UNSCALED: Final = 10**27
"""Below the digits that a decimal's context keeps; a feature's decimals have 15."""


class AvroReader:
    """Reads what one schema wrote, by the names of its fields. What no feature is called is passed over.

    As Avro resolves schemas, but more liberally: names of records do not matter, and the symbols of an enum are texts.

    Args:
        text: The writer's schema.

    Raises:
        UnfitError: It does not fit the model, or would do harm.
    """

    def __init__(self, plan: Plan, text: str) -> None:
        schema = harmless(text)
        kinds = {field["name"]: field["type"] for field in schema["fields"]}
        self._fields = field_names(plan.features)
        refuse_strangers(plan, self._fields, kinds)
        self._scales: dict[int, int | None] = {}  # of the decimals among the features
        for place, (feature, field) in enumerate(zip(plan.features, self._fields, strict=True)):
            if field in kinds:
                _refuse_type(feature, field, kinds[field])
                if feature.kind == "decimal":
                    self._scales[place] = scale_of(kinds[field])
        try:
            self._schema = fastavro.parse_schema(schema)
        except Exception as exc:  # its errors are of many families
            raise UnfitError("a schema in Avro") from exc

    def read(self, payload: bytes) -> Read | Rejection:
        """See `Reader.read`."""
        record = _record(payload, self._schema)
        if record is None:
            return NOT_ONE
        given = map(record.get, self._fields)
        values = [_NO_VALUE if isinstance(value, list | dict) else value for value in given]
        for place, scale in self._scales.items():
            values[place] = _decimal(values[place], scale)
        return Read(record.get(IDENTIFIER), values)


def avro_answers(plan: Plan) -> Callable[[bytes], Mapping[str, Any] | None]:
    """Return what reads the replies of a model: a record, or None of a payload that is not one."""
    return partial(_record, schema=fastavro.parse_schema(avro_answer(plan)))


def _record(payload: bytes, schema: Any) -> Any:  # noqa: ANN401 -- of the library
    """Return the record of a payload; None if it is not one, or goes on behind it."""
    stream = BytesIO(payload)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except (MemoryError, RecursionError):
        raise  # of the machine or the caller: no message may be rejected for it
    except Exception:  # noqa: BLE001 -- fastavro's errors are of many families, and all follow from the bytes
        return None
    return record if stream.tell() == len(payload) else None


def _refuse_type(feature: Feature, field: str, kind: object) -> None:
    if types_of(kind).isdisjoint(_TAKES[feature.kind]):
        raise UnfitError(f"{' or '.join(sorted(_TAKES[feature.kind]))}, for {feature.accepts}", field)


def _decimal(value: object, scale: int | None) -> object:
    if not isinstance(value, bytes) or scale is None:
        return value
    number = int.from_bytes(value, "big", signed=True)
    return Decimal(number).scaleb(-scale) if abs(number) < _LARGEST_UNSCALED else value


class AvroAnswers:
    """Writes replies of one model; those that answer take as many bytes whatever they say.

    Args:
        schema: The id of the schema of replies (`avro_answer`).
    """

    content_type = AVRO

    def __init__(self, plan: Plan, schema: int) -> None:
        self._start = frame_start(schema)
        self._schema = fastavro.parse_schema(avro_answer(plan))
        self._outcome = plan.answers
        self._model = plan.name
        whole = whole_labels(plan)
        told = [label if whole else str(label) for label in plan.labels] if plan.answers == "label" else [0.0]
        kind = "double" if plan.answers == "value" else "long" if whole else "string"
        written = {number: _part(["null", kind], label) for number, label in enumerate([*told, None])}
        written[NO_LABEL] = written.pop(len(told))
        self._kind = kind
        self._padding = padded(written, lambda size: zigzag(size) + bytes(size))
        model = _part("string", plan.name)
        self._before = {number: model + written[number] + after for number, after in self._padding.items()}
        self._rested = model + _part(["null", kind], None) + _part("bytes", b"")

    def answers(
        self, identifiers: Sequence[Identifier], outcomes: Sequence[float], first_round: int, phases: Sequence[int]
    ) -> list[bytes]:
        """Return the answers of consecutive rounds: see `JsonCodec.encode_answers`."""
        ends = {phase: b"\2" + zigzag(phase) + b"\0\0\0" for phase in set(phases)}
        rests = {phase: b"\2" + zigzag(phase) + _part(["null", "string"], "resting") + b"\0\0" for phase in set(phases)}
        bodies: list[bytes] = []
        for number, (identifier, outcome, phase) in enumerate(zip(identifiers, outcomes, phases, strict=True)):
            resting = self._outcome == "label" and outcome == RESTING
            middle = self._rested if resting else self._told(outcome)
            end = rests[phase] if resting else ends[phase]
            bodies.append(
                b"".join((self._start, _identifier(identifier), middle, b"\2", zigzag(first_round + number), end))
            )
        return bodies

    def _told(self, outcome: float) -> bytes:
        if self._outcome == "label":
            return self._before[int(outcome)]
        if np.isnan(outcome):
            return self._before[NO_LABEL]
        return _part("string", self._model) + _part(["null", "double"], outcome) + self._padding[0]

    def rejection(self, identifier: Identifier, rejection: Rejection) -> bytes:
        """Return the reply to a message that is no query."""
        stream = BytesIO()
        told = {"error": str(rejection.reason), "field": rejection.field, "bound": rejection.bound}
        record = {"id": identifier, "model": self._model, "padding": b"", **told}
        fastavro.schemaless_writer(stream, self._schema, record)
        return self._start + stream.getvalue()


def _identifier(identifier: Identifier) -> bytes:
    if identifier is None:
        return b"\0"
    if isinstance(identifier, int):
        return b"\4" + zigzag(identifier)
    data = identifier.encode()
    return b"\2" + zigzag(len(data)) + data


def _part(schema: Any, value: object) -> bytes:  # noqa: ANN401 -- a schema
    """Return one field's value; a record is its fields, one behind the other."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()
