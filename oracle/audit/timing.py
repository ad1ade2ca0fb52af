"""Does the time of an answer depend on what is private? One query, asked of states that answer it differently.

The query's bytes are always the same; what differs is which side decides it, and which label it gets, by the training
rows alone. Processor time of the whole way from message to reply is taken in turns, and each class is compared with the
others of its turn. Where a state happens to lie in memory can make a per cent of difference, for as long as it lies
there: so all states are made afresh again and again, each time with another key, and what counts is the median over
these epochs, whose confidence interval needs no law of the noise.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from connectors.base import Delivery
from oracle.audit.dice import Dice
from oracle.audit.findings import Check
from oracle.audit.plans import TARGETS, small_plan
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan, InstancePlan
from oracle.predictors.kinds import new_trainer
from oracle.service.shard import Shard
from oracle.state.format import Snapshot

__all__ = ["TIMINGS", "Timing", "measure", "run_timing"]

_POINTS: Final = 40
_ALLOWED: Final = 0.004
"""A class may be so much slower or quicker (part of an answer): less cannot be told from the machine's moods."""

_WIDTH: Final = 0.003
"""Half the width of the intervals that are measured for; so a difference of 1 % is seen."""

_REPEATS: Final = 5
"""Times that a class is asked in its turn: the quickest counts, as other processes only ever add."""

_TURNS: Final = 12
_WARM: Final = 2
"""Turns of an epoch, and those before them that do not count."""

_EPOCHS: Final = 400
"""Epochs at most."""

_STOP_EARLY: Final = 24
"""Epochs at least."""

_COLLECT: Final = 16
"""Epochs between two collections of garbage, which is left alone while time is taken."""

Classes = Mapping[str, tuple[Callable[[], object], Callable[[], object]]]
"""By class, what is timed, and what is done after it outside the measured time."""

Make = Callable[[int], Classes]
"""Makes all of an epoch's classes afresh."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How one class of answers compares with the others.

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


def _plan() -> BoxPlan:
    """Return a plan of a box in the plane whose noise is too small to matter: which side decides is then certain."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)

    def loud(instance: InstancePlan) -> InstancePlan:
        return msgspec.structs.replace(
            instance, scale=8.0, low=_POINTS // 4, high=3 * _POINTS // 4, points=_POINTS, mediums=1_000_000
        )

    phase = plan.phases[0]
    stopper = msgspec.structs.replace(phase.stopper, threshold=1_000_000, cap=1_000_001)
    phase = msgspec.structs.replace(
        phase, start=loud(phase.start), rearmed=loud(phase.rearmed), stopper=stopper, rounds=1_000_000
    )
    features = tuple(Feature(name=name, sides="both", bounds=(-4.0, 4.0)) for name in ("a", "b"))
    return msgspec.structs.replace(
        plan,
        features=features,
        sides=("a:lower", "a:upper", "b:lower", "b:upper"),
        coin=0.0,
        declared=8 * _POINTS,
        phases=(phase, msgspec.structs.replace(phase, phase=2)),
    )


def _rows(shift: tuple[float, float]) -> NDArray[np.float64]:
    """Return positive rows on the four faces of a square about a point."""
    along, face = np.linspace(-0.4, 0.4, 2 * _POINTS), np.linspace(0.8, 1.2, 2 * _POINTS)
    faces = [(-face, along), (face, along), (along, -face), (along, face)]
    rows: NDArray[np.float64] = np.concatenate([np.column_stack(pair) for pair in faces]) + np.array(shift)
    return rows


_SHIFTS: Final[dict[str, tuple[float, float]]] = {
    "high on every side, label 1": (0.0, 0.0),
    "low at side 1, label 0": (3.0, 0.0),
    "low at side 2, label 0": (-3.0, 0.0),
    "low at side 3, label 0": (0.0, 3.0),
    "low at side 4, label 0": (0.0, -3.0),
    "medium at side 1, label 0": (0.9, 0.0),
    "medium at side 4, label 0": (0.0, -0.9),
}
"""Where the box lies, by how it answers the query (0, 0)."""


def _shards(dice: Dice, epoch: int) -> dict[str, Shard]:
    """Make the states of an epoch, in an order of its own."""
    plan, shards = _plan(), {}
    names = list(_SHIFTS)
    for place in range(len(names)):
        name = names[(epoch + place) % len(names)]
        shift = _SHIFTS[name]
        trainer = new_trainer(plan, dice.secret(epoch))
        trainer.add(_rows(shift), np.ones(8 * _POINTS, dtype=np.bool_))
        snapshot = Snapshot.first(plan.digest, trainer.finish().export())
        shards[name] = Shard(plan, snapshot)
    return {name: shards[name] for name in names}


def measure(make: Make, *, miss: float, epochs: int = _EPOCHS, turns: int = _TURNS) -> tuple[list[Timing], int]:
    """Time the classes epoch by epoch until the intervals are narrow enough, or for so many epochs.

    Args:
        make: Makes the classes of an epoch; always the same names.
        miss: Probability that any interval misses.
        epochs: At most.
        turns: Of each epoch.

    Returns:
        The classes' relative differences from the mean of the others, and the epochs taken.
    """
    names: list[str] = []
    apart: list[NDArray[np.float64]] = []
    timings: list[Timing] = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        while len(apart) < epochs:
            classes = make(len(apart))
            names = list(classes)
            taken = [_turn(classes, names, number) for number in range(_WARM + turns)]
            apart.append(_apart(np.array(taken[_WARM:], dtype=np.float64)))
            timings = _intervals(names, np.array(apart), miss)
            narrow = all(one.high - one.low <= 2.0 * _WIDTH for one in timings)
            if narrow and len(apart) >= _STOP_EARLY:
                break
            if len(apart) % _COLLECT == 0:
                gc.collect()
    finally:
        if was_on:
            gc.enable()
    return timings, len(apart)


def _apart(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median over turns of each class's relative difference from the others' mean."""
    logs = np.log(times)
    others = (logs.sum(axis=1, keepdims=True) - logs) / (logs.shape[1] - 1)
    difference: NDArray[np.float64] = np.median(logs - others, axis=0)
    return difference


def _turn(classes: Classes, names: list[str], number: int) -> list[int]:
    """Time each class; who comes first, and in which direction, changes from turn to turn."""
    times = [0] * len(names)
    order = [(number * 3 + place) % len(names) for place in range(len(names))]
    for index in order if number % 2 else reversed(order):
        times[index] = min(_once(*classes[names[index]]) for _ in range(_REPEATS))
    return times


def _once(ask: Callable[[], object], after: Callable[[], object]) -> int:
    started = time.thread_time_ns()
    ask()
    taken = time.thread_time_ns() - started
    after()
    return taken


def _intervals(names: list[str], apart: NDArray[np.float64], miss: float) -> list[Timing]:
    """Return intervals for the median over epochs of each class's difference from the others.

    By order statistics, each missed with probability `miss` over the number of classes at most; with too few epochs for
    that they are infinite.
    """
    epochs = np.sort(apart, axis=0)
    rank = int(stats.binom.ppf(miss / (2.0 * len(names)), len(epochs), 0.5))
    if rank < 1:
        return [Timing(name, -np.inf, np.inf) for name in names]
    low, high = epochs[rank - 1], epochs[len(epochs) - rank]
    return [Timing(name, float(low[index]), float(high[index])) for index, name in enumerate(names)]


TIMINGS: Final[dict[str, int]] = {"one message": 1, "a batch of 64": 64}
"""What is timed: so many messages at once."""


def run_timing(name: str, seed: bytes, epochs: int = _EPOCHS, turns: int = _TURNS) -> Check:
    """Time the answers to one of `TIMINGS`.

    Args:
        name: Which.
        seed: Of the auditor's dice.
        epochs: At most.
        turns: Of each epoch.
    """
    started = time.process_time()
    dice = Dice(seed, f"timing|{name}")
    bodies = [Delivery(place, b'{"id":"q","x":[0.0,0.0]}', "application/json") for place in range(1, TIMINGS[name] + 1)]

    def make(number: int) -> Classes:
        shards = _shards(dice, number)
        return {label: (partial(shard.process, bodies), shard.settle) for label, shard in shards.items()}

    timings, taken = measure(make, miss=1e-3, epochs=epochs, turns=turns)
    worst = max(timings, key=lambda one: one.shown)
    width = max((one.high - one.low) / 2.0 for one in timings)
    passed = worst.shown <= _ALLOWED
    says = (
        f"{taken} epochs of {turns} turns; differences proved: {100.0 * worst.shown:.2f} % of an answer at most "
        f"({worst.name}); intervals are +-{100.0 * width:.2f} %, so {100.0 * (_ALLOWED + 2.0 * width):.1f} % would be "
        "seen"
    )
    return Check(
        cell=f"timing|{name}",
        target="boxes, four sides",
        name=f"time tells no label and no side: {name}",
        passed=passed,
        says=says,
        seconds=time.process_time() - started,
    )
