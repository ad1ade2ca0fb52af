"""Profile `paper`: PrivateMW with the constants of Ziani's lecture ("Online MW", Algorithms 1 and 2, Theorems 1 to 7).

All answers err by 3 a at most, so a = alpha/3. c = 4 ln X/a^2 updates (Theorem 1), the threshold is 2 a, and
NumericSparse (Dwork and Roth, 2014, Algorithm 3) is accurate to a where n is large enough. Corrected are:
* L1: in Theorem 6 the number of rows stands beside epsilon once, not squared.
* L2: Theorem 7's 9 sqrt(8) and the threshold's 2 + 32 sqrt(2) do not fit each other. Dwork and Roth's sqrt(512) + 1
  does; and there are 2 k questions, both signs of each.
* L3: the root covers c ln(2/delta) only, and the logarithm of updates is ln(4 c/beta).
"""

import math
from collections.abc import Callable
from typing import Final

from oracle.errors import PlanError
from oracle.planning.attributes import Layout
from oracle.planning.model import promises_of
from oracle.planning.plan import Phase
from oracle.planning.questions import ROUNDS, check_questions, refuse_many
from oracle.planning.statistics.bounds import check_bounds
from oracle.planning.statistics.model import (
    NumericSparsePlan,
    StatisticsModel,
    StatisticsPlan,
    check_table_model,
    statistics_bytes,
)

__all__ = ["plan_statistics_paper", "verify_statistics_paper"]

_ROOT: Final = math.sqrt(512.0)


def plan_statistics_paper(model: StatisticsModel, _progress: Callable[[int], None]) -> StatisticsPlan:
    """Plan the lecture's algorithm, for the fewest rows that suffice where the model declares too few.

    Raises:
        PlanError: More rows would be needed than can be declared.
    """
    layout = Layout.of(model.attributes)
    each = model.alpha / 3.0
    paid = math.ceil(4.0 * math.log(layout.size) / each**2)
    spread = math.sqrt(paid * math.log(2.0 / model.delta))
    logs = math.log(2.0 * model.rounds) + math.log(4.0 * paid / model.beta)
    least = math.ceil((_ROOT + 1.0) * spread * logs / (model.epsilon * each))
    refuse_many(model, least)
    rows = max(model.examples, least)
    # Dwork and Roth: noise of scale s_1 on thresholds, 2 s_1 on comparisons, s_2 on values; s_i = sqrt(32) spread/eps_i
    slope = model.epsilon * _ROOT / (_ROOT + 1.0) / (math.sqrt(32.0) * spread)
    margin = math.floor(2.0 * each * rows)
    return StatisticsPlan(
        **promises_of(model),
        profile="paper",
        attributes=model.attributes,
        examples=least,
        declared=rows,
        questions=model.rounds,
        paid=paid,
        phases=(Phase(phase=1, rounds=ROUNDS, delta=model.delta),),
        memory_bytes=statistics_bytes(model.attributes, rows, paid),
        gap=each,
        complete=True,
        first_margin=margin,
        margin=margin,
        paper=NumericSparsePlan(
            threshold=2.0 * each,
            threshold_slope=slope,
            slope=slope / 2.0,
            value_slope=slope * 2.0 / _ROOT,
            rate=each / 2.0,
        ),
    )


def verify_statistics_paper(plan: StatisticsPlan) -> None:
    """Make every figure of a plan again.

    Raises:
        PlanError: One differs.
    """
    check_bounds(plan)
    model = check_questions(plan, StatisticsModel, check_table_model, attributes=plan.attributes)
    again = plan_statistics_paper(model, lambda _step: None)
    for name in (
        "examples",
        "declared",
        "paid",
        "phases",
        "gap",
        "complete",
        "margin",
        "first_margin",
        "start",
        "start_slope",
        "paper",
        "noise",
    ):
        if getattr(plan, name) != getattr(again, name):
            msg = f"plan.{name} = {getattr(plan, name)}: the lecture's constants make it {getattr(again, name)}"
            raise PlanError(msg)
