"""Bisection: queries a second while it learns, and after, beside NumPy without privacy."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from oracle.planning.bisection.model import BisectionPlan
from tests.benchmarks.engine import answering
from tests.benchmarks.pairs import Floor, Row, Settings, cpu_rate, paired
from tests.benchmarks.states import bisection_plan, queries, trained

_BATCH: Final = 16_384
_ONE_BY_ONE: Final = 2_000
"""Rows of the peer that learns from one row after the other."""

_LEARNING: Final = Floor("value", 100_000.0)


def _least_squares(dimension: int) -> Callable[[], object]:
    """Return recursive least squares in NumPy, which learns from exact answers: no noise, no bits, no privacy."""
    rows = queries(_ONE_BY_ONE, dimension, seed=2)
    truth = np.full(dimension, 0.5)

    def work() -> None:
        inverse, weights = np.eye(dimension), np.zeros(dimension)
        for row in rows:
            gain = inverse @ row
            gain /= 1.0 + row @ gain
            weights += gain * (row @ truth - row @ weights)
            inverse -= np.outer(gain, row @ inverse)

    return work


def _recalling(plan: BisectionPlan, count: int) -> Callable[[], object]:
    """Return what answers so many batches after the learning rounds."""
    dimension, learning = len(plan.features), plan.phases[0].rounds
    predictor = trained(plan)
    predictor.answer(queries(learning, dimension, seed=1), np.ones(learning, dtype=np.bool_))
    batches = np.split(queries(_BATCH * count, dimension, seed=2), count)
    present = np.ones(_BATCH, dtype=np.bool_)

    def work() -> None:
        for batch in batches:
            predictor.answer(batch, present)

    return work


def measure(settings: Settings) -> Iterator[Row]:
    """Measure both profiles while they learn from every query, and the answers that cost nothing any more."""
    dimension, rounds = settings.directions, _BATCH * settings.batches
    rows, weights = queries(_BATCH, dimension, seed=2), np.full(dimension, 0.5)
    what = f"bisection, {dimension} directions"
    efficient, paper = (
        cpu_rate(rounds, answering(bisection_plan(dimension, settings.epsilon, rounds, profile), settings.batches))
        for profile in ("efficient", "paper")
    )
    one_by_one = cpu_rate(_ONE_BY_ONE, _least_squares(dimension))
    product = cpu_rate(_BATCH, lambda: rows @ weights)
    recalling = cpu_rate(rounds, _recalling(bisection_plan(dimension, settings.epsilon, 1000), settings.batches))
    for name, measure_own, peer, floor in (
        ("efficient, against recursive least squares in NumPy, not private", efficient, one_by_one, _LEARNING),
        ("as written, against recursive least squares in NumPy, not private", paper, one_by_one, None),
        ("after learning, against NumPy's dot product, not private", recalling, product, None),
    ):
        value, baseline = paired(settings, measure_own, peer)
        yield Row(f"{what}, {name}", value, "queries/s", baseline, floor)
