"""Does the time of an answer depend on what is private? One query, asked of states that answer it differently.

The query's bytes are always the same; what differs is which side decides it, and which label it gets, by the training
rows alone. Processor time of the whole way from message to reply is taken in turns, thousands of times, and each
class is compared with the others of its turn by a median, whose confidence interval needs no law of the noise.
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
_ALLOWED: Final = 0.005
"""A class may be so much slower or quicker (part of an answer): less cannot be told from the machine's moods."""

_WIDTH: Final = 0.004
"""Half the width of the intervals that are measured for; so a difference of 1 % is seen."""

_REPEATS: Final = 5
"""Times that a class is asked in its turn: the quickest counts, as other processes only ever add."""

_BLOCK: Final = 50
_WARM: Final = 10
_MOST: Final = 8_000
"""Turns at most."""

_STOP_EARLY: Final = 200
"""Turns at least."""

Classes = Mapping[str, tuple[Callable[[], object], Callable[[], object]]]
"""By class, what is timed, and what is done after it outside the measured time."""


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


def _shards(dice: Dice) -> dict[str, Shard]:
    plan, shards = _plan(), {}
    for name, shift in _SHIFTS.items():
        trainer = new_trainer(plan, dice.secret(0))
        trainer.add(_rows(shift), np.ones(8 * _POINTS, dtype=np.bool_))
        snapshot = Snapshot(
            plan_digest=plan.digest,
            generation=1,
            position=0,
            round=0,
            phase=1,
            rearms=0,
            tag=bytes(16),
            arrays=trainer.finish().export(),
        )
        shards[name] = Shard(plan, snapshot)
    return shards


def measure(classes: Classes, *, miss: float, turns: int = _MOST) -> tuple[list[Timing], int]:
    """Time the classes in turns until the intervals are narrow enough, or for so many turns.

    Args:
        classes: What is timed, by name.
        miss: Probability that any interval misses.
        turns: At most.

    Returns:
        The classes' relative differences from the mean of the others, and the turns taken.
    """
    names = list(classes)
    taken: list[list[int]] = []
    timings: list[Timing] = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        while len(taken) < turns + _WARM:
            taken += [_turn(classes, names, len(taken) + number) for number in range(_BLOCK)]
            timings = _intervals(names, np.array(taken[_WARM:], dtype=np.float64), miss)
            narrow = all(one.high - one.low <= 2.0 * _WIDTH for one in timings)
            if narrow and len(taken) >= min(_STOP_EARLY, turns):
                break
            gc.collect()
    finally:
        if was_on:
            gc.enable()
    return timings, len(taken) - _WARM


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


def _intervals(names: list[str], times: NDArray[np.float64], miss: float) -> list[Timing]:
    """Return intervals for the median of each class's difference from the others' mean in its turn.

    By order statistics, each missed with probability `miss` over the number of classes at most.
    """
    logs = np.log(times)
    others = (logs.sum(axis=1, keepdims=True) - logs) / (len(names) - 1)
    apart = np.sort(logs - others, axis=0)
    rank = int(stats.binom.ppf(miss / (2.0 * len(names)), len(times), 0.5))
    low, high = apart[max(rank - 1, 0)], apart[min(len(times) - rank, len(times) - 1)]
    return [Timing(name, float(low[index]), float(high[index])) for index, name in enumerate(names)]


TIMINGS: Final[dict[str, int]] = {"one message": 1, "a batch of 64": 64}
"""What is timed: so many messages at once."""


def run_timing(name: str, seed: bytes, turns: int = _MOST) -> Check:
    """Time the answers to one of `TIMINGS`.

    Args:
        name: Which.
        seed: Of the auditor's dice.
        turns: At most.
    """
    started = time.process_time()
    shards = _shards(Dice(seed, f"timing|{name}"))
    bodies = [Delivery(place, b'{"id":"q","x":[0.0,0.0]}', "application/json") for place in range(1, TIMINGS[name] + 1)]

    classes = {label: (partial(shard.process, bodies), shard.settle) for label, shard in shards.items()}
    timings, taken = measure(classes, miss=1e-3, turns=turns)
    worst = max(timings, key=lambda one: one.shown)
    width = max((one.high - one.low) / 2.0 for one in timings)
    passed = worst.shown <= _ALLOWED
    says = (
        f"{taken} turns; differences proved: {100.0 * worst.shown:.2f} % of an answer at most ({worst.name}); "
        f"intervals are +-{100.0 * width:.2f} %, so {100.0 * (_ALLOWED + 2.0 * width):.1f} % would be seen"
    )
    return Check(
        cell=f"timing|{name}",
        target="boxes, four sides",
        name=f"time tells no label and no side: {name}",
        passed=passed,
        says=says,
        seconds=time.process_time() - started,
    )
