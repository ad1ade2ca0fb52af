"""The planner: seconds for many sides, against seconds for four."""

import time
from collections.abc import Iterator

from oracle.accounting.between_thresholds import kappa
from oracle.accounting.stopper import log_overflow
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_boxes
from tests.benchmarks.pairs import Floor, Measure, Row, Settings, paired
from tests.benchmarks.states import box_model


def _planning(model: BoxModel) -> Measure:
    """Return the CPU seconds of a plan, with nothing remembered of the one before."""

    def work() -> float:
        for remembers in (kappa, log_overflow):
            remembers.cache_clear()
        started = time.process_time()
        plan_boxes(model)
        return time.process_time() - started

    return work


def measure(settings: Settings) -> Iterator[Row]:
    """Measure the seconds that a plan takes, verified."""
    many, four = (_planning(box_model(dimension, settings.epsilon)) for dimension in (settings.wide, settings.narrow))
    value, baseline = paired(settings, many, four)
    name = f"planner, {2 * settings.wide} sides, against {2 * settings.narrow} sides"
    yield Row(name, value, "s", baseline, Floor("value", 5.0, above=False))
