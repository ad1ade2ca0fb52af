"""Stumps: answers a second beside a comparison and a decision stump, neither private, and examples learned from."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.stumps import StumpsTrainer
from tests.benchmarks.engine import answering
from tests.benchmarks.pairs import Row, Settings, cpu_rate, paired
from tests.benchmarks.states import inside, queries, stumps_plan
from tests.support.shards import SECRET

_BATCH: Final = 16_384
_FITTED: Final = 20_000
"""Rows that the peer is fitted on; how fast it predicts does not depend on it."""


def _learned(plan: StumpsPlan, rows: NDArray[np.float64]) -> None:
    trainer = StumpsTrainer(plan, SECRET)
    trainer.add(rows, inside(rows))
    trainer.finish()


def measure(settings: Settings) -> Iterator[Row]:
    """Measure predictions a second with many features, of which one counts, and examples a second."""
    plan = stumps_plan(settings.wide, settings.epsilon)
    own = cpu_rate(_BATCH * settings.batches, answering(plan, settings.batches))
    rows, fitted = (queries(count, settings.wide, seed=2) for count in (_BATCH, _FITTED))
    tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit(fitted, inside(fitted))
    what = f"stumps, {settings.wide} features"
    for name, peer in (
        ("NumPy's comparison", lambda: rows[:, 0] >= 0.5),
        ("scikit-learn's decision stump", lambda: tree.predict(rows)),
    ):
        value, baseline = paired(settings, own, cpu_rate(_BATCH, peer))
        yield Row(f"{what}, against {name}, not private", value, "predictions/s", baseline)
    plan = stumps_plan(settings.wide, settings.epsilon, settings.learned_rows)
    rows = queries(plan.declared, settings.wide, seed=1)
    learning = cpu_rate(len(rows), lambda: _learned(plan, rows))
    sorting = cpu_rate(len(rows), lambda: [np.sort(column) for column in rows.T])
    value, baseline = paired(settings, learning, sorting)
    yield Row(f"stumps, learning over {settings.wide} features, against sorting", value, "examples/s", baseline)
