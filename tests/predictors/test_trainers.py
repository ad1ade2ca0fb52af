"""What all trainers do alike: batches do not matter, and rows are refused by number and by value."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import DataError
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.kinds import new_trainer
from tests.predictors.examples import EXAMPLES, example
from tests.predictors.plans import feature, tiny_classical_plan, tiny_plan
from tests.predictors.suite import assert_same_state
from tests.predictors.tables import table_rows

_FEATURES: Final = [feature("a"), feature("b")]
_SECRET: Final = bytes(range(32))

PLANS: Final[Mapping[str, Callable[[], Plan]]] = {
    **{name: lambda name=name: example(name) for name in EXAMPLES},  # type: ignore[misc]
    "sequential": lambda: tiny_plan(_FEATURES, slicing="sequential", trim=2),
    "learned faces": lambda: tiny_plan(_FEATURES, learned=True),
    "classical stump": lambda: tiny_classical_plan(_FEATURES, concept="stump"),
    "classical whole": lambda: tiny_classical_plan(_FEATURES, slicing="whole"),
}

_TRAINERS = pytest.mark.parametrize("name", PLANS)


def _rows(plan: Plan, count: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(7).random((count, 2))
    rows[::9, 0] = 0.0
    labels = np.asarray((rows > 0.2).all(axis=1))
    if isinstance(plan, TablePlan):
        return table_rows(plan, rows), labels
    return rows[:, : len(plan.features)], labels


@_TRAINERS
def test_training_does_not_depend_on_the_batches(name: str) -> None:
    """The same rows in any batches, with more rows than are wanted, and with -0.0 for 0.0, make the same state."""
    plan = PLANS[name]()
    rows, labels = _rows(plan, plan.declared + 50)
    whole = new_trainer(plan, _SECRET)
    whole.add(rows[: plan.declared], labels[: plan.declared])
    expected = whole.finish().export()

    @given(st.lists(st.integers(0, plan.declared + 50), max_size=4).map(sorted))
    def check(cuts: list[int]) -> None:
        trainer = new_trainer(plan, _SECRET)
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            assert trainer.missing == max(plan.declared - start, 0)
            trainer.add(np.where(rows == 0.0, -0.0, rows)[start:stop], labels[start:stop])
        assert_same_state(trainer.finish().export(), expected)

    check()


@_TRAINERS
def test_too_few_rows_are_refused(name: str) -> None:
    """The declared number of rows must come, whatever they hold; one more makes a predictor."""
    plan = PLANS[name]()
    rows, labels = _rows(plan, plan.declared)
    trainer = new_trainer(plan, _SECRET)
    trainer.add(rows[:-1], labels[:-1])
    assert trainer.missing == 1
    with pytest.raises(DataError, match=rf"model\.examples = {plan.declared} declares"):
        trainer.finish()
    trainer.add(rows[-1:], labels[-1:])
    trainer.finish()


@_TRAINERS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_must_be_finite(name: str, value: float) -> None:
    """The column is named, the value is not; nothing of the batch was taken."""
    plan = PLANS[name]()
    rows, labels = _rows(plan, 20)
    rows[17, -1] = value
    trainer = new_trainer(plan, _SECRET)
    if isinstance(plan, TablePlan):
        words = rf"data: attribute {plan.attributes[-1].name}: every cell must be a whole number from 0 to 3$"
    else:
        words = rf"data: column {plan.features[-1].name}: every value must be a finite number( from 0 to 1)?$"
    with pytest.raises(DataError, match=words):
        trainer.add(rows, labels)
    assert trainer.missing == plan.declared
