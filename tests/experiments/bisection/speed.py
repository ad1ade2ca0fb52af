"""How many queries a second a served predictor of bisection answers."""

import time
from typing import Final

import msgspec
import numpy as np

from oracle.planning.bisection.model import BisectionModel
from oracle.planning.bisection.tight import plan_bisection
from oracle.planning.model import Feature
from oracle.predictors.bisection.trainer import BisectionTrainer
from tests.experiments.bisection.runs import Profile

_BATCH: Final = 16_384
_BATCHES: Final = 12


def queries_a_second(profile: Profile, directions: int, batches: int = _BATCHES) -> float:
    """Return queries a second of CPU time, as `Predictor.answer` takes them: hash, tag, noise and learning included.

    Args:
        profile: Which learner.
        directions: d, and D too.
        batches: How many batches are timed, after one that is not.
    """
    generator = np.random.default_rng(1)
    model = BisectionModel(
        name="speed",
        predictor="bisection",
        profile=profile,
        epsilon=1.0,
        alpha=0.5,
        examples=2000,
        rounds=_BATCH * (batches + 1),
        features=tuple(Feature(name=f"x{number}") for number in range(directions)),
    )
    plan = msgspec.structs.replace(plan_bisection(model, lambda _step: None), scale=0.1)
    trainer = BisectionTrainer(plan, bytes(32))
    trainer.add(generator.random((plan.declared, directions)), np.ones(plan.declared, dtype=np.bool_))
    predictor = trainer.finish()
    queries = generator.random((_BATCH, directions))
    present = np.ones(_BATCH, dtype=np.bool_)
    predictor.answer(queries, present)
    started = time.process_time()
    for _ in range(batches):
        predictor.answer(queries, present)
    return _BATCH * batches / (time.process_time() - started)
