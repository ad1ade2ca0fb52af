"""The engine: `answer` and `settle` in batches of 16,384 uniform rows, against peers that protect less or nothing."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from diffprivlib.models import GaussianNB  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from oracle.planning.plan import BoxPlan, Plan
from oracle.runtime.memory import settle_memory
from tests.benchmarks.noise import DRAWS, drawing
from tests.benchmarks.pairs import Floor, Measure, Row, Settings, cpu_rate, paired, wall_rate
from tests.benchmarks.states import box_plan, inside, queries, trained

_BATCH: Final = 16_384

_FITTED: Final = 20_000
"""Rows that the peers are fitted on; how fast they predict does not depend on it."""

_NARROW: Final = Floor("value", 1_500_000.0)
_WIDE: Final = Floor("value", 150_000.0)
_UNIT: Final = "predictions/s"


def answering(plan: Plan, count: int) -> Callable[[], object]:
    """Return what answers so many batches from round 0 on, no two alike, and does the bookkeeping."""
    rows, present = queries(_BATCH * count, len(plan.features), seed=2), np.ones(_BATCH, dtype=np.bool_)
    batches = np.split(rows, count)

    def work() -> None:
        predictor = trained(plan)
        for batch in batches:
            predictor.answer(batch, present)
            predictor.settle()

    return work


def _engine(settings: Settings, plan: BoxPlan) -> Measure:
    return cpu_rate(_BATCH * settings.batches, answering(plan, settings.batches))


def alone(plan: Plan, rows: int) -> Measure:
    """Return the engine's rate on the clock, from round 0 over so many rounds: for pairs with the daemon."""
    count = -(-rows // _BATCH)
    return wall_rate(count * _BATCH, answering(plan, count))


def _box_test(rows: NDArray[np.float64]) -> Callable[[], object]:
    """Return NumPy's own test of the box, with no privacy."""
    dimension = rows.shape[1]
    low, high = np.full(dimension, 0.05), np.full(dimension, 0.95)
    return lambda: ((rows >= low) & (rows <= high)).all(axis=1)


def _predicting(model: object, rows: NDArray[np.float64]) -> Callable[[], object]:
    fitted = queries(_FITTED, rows.shape[1], seed=3)
    model.fit(fitted, inside(fitted))  # type: ignore[attr-defined]
    return lambda: model.predict(rows)  # type: ignore[attr-defined]


def _against_noise(settings: Settings, plan: BoxPlan, engine: Measure) -> tuple[float, float]:
    """Measure against what the generator of `noise` would allow with nothing else to do: a draw for each side."""
    value, limit = paired(settings, engine, cpu_rate(DRAWS, drawing()))
    return value, limit / len(plan.sides)


def measure(settings: Settings) -> Iterator[Row]:
    """Measure predictions a second with few sides and with many."""
    plan = box_plan(settings.narrow, settings.epsilon)
    engine, rows = _engine(settings, plan), queries(_BATCH, settings.narrow, seed=2)
    bounds = (np.zeros(settings.narrow), np.ones(settings.narrow))
    peers = {
        "NumPy's box test, not private": _box_test(rows),
        "scikit-learn's decision tree, not private": _predicting(DecisionTreeClassifier(random_state=0), rows),
        "diffprivlib's naive Bayes, public model": _predicting(
            GaussianNB(epsilon=settings.epsilon, bounds=bounds, random_state=0), rows
        ),
    }
    what = f"engine, {len(plan.sides)} sides"
    for name, peer in peers.items():
        value, baseline = paired(settings, engine, cpu_rate(_BATCH, peer))
        yield Row(f"{what}, against {name}", value, _UNIT, baseline, _NARROW)
    value, baseline = _against_noise(settings, plan, engine)
    yield Row(f"{what}, share of the noise generator's rate (a draw a side)", value, _UNIT, baseline, _NARROW)
    wide = box_plan(settings.wide, settings.epsilon)
    engine, what = _engine(settings, wide), f"engine, {len(wide.sides)} sides"
    box_test = cpu_rate(_BATCH, _box_test(queries(_BATCH, settings.wide, seed=2)))
    value, baseline = paired(settings, engine, box_test)
    yield Row(f"{what}, against NumPy's box test, not private", value, _UNIT, baseline, _WIDE)
    value, baseline = _against_noise(settings, wide, engine)
    yield Row(f"{what}, share of the noise generator's rate (a draw a side)", value, _UNIT, baseline, _WIDE)


def measure_as_the_daemon(settings: Settings) -> Iterator[Row]:
    """Measure the small model once more, in a process that keeps its memory as `perpetua serve` does."""
    settle_memory()
    plan = box_plan(settings.narrow, settings.epsilon)
    box_test = cpu_rate(_BATCH, _box_test(queries(_BATCH, settings.narrow, seed=2)))
    value, baseline = paired(settings, _engine(settings, plan), box_test)
    name = f"memory kept as the daemon keeps it, engine with {len(plan.sides)} sides, against NumPy's box test"
    yield Row(name, value, _UNIT, baseline, _NARROW)
