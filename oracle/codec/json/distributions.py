"""One question about a distribution as one JSON object.

    {"id": "1", "at": 3.5}                         which share of the rows is no greater?
    {"id": "2", "quantile": 0.5}                   which value is a median?
    {"id": "3", "at": ["A319", "B737"]}            several, each of which takes a round
    {"id": "4", "quantile": [0.25, 0.5, 0.75]}

Values are written as those of queries are (`oracle.codec.json.values`). A question's row has the value's numbers, and
then -1; or, of a quantile, zeros and the share.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.codec.json.bodies import BAD_ID, Identifier, JsonBodies
from oracle.codec.json.public import Several, named
from oracle.codec.json.values import ValueReader
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.planning.serving import most_rows
from oracle.predictors.distribution.base import AT

__all__ = ["DistributionReader"]

_SHARE: Final = "a share of the rows, from 0 to 1"
_NO_NUMBER: Final = frozenset({Reason.WRONG_TYPE, Reason.NOT_FINITE})


_UNASKED: Final = msgspec.Raw()
"""Of what a message does not have: `UNSET` may not stand beside what is not read yet, and nothing read is empty."""


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    id: Identifier = None
    at: msgspec.Raw = _UNASKED
    quantile: msgspec.Raw = _UNASKED


class _OfOne(msgspec.Struct, forbid_unknown_fields=True):
    """What asks at one number, or for one quantile."""

    id: Identifier = None
    at: float | msgspec.UnsetType = UNSET
    quantile: float | msgspec.UnsetType = UNSET


class DistributionReader(JsonBodies):
    """Reads JSON questions of one model, and writes rejections."""

    _values: ClassVar[str] = "at"

    def __init__(self, plan: DistributionPlan) -> None:
        super().__init__(plan)
        self._value = ValueReader(plan.features[0], missing=False)
        self._share = ValueReader(Feature(name="quantile"), missing=False)
        self._width = plan.features[0].width
        self._most = most_rows(plan)
        self._decoder = msgspec.json.Decoder(_Question)
        self._one_decoder = msgspec.json.Decoder(_OfOne)
        self._list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
        self._numbers_decoder = msgspec.json.Decoder(list[float])
        self._any_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def decode_run(self, bodies: Sequence[bytes]) -> tuple[list[Identifier], NDArray[np.float64]] | None:
        """Return ids and float64[n, D] of many messages, the same as `decode` would, if each asks one question.

        None if any does not, or might not: then `decode` tells which.
        """
        of_number = self._value.kind == "number"
        nothing = UNSET if of_number else _UNASKED
        messages = self._read_together(self._one_decoder if of_number else self._decoder, bodies)
        if messages is None or any((one.at is nothing) == (one.quantile is nothing) for one in messages):
            return None
        rows = _rows_of_ones(messages) if of_number else self._rows_of_each(messages)
        return None if rows is None else ([message.id for message in messages], rows)

    def _rows_of_each(self, messages: Sequence[_Question]) -> NDArray[np.float64] | None:
        rows = np.empty((len(messages), self._width + 1))
        for place, message in enumerate(messages):
            row = None if _is_list(message) else self._rows(message)
            if row is None or isinstance(row, Rejection):
                return None
            rows[place] = row
        return rows

    def decode(self, body: bytes) -> tuple[Identifier | Several, NDArray[np.float64]] | Rejection:
        """Return what one body asks, and its rows, float64[n, D]; or why it is rejected."""
        try:
            message = self._read(self._decoder, body)
        except msgspec.ValidationError as exc:
            return self._not_valid(exc, body)
        if isinstance(message, Rejection):
            return message
        if message.quantile is _UNASKED and message.at is _UNASKED:
            return Rejection(Reason.MISSING_FEATURE, "at", f"{self._value.accepts}, or quantile in its place")
        if message.quantile is not _UNASKED and message.at is not _UNASKED:
            return Rejection(Reason.UNKNOWN_FEATURE, "quantile", "nothing, beside at")
        rows = self._rows(message)
        if isinstance(rows, Rejection):
            return rows
        return Several(message.id) if _is_list(message) else message.id, rows

    def _rows(self, message: _Question) -> NDArray[np.float64] | Rejection:
        if message.quantile is _UNASKED:
            values = self._read_all(self._value, message.at, "at")
            return values if isinstance(values, Rejection) else np.pad(values, ((0, 0), (0, 1)), constant_values=AT)
        shares = self._read_all(self._share, message.quantile, "quantile")
        if isinstance(shares, Rejection):
            return replace(shares, bound=_SHARE) if shares.reason in _NO_NUMBER else shares
        outside = np.flatnonzero(~((shares >= 0.0) & (shares <= 1.0)))
        if outside.size:
            field = f"quantile[{outside[0]}]" if _is_list(message) else "quantile"
            return Rejection(Reason.OUTSIDE_DOMAIN, field, _SHARE)
        return np.pad(shares, ((0, 0), (self._width, 0)))

    def _read_all(self, reader: ValueReader, raw: msgspec.Raw, field: str) -> NDArray[np.float64] | Rejection:
        """Return the numbers of one value or of a list of them, a row each, or what is wrong with the first that is."""
        data = bytes(raw)
        items = self._items(reader, data)
        if not 0 < len(items) <= self._most:
            reason = Reason.TOO_MANY_ROWS if len(items) else Reason.OUTSIDE_DOMAIN
            return Rejection(reason, field, f"1 to {self._most:,} values")
        if isinstance(items, np.ndarray):
            return items
        rows = []
        for index, item in enumerate(items):
            numbers = reader.read(bytes(item), f"{field}[{index}]" if data.startswith(b"[") else field)
            if isinstance(numbers, Rejection):
                return numbers
            rows.append(numbers)
        return np.array(rows) + 0.0  # -0.0 becomes 0.0

    def _items(self, reader: ValueReader, data: bytes) -> Sequence[msgspec.Raw | bytes] | NDArray[np.float64]:
        """Return the items of a list, or what is none as the only one; rows at once, if they are all numbers."""
        if not data.startswith(b"["):
            return [data]
        if reader.kind == "number":
            with suppress(msgspec.ValidationError):
                return np.array(self._numbers_decoder.decode(data)).reshape(-1, 1) + 0.0
        return self._list_decoder.decode(data)

    def rows(self, body: bytes) -> int:
        """Return how many rows a body has at most."""
        return min(body.count(b",") + 1, self._most)

    def _not_valid(self, error: msgspec.ValidationError, body: bytes) -> Rejection:
        """Name what is wrong with the types of a message: it is no object, or its id is wrong, or has other fields."""
        text = str(error)
        if text.startswith("Object contains unknown field"):
            try:
                names = self._any_decoder.decode(body)
            except msgspec.DecodeError as exc:  # it goes on as no JSON
                return self._not_json(body, exc)
            unknown = next(name for name in names if name not in _Question.__struct_fields__)
            return Rejection(Reason.UNKNOWN_FEATURE, named(unknown), "id, and at or quantile")
        return BAD_ID if text.endswith("`$.id`") else Rejection(Reason.WRONG_TYPE, "body", "a JSON object")


def _is_list(message: _Question) -> bool:
    raw = message.at if message.quantile is _UNASKED else message.quantile
    return bytes(raw).startswith(b"[")


def _rows_of_ones(messages: Sequence[_OfOne]) -> NDArray[np.float64] | None:
    """Return float64[n, 2]; None if a share is none. Each asks for one of both."""
    if not all(one.quantile is UNSET or 0.0 <= one.quantile <= 1.0 for one in messages):
        return None
    pairs = [(0.0, one.quantile) if one.at is UNSET else (one.at, AT) for one in messages]
    return np.array(pairs) + 0.0  # -0.0 becomes 0.0
