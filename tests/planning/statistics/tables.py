"""Plans of tables, as a planner would make them, but for the sizes that utility asks for."""

from typing import Any

from oracle.accounting.paid_questions import noise_slope
from oracle.planning.attributes import Attribute
from oracle.planning.model import Limits
from oracle.planning.plan import Phase
from oracle.planning.statistics.model import NoisePlan, StatisticsPlan, TablePlan

ATTRIBUTES = (
    Attribute(name="a", categories=("x", "y")),
    Attribute(name="b", bounds=(0.0, 24.0), bins=24),
    Attribute(name="c", categories=("u",)),
)
MARGINALS = ((0, 2), (1,))
SLOPE = noise_slope(40, 1.0, 9e-7, exact=True)


def table_plan(kind: type[TablePlan], **changes: Any) -> TablePlan:
    """Return a plan of 40 paid questions with Gumbel noise at epsilon 1."""
    common: dict[str, Any] = {
        "name": "m",
        "predictor": "statistics",
        "profile": "tight",
        "features": (),
        "attributes": ATTRIBUTES,
        "epsilon": 1.0,
        "delta": 1e-6,
        "alpha": 0.02,
        "beta": 0.01,
        "gamma": 1.0,
        "examples": 300_000,
        "declared": 300_000,
        "questions": 1_000_000,
        "paid": 40,
        "noise": NoisePlan(law="gumbel", slope=SLOPE, above=900, below=150),
        "limits": Limits(),
        "phases": (Phase(phase=1, rounds=2**49, delta=1e-6),),
        "memory_bytes": 1 << 20,
    }
    if kind is StatisticsPlan:
        common |= {"gap": 0.01, "complete": False, "first_margin": 901, "margin": 5850, "start": MARGINALS}
    return kind(**(common | changes))
