"""Planning a model, whatever its predictor."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from oracle.errors import PlanError, RefusedError
from oracle.planning.classical.model import ClassicalModel
from oracle.planning.kinds import KINDS, Profile
from oracle.planning.model import Model, Truth, promises_of, without_truth
from oracle.planning.plan import Plan, refuse_too_few

__all__ = [
    "as_classical",
    "as_paper",
    "check_runnable",
    "plan_model",
    "plan_sufficient",
    "quick_examples",
    "searches",
    "verify_plan",
]


def _profile(of: Model | Plan) -> Profile[Any, Any]:
    profiles = KINDS[of.predictor].profiles
    if of.profile not in profiles:  # a plan's type may allow more than there is
        raise PlanError(f"plan.profile = {of.profile!r}: must be {' or '.join(profiles)} for {of.predictor}")
    return profiles[of.profile]


def plan_sufficient(model: Model, progress: Callable[[int], None] = lambda _step: None) -> Plan:
    """Plan a model by its kind and profile; where it declares too few examples, plan for the fewest that suffice.

    Args:
        model: The model.
        progress: Called after each of at most `PLAN_STEPS` steps, if there is anything to search.

    Raises:
        PlanError: A size is out of range.
    """
    plan: Plan = _profile(model).plan(without_truth(model), progress)
    truth: Truth | None = getattr(model, "truth", None)
    return plan if truth is None else msgspec.structs.replace(plan, epsilon=model.epsilon, truth=truth)


def quick_examples(model: Model) -> int:
    """Return a number of examples that suffices, a few percent above that of `plan_sufficient`, without a search.

    `plan_sufficient` plans every model that declares as many as this returns for it.

    Raises:
        PlanError: A size is out of range.
    """
    quick = _profile(model).quick
    return plan_sufficient(model).examples if quick is None else quick(without_truth(model))


def searches(model: Model) -> bool:
    """Return whether planning the model searches, and so takes a while."""
    return _profile(model).quick is not None


def plan_model(model: Model, progress: Callable[[int], None] = lambda _step: None) -> Plan:
    """Plan a model by its kind and profile, so that a state can be made of the plan.

    Raises:
        PlanError: The declared examples are fewer than the least that works, or a size is out of range.
    """
    plan = plan_sufficient(model, progress)
    refuse_too_few(model, plan)
    check_runnable(plan)
    return plan


def check_runnable(plan: Plan) -> None:
    """Refuse a plan that no state can be made of.

    Raises:
        PlanError: It is one.
    """
    _profile(plan).check_runnable(plan)


def verify_plan(plan: Plan) -> None:
    """Make every figure of a plan again: with the accountant, or, where epsilon is nominal, as the paper's proofs say.

    Raises:
        PlanError: A figure does not hold, or is none that a theorem is about.
    """
    try:
        _check_form(plan)
        _profile(plan).verify(plan)
    except PlanError:
        raise
    except (
        RefusedError,
        ArithmeticError,
        ValueError,
        IndexError,
        MemoryError,
    ) as exc:  # of numbers that no planner makes
        raise PlanError(f"plan: a figure is outside what its formulas are about: {exc}") from exc


def _check_form(plan: Plan) -> None:
    """Refuse numbers that no plan of any predictor has."""
    numbers = [phase.phase for phase in plan.phases]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise PlanError(f"plan.phases = {numbers}: must be at least one, numbered from 1")
    figures = [("epsilon", plan.epsilon, 0.0 < plan.epsilon < math.inf, "above 0 and finite")]
    bound = f"from 1 to {plan.declared}, the declared ones"
    figures.append(("examples", plan.examples, 1 <= plan.examples <= plan.declared, bound))
    figures.append(("gamma", plan.gamma, 0.0 < plan.gamma <= 1.0, "above 0, and at most 1"))
    figures.append(("delta", plan.delta, plan.delta >= 0.0, "at least 0"))
    if plan.at_most is not UNSET:
        figures.append(("at_most", plan.at_most, plan.at_most >= 1, "at least 1"))
    for index, phase in enumerate(plan.phases):
        figures.append((f"phases[{index}].rounds", phase.rounds, phase.rounds >= 1, "at least 1"))
        figures.append((f"phases[{index}].delta", phase.delta, 0.0 <= phase.delta <= 1.0, "from 0 to 1"))
    for where, figure, holds, must in figures:
        if not holds:
            raise PlanError(f"plan.{where} = {figure!r}: must be {must}")


def as_paper(model: Model) -> Model | None:
    """Return a model with the same promises for the `paper` profile, or None where its kind has no such profile."""
    settings = KINDS[model.predictor].paper
    return None if settings is None else msgspec.structs.replace(model, profile="paper", **settings)


def as_classical(model: Model) -> Model | None:
    """Return the model of a classical learner with the same promises, or None where there is none."""
    settings = KINDS[model.predictor].classical
    if settings is None or any(feature.kind == "string" for feature in model.features):
        return None
    return ClassicalModel(**promises_of(model) | {"predictor": "classical", **settings}, examples=model.examples)
