"""The classical predictor: answers a second beside the engine of boxes, and examples a second learned from."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.planning.classical import box_as_classical
from oracle.planning.classical_model import ClassicalPlan
from oracle.planning.planner import wish_for
from oracle.predictors.classical import ClassicalPredictor, ClassicalTrainer
from tests.benchmarks.engine import answering
from tests.benchmarks.pairs import Floor, Row, Settings, cpu_rate, paired
from tests.benchmarks.states import box_model, box_plan, inside, queries
from tests.support.shards import SECRET

__all__ = ["measure"]

_BATCH: Final = 16_384
_FASTER: Final = Floor("ratio", 1.0)


def _planned(dimension: int, epsilon: float, examples: int) -> ClassicalPlan:
    """Return the plan of a classical learner with the promises of the model of boxes."""
    model = msgspec.structs.replace(box_as_classical(box_model(dimension, epsilon)), examples=examples)
    plan = wish_for(model)
    assert isinstance(plan, ClassicalPlan)
    return plan


def _learned(plan: ClassicalPlan, rows: NDArray[np.float64]) -> ClassicalPredictor:
    trainer = ClassicalTrainer(plan, SECRET)
    trainer.add(rows, inside(rows))
    return trainer.finish()


def _answering(plan: ClassicalPlan, count: int) -> Callable[[], object]:
    dimension = len(plan.features)
    state = _learned(plan, queries(plan.declared, dimension, seed=1)).export()
    batches = np.split(queries(_BATCH * count, dimension, seed=2), count)
    present = np.ones(_BATCH, dtype=np.bool_)

    def work() -> None:
        predictor = ClassicalPredictor.restore(plan, state)
        for batch in batches:
            predictor.answer(batch, present)
            predictor.settle()

    return work


def measure(settings: Settings) -> Iterator[Row]:
    """Measure predictions a second with few sides and with many, and examples a second."""
    for dimension in (settings.narrow, settings.wide):
        plan = _planned(dimension, settings.epsilon, 1)
        own = cpu_rate(_BATCH * settings.batches, _answering(plan, settings.batches))
        boxes = answering(box_plan(dimension, settings.epsilon), settings.batches)
        value, baseline = paired(settings, own, cpu_rate(_BATCH * settings.batches, boxes))
        what = f"classical, {len(plan.sides)} sides, against the engine of boxes"
        yield Row(what, value, "predictions/s", baseline, _FASTER)
    plan = _planned(settings.wide, settings.epsilon, settings.learned_rows)
    rows = queries(plan.declared, settings.wide, seed=1)
    learning = cpu_rate(len(rows), lambda: _learned(plan, rows))
    sorting = cpu_rate(len(rows), lambda: [np.sort(column) for column in rows.T])
    value, baseline = paired(settings, learning, sorting)
    yield Row(f"classical, learning with {len(plan.sides)} sides, against sorting", value, "examples/s", baseline)
