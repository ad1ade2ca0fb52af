"""The `paper` planner of stumps: Algorithm 7 of Stemmer (2024) with the constants that its proofs assert.

eps/4 for the choice, eps/4 for the count, and eps/4 for RectanglesPERP on the relabelled data, of which one record
changes two: so that is paid twice. RectanglesPERP runs in one dimension as written, with both its sides. All nominal.
"""

import math

import msgspec

from oracle.errors import PlanError
from oracle.planning.boxes.model import BoxModel, side_names
from oracle.planning.boxes.paper import check_paper, plan_paper
from oracle.planning.features import stand_in
from oracle.planning.model import promises_of
from oracle.planning.stumps.model import SelectionPlan, StumpsModel, StumpsPlan

__all__ = ["check_stumps_paper", "plan_stumps_paper"]


def plan_stumps_paper(model: StumpsModel) -> StumpsPlan:
    """Plan a run with the constants of the paper; `declared` is the number wanted where the model declares fewer.

    Formal guarantees:
        * None with explicit constants: `Plan.nominal` is True. The sum of the nominal deltas over the declared
          examples and all rounds is at most `model.delta`.

    Raises:
        PlanError: The constants ask for more than a plan can say.
    """
    quarter = {
        "features": (stand_in(model.features, "both"),),
        "epsilon": model.epsilon / 4.0,
        "delta": model.delta / 2.0,
        "alpha": model.alpha / 2.0,
        "beta": model.beta / 2.0,
    }
    inner = plan_paper(
        BoxModel(**promises_of(model) | quarter, profile="paper", slicing="rsc", examples=model.examples)
    )
    candidates = len(side_names(model))
    # the proof of Theorem 4.17: the choice's and the count's errors are half of alpha n each, but with prob. beta/6
    wrong = (8.0 * math.log(6.0 * candidates / model.beta) + 4.0 * math.log(6.0 / model.beta)) / model.epsilon
    needed = max(inner.examples, math.ceil(2.0 * wrong / model.alpha))
    fields = (
        msgspec.structs.asdict(inner)
        | promises_of(model)
        | {
            "examples": needed,
            "declared": max(needed, inner.declared),
            "expected_error": model.alpha,
            "selection": _selection(model),
        }
    )
    plan = StumpsPlan(**fields)
    check_stumps_paper(plan)
    return plan


def _selection(of: StumpsModel | StumpsPlan) -> SelectionPlan:
    part = of.epsilon / 4.0
    return SelectionPlan(
        candidates=len(side_names(of)),
        scale=of.epsilon / 8.0,
        epsilon=part,
        cut_law="laplace",
        cut_scale=part,
        cut_epsilon=part,
        error=of.alpha / 2.0,
    )


def check_stumps_paper(plan: StumpsPlan) -> None:
    """Check that every figure is what the constants of the proofs make it, at a quarter of epsilon, half of the rest.

    Raises:
        PlanError: One is another.
    """
    if plan.selection != _selection(plan):
        raise PlanError("plan.selection: its figures are not those of the paper's constants")
    inner = msgspec.structs.replace(
        plan, epsilon=plan.epsilon / 4.0, delta=plan.delta / 2.0, alpha=plan.alpha / 2.0, beta=plan.beta / 2.0
    )
    check_paper(inner)
