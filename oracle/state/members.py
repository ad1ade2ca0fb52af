"""What processes are called in a consumer group: `members/` in a state folder, for those that come after them."""

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

from oracle import durable

__all__ = ["MemberNames"]

_FOLDER: Final = "members"
_TRIES: Final = 5
_NEW_SECONDS: Final = 60.0
"""For so long a file without a name may be that of a process that starts."""


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
        self._ended: list[Path] = []

    def ended(self) -> list[str]:
        """Return the members of the group whose processes have ended, those of before too until they are forgotten."""
        found: list[str] = []
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._file = _own(self._folder) if self._file is None else self._file
            self._ended = []
            for path in self._folder.iterdir():
                with contextlib.suppress(OSError):
                    kept = _ended(path)
                    if kept is not None:
                        self._ended.append(path)
                        found += [kept.member] if kept.group == self._group else []
        return found

    def forget(self) -> None:
        """Remove the files of those that `ended` has returned last, and of those that it has seen of other groups."""
        for path in self._ended:
            with contextlib.suppress(OSError):
                path.unlink()

    def keep(self, member: str) -> None:
        """Keep what this process is called from now on, for who asks once it has ended; after `ended` only."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            data = msgspec.json.encode(_Kept(self._group, member))
            os.pwrite(self._file, data, 0)
            durable.cut(self._file, len(data))


def _own(folder: Path) -> int | None:
    """Return a new file that is locked; None where others, who look into it, are quicker each time."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            return durable.hold(folder / secrets.token_hex(8))
    return None


def _ended(path: Path) -> _Kept | None:
    """Return what the file of a process that has ended holds; None if it runs, or has no name that can be read.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        lock = durable.hold(path)
    except BlockingIOError:
        return None
    try:
        return msgspec.json.decode(durable.read(path), type=_Kept)
    except msgspec.MsgspecError:
        if time.time() - os.fstat(lock).st_mtime > _NEW_SECONDS:
            path.unlink(missing_ok=True)
        return None
    finally:
        os.close(lock)
