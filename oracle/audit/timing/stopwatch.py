"""Compares the processor times of several classes of work, and checks that it would have detected 1 %.

All that is timed is made afresh again and again, because where it happens to lie in memory can make a difference for as
long as it lies there: what counts is the median over these epochs, whose confidence interval needs no law of the noise.
In every epoch one more piece of work is timed, the control, which is like one of the others but has 1 % more to do: if
that is not seen, then nothing was measured, and the others' being alike says nothing.

What was done just before leaves the processor's caches in one state or another, and so makes the next piece of work
quicker or slower by up to two per cent, and itself the most. That is no difference between the pieces themselves: in
every turn each of them comes once behind each, itself included.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from oracle.audit.randomness import SEED_BYTES, Randomness

__all__ = ["ALLOWED", "LOOKS", "PLANTED", "TURNS", "Classes", "Measured", "Timing", "Work", "burn", "measure"]

PLANTED: Final = 0.01
"""The control's extra work, which must be detected (as a share of a piece of work)."""

ALLOWED: Final = 0.004
"""Allowed relative difference of a class: less cannot be told from the machine's noise."""

LOOKS: Final = (64, 128, 256, 512, 1024)
"""Numbers of epochs after which the result is evaluated; the last is the maximum."""

TURNS: Final = 5
"""Turns of an epoch."""

_WARM: Final = 1
"""Warm-up turns, which measure how long 1 % is and do not count."""

_QUANTILE: Final = 0.25
"""Of an epoch's times of one class the one that counts: below the median, as other processes only ever add.

What the control has to do more is 1 % of it, so of a median answer it is no more than that.
"""

_TRIALS: Final = 9
_TRIAL_STEPS: Final = 2_000
"""Repetitions and steps with which the control's extra work is timed by itself."""

_COLLECT: Final = 16
"""Epochs between two garbage collections; there are none while time is measured."""


class Work(NamedTuple):
    """Something that is timed.

    Attributes:
        ask: What is timed.
        after: What is done after it, outside the measured time.
        more: Steps of `burn` behind `ask`, within the measured time. It is called with 0 too, so that the control's
            work differs by the steps alone.
    """

    ask: Callable[[], object]
    after: Callable[[], object]
    more: int = 0


class Classes(NamedTuple):
    """All of an epoch's work.

    Attributes:
        named: What is compared, by class; two at least.
        like: What the control is made of: one more that is like one of them.
    """

    named: Mapping[str, Work]
    like: Work


_RANDOMNESS: Final = Randomness(bytes(SEED_BYTES), "order of what is timed")

Make = Callable[[int], Classes]
"""Makes an epoch's work anew."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How one class of work compares with the others.

    Attributes:
        name: The class.
        low: Lower end of the interval of its relative difference.
        high: Upper end.
    """

    name: str
    low: float
    high: float

    @property
    def shown(self) -> float:
        """How much of a difference is proved; 0 if none."""
        return max(self.low, -self.high, 0.0)

    @property
    def most(self) -> float:
        """How much of a difference there can be."""
        return max(self.high, -self.low)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out.

    Attributes:
        timings: Of each class.
        control: Of the control.
        epochs: How many were taken.
    """

    timings: tuple[Timing, ...]
    control: Timing
    epochs: int

    @property
    def worst(self) -> Timing:
        """The class of which the largest difference is proved."""
        return max(self.timings, key=lambda one: one.shown)

    @property
    def most(self) -> float:
        """How much of a difference any class can have."""
        return max(one.most for one in self.timings)

    @property
    def differ(self) -> bool:
        """True if more of a difference is proved than is allowed."""
        return self.worst.shown > ALLOWED

    @property
    def told(self) -> bool:
        """True if the planted difference is seen, and no class can have one as large."""
        return self.control.low > ALLOWED and self.most < PLANTED


def burn(steps: int) -> None:
    """Do so many steps of work, some nanoseconds each, without side effects."""
    for _ in repeat(None, steps):
        pass


def measure(make: Make, *, miss: float, looks: Sequence[int] = LOOKS, turns: int = TURNS) -> Measured:
    """Time classes of work epoch by epoch, until a difference is proved or can be ruled out.

    Formal guarantees:
        * With probability `miss` at most any interval, of any class or the control, after any of the looks, misses its
          median: each interval after each look misses it with an equal part of `miss` at most (union bound). So one may
          stop after whichever look one likes, because of what was seen. Epochs must be independent, and a class's
          difference must have one median in all of them; how far it spreads may change.

    Args:
        make: Makes the work of an epoch; always the same names.
        miss: Probability that any interval misses, in (0, 1).
        looks: Numbers of epochs after which it may end, ascending.
        turns: Of each epoch.
    """
    apart: list[NDArray[np.float64]] = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        while True:
            classes = make(len(apart))
            apart.append(_epoch(classes, turns, len(apart)))
            if len(apart) in looks:
                ends = _intervals(np.array(apart), miss / (len(looks) * (len(classes.named) + 1)))
                found = _measured(list(classes.named), ends, len(apart))
                if found.differ or found.told or len(apart) == looks[-1]:
                    return found
            if len(apart) % _COLLECT == 0:
                gc.collect()
    finally:
        if was_on:
            gc.enable()


def _measured(names: Sequence[str], ends: NDArray[np.float64], epochs: int) -> Measured:
    *timings, control = (
        Timing(name, float(low), float(high)) for name, (low, high) in zip([*names, "control"], ends.T, strict=True)
    )
    return Measured(tuple(timings), control, epochs)


def _epoch(classes: Classes, turns: int, number: int) -> NDArray[np.float64]:
    """Return each class's relative difference from the others in one epoch, the control's last: float64[n + 1]."""
    works = [*classes.named.values(), classes.like]
    orders = [_order(len(works), number * (_WARM + turns) + turn) for turn in range(_WARM + turns)]
    warm = np.concatenate([_turn(works, order) for order in orders[:_WARM]], axis=1)
    works[-1] = classes.like._replace(more=_steps(classes.like, PLANTED * float(np.quantile(warm, _QUANTILE))))
    return _apart(np.concatenate([_turn(works, order) for order in orders[_WARM:]], axis=1))


def _order(count: int, number: int) -> list[int]:
    """Return a row of count^2 + 1 numbers in which each comes once behind each, itself included.

    It is an Eulerian circuit through all pairs, found as Hierholzer (1873) does, by random bits of its own.
    """
    words = _RANDOMNESS.words(number, count * count)[:, 0]
    behind = words.reshape(count, count).argsort(axis=1).tolist()
    path, order = [0], []
    while path:
        if behind[path[-1]]:
            path.append(behind[path[-1]].pop())
        else:
            order.append(path.pop())
    return order


def _steps(like: Work, extra: float) -> int:
    """Return how many steps of `burn` take `extra` nanoseconds behind a piece of work; 0 if that cannot be told."""
    each = (_cost(like, _TRIAL_STEPS) - _cost(like, 0)) / _TRIAL_STEPS
    return round(extra / each) if each > 0.0 else 0


def _cost(like: Work, steps: int) -> float:
    """Return how long so many steps take behind a piece of work, with two looks at the clock: nanoseconds."""
    times = []
    for _ in range(_TRIALS):
        like.ask()
        started = time.thread_time_ns()
        burn(steps)
        times.append(time.thread_time_ns() - started)
        like.after()
    return float(np.quantile(times, _QUANTILE))


def _turn(works: Sequence[Work], order: Sequence[int]) -> NDArray[np.float64]:
    """Return the times of each, one behind each: float64[n, n], nanoseconds. The first in the order does not count."""
    times: list[list[int]] = [[] for _ in works]
    _once(works[order[0]])
    for index in order[1:]:
        times[index].append(_once(works[index]))
    return np.array(times, dtype=np.float64)


def _once(work: Work) -> int:
    started = time.thread_time_ns()
    work.ask()
    burn(work.more)
    taken = time.thread_time_ns() - started
    work.after()
    return taken


def _apart(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each one's times, float64[n, m], lie from the median of the others', relatively.

    The control, which comes last, is none of the others.
    """
    logs = np.log(np.quantile(times, _QUANTILE, axis=1))
    compared = np.arange(len(logs) - 1)
    return np.array([own - np.median(logs[compared[compared != index]]) for index, own in enumerate(logs)])


def _intervals(apart: NDArray[np.float64], miss: float) -> NDArray[np.float64]:
    """Return intervals for the medians over epochs, float64[2, n], by order statistics.

    Each is missed with probability `miss` at most; with too few epochs for that they are infinite.
    """
    epochs = np.sort(apart, axis=0)
    rank = int(stats.binom.ppf(miss / 2.0, len(epochs), 0.5))
    if rank < 1:
        return np.repeat([[-np.inf], [np.inf]], epochs.shape[1], axis=1)
    return np.stack([epochs[rank - 1], epochs[len(epochs) - rank]])
