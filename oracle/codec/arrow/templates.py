"""Answers as Arrow streams of which only the numbers change: pyarrow writes one of a kind, its other bytes are kept."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["AnswerTemplates", "Numbers"]

_MOST_ROWS: Final = 8_192
_MOST_TEMPLATES: Final = 64
"""Together at most some 2 MB: what stands behind the numbers takes 4 bytes a row."""


class Numbers(NamedTuple):
    """The numbers of a message's answers; contiguous.

    Attributes:
        outcome: int8[n] or float64[n].
        rounds: int64[n].
        phases: int32[n].
    """

    outcome: NDArray[Any]
    rounds: NDArray[np.int64]
    phases: NDArray[np.int32]


class _Template(NamedTuple):
    """What stands before, between and behind three columns of numbers."""

    before: bytes
    first_gap: bytes
    second_gap: bytes
    behind: bytes

    def filled(self, numbers: Numbers) -> bytes:
        before, first_gap, second_gap, behind = self
        outcome, rounds, phases = numbers
        return b"".join((before, outcome.data, first_gap, rounds.data, second_gap, phases.data, behind))


class AnswerTemplates:
    """Streams of answers by number of rows. A template is made where a number comes for the second time.

    Formal guarantees:
        * What `write` returns is what its writer would, byte for byte, if that writes the same bytes around the numbers
          of all messages of as many rows.
        * No byte of a template comes from an answer: its writer was given zeros.

    Args:
        writer: Writes all other messages.
    """

    def __init__(self, writer: Callable[[Numbers], bytes]) -> None:
        self._writer = writer
        self._known: dict[tuple[int, str], _Template | None] = {}

    def write(self, numbers: Numbers) -> bytes:
        """Return a message of rows that were all answered, without ids."""
        count = len(numbers.outcome)
        kind = (count, numbers.outcome.dtype.char)
        template = self._known.get(kind)
        if template is not None:
            return template.filled(numbers)
        body = self._writer(numbers)
        if not 0 < count <= _MOST_ROWS:
            return body
        if kind not in self._known:
            if len(self._known) >= _MOST_TEMPLATES:
                self._known.clear()
            self._known[kind] = None
            return body
        template = _template(self._writer(Numbers(*map(np.zeros_like, numbers))))
        if template.filled(numbers) == body:
            self._known[kind] = template
        return body


def _template(body: bytes) -> _Template:
    """Cut the numbers out of a message of one batch."""
    data = pa.py_buffer(body)
    with pa.ipc.open_stream(data) as reader:
        columns = reader.read_next_batch().columns[:3]
    cuts = [0]
    for column in columns:
        numbers = column.buffers()[1]
        start = numbers.address - data.address
        cuts += start, start + len(column) * column.type.bit_width // 8
    cuts.append(len(body))
    return _Template(*(body[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)))
