"""One line of `perpetua check`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from oracle.errors import PerpetuaError

__all__ = ["Finding", "attempt"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, and what is wrong with it, if anything.

    Attributes:
        what: In words.
        problem: The error's text, or None.
    """

    what: str
    problem: str | None


def attempt(what: str, work: Callable[[], _Result]) -> tuple[Finding, _Result | None]:
    """Do something that `serve` would do, and return what came of it."""
    try:
        return Finding(what, None), work()
    except PerpetuaError as exc:
        return Finding(what, str(exc)), None
