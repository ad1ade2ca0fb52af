"""A file of lines that is read beside the daemon."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connectors.local.jsonl import JsonlSource

__all__ = ["LineReader"]

_LINES: Final = 4096


class LineReader:
    """See `LogReader`. Positions are byte offsets.

    Args:
        path: The file.
        follow: Whether only lines with a newline count, as more may come.
        body_limit: Longest line that is handed over whole (bytes).
    """

    def __init__(self, path: Path, *, follow: bool, body_limit: int) -> None:
        self._source = JsonlSource(path, follow=follow, body_limit=body_limit)

    async def open(self, position: int) -> None:
        """See `LogReader`."""
        await self._source.open(position)

    async def read(self) -> Sequence[tuple[int, bytes | None]]:
        """See `LogReader`."""
        found = await self._source.fetch(_LINES, 0.0)
        return list(zip(found.positions, found.bodies, strict=True))

    async def close(self) -> None:
        """See `LogReader`."""
        await self._source.close()
