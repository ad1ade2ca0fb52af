"""What processes are called in a consumer group: `members/` in a state folder, for those that come after them."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from oracle import durable

__all__ = ["MemberNames"]

_FOLDER: Final = "members"


class _Kept(msgspec.Struct, frozen=True):
    """What a file holds."""

    group: str
    member: str


class MemberNames:
    """Keeps what this process is called in a group, in a file of its own that is locked until the process ends.

    What is lost, or cannot be written, costs no more than time: the group waits for a dead member's session. So nothing
    is synced, and no error is raised.

    Args:
        folder: The state's folder.
        group: The group's name.
    """

    def __init__(self, folder: Path, group: str) -> None:
        self._folder = folder / _FOLDER
        self._group = group
        self._file: int | None = None

    def ended(self) -> list[str]:
        """Return the members of the group whose processes have ended, and forget them; it may be called again."""
        found: list[str] = []
        with contextlib.suppress(OSError):
            durable.make_folder(self._folder)
            if self._file is None:
                self._file = durable.hold(self._folder / secrets.token_hex(8))
            for path in self._folder.iterdir():
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    kept = _take(path)
                    if kept.group == self._group:
                        found.append(kept.member)
        return found

    def keep(self, member: str) -> None:
        """Keep what this process is called from now on, for who asks once it has ended; after `ended` only."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            durable.cut(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            durable.write_all(self._file, msgspec.json.encode(_Kept(self._group, member)))


def _take(path: Path) -> _Kept:
    """Return what the file of a process that has ended holds, and remove it.

    Raises:
        BlockingIOError: The process is running.
    """
    lock = durable.hold(path)
    try:
        data = durable.read(path)
        path.unlink(missing_ok=True)
    finally:
        os.close(lock)
    return msgspec.json.decode(data, type=_Kept)
