"""Models and plans about tables."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_sufficient
from oracle.planning.statistics.model import SparseVectorModel, StatisticsModel

Document = dict[str, Any]
TablePlanner = Callable[..., Any]
"""Returns a `StatisticsPlan` or a `SparseVectorPlan`, whose fields depend on which."""

TEN_BITS = [{"name": f"a{number}", "categories": ["x", "y"]} for number in range(10)]
ONE_SCALE = [{"name": "v", "bounds": [0.0, 1.0], "bins": 1024}]


def table_model(**changes: object) -> StatisticsModel | SparseVectorModel:
    """Return the model of the lecture's table: 1,024 declared cells, alpha = .1, epsilon = 1, 10,000 questions."""
    fields: Document = {
        "name": "s",
        "predictor": "statistics",
        "epsilon": 1.0,
        "delta": 1e-6,
        "examples": 1,
        "rounds": 10_000,
        "attributes": TEN_BITS,
        **changes,
    }
    model = parse_model({"model": {name: value for name, value in fields.items() if value is not None}})
    assert isinstance(model, StatisticsModel | SparseVectorModel)
    return model


@pytest.fixture(scope="session")
def table_plan() -> TablePlanner:
    """Return the planner of such models, by their changes, with a memory."""
    known: dict[bytes, Any] = {}

    def plan(**changes: object) -> Any:
        model = table_model(**changes)
        key = msgspec.json.encode(model)
        if key not in known:
            known[key] = plan_sufficient(model)
        return known[key]

    return plan
