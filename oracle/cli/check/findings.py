"""A line of `perpetua check`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from oracle.errors import BusError, PerpetuaError
from oracle.state.folder import check_lock, newest_bytes
from oracle.state.space import check_space

__all__ = ["Finding", "attempt", "room_finding"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, and what is wrong with it, if anything.

    Attributes:
        what: In words.
        problem: The error's text, or None.
        unreachable: Whether it is that a bus does not answer.
    """

    what: str
    problem: str | None
    unreachable: bool = False


def attempt(what: str, work: Callable[[], _Result]) -> tuple[Finding, _Result | None]:
    """Do something that `serve` would do, and return what came of it."""
    try:
        return Finding(what, None), work()
    except PerpetuaError as exc:
        return Finding(what, str(exc), isinstance(exc, BusError)), None
    except OSError as exc:
        return Finding(what, f"{exc.filename or what}: {exc.strerror or type(exc).__name__}"), None


def room_finding(folders: Sequence[Path]) -> Finding:
    """Return whether each shard's folder takes a snapshot as large as its last."""

    def try_all() -> None:
        for folder in folders:
            check_lock(folder)
            check_space(folder, len(newest_bytes(folder) or b""))

    return attempt("state folder has room for the next snapshot", try_all)[0]
