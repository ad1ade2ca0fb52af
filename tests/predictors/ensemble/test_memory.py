"""What a plan says that an ensemble holds, beside what it does hold."""

import tracemalloc

import numpy as np
import pytest

from oracle.planning.ensemble.tight import plan_ensemble
from oracle.planning.plan import SEGMENT_BYTES
from oracle.planning.serving import serving
from oracle.predictors.kinds import new_trainer
from tests.planning.ensemble.models import ensemble_model

_WIDTH = 20
_BATCH = 4_096


def test_the_plans_memory_is_what_is_held() -> None:
    """Over lives, a phase's end and full pools: the peak is within a fifth of what the plan says."""
    features = [{"name": f"x{number}"} for number in range(_WIDTH)]
    plan = plan_ensemble(ensemble_model(epsilon=50.0, examples=10_000, contested=0.01, features=features))
    generator = np.random.default_rng(4)
    rows = generator.normal(size=(10_000, _WIDTH))
    trainer = new_trainer(plan, bytes(32))
    trainer.add(rows, (rows[:, 0] > 0.5).astype(np.int8))
    predictor = trainer.finish()
    del trainer, rows
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    most = 3 * plan.phases[2].slots
    asked, present = generator.normal(size=(_BATCH, _WIDTH)), np.ones(_BATCH, dtype=np.bool_)
    for _ in range(0, most, _BATCH):
        predictor.answer(asked, present)
        predictor.settle()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert predictor.facts().phase == 4  # whose pools are as large as any
    assert peak == pytest.approx(plan.memory_bytes, rel=0.2)
    assert peak <= plan.memory_bytes + SEGMENT_BYTES


@pytest.mark.parametrize("width", [3, 40])
def test_a_snapshot_is_no_larger_than_the_plan_says(width: int) -> None:
    """Its pools; keys and counters are a few hundred bytes."""
    features = [{"name": f"x{number}"} for number in range(width)]
    plan = plan_ensemble(ensemble_model(epsilon=50.0, examples=2_000, features=features))
    rows = np.random.default_rng(4).normal(size=(2_000, width))
    trainer = new_trainer(plan, bytes(32))
    trainer.add(rows, (rows[:, 0] > 0.5).astype(np.int8))
    held = sum(array.nbytes for array in trainer.finish().export().values())
    first = max(plan.declared, plan.phases[0].slots) + plan.phases[0].slots
    assert held - 4096 <= first * (8 * width + 5) <= plan.state_bytes
    assert serving(plan).daemon > plan.memory_bytes + 4 * plan.state_bytes
