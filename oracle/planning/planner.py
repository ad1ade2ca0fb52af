"""Which planner plans which profile."""

from collections.abc import Callable

import msgspec

from oracle.planning.guarantees import verify
from oracle.planning.model import Model
from oracle.planning.paper import check_paper, check_runnable, plan_paper
from oracle.planning.plan import Plan
from oracle.planning.tight import plan_or_wish, refuse_too_few

__all__ = ["as_paper", "plan_model", "verify_plan", "wish_for"]


def wish_for(model: Model, progress: Callable[[int], None] = lambda _step: None) -> Plan:
    """Plan a model by its profile, as if just enough examples were declared where it declares too few.

    Args:
        model: The model.
        progress: Called after each of about `SEARCH_STEPS` steps, if there is anything to search.

    Raises:
        PlanError: A size is out of range.
    """
    return plan_paper(model) if model.profile == "paper" else plan_or_wish(model, progress)


def plan_model(model: Model, progress: Callable[[int], None] = lambda _step: None) -> Plan:
    """Plan a model by its profile, so that a state can be made of the plan.

    Raises:
        PlanError: The declared examples are fewer than the least that works, or a size is out of range.
    """
    plan = wish_for(model, progress)
    refuse_too_few(model, plan)
    if plan.nominal:
        check_runnable(plan)
    return plan


def verify_plan(plan: Plan) -> None:
    """Check every figure of a plan: with the accountant, or, where epsilon is nominal, what the paper's proofs assert.

    Raises:
        PlanError: A figure does not hold.
    """
    if plan.nominal:
        check_paper(plan)
    else:
        verify(plan)


def as_paper(model: Model) -> Model:
    """Return a model with the same promises for the `paper` profile; what only `tight` knows is left out."""
    return msgspec.structs.replace(model, profile="paper", slicing="rsc", trim=0, share=None, first_share=None)
