"""Plans of distributions whose sizes are made up, for what stands around a predictor; and questions for them."""

from typing import Any, Final, Literal

from oracle.planning.distribution.model import DistributionPlan, LadderPlan
from oracle.planning.features import Feature
from oracle.planning.plan import Phase
from oracle.planning.questions import QuestionLimits

FEATURES: Final = {
    "number": Feature(name="v"),
    "date": Feature(name="v", type="date"),
    "decimal": Feature(name="v", type="decimal", places=2),
    "string": Feature(name="v", type="string", max_bytes=20),
}
"""One of every type that a distribution may be of."""


def distribution_plan(
    kind: Literal["number", "date", "decimal", "string"] = "number", **changes: Any
) -> DistributionPlan:
    """Return a plan whose sizes are made up."""
    sizes: dict[str, Any] = {
        "name": "d",
        "predictor": "distribution",
        "profile": "tight",
        "features": (FEATURES[kind],),
        "epsilon": 1.0,
        "delta": 1e-6,
        "alpha": 0.05,
        "beta": 0.05,
        "gamma": 1.0,
        "examples": 1000,
        "declared": 1000,
        "questions": 1000,
        "comparisons": 5000,
        "error": 0.05,
        "paid": 20,
        "limits": QuestionLimits(),
        "ladder": LadderPlan(slope=0.2, gap=10, margin=20, width=90),
        "phases": (Phase(phase=1, rounds=2**49, delta=1e-6),),
        "memory_bytes": 2**20,
    }
    return DistributionPlan(**(sizes | changes))
