"""The answers to one Arrow message as one: see `oracle.codec.arrow.messages` for what it looks like."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.streams import END
from oracle.codec.json.messages import RESTING
from oracle.codec.rejections import Reason
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL

__all__ = ["REASONS", "AnswerWriter"]

REASONS: Final = (Reason.NOT_FINITE, Reason.MISSING_FEATURE, Reason.WRONG_TYPE)
"""Why a row of a message takes no round."""

_RESTED: Final = len(REASONS) + 1
"""Behind the reasons: why a row has no label though it took a round."""

_BINARY: Final = (0, 1)
_Number = TypeVar("_Number", bound=np.generic)
_KINDS: Final = {
    np.dtype(kind.to_pandas_dtype()).char: kind for kind in (pa.int8(), pa.int32(), pa.int64(), pa.float64())
}


class AnswerWriter:
    """Writes the answers of one model."""

    def __init__(self, plan: Plan) -> None:
        schemas = {kind: _schema(kind, plan) for kind in (None, pa.string(), pa.int64())}
        self._schemas = {kind: (schema, schema.serialize()) for kind, schema in schemas.items()}
        plain = plan.answers == "value" or _label_field(plan.labels).type == pa.int8()
        self._whole_numbers = None if plain else np.array([*plan.labels, 0], dtype=np.int64)  # NO_LABEL is -1: the last

    def write(
        self,
        rejected: NDArray[np.int8],
        identifiers: pa.Array | None,
        outcomes: NDArray[np.int8] | NDArray[np.float64],
        first_round: int,
        phases: NDArray[np.int64],
    ) -> bytes:
        """Return the answers to one message.

        Args:
            rejected: int8[n]: 0, or 1 + the index in `REASONS` of why the row takes no round.
            identifiers: The rows' ids, if they have any.
            outcomes: int8[m], labels of the m rows that were not rejected, or `RESTING`; or float64[m], their values.
            first_round: Round of the first of them.
            phases: int64[m], their phases.
        """
        rounds: NDArray[np.int64] = np.arange(first_round, first_round + len(outcomes), dtype=np.int64)
        numbers: Sequence[NDArray[Any]] = (outcomes, rounds, phases.astype(np.int32))
        if len(outcomes) < len(rejected):
            numbers = [_spread(column, rejected == 0) for column in numbers]
        outcome, *others = numbers
        resting = outcome == RESTING if outcome.dtype == np.int8 else np.zeros(len(outcome), dtype=np.bool_)
        if resting.any():
            outcome, rejected = np.where(resting, np.int8(NO_LABEL), outcome), np.where(resting, _RESTED, rejected)
        error = _errors().take(pa.array(rejected)) if rejected.any() else _nulls(len(rejected))
        return self._written([self._outcome(outcome), *map(_column, others), error], identifiers)

    def _outcome(self, outcome: NDArray[Any]) -> pa.Array:
        """Return labels or values as they are called."""
        if self._whole_numbers is None:
            return _column(outcome)
        none = outcome == NO_LABEL
        there = pa.py_buffer(np.packbits(~none, bitorder="little")) if none.any() else None
        return pa.Array.from_buffers(pa.int64(), len(none), [there, pa.py_buffer(self._whole_numbers[outcome])])

    def _written(self, columns: list[pa.Array], identifiers: pa.Array | None) -> bytes:
        schema, head = self._schemas[None if identifiers is None else identifiers.type]
        # No slices of Arrow's here: it would pad each with what stands behind it, the answers to somebody else.
        if identifiers is not None:
            columns.insert(0, identifiers)
        return b"".join((head, pa.RecordBatch.from_arrays(columns, schema=schema).serialize(), END))


def _label_field(labels: Sequence[str | int]) -> pa.Field:
    """Return a field all of whose values take as many bytes."""
    if tuple(labels) == _BINARY:
        return pa.field("label", pa.int8())
    if all(isinstance(label, int) for label in labels):
        return pa.field("label", pa.int64())
    return pa.field("label", pa.int8(), metadata={"classes": msgspec.json.encode(labels).decode()})


def _schema(identifier: pa.DataType | None, plan: Plan) -> pa.Schema:
    outcome = _label_field(plan.labels) if plan.answers == "label" else pa.field("value", pa.float64())
    others = {"round": pa.int64(), "phase": pa.int32(), "error": pa.string()}
    fields = [outcome, *(pa.field(name, kind) for name, kind in others.items())]
    if identifier is not None:
        fields.insert(0, pa.field("id", identifier))
    return pa.schema(fields, metadata={"model": plan.name})


def _column(values: NDArray[np.generic]) -> pa.Array:
    """Return numbers as they are, without the look that `pa.array` has at what they might be."""
    return pa.Array.from_buffers(_KINDS[values.dtype.char], len(values), [None, pa.py_buffer(values)])


def _spread(column: NDArray[_Number], asked: NDArray[np.bool_]) -> NDArray[_Number]:
    """Return a column for all rows; where nothing was asked -1, or NaN in one of float64."""
    whole = np.full(len(asked), np.nan if column.dtype == np.float64 else -1, dtype=column.dtype)
    whole[asked] = column
    return whole


@cache
def _errors() -> pa.Array:
    """Return what stands for each number. Not at import: given a list, pyarrow imports pandas where it can."""
    return pa.array([None, *map(str, REASONS), "resting"], pa.string())


@lru_cache(maxsize=8)
def _nulls(count: int) -> pa.Array:
    """Return so many null strings; most messages of a stream have as many rows."""
    return pa.nulls(count, pa.string())
