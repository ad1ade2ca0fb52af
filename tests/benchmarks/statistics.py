"""Statistics: fresh conjunctions a second, as rows and as JSON, beside sums over the cube itself, not private."""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from connectors.base import Delivery
from oracle.planning.statistics.model import StatisticsModel, StatisticsPlan
from oracle.planning.statistics.tight import plan_statistics
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.statistics.trainer import StatisticsTrainer
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot
from tests.benchmarks.pairs import Floor, Measure, Row, Settings, paired
from tests.experiments.analyst.table import FLIGHTS
from tests.experiments.statistics.questions import Questions, draw
from tests.experiments.statistics.tables import flights
from tests.support.shards import process

_SMALL = ("carrier", "origin", "month", "hour")
"""Attributes of a table of 24,570 cells; all six make 1.8 million."""

_SUMMED = 100
"""Questions that the peer answers at a stretch."""


def _state(names: tuple[str, ...]) -> tuple[StatisticsPlan, Statistics]:
    chosen = [index for index, one in enumerate(FLIGHTS) if one.name in names]
    cells = flights().cells[:, chosen].astype(np.float64)
    model = StatisticsModel(
        name="flights",
        predictor="statistics",
        epsilon=1.0,
        delta=1e-6,
        alpha=0.02,
        examples=len(cells),
        attributes=tuple(FLIGHTS[index] for index in chosen),
        paid=200,
    )
    plan = plan_statistics(model, lambda _done: None)
    trainer = StatisticsTrainer(plan, hashlib.sha256(b"benchmark").digest())
    trainer.add(cells, np.ones(len(cells), dtype=np.bool_))
    predictor = trainer.finish()
    assert isinstance(predictor, Statistics)
    return plan, predictor


def _timed(count: int, fresh: Callable[[], Callable[[], object]]) -> Measure:
    """Return a measure of answers a CPU second to questions that nobody asked before, and that are made untimed."""

    def measured() -> float:
        work = fresh()
        begun = time.process_time()
        work()
        return count / (time.process_time() - begun)

    measured()  # warm
    return measured


def _as_rows(plan: StatisticsPlan, predictor: Statistics, drawn: Iterator[Questions]) -> Callable[[], object]:
    rows = next(drawn).rows(plan.layout)
    return lambda: predictor.answer(rows, np.ones(len(rows), dtype=np.bool_))


def _as_messages(plan: StatisticsPlan, shard: Shard, drawn: Iterator[Questions]) -> Callable[[], object]:
    first = shard.position
    messages = [Delivery(first + number, body) for number, body in enumerate(next(drawn).messages(plan.attributes), 1)]
    return lambda: process(shard, messages)


def _sums(cube: NDArray[np.float64], drawn: Iterator[Questions]) -> Callable[[], object]:
    """Return sums over the cube of shares, which are as good as public here: the hypothesis."""
    asked = next(drawn).first(_SUMMED)
    chosen = [np.ix_(*(mask[number] for mask in asked.masks)) for number in range(_SUMMED)]
    return lambda: [float(cube[cells].sum()) for cells in chosen]


def measure(settings: Settings) -> Iterator[Row]:
    """Measure a large table and a small one, rows in and answers out, and JSON in and JSON out."""
    for names, floor in ((tuple(one.name for one in FLIGHTS), 2_000.0), (_SMALL, 50_000.0)):
        plan, predictor = _state(names)
        snapshot = Snapshot.first(plan.digest, predictor.export())
        drawn = (draw(plan.attributes, settings.questions, seed) for seed in itertools.count())
        what = f"statistics, {plan.layout.size:,} cells"
        sums = _timed(_SUMMED, partial(_sums, predictor.hypothesis(), drawn))
        rows = _timed(settings.questions, partial(_as_rows, plan, predictor, drawn))
        messages = _timed(settings.questions, partial(_as_messages, plan, Shard(plan, snapshot), drawn))
        for name, own in (("rows", rows), ("JSON", messages)):
            value, baseline = paired(settings, own, sums)
            yield Row(
                f"{what}, {name}, against NumPy's sums over the cube, not private",
                value,
                "answers/s",
                baseline,
                Floor("value", floor),
            )
