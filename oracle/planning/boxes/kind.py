"""Plans of boxes: which planner plans which profile, and what checks its plans."""

from collections.abc import Callable

import msgspec

from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.paper import check_paper, check_runnable, plan_paper
from oracle.planning.boxes.tight import plan_or_wanted, quick_examples
from oracle.planning.guarantees import verify
from oracle.planning.plan import BoxPlan

__all__ = ["box_as_paper", "check_box_runnable", "quick_box_examples", "verify_box_plan", "wish_for_box"]


def wish_for_box(model: BoxModel, progress: Callable[[int], None]) -> BoxPlan:
    """Plan a model by its profile, as if just enough examples were declared where it declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    return plan_paper(model) if model.profile == "paper" else plan_or_wanted(model, progress)


def quick_box_examples(model: BoxModel) -> int:
    """Return examples that a model has a plan with, without a search.

    Raises:
        PlanError: A size is out of range.
    """
    return plan_paper(model).examples if model.profile == "paper" else quick_examples(model)


def verify_box_plan(plan: BoxPlan) -> None:
    """Check every figure of a plan: with the accountant, or, where epsilon is nominal, what the paper's proofs assert.

    Raises:
        PlanError: A figure does not hold.
    """
    if plan.nominal:
        check_paper(plan)
    else:
        verify(plan)


def check_box_runnable(plan: BoxPlan) -> None:
    """Refuse a plan that no state can be made of; the tight planner makes none.

    Raises:
        PlanError: It is one.
    """
    if plan.nominal:
        check_runnable(plan)


def box_as_paper(model: BoxModel) -> BoxModel:
    """Return a model with the same promises for the `paper` profile; what only `tight` knows is left out."""
    return msgspec.structs.replace(model, profile="paper", slicing="rsc", trim=0, share=None, first_share=None)
