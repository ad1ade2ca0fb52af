"""One query as one JSON object, one answer as one JSON object.

    {"id": "a1", "x": [3.0, 12.5]}
    {"id": "a1", "x": {"visib": 3.0, "wind": 12.5}}
    {"id": "a1", "visib": 3.0, "wind": 12.5}

    {"id":"a1","label":0   ,"model":"vfr","round":17,"phase":1}

A model with categories takes texts for them, and one whose values may be missing takes null for any:

    {"id": "a1", "x": ["EWR", null]}

The label takes four bytes whatever it is, or as many as the longest class; of a model whose answers are numbers,
"value" stands in its place and takes 24. While a model rests, which is public, its answers have an error instead:

    {"id":"a1","error":"resting","model":"vfr","round":17,"phase":1}

An id is for correlation only; two messages with one id are two queries.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.bodies import BAD_ID, Identifier, JsonBodies
from oracle.codec.json.mixed import read_mixed
from oracle.codec.json.runs import encode_rounds, split_texts
from oracle.codec.json.values import ValueReader, read_values
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.features import columns_of
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL

__all__ = ["RESTING", "JsonCodec"]

RESTING: Final = -2
"""Stands for a label in a round that the model rested in."""

_VALUE_BYTES: Final = 24  # the longest that the shortest text of a float64 can be


class JsonCodec(JsonBodies):
    """Reads and writes JSON messages of one model."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._names = tuple(feature.name for feature in plan.features)
        self._starts = columns_of(plan.features)
        kinds = {feature.kind for feature in plan.features}
        self._plain = kinds == {"number"} and not plan.takes_missing
        self._mixed = kinds <= {"number", "category"} and plan.takes_missing
        self._readers = [ValueReader(feature, missing=plan.takes_missing) for feature in plan.features]
        self._outcome = plan.answers
        self._attributes = [f"feature_{i}" for i in range(len(self._names))]
        self._around_texts = _around(b'"', self._model, plan.labels)
        self._around_any = _around(b"", self._model, plan.labels)
        value: Any = float if self._plain else msgspec.Raw
        self._decoder = self._decoder_of(value, float | msgspec.UnsetType if self._plain else msgspec.Raw)
        several: Any = float | str | None
        self._run_decoder = self._decoder_of(several, several | msgspec.UnsetType) if self._mixed else self._decoder
        self._read_beside = _tuples(attrgetter(*self._attributes), self._names)
        self._read_named = _tuples(itemgetter(*self._names), self._names)

    def _decoder_of(self, value: Any, beside: Any) -> "msgspec.json.Decoder[Any]":  # noqa: ANN401 -- types
        """Return a decoder of messages whose values, in `x` and beside it, are of these types."""
        fields: list[tuple[str, object, object]] = [
            ("id", Identifier, None),
            ("x", list[value] | dict[str, value] | msgspec.UnsetType, msgspec.UNSET),
        ]
        attributes = [(name, beside, msgspec.UNSET) for name in self._attributes]
        renamed = dict(zip(self._attributes, self._names, strict=True))
        return msgspec.json.Decoder(msgspec.defstruct("Message", [*fields, *attributes], rename=renamed, gc=False))

    def decode_run(self, bodies: Sequence[bytes]) -> tuple[list[Identifier], NDArray[np.float64]] | None:
        """Return ids and float64[n, D] of many messages, the same as `decode` would, if all of them are queries.

        None if any is none, or might be, or if a feature is neither a number nor has categories: then `decode` tells.
        """
        if not (self._plain or self._mixed):
            return None
        messages = self._read_together(self._run_decoder, bodies)
        if messages is None:
            return None
        try:
            rows = self._rows(messages)
            features = self._numbers(rows, len(bodies)) if self._plain else read_mixed(self._readers, rows)
        except (TypeError, KeyError):  # a feature that was left out, has another name or another type
            return None
        return None if features is None else ([message.id for message in messages], features)

    def _numbers(self, rows: Iterable[Iterable[float]], count: int) -> NDArray[np.float64] | None:
        """Return numbers as float64[n, D], None if one is not finite."""
        features = np.fromiter(chain.from_iterable(rows), np.float64, count * len(self._names))
        return features.reshape(count, -1) if np.isfinite(features).all() else None

    def _rows(self, messages: Sequence[Any]) -> Iterable[Iterable[float]]:
        """Return the features of messages that are all of one form.

        Raises:
            TypeError: They are not, or a list or an object has too few or too many.
            KeyError: An object has other names.
        """
        vectors = [message.x for message in messages]
        kinds = set(map(type, vectors))
        if kinds == {msgspec.UnsetType}:
            return map(self._read_beside, messages)
        if len(kinds) > 1 or set(map(len, vectors)) != {len(self._names)}:
            raise TypeError("not one form")
        if self._mixed and set(map(type, chain.from_iterable(map(self._read_beside, messages)))) != {msgspec.UnsetType}:
            raise TypeError("values beside x, at whose types nobody looks here")
        return vectors if kinds == {list} else map(self._read_named, vectors)

    def decode(self, body: bytes) -> tuple[Identifier, Sequence[float]] | Rejection:
        """Return a query's id and its features in the plan's order, or why it is none.

        Finiteness is not checked here but for the whole batch (`not_finite`).
        """
        try:
            message = self._read(self._decoder, body)
        except msgspec.ValidationError as exc:
            return _not_valid(exc)
        if isinstance(message, Rejection):
            return message
        features = self._features(message)
        if isinstance(features, Rejection):
            return features
        if self._plain:
            return message.id, features
        row = read_values(self._readers, features, self._fields(message))
        return row if isinstance(row, Rejection) else self._not_asked_for(message) or (message.id, row)

    def _not_asked_for(self, message: msgspec.Struct) -> Rejection | None:
        """Return what is wrong with the values that stand beside an `x`; of numbers the decoder has told."""
        if message.x is msgspec.UNSET:  # type: ignore[attr-defined]  # a struct made at run time
            return None
        values = [getattr(message, attribute) for attribute in self._attributes]
        given = [index for index, value in enumerate(values) if value is not msgspec.UNSET]
        row = read_values(
            [self._readers[index] for index in given],
            [values[index] for index in given],
            [self._names[index] for index in given],
        )
        return row if isinstance(row, Rejection) else None

    def _fields(self, message: msgspec.Struct) -> Sequence[str]:
        """Return what a query calls its values."""
        vector: object = message.x  # type: ignore[attr-defined]  # a struct made at run time
        if isinstance(vector, list):
            return [f"x[{index}]" for index in range(len(self._names))]
        return [f"x.{name}" for name in self._names] if isinstance(vector, dict) else self._names

    def _features(  # noqa: PLR0911 -- one for each reason
        self, message: msgspec.Struct
    ) -> Sequence[Any] | Rejection:
        """Return the values in the plan's order: numbers, or JSON where not all features are numbers."""
        vector: object = message.x  # type: ignore[attr-defined]  # a struct made at run time
        if isinstance(vector, list):
            if len(vector) != len(self._names):
                count = len(self._names)
                what = "number" if self._plain else "value"
                return Rejection(Reason.WRONG_DIMENSION, "x", f"{count} {what}{'' if count == 1 else 's'}")
            return vector
        if isinstance(vector, dict):
            if vector.keys() == set(self._names):
                return [vector[name] for name in self._names]
            unknown = next((name for name in vector if name not in self._names), None)
            if unknown is not None:
                return Rejection(Reason.UNKNOWN_FEATURE, "x", "the model's features only")
            missing = next(name for name in self._names if name not in vector)
            return Rejection(Reason.MISSING_FEATURE, f"x.{missing}", self._accepts(missing))
        values = [getattr(message, attribute) for attribute in self._attributes]
        for name, value in zip(self._names, values, strict=True):
            if value is msgspec.UNSET:
                return Rejection(Reason.MISSING_FEATURE, name, f"{self._accepts(name)}, at the top level or in x")
        return values

    def _accepts(self, name: str) -> str:
        return self._readers[self._names.index(name)].accepts

    def not_finite(self, row: NDArray[np.float64]) -> Rejection:
        """Return the rejection of a row that holds a value outside float64."""
        index = bisect_right(self._starts, int(np.argmin(np.isfinite(row)))) - 1
        return Rejection(Reason.NOT_FINITE, f"x[{index}]", "a finite float64")

    def encode_answers(
        self, identifiers: Sequence[Identifier], outcomes: Sequence[float], first_round: int, phases: Sequence[int]
    ) -> list[bytes]:
        """Encode the answers of consecutive rounds: labels or `RESTING`, or values, NaN for none."""
        texts, (head, middles) = split_texts(identifiers), self._around_texts
        if texts is None:
            texts, (head, middles) = list(map(msgspec.json.encode, identifiers)), self._around_any
        ends = {phase: b',"phase":%d}' % phase for phase in set(phases)}
        parts = zip(
            repeat(head, len(texts)),
            texts,
            self._between(middles, outcomes),
            encode_rounds(first_round, len(texts)),
            map(ends.__getitem__, phases),
            strict=True,
        )
        return list(map(b"".join, parts))

    def _between(self, middles: dict[float, bytes], outcomes: Sequence[float]) -> Iterable[bytes]:
        """Return what stands between each id and its round."""
        if self._outcome == "label":
            return map(middles.__getitem__, outcomes)
        before, after = middles[NO_LABEL].split(b'"label":null')
        before += b'"value":'
        return (before + text + after for text in map(_value_text, outcomes))


def _value_text(value: float) -> bytes:
    """Return a finite number, or null for NaN, padded to one length."""
    return (b"null" if math.isnan(value) else repr(value).encode()).ljust(_VALUE_BYTES)


def _around(quote: bytes, model: bytes, labels: Sequence[str | int]) -> tuple[bytes, dict[float, bytes]]:
    """Return what stands before an id, and for each label what stands between the id and the round."""
    outcomes = {number: b'"label":' + text for number, text in _padded(labels).items()}
    outcomes[RESTING] = b'"error":"resting"'
    middles = {number: b'%b,%b,"model":%b,"round":' % (quote, text, model) for number, text in outcomes.items()}
    return b'{"id":' + quote, middles


def _padded(labels: Sequence[str | int]) -> dict[float, bytes]:
    """Return what each label is called, and what is said where there is none, all of one length."""
    texts = {number: msgspec.json.encode(label) for number, label in enumerate(labels)} | {NO_LABEL: b"null"}
    longest = max(map(len, texts.values()))
    return {number: text.ljust(longest) for number, text in texts.items()}


def _tuples(read: Callable[[Any], Any], names: Sequence[str]) -> Callable[[Any], Any]:
    """Return what reads values of these names as one tuple, also where there is one name."""
    return read if len(names) > 1 else lambda owner: (read(owner),)


def _not_valid(error: msgspec.ValidationError) -> Rejection:
    """Name the field of a well-formed message that has the wrong type, without quoting the message."""
    text = str(error)
    path = text.rsplit("`$.", 1)[-1].rstrip("`") if "`$." in text else "body"
    if path == "id":
        return BAD_ID
    if path == "body":
        return Rejection(Reason.WRONG_TYPE, "body", "a JSON object")
    if "out of range" in text:
        return Rejection(Reason.NOT_FINITE, path, "a finite float64")
    return Rejection(Reason.WRONG_TYPE, path, "a number" if path != "x" else "numbers, as array or object")
