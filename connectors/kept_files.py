"""What is made of files: made anew where they have changed; while they cannot be used, what was made before is kept.

So passwords, tokens and certificates can be exchanged under a running process, and a file that is half written, or one
of a pair that does not fit the other yet, does no harm.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from oracle.errors import PerpetuaError

__all__ = ["KeptFiles"]

_Made = TypeVar("_Made")

_Marks = tuple[tuple[int, ...] | None, ...]


class KeptFiles(Generic[_Made]):
    """What `make` makes of some files.

    Args:
        files: The files; what is made of none is made once.
        make: Reads the files.
        on_kept: Called where they have changed and cannot be used, once for each change.
    """

    def __init__(
        self, files: Sequence[Path | None], make: Callable[[], _Made], on_kept: Callable[[], None] = lambda: None
    ) -> None:
        self._files = [file for file in files if file is not None]
        self._make = make
        self._on_kept = on_kept
        self._made: tuple[_Made] | None = None
        self._marks: _Marks = ()
        self._told: _Marks = ()

    @property
    def files(self) -> Sequence[Path]:
        """The files."""
        return self._files

    def get(self) -> _Made:
        """Return what is made of the files as they are now, or as they last could be used.

        Raises:
            PerpetuaError: They could never be used so far.
        """
        marks = tuple(map(_mark, self._files))  # first: what is written while they are read is seen the next time
        if self._made is not None and marks == self._marks:
            return self._made[0]
        try:
            self._made, self._marks = (self._make(),), marks
        except PerpetuaError:
            if self._made is None:
                raise
            if marks != self._told:
                self._told = marks
                self._on_kept()
        return self._made[0]


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return what differs once a file, or what its name leads to, was written or exchanged; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
