"""Every figure of an ensemble's plan, made again from the plan alone."""

import math
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, ValidationError, convert, to_builtins

from oracle.accounting.stopper import log_overflow
from oracle.errors import InputError, PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS
from oracle.mechanisms.noise.tables import SMALLEST_SCALE
from oracle.planning.ensemble.checks import check_ensemble_model
from oracle.planning.ensemble.guarantees import query_guarantee, table_delta
from oracle.planning.ensemble.memory import phase_bytes
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.ensemble.sizes import crowd_of, most_changed, most_paid, questions_of
from oracle.planning.questions import STEEPEST

__all__ = ["FEWEST_PHASES", "verify_ensemble"]

FEWEST_PHASES: Final = 2
"""Phases of a plan at least: an everlasting oracle needs one to go on to."""

_DECLARED: Final = (
    *("name", "predictor", "profile", "learner", "parameters", "preprocessing", "features", "classes", "limits"),
    *("teacher_rows", "contested", "epsilon", "beta", "gamma"),
)
"""Fields of a plan that are its model's."""


def verify_ensemble(plan: EnsemblePlan) -> None:
    """Make every figure of a plan again, from the plan alone.

    Raises:
        PlanError: A figure does not hold, or is none that a theorem is about.
    """
    _check_declared(plan)
    for where, value, bound in _faults(plan):
        raise PlanError(f"plan.{where} = {value!r}: {bound}")


def _check_declared(plan: EnsemblePlan) -> None:
    """Refuse declarations that are in no model file."""
    declared = {name: getattr(plan, name) for name in _DECLARED} | {"examples": plan.declared}
    if plan.shares is not UNSET:
        declared["shares"] = plan.shares
    if plan.truth is not UNSET:
        declared["truth"] = plan.truth
    try:
        check_ensemble_model(convert(to_builtins(declared), EnsembleModel))
    except (ValidationError, InputError) as exc:
        raise PlanError(f"plan: no model declares this (declared rows as examples): {exc}") from exc


_Fault = tuple[str, object, str]


def _faults(plan: EnsemblePlan) -> Iterator[_Fault]:
    """Yield what does not hold: where, what stands there, and what must."""
    yield from _form_faults(plan)
    yield from _noise_faults(plan)
    yield from _control_faults(plan)
    for index in range(len(plan.phases)):
        yield from _stopper_faults(plan, index)
    for index in range(len(plan.phases)):  # whose events need sound Stoppers
        yield from _phase_faults(plan, index)
    spent = math.fsum([plan.declared * plan.phases[0].delta, *(one.rounds * one.delta for one in plan.phases)])
    if not spent <= plan.delta:
        yield "delta", plan.delta, f"the schedule spends {spent!r}"
    changed = most_changed(plan)
    if not changed <= plan.changed * (1.0 + 1e-9) or not plan.changed <= plan.alpha:
        yield "changed", plan.changed, f"must be at least {changed!r}, and at most alpha = {plan.alpha!r}"
    memory = max(phase.memory_bytes for phase in plan.phases)
    if plan.memory_bytes < memory:
        yield "memory_bytes", plan.memory_bytes, f"must be at least {memory}: the largest of the phases'"


def _form_faults(plan: EnsemblePlan) -> Iterator[_Fault]:
    numbers = [phase.phase for phase in plan.phases]
    if len(numbers) < FEWEST_PHASES or numbers != list(range(1, len(numbers) + 1)):
        yield "phases", numbers, f"must be numbered from 1, and {FEWEST_PHASES} at least"
    if not 1 <= plan.examples <= plan.declared:
        yield "examples", plan.examples, f"must be at least 1, and at most {plan.declared} declared"
    most = plan.declared // plan.teacher_rows
    if not 1 <= plan.teachers <= most:
        yield "teachers", plan.teachers, f"must be from 1 to {most}: declared rows over teacher_rows"
    if plan.questions != questions_of(plan):
        yield "questions", plan.questions, f"must be {questions_of(plan)} for {len(plan.classes)} classes"
    if (plan.share_slope is UNSET) == (plan.shares is UNSET):
        yield "share_slope", plan.share_slope, "must be set where shares are not declared, and only there"
    if not 0.0 < plan.alpha <= 1.0:
        yield "alpha", plan.alpha, "must be above 0, and at most 1"


def _noise_faults(plan: EnsemblePlan) -> Iterator[_Fault]:
    """Yield noise that there is no table of."""
    slopes = {"control.epsilon": plan.control.epsilon}
    if plan.share_slope is not UNSET:
        slopes["share_slope"] = plan.share_slope
    for index, phase in enumerate(plan.phases):
        slopes |= {f"phases[{index}].slope": phase.slope, f"phases[{index}].stopper.epsilon": phase.stopper.epsilon}
    for where, slope in slopes.items():
        if not SMALLEST_SCALE <= slope <= STEEPEST:
            yield where, slope, f"must be from {SMALLEST_SCALE:g} to {STEEPEST:g}"


def _control_faults(plan: EnsemblePlan) -> Iterator[_Fault]:
    control = plan.control
    if control.block_rounds < 1:
        yield "control.block_rounds", control.block_rounds, "must be at least 1"
    if not 0.0 <= control.gain < 1.0:
        yield "control.gain", control.gain, "must be from 0 to below 1"
    if not 0.0 <= control.leak < 1.0:
        yield "control.leak", control.leak, "must be from 0 to below 1"


def _stopper_faults(plan: EnsemblePlan, index: int) -> Iterator[_Fault]:
    phase, where = plan.phases[index], f"phases[{index}]"
    stopper, paid = phase.stopper, plan.questions * phase.stopper.cap
    for name, value in (("law", stopper.law), ("scale", stopper.scale)):
        if value is not UNSET:
            yield f"{where}.stopper.{name}", value, "must be left out: its noise is discrete Laplace, at epsilon"
    if phase.paid != paid:
        yield f"{where}.paid", phase.paid, f"must be {paid}: the Stopper's cap for each paid question of a query"
    crowd = crowd_of(plan, plan.teachers, first=index == 0)
    least = most_paid(crowd, phase.gap, plan.phases[0].rounds, plan.beta / len(plan.phases))
    if not least <= stopper.threshold < stopper.cap:  # gamma, contested and beta as declared, but for its own noise
        bound = f"must be at least {least}, or fewer rounds are paid for than phase 1 has, and below the cap"
        yield f"{where}.stopper.threshold", stopper.threshold, f"{bound}, {stopper.cap}"
    elif not math.exp(log_overflow(stopper.epsilon, stopper.threshold, stopper.cap - 1)) <= stopper.delta_cap:
        yield f"{where}.stopper.delta_cap", stopper.delta_cap, "one less than the cap is passed with a larger chance"


def _phase_faults(plan: EnsemblePlan, index: int) -> Iterator[_Fault]:
    phase, where = plan.phases[index], f"phases[{index}]"
    proved, tables, memory = query_guarantee(plan, index).delta, table_delta(plan, index), phase_bytes(plan, index)
    if not proved <= phase.delta:
        yield f"{where}.delta", phase.delta, f"the accountant proves {proved!r} only"
    if not tables <= phase.delta_noise:
        yield f"{where}.delta_noise", phase.delta_noise, f"the tables' distance is {tables!r}"
    if not 1 <= phase.rounds <= MAX_ROUNDS:
        yield f"{where}.rounds", phase.rounds, f"must be from 1 to {MAX_ROUNDS}"
    if not 1 <= phase.lag < phase.rounds:
        yield f"{where}.lag", phase.lag, f"must be at least 1, and below {phase.rounds}"
    most = min(one.rounds - one.lag for one in plan.phases[index : index + 2])
    if not 1 <= phase.least_rounds <= most:  # so slots close in each phase, and a life is over by the end of the next
        yield f"{where}.least_rounds", phase.least_rounds, f"must be from 1 to {most}"
    if phase.kept_rows < 1:
        yield f"{where}.kept_rows", phase.kept_rows, "must be at least 1"
    if not 0.0 < phase.keep <= 1.0:
        yield f"{where}.keep", phase.keep, "must be above 0 and at most 1"
    if phase.memory_bytes < memory:
        yield f"{where}.memory_bytes", phase.memory_bytes, f"must be at least {memory}"
