"""What a computation does, told apart without a clock: which lines are run how often, and how large its arrays are.

Two computations that run the same lines on arrays of the same shapes take about the same time; others may not. A clock
sees differences of a percent on a quiet machine; here a line more is seen, on any. What NumPy does within one call is
not (`oracle.audit.timing` measures it).
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import numpy as np

__all__ = ["Work", "worked_on"]

_LOOKED_AT: Final = ("oracle.", "connectors.")
_LEFT_OUT: Final = (
    "oracle.audit.",
    "oracle.mechanisms.noise.",
    "oracle.mechanisms.choice.exponential",
    "oracle.predictors.ensemble.fitting",
    "oracle.predictors.ensemble.linear",
    "oracle.predictors.ensemble.teachers",
    "oracle.predictors.ensemble.trees",
)
"""The audit's own, what makes noise of bits (where outputs are frozen it is not run), and teachers, whose votes take as
long as the rows have it: of these nobody claims anything (`report/words.py`)."""

_AS_MANY_AS_ROWS: Final = ("oracle.predictors.statistics.sums",)
"""Where arrays are as long as there are rows; the lines that are run must be the same all the same."""

Place = tuple[str, int]


class Work:
    """What was done.

    Attributes:
        lines: How often each line was run.
        shapes: How often functions returned with arrays of these shapes.
    """

    def __init__(self) -> None:
        self.lines: Counter[Place] = Counter()
        self.shapes: Counter[tuple[str, Any]] = Counter()

    def unlike(self, other: "Work") -> str | None:
        """Return a place where other work was done, if there is one."""
        for mine, its in ((self.lines, other.lines), (self.shapes, other.shapes)):
            for place in sorted((mine - its) | (its - mine), key=str):
                return f"{place[0]}: {place[1]}"
        return None

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 -- itself, as `settrace` has it
        """Take in what happens; of a module that is not looked at, nothing."""
        name = frame.f_globals.get("__name__", "")
        if event == "call":
            mine = name.startswith(_LOOKED_AT) and not name.startswith(_LEFT_OUT)
            return self.trace if mine else None
        if event == "line":
            self.lines[name, frame.f_lineno] += 1
        elif event == "return" and not name.startswith(_AS_MANY_AS_ROWS):
            found = {key: one.shape for key, one in frame.f_locals.items() if isinstance(one, np.ndarray)}
            self.shapes[f"{name}.{frame.f_code.co_qualname}", tuple(sorted(found.items()))] += 1
        return self.trace


@contextmanager
def worked_on(work: Work) -> Iterator[None]:
    """Take in what is done for a while, in this thread."""
    before = sys.gettrace()
    sys.settrace(work.trace)
    try:
        yield
    finally:
        sys.settrace(before)
