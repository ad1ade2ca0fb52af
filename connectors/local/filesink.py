"""What the sinks that write files have in common."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from connectors.base import Committed, Sink
from connectors.local.filegroup import FileGroup

__all__ = ["FileSink"]


class FileSink(Sink):
    """A sink over one `FileGroup`."""

    def __init__(self, files: FileGroup) -> None:
        self._files = files

    def paths(self) -> Mapping[str, Path]:
        """Return every file or folder that may be written or cut, by what it is called where the user sets it."""
        return self._files.paths()

    def inspect(self) -> Committed | None:
        """Do the checks of `open`, raise and return what it would, but cut, hold and make nothing."""
        return self._files.inspect()

    async def open(self) -> Committed | None:
        """See `Sink`.

        Raises:
            InputError: There is output that no commit record speaks of.
            StorageError: Committed output is missing, held by another sink, or cannot be opened.
        """
        return await asyncio.to_thread(self._open)

    def _open(self) -> Committed | None:
        return self._files.open()

    async def close(self) -> None:
        """See `Sink`."""
        await asyncio.to_thread(self._files.close)
