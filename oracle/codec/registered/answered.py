"""Answers in Avro or Protobuf read back, as `perpetua truth` joins them with labels."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from connectors.base import AVRO
from oracle.codec.json.truths import MOST_ROUNDS, NO_ANSWER, Answered
from oracle.codec.registered.avro_schemas import whole_labels
from oracle.codec.registered.frames import frame_of
from oracle.codec.registered.names import IDENTIFIER, IDENTIFIER_NUMBER
from oracle.planning.plan import Plan

__all__ = ["AnsweredReader"]

_IDENTIFIERS: Final = (IDENTIFIER, IDENTIFIER_NUMBER)


class AnsweredReader:
    """Reads the answers of one model as it writes them, whatever id their schema has: the registry is not asked.

    Args:
        content_type: `AVRO` or `PROTOBUF`: what the answers are in.
    """

    def __init__(self, plan: Plan, content_type: str) -> None:
        self._name = plan.name
        self._content_type = content_type
        self._record = _records(plan, content_type)
        whole = whole_labels(plan)
        labels = [label if whole else str(label) for label in plan.labels]
        self._numbers: dict[object, int] = {label: number for number, label in enumerate(labels)}

    def read(self, body: bytes) -> Answered | None:
        """Return an answer; None of a body that is none of this model's: a rejection has no round."""
        frame = frame_of(body, self._content_type)
        record = None if frame is None else self._record(frame.payload)
        if record is None or record.get("model") != self._name:
            return None
        number = record.get("round")
        if number is None or not 0 <= number < MOST_ROUNDS:
            return None
        identifier = next((record[name] for name in _IDENTIFIERS if record.get(name) is not None), None)
        label = self._numbers.get(record.get("label"), NO_ANSWER)
        return Answered(msgspec.json.encode(identifier), number, label)


def _records(plan: Plan, content_type: str) -> Callable[[bytes], Mapping[str, Any] | None]:
    if content_type == AVRO:
        from oracle.codec.registered.avro import avro_answers  # noqa: PLC0415 -- the extra is optional

        return avro_answers(plan)
    from oracle.codec.registered.protobuf import protobuf_answers  # noqa: PLC0415 -- the extra is optional

    return protobuf_answers(plan)
