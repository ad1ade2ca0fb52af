"""Memory that two processes share: the rows of one batch, and behind them their answers."""

import mmap
import os
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SharedRows"]

_LEAST: Final = 16_384
_ALIGNED: Final = 64


class SharedRows:
    """Arrays for one batch, over a file that has no name and lies in memory.

    Args:
        descriptor: The file's; the caller closes it behind the last use.
        width: D, how many numbers a query's features take.

    Attributes:
        room: Rows there is room for.
        features: float64[room, D].
        present: bool[room].
        labels: int8[room].
        values: float64[room].
    """

    def __init__(self, descriptor: int, width: int) -> None:
        self._descriptor = descriptor
        self._width = width
        self.room = 0

    def make_room(self, rows: int) -> int:
        """Grow to at least so many rows, and return the room there is then. What was there before is gone."""
        if rows > self.room:
            room = max(_LEAST, rows + min(rows // 4, _LEAST))
            room += -room % _ALIGNED
            os.ftruncate(self._descriptor, self._bytes(room))
            self.look_at(room)
        return self.room

    def end(self) -> None:
        """Make no room any more: the file's number may soon be another's."""
        self._descriptor = -1

    def look_at(self, room: int) -> None:
        """Take note of the room that the other side made."""
        if room == self.room:
            return
        memory = mmap.mmap(self._descriptor, self._bytes(room))
        width, at = self._width, 0
        self.features: NDArray[np.float64] = np.frombuffer(memory, np.float64, room * width, at).reshape(room, width)
        at += self.features.nbytes
        self.values: NDArray[np.float64] = np.frombuffer(memory, np.float64, room, at)
        at += self.values.nbytes
        self.present: NDArray[np.bool_] = np.frombuffer(memory, np.bool_, room, at)
        at += self.present.nbytes
        self.labels: NDArray[np.int8] = np.frombuffer(memory, np.int8, room, at)
        self.room = room

    def _bytes(self, room: int) -> int:
        return room * (8 * self._width + 8 + 1 + 1)
