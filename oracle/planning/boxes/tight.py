"""The `tight` planner: the least number of training examples, over the shares (PRIVACY.md, Estimate 14)."""

import dataclasses
import math
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_SIDES
from oracle.planning.boxes.drafts import (
    Draft,
    Task,
    count_allowed,
    count_phases,
    draft_error,
    draft_phases,
    stripes_mass,
    write_phases,
)
from oracle.planning.boxes.edges import check_plan, reserve, scale_plan, start_rho, stripes_share
from oracle.planning.boxes.model import BoxModel, side_names
from oracle.planning.guarantees import verify
from oracle.planning.model import Model, promises_of
from oracle.planning.plan import BoxPlan, refuse_too_few
from oracle.planning.search import first_enough, least_in_box
from oracle.planning.sizes import Shares

__all__ = [
    "COIN",
    "FEW_PHASES",
    "PLAN_STEPS",
    "SEARCH_STEPS",
    "faces_share",
    "least_examples",
    "plan_boxes",
    "plan_tight",
    "quick_examples",
    "verify_in_steps",
    "with_slack",
]

COIN: Final = 0.2
"""Probability of a uniformly random side under `faces`."""

_NEAR: Final = 0.1
"""For uniform features, the chance that another feature's face is as near as the nearest (see `slicing.Faces`)."""

SEARCH_STEPS: Final = 90
"""Sizes that the search tries at most."""

_CHECK_STEPS: Final = 30
"""Steps that checking the phases takes, of about the search's length each."""

PLAN_STEPS: Final = SEARCH_STEPS + _CHECK_STEPS
"""Steps of a plan at most, as its progress is counted."""

FEW_PHASES: Final = 4
"""Phases that stand for all where nothing is searched for."""

_SLACK: Final = 1.005
"""All phases want up to 1.002 times the examples that `FEW_PHASES` want."""

_LOWEST: Final = np.array([0.3, 0.3, 0.01, 0.3])
_HIGHEST: Final = np.array([0.95, 10.0, 0.6, 0.97])
_FIRST_GUESS: Final = np.array([0.9, 3.0, 0.1, 0.8])


def faces_share(model: Model, sides: int) -> float:
    """Return the part of a side's stripe that `faces` gives it when the features are uniform and independent.

    With d features in play the nearest face shares with Bin(d - 1, 0.1) others: E[1/(1 + Bin)] = (1 - 0.9^d)/(0.1 d).
    """
    if sides == 1:
        return 1.0
    dimension = sum(feature.sides != "none" for feature in model.features)
    return (1.0 - COIN) * (1.0 - (1.0 - _NEAR) ** dimension) / (_NEAR * dimension) + COIN / sides


class _Settled(NamedTuple):
    """Shares, the number of phases that they allow, and the draft of these for the declared examples."""

    shares: Shares
    phases: int
    draft: Draft


def verify_in_steps(plan: BoxPlan, progress: Callable[[int], None]) -> None:
    """Check every figure of a plan with the accountant (`guarantees.verify`), as the last of `PLAN_STEPS`."""
    verify(plan, lambda done: progress(SEARCH_STEPS + _CHECK_STEPS * done // len(plan.phases)))


def with_slack(examples: int) -> int:
    """Return at least what all phases want, given what `FEW_PHASES` want."""
    return math.ceil(examples * _SLACK)


def _shares_at(task: Task, point: NDArray[np.float64]) -> Shares:
    contamination, gap, stopper, first = (float(value) for value in point)
    return Shares(contamination, gap, stopper, task.model.first_share or first)


def _search(task: Task, progress: Callable[[int], None]) -> Shares:
    """Minimise n over the shares; two phases stand for all, sized by Theorem 5: the best shares are much the same."""
    task = dataclasses.replace(task, quick=True)

    def objective(point: NDArray[np.float64]) -> float:
        return math.log(draft_phases(task, _shares_at(task, point), 2, None).examples)

    found = least_in_box(objective, _LOWEST, _HIGHEST, _FIRST_GUESS, steps=SEARCH_STEPS, progress=progress)
    return _shares_at(task, found)


def _settle(model: BoxModel, progress: Callable[[int], None] = lambda _step: None) -> _Settled:
    """Draft with the shares that are found; or, where too few examples are declared for these, with the first ones.

    The search looks at two phases and stops early, so the first shares may do where it says that none do.
    """
    examples, task = model.examples, _task(model, model.examples)

    def settled(shares: Shares) -> _Settled:
        count = count_phases(task, shares, examples)
        return _Settled(shares, count, draft_phases(task, shares, count, examples))

    return first_enough(
        lambda: settled(_search(_task(model), progress)),
        lambda: settled(_shares_at(task, _FIRST_GUESS)),
        enough=lambda found: found.draft.examples <= examples,
    )


def _task(model: BoxModel, rows: float = math.inf) -> Task:
    """Return what the search keeps fixed, where so many rows are there to learn edges from."""
    sides = len(side_names(model))
    if sides > MAX_SIDES:
        raise PlanError(f"model.features: {sides} sides: at most {MAX_SIDES} are supported")
    scaled = _scaled(model, sides)
    share = (model.share or stripes_share(model, sides, stripes_mass(model), rows)) if scaled else 1.0
    return Task(model, sides, share, rho=start_rho(model, sides, scaled=scaled), reserve=reserve(model))


def _scaled(model: BoxModel, sides: int) -> bool:
    return model.slicing == "faces" and sides > 1


def least_examples(model: BoxModel) -> int:
    """Return the least number of training examples that `plan_tight` accepts for a model, whatever it declares."""
    found = _settle(model)
    return _least(model, found.shares, found.phases)


def quick_examples(model: BoxModel) -> int:
    """Return how many examples the shares want that the search begins with: a hundredth of a plan's work.

    That is 1 to 7 % more than what is wanted after a search. A model that declares as many has a plan: see `_settle`.

    Raises:
        PlanError: A size is out of range.
    """
    task = _task(model, model.examples)
    shares = _shares_at(task, _FIRST_GUESS)
    draft = draft_phases(task, shares, FEW_PHASES, model.examples)
    count_allowed(task, draft)
    wanted = draft.examples
    while (more := draft_phases(_task(model, wanted), shares, FEW_PHASES, wanted).examples) > wanted:
        wanted = more  # of fewer rows edges are learned less well
    return with_slack(wanted)


def _least(model: BoxModel, shares: Shares, count: int) -> int:
    """Return an n that suffices when it is declared: delta_1 depends on it, and how well edges are learned."""
    examples = draft_phases(_task(model), shares, max(count, 2), None).examples
    while (needed := draft_phases(_task(model, examples), shares, max(count, 2), examples).examples) > examples:
        examples = needed
    return examples


def plan_tight(model: BoxModel, progress: Callable[[int], None] = lambda _step: None) -> BoxPlan:
    """Plan a run that a state can be made of (see `plan_boxes`).

    Raises:
        PlanError: The declared examples are fewer than the least that works, or a size is out of range.
    """
    plan = plan_boxes(model, progress)
    refuse_too_few(model, plan)
    return plan


def plan_boxes(model: BoxModel, progress: Callable[[int], None] = lambda _step: None) -> BoxPlan:
    """Plan a run, as if just enough examples were declared where the model declares too few.

    Formal guarantees:
        * Every (epsilon, delta) in the plan was handed to the accountant and holds (`guarantees.verify`).
        * The sum of delta over the declared examples and all rounds is at most `model.delta`.
        * Nothing but the model file enters.

    Args:
        model: The model.
        progress: Called after each of at most `PLAN_STEPS` steps.

    Raises:
        PlanError: A size is out of range.
    """
    shares, count, draft = _settle(model, progress)
    task = _task(model, model.examples)
    if draft.examples > model.examples:
        least = _least(model, shares, count)
        task = _task(msgspec.structs.replace(model, examples=least), least)
        draft = draft_phases(task, shares, count, least)
    plan = _write(task, shares, draft)
    verify_in_steps(plan, progress)
    return plan


def _write(task: Task, shares: Shares, draft: Draft) -> BoxPlan:
    model = task.model
    phases = write_phases(task, draft)
    error, deep = draft_error(task, shares, draft)
    scaled = _scaled(model, task.sides)
    stripe = math.floor(draft.alphas[0] * model.examples / task.sides) if scaled else 0
    return BoxPlan(
        **promises_of(model),
        profile=model.profile,
        sides=side_names(model),
        slicing=model.slicing,
        coin=0.0,
        share=task.share,
        examples=draft.examples,
        declared=model.examples,
        expected_error=error,
        deep_error=deep,
        stopper_share=shares.stopper,
        first_share=shares.first,
        contamination=shares.contamination,
        phases=phases,
        memory_bytes=max(phase.memory_bytes for phase in phases),
        scale=scale_plan(model, task.sides, stripes_mass(model), model.examples) if scaled else msgspec.UNSET,
        check=check_plan(model, phases[0].start, stripe),
    )
