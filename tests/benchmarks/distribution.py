"""Distributions: shares a second once the ladder is public, beside a search in the rows themselves, not private."""

import hashlib
import itertools
from collections.abc import Iterator

import numpy as np

from oracle.planning.distribution.model import DistributionModel
from oracle.planning.distribution.tight import plan_distribution
from oracle.planning.features import Feature
from oracle.predictors.base import Predictor
from oracle.predictors.distribution.trainer import DistributionTrainer
from oracle.predictors.values import Values
from tests.benchmarks.pairs import Floor, Row, Settings, cpu_rate, paired
from tests.predictors.distribution.values import at, draw_values, quantiles

_PROMISED = 1_000_000.0
_FEATURES = (
    ("numbers", Feature(name="v"), Floor("value", _PROMISED)),
    ("strings", Feature(name="v", type="string", max_bytes=12), None),
)


def _trained(of: Feature, epsilon: float) -> tuple[Predictor, np.ndarray]:
    model = DistributionModel(
        name="d", predictor="distribution", epsilon=epsilon, alpha=0.02, examples=1 << 17, features=(of,)
    )
    plan = plan_distribution(model, lambda _done: None)
    rows = draw_values(of, plan.declared, np.random.default_rng(1))
    trainer = DistributionTrainer(plan, hashlib.sha256(b"benchmark").digest())
    trainer.add(rows, np.ones(len(rows), dtype=np.bool_))
    return trainer.finish(), rows


def measure(settings: Settings) -> Iterator[Row]:
    """Measure numbers and strings, rows in and answers out, when every quantile has been asked for."""
    for name, of, floor in _FEATURES:
        predictor, rows = _trained(of, settings.epsilon)
        first = quantiles(of, np.linspace(0.0, 1.0, 1_001))
        predictor.answer(first, np.ones(len(first), dtype=np.bool_))
        values, count = Values((of,)), 16 * settings.questions
        present = np.ones(count, dtype=np.bool_)
        sorted_rows = np.sort(values.column(rows, 0))
        drawn = (draw_values(of, settings.questions, np.random.default_rng(seed)) for seed in itertools.count(2))
        asked = [np.tile(at(next(drawn)), (16, 1)) for _ in range(4)]
        turns = itertools.cycle(asked)

        def own(
            predictor: Predictor = predictor, turns: Iterator[np.ndarray] = turns, present: np.ndarray = present
        ) -> object:
            return predictor.answer(next(turns), present)

        def exact(
            turns: Iterator[np.ndarray] = turns, values: Values = values, rows: np.ndarray = sorted_rows
        ) -> object:
            return np.searchsorted(rows, values.column(next(turns), 0), side="right") / len(rows)

        value, baseline = paired(settings, cpu_rate(count, own), cpu_rate(count, exact))
        yield Row(
            f"distribution, {name}, against NumPy's search in the rows, not private",
            value,
            "answers/s",
            baseline,
            floor,
        )
