"""The memory that a plan states is enough for the arrays that predictors of strings hold, and not much more."""

import numpy as np
import pytest

from oracle.planning.features import batch_bytes
from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_sufficient
from oracle.predictors.kinds import new_trainer
from tests.predictors.plans import feature
from tests.predictors.suite import SECRET
from tests.predictors.test_paper import toy_plan
from tests.predictors.texts import as_rows, text

_LONG = {"name": "s", "type": "string", "max_bytes": 256}
_SHORT = {"name": "t", "type": "string", "max_bytes": 20}
_NUMBER = {"name": "n"}
_BATCH = 16_384


def _plan(predictor, features, examples):
    boxes = {"slicing": "sequential", "first_share": 0.5} if predictor == "rectangles" else {}
    table = {"name": "m", "predictor": predictor, "epsilon": 8.0, "alpha": 0.4, "examples": examples}
    return plan_sufficient(parse_model({"model": {**table, **boxes, "features": features}}))


def _held(owner):
    """Return the bytes of all arrays that an object of the product holds, each once, with what it is a part of."""
    seen, total, waiting = set(), 0, [owner]
    while waiting:
        one = waiting.pop()
        while isinstance(one, np.ndarray) and isinstance(one.base, np.ndarray):
            one = one.base
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += one.nbytes
        elif isinstance(one, list | tuple):
            waiting += one
        elif type(one).__module__.startswith("oracle."):
            slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            waiting += [*getattr(one, "__dict__", {}).values(), *(getattr(one, name, None) for name in slots)]
    return total


@pytest.mark.parametrize(
    ("predictor", "features", "examples"),
    [
        ("rectangles", [_SHORT], 6_000),
        ("rectangles", [_LONG, _NUMBER], 16_000),
        ("stumps", [_SHORT, _LONG], 20_000),
    ],
)
def test_arrays_are_within_what_the_plan_states(predictor, features, examples):
    """Behind training, while a full batch waits for its bookkeeping, behind it, and in the next phase."""
    plan = _plan(predictor, features, examples)
    generator = np.random.default_rng(1)

    numbers = generator.random((1_000, len(features)))
    different = as_rows(plan.features, numbers)

    def rows(count):
        chosen = generator.integers(len(numbers), size=count)
        return different[chosen], numbers[chosen, 0] >= 0.1

    trainer = new_trainer(plan, SECRET)
    trainer.add(*rows(plan.declared))
    served = trainer.finish()
    first, second = plan.phases[:2]
    held = [_held(served)]
    count = min(first.rounds - 1, _BATCH)
    served.answer(rows(count)[0], np.ones(count, dtype=np.bool_))
    held.append(_held(served))
    served.settle()
    held.append(_held(served))
    assert 0 < held[1] - held[2] <= count * plan.waiting_bytes
    between = max(held[0], held[2])
    assert max(held) <= first.memory_bytes <= between + batch_bytes(plan.features, len(plan.sides)) + 50_000
    left = first.rounds - count
    for start in range(0, left, _BATCH):
        some = min(_BATCH, left - start)
        served.answer(rows(some)[0], np.ones(some, dtype=np.bool_))
    served.answer(rows(_BATCH)[0], np.ones(_BATCH, dtype=np.bool_))
    assert served.facts().phase == 2
    assert _held(served) <= second.memory_bytes


def test_arrays_are_within_what_a_plan_of_the_paper_states():
    """Of one with small sizes: those that the proofs ask for take gigabytes."""
    features = (text("a", 200), feature("b"))
    plan = toy_plan(features, 100.0)
    numbers = np.random.default_rng(2).random((plan.declared, 2))
    trainer = new_trainer(plan, SECRET)
    trainer.add(as_rows(features, numbers), numbers[:, 0] >= 0.1)
    served = trainer.finish()
    served.answer(as_rows(features, numbers[:300]), np.ones(300, dtype=np.bool_))
    served.settle()
    between = plan.phases[0].memory_bytes - batch_bytes(features, len(plan.sides))
    assert 0.7 * between < _held(served) <= between
