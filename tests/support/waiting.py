"""Waiting for what must come, on a machine of any speed.

How long something takes is no business of a test: it waits until it is there, and gives up after a time that only a
fault can take. What must *not* come is looked for a while; a slow machine then sees less, and never too much.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

TIMEOUT: Final = 240.0
"""Seconds after which what has not come will not come; one test's `timeout` in pyproject.toml has room for some."""

_TURN: Final = 0.005
"""Seconds between two looks at what costs little; `eventually` looks more rarely the longer it takes."""


def eventually(done: Callable[..., Any], seconds: float = TIMEOUT, what: Callable[[], object] = lambda: "") -> None:
    """Wait until `done()` is true; `what` is told if it never is."""
    deadline, pause = time.monotonic() + seconds, _TURN
    while not done():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what()}"
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def all_come(count: Callable[[], int], wanted: int, what: Callable[[], object] = lambda: "") -> None:
    """Wait until `count()` is `wanted` or more; there is time as long as more of them come."""
    while (before := count()) < wanted:
        eventually(lambda: count() > before, what=lambda: (before, wanted, what()))


async def until(done: Callable[..., Any], what: Callable[[], object] = lambda: "", seconds: float = TIMEOUT) -> None:
    """Wait until `done()` is true, while the event loop goes on; `what` is told if it never is."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what()}"
        await asyncio.sleep(_TURN)


def limits_of(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.TimerHandle]:
    """Return the limits that clean stops get on this event loop from now on: whether one holds needs no waiting."""
    limits: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def note(delay: float, callback: Callable[..., Any], *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        handle = call_later(delay, callback, *arguments, **options)
        if arguments == (124,):  # the exit code of a stop that took too long
            limits.append(handle)
        return handle

    monkeypatch.setattr(loop, "call_later", note)
    return limits
