"""Trying again: pauses that double up to a bound, each of a random part of its length, and a time limit."""

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

__all__ = ["Backoff", "retry"]

FIRST: Final = 0.25
LONGEST: Final = 15.0

_Result = TypeVar("_Result")
_Error = TypeVar("_Error", bound=Exception)


class Backoff:
    """How long to pause before each try; the first pauses again after one that lasted longer than the longest pause.

    Each pause is between half of its length and the whole, so that the clients of a broker do not all return at once.

    Args:
        first: Seconds of the first pause; None for `FIRST`.
        longest: Seconds of the longest; None for `LONGEST`.
    """

    def __init__(self, first: float | None = None, longest: float | None = None) -> None:
        self._first = FIRST if first is None else first
        self._longest = LONGEST if longest is None else longest
        self._next = self._first

    def reset(self) -> None:
        """Begin again with the first pause."""
        self._next = self._first

    def pause(self, lasted: float = 0.0) -> float:
        """Return the seconds to pause after a try, or a connection, that lasted so many seconds."""
        if lasted > self._longest:
            self.reset()
        length, self._next = self._next, min(2 * self._next, self._longest)
        return length * (0.5 + secrets.randbelow(1000) / 2000)


async def retry(
    attempt: Callable[[], Awaitable[_Result]],
    passing: type[_Error] | tuple[type[_Error], ...],
    *,
    seconds: float = math.inf,
    backoff: Backoff | None = None,
    on_failure: Callable[[_Error], object] = lambda _error: None,
) -> _Result:
    """Return what `attempt` returns once it succeeds; errors of `passing` may pass, until so many seconds are over.

    Each such error is told to `on_failure`, before the pause.
    """
    clock, backoff = asyncio.get_running_loop().time, backoff or Backoff()
    end = clock() + seconds
    while True:
        began = clock()
        try:
            return await attempt()
        except passing as exc:
            if clock() > end:
                raise
            on_failure(exc)
        await asyncio.sleep(backoff.pause(clock() - began))
