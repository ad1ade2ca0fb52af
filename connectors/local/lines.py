"""Bytes into deliveries, one a line, fast and within a bound on memory."""

from itertools import accumulate, repeat

from connectors.base import JSON, Deliveries

__all__ = ["TOMBSTONE", "LineBuffer"]

TOMBSTONE = b"null"
"""A line that stands for a round with no query."""


class LineBuffer:
    """Cuts a byte stream into lines and hands them over as deliveries.

    A line longer than `body_limit` is handed over cut at `body_limit` + 1 bytes, so that the codec rejects it as
    oversized; the rest of it is not kept. An empty line is a delivery with an empty body. `null` is a tombstone. A last
    line without a newline has the position that it would have with one, so that it may get one later.

    Args:
        body_limit: Longest line that is handed over whole (bytes, without its newline).
        position: Position of the first byte that `feed` will get.
        in_bytes: Positions count bytes (True) or lines (False).
    """

    def __init__(self, body_limit: int, position: int, *, in_bytes: bool) -> None:
        self._keep = body_limit + 1
        self._in_bytes = in_bytes
        self._position = position
        self._bodies: list[bytes | None] = []
        self._steps: list[int] = []  # how far each body moves the position
        self._taken = 0
        self._head = bytearray()  # the unfinished line's first bytes
        self._length = 0  # its whole length so far

    def __len__(self) -> int:
        return len(self._bodies) - self._taken

    def feed(self, data: bytes) -> None:
        """Take the stream's next bytes."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines:
            sizes = list(map(len, lines))
            if self._length:
                sizes[0] += self._length
                lines[0] = bytes(self._head) + lines[0]
                self._head.clear()
                self._length = 0
            self._extend(lines, sizes)
        self._head += rest[: self._keep - len(self._head)]
        self._length += len(rest)

    def finish(self) -> None:
        """The stream has ended: a last line counts without its newline."""
        if self._length:
            self._extend([bytes(self._head)], [self._length])
            self._head.clear()
            self._length = 0

    def take(self, limit: int) -> Deliveries:
        """Return up to `limit` deliveries, in order."""
        start, end = self._taken, min(self._taken + limit, len(self._bodies))
        positions = list(accumulate(self._steps[start:end], initial=self._position))
        self._position = positions[-1]
        count = end - start
        deliveries = Deliveries(positions[1:], self._bodies[start:end], [JSON] * count, [()] * count, [None] * count)
        self._taken = end
        if end == len(self._bodies):
            self._bodies, self._steps, self._taken = [], [], 0
        return deliveries

    def _extend(self, lines: list[bytes], sizes: list[int]) -> None:
        if max(sizes) > self._keep:
            lines = [line[: self._keep] for line in lines]
        self._bodies += [None if line == TOMBSTONE else line for line in lines]
        self._steps += [size + 1 for size in sizes] if self._in_bytes else repeat(1, len(sizes))
