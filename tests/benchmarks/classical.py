"""The classical predictor: answers a second beside the engine of boxes, and examples a second learned from."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.planning.classical.model import ClassicalPlan
from oracle.predictors.classical import ClassicalTrainer
from tests.benchmarks.engine import answering
from tests.benchmarks.pairs import Floor, Row, Settings, cpu_rate, paired
from tests.benchmarks.states import box_plan, classical_plan, inside, queries
from tests.support.shards import SECRET

_BATCH: Final = 16_384
_FASTER: Final = Floor("ratio", 1.0)


def _learned(plan: ClassicalPlan, rows: NDArray[np.float64]) -> None:
    trainer = ClassicalTrainer(plan, SECRET)
    trainer.add(rows, inside(rows))
    trainer.finish()


def measure(settings: Settings) -> Iterator[Row]:
    """Measure predictions a second with few sides and with many, and examples a second."""
    for dimension in (settings.narrow, settings.wide):
        plan = classical_plan(dimension, settings.epsilon)
        own = cpu_rate(_BATCH * settings.batches, answering(plan, settings.batches))
        boxes = answering(box_plan(dimension, settings.epsilon), settings.batches)
        value, baseline = paired(settings, own, cpu_rate(_BATCH * settings.batches, boxes))
        what = f"classical, {len(plan.sides)} sides, against the engine of boxes"
        yield Row(what, value, "predictions/s", baseline, _FASTER)
    plan = classical_plan(settings.wide, settings.epsilon, settings.learned_rows)
    rows = queries(plan.declared, settings.wide, seed=1)
    learning = cpu_rate(len(rows), lambda: _learned(plan, rows))
    sorting = cpu_rate(len(rows), lambda: [np.sort(column) for column in rows.T])
    value, baseline = paired(settings, learning, sorting)
    yield Row(f"classical, learning with {len(plan.sides)} sides, against sorting", value, "examples/s", baseline)
