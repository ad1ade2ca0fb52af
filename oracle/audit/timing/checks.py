"""Checks that an answer's time is independent of private data: one query to states that answer it differently.

The query's bytes are always the same; what differs is which side decides it, and which label it gets, by the training
rows alone. Processor time of the whole way from message to reply is taken (`stopwatch.py`). The check passes
only if 1 % more work, planted in the same run, was seen, and every class is shown to differ by less than 1 %.
"""

import time
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.audit.findings import Check
from oracle.audit.games.plans import TARGETS, small_plan
from oracle.audit.randomness import Randomness
from oracle.audit.timing.stopwatch import LOOKS, PLANTED, TURNS, Classes, Measured, Work, measure
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan, InstancePlan
from oracle.predictors.kinds import new_trainer
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot

__all__ = ["TIMINGS", "run_timing"]

_POINTS: Final = 40


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


def _shards(randomness: Randomness, epoch: int) -> tuple[dict[str, Shard], Shard]:
    """Make the states of an epoch, in an order of its own, and one more that answers like one of them.

    The one more is like another class, and made at another position in the order, from epoch to epoch.
    """
    plan, names = _plan(), list(_SHIFTS)
    wanted: list[str | None] = [*names, None]
    like = names[epoch % len(names)]
    shards: dict[str | None, Shard] = {}
    for index in range(len(wanted)):
        name = wanted[(epoch + index) % len(wanted)]
        trainer = new_trainer(plan, randomness.secret(epoch))
        trainer.add(_rows(_SHIFTS[name or like]), np.ones(8 * _POINTS, dtype=np.bool_))
        shards[name] = Shard(plan, Snapshot.first(plan.digest, trainer.finish().export()))
    return {name: shards[name] for name in names}, shards[None]


TIMINGS: Final[dict[str, int]] = {"one message": 1, "a batch of 64": 64}
"""What is timed: so many messages at once."""


def run_timing(name: str, seed: bytes, miss: float, looks: Sequence[int] = LOOKS, turns: int = TURNS) -> Check:
    """Time the answers to one of `TIMINGS`.

    Args:
        name: Which.
        seed: Of the audit's randomness.
        miss: Probability that it says anything wrong by chance, in (0, 1).
        looks: Numbers of epochs after which it may end.
        turns: Of each epoch.
    """
    started = time.process_time()
    randomness = Randomness(seed, f"timing|{name}")
    queries = Deliveries.of(Delivery(position, b'{"id":"q","x":[0.0,0.0]}') for position in range(1, TIMINGS[name] + 1))

    def work(shard: Shard) -> Work:
        return Work(lambda: shard.process(shard.decode(queries)), shard.settle)

    def make(number: int) -> Classes:
        shards, like = _shards(randomness, number)
        return Classes({label: work(shard) for label, shard in shards.items()}, work(like))

    found = measure(make, miss=miss, looks=looks, turns=turns)
    return Check(
        cell=f"timing|{name}",
        target="boxes, four sides",
        name=f"time tells no label and no side: {name}",
        passed=found.told and not found.differ,
        unsure=not (found.told or found.differ),
        says=_says(found, turns),
        seconds=time.process_time() - started,
    )


def _says(found: Measured, turns: int) -> str:
    worst, control = found.worst, found.control
    planted = f"{100.0 * PLANTED:g} %"
    if found.differ:
        verdict = f"{worst.name}: {100.0 * worst.shown:.2f} % of an answer away from the others"
    elif found.told:
        verdict = f"no class is more than {100.0 * found.most:.2f} % of an answer away from the others"
    else:
        verdict = (
            f"inconclusive: the machine is too busy to have detected a difference of {planted}; "
            "run it again on a quiet machine"
        )
    return (
        f"{verdict} ({found.epochs} epochs of {turns} turns; {planted} more work, planted, was seen as "
        f"{100.0 * control.low:.2f} to {100.0 * control.high:.2f} %; of differences between classes "
        f"{100.0 * worst.shown:.2f} % is proved, and {100.0 * found.most:.2f} % possible)"
    )
