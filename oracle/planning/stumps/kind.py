"""Plans of stumps: which planner plans which profile, and what checks its plans."""

from collections.abc import Callable

import msgspec

from oracle.errors import PlanError
from oracle.planning.boxes.paper import check_runnable
from oracle.planning.guarantees import verify
from oracle.planning.stumps.model import StumpsModel, StumpsPlan
from oracle.planning.stumps.paper import check_stumps_paper, plan_stumps_paper
from oracle.planning.stumps.tight import quick_stump_examples, stumps_wish

__all__ = ["check_stumps_runnable", "quick_stumps_examples", "stumps_as_paper", "verify_stumps_plan", "wish_for_stumps"]


def wish_for_stumps(model: StumpsModel, progress: Callable[[int], None]) -> StumpsPlan:
    """Plan a model by its profile, as if just enough examples were declared where it declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    return plan_stumps_paper(model) if model.profile == "paper" else stumps_wish(model, progress)


def quick_stumps_examples(model: StumpsModel) -> int:
    """Return examples that a model has a plan with, without a search.

    Raises:
        PlanError: A size is out of range.
    """
    return plan_stumps_paper(model).examples if model.profile == "paper" else quick_stump_examples(model)


def verify_stumps_plan(plan: StumpsPlan) -> None:
    """Check every figure of a plan: with the accountant, or, where epsilon is nominal, what the paper's proofs assert.

    Raises:
        PlanError: A figure does not hold.
    """
    if plan.nominal:
        check_stumps_paper(plan)
        return
    selection = plan.selection
    for name, stated, proved in (
        ("epsilon", selection.epsilon, selection.scale),
        ("cut_epsilon", selection.cut_epsilon, 2.0 * selection.cut_scale),
    ):
        if not stated >= proved:
            msg = f"plan.selection.{name} = {stated!r}: the accountant proves {proved!r} only"
            raise PlanError(msg)
    verify(plan)


def check_stumps_runnable(plan: StumpsPlan) -> None:
    """Refuse a plan that no state can be made of; the tight planner makes none.

    Raises:
        PlanError: It is one.
    """
    if plan.nominal:
        check_runnable(plan)


def stumps_as_paper(model: StumpsModel) -> StumpsModel:
    """Return a model with the same promises for the `paper` profile; what only `tight` knows is left out."""
    return msgspec.structs.replace(model, profile="paper", first_share=None)
