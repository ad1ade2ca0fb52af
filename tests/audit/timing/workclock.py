"""A clock that counts work instead of time, so that a busy machine changes nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from oracle.audit.timing import stopwatch
from oracle.mechanisms.thresholds.paid import BetweenThresholds

__all__ = ["counted_work"]

_LOOK: Final = 20_000
_DEPTH: Final = 500
_STEP: Final = 1


@contextmanager
def counted_work() -> Iterator[pytest.MonkeyPatch]:
    """Let processor time be 20 microseconds for each look at it, and half of one for each depth that is answered.

    A step of the audit's control takes a nanosecond. What is yielded changes more of it.
    """
    now = [0]
    real = BetweenThresholds.answers

    def look() -> int:
        now[0] += _LOOK
        return now[0]

    def answers(self: BetweenThresholds, depths: Any, words: Any) -> Any:
        now[0] += _DEPTH * len(depths)
        return real(self, depths, words)

    def burn(steps: int) -> None:
        now[0] += _STEP * steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "thread_time_ns", look)
        patch.setattr(BetweenThresholds, "answers", answers)
        patch.setattr(stopwatch, "burn", burn)
        yield patch
