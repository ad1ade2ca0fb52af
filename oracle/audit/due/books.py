"""What is told of epsilon and delta beside a plan, added up a second time: persons, shards, several models, forks."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from oracle.accounting.budget import charges, check_budget, person_bound, total
from oracle.accounting.ledger import DataUse, LedgerEvent, PhaseStarted, ReplayForked, ScoreReleased, StartChecked
from oracle.audit.due.parts import Due
from oracle.audit.randomness import Draws
from oracle.errors import InputError
from oracle.planning.boxes.model import BoxModel
from oracle.planning.model import Feature
from oracle.planning.plan import Plan
from oracle.planning.sharding import shard_model
from oracle.predictors.base import phase_started

__all__ = ["books_wrong", "person_due", "shards_wrong"]

_SHARDS: Final = (2, 3, 7, 10, 49, 1000)
_MOST: Final = (1, 2, 5, 31)
_EVENTS: Final = 12
_LEDGERS: Final = 60
_EXACT: Final = Fraction(1, 10**9)


def _at_least(told: float, due: Fraction) -> bool:
    return math.isinf(told) or Fraction(told) >= due * (1 - _EXACT)


def _powers(epsilon: float, rows: int) -> Fraction:
    """Return the sum of exp(i epsilon), i from 0 to M - 1: how often a row's delta counts (group privacy)."""
    factor, whole = Fraction(math.exp(min(epsilon, 600.0))), Fraction(0)
    for _ in range(rows):
        whole = whole * factor + 1
    return whole


def person_due(plan: Plan) -> Iterator[Due]:
    """Yield whether a plan that limits a person's rows says what all of these pay, and tells so in its ledger."""
    bound = plan.person
    if isinstance(bound, msgspec.UnsetType) or isinstance(plan.at_most, msgspec.UnsetType):
        return
    delta = min(Fraction(plan.phases[0].delta) * _powers(plan.epsilon, plan.at_most), Fraction(1))
    fine = bound.rows == plan.at_most and _at_least(bound.epsilon, plan.at_most * Fraction(plan.epsilon))
    says = f"epsilon = {bound.epsilon:g}, delta = {bound.delta:.6g}; {float(delta):.6g} is due"
    yield Due("at_most", "a person's rows pay as a group of so many", fine and _at_least(bound.delta, delta), says)
    yield Due("at_most", "the ledger tells it", phase_started(plan, 1).person == bound, "")


def shards_wrong(plan: Plan) -> str | None:
    """Return where shards of a model together get more than the model has, if anywhere."""
    feature = Feature(name="a", bounds=(0.0, 1.0))
    for delta in (plan.delta or 1e-3, 1e-3, 0.1, 3e-7):
        for shards in _SHARDS:
            model = BoxModel(
                name="shards", predictor="rectangles", epsilon=plan.epsilon, examples=50_021, features=(feature,)
            )
            part = shard_model(msgspec.structs.replace(model, delta=delta), shards)
            if shards * Fraction(part.delta) > Fraction(delta) or shards * part.examples > model.examples:
                return f"{shards} shards together have more than the delta = {delta:g} or the rows of their model"
            if (part.epsilon, part.name) != (model.epsilon, model.name):
                return f"one of {shards} shards has another epsilon than its model"
    return None


def books_wrong(plan: Plan, draws: Draws) -> str | None:
    """Return what of a plan's books does not add up, if anything: of phases, persons, and models of one data set."""
    for phase in plan.phases:
        for rounds in (0, phase.rounds // 2, phase.rounds):
            spent = sum((one.rounds * Fraction(one.delta) for one in plan.phases[: phase.phase - 1]), Fraction(0))
            spent += plan.declared * Fraction(plan.phases[0].delta) + rounds * Fraction(phase.delta)
            if not plan.protects_queries:
                spent = (plan.declared if plan.sums_delta else 1) * Fraction(plan.phases[0].delta)
            if not _at_least(plan.delta_spent(phase.phase, rounds), spent):
                return f"of delta {float(spent):.6g} is spent in phase {phase.phase}, and less is told"
        told = phase_started(plan, phase.phase)
        nominal = (told.nominal is True) == plan.nominal
        covers = (told.covers == "training") != plan.protects_queries
        if (told.epsilon, told.delta) != (plan.epsilon, phase.delta) or not (nominal and covers):
            return f"the ledger says another guarantee of phase {phase.phase} than the plan"
    for most in _MOST:
        for due in person_due(msgspec.structs.replace(plan, at_most=most)):
            if not due.holds:
                return f"{most} rows of a person: {due.what}: {due.says}"
        bound = person_bound(0.3, 1e-9, most)
        if not _at_least(bound.delta, Fraction(1e-9) * _powers(0.3, most)) or bound.epsilon < most * 0.3 * (1 - 1e-9):
            return f"{most} rows of a person pay more than {bound}"
    return next(filter(None, (_budget_wrong(draws) for _ in range(_LEDGERS))), None)


def _budget_wrong(draws: Draws) -> str | None:
    """Make ledgers of random events; return what these cost a row otherwise than by adding up, if anything."""
    events = [_event(draws, number) for number in range(1 + draws.below(_EVENTS))]
    told = [*events, *(event for event in events if draws.below(4) == 0)]  # what is told twice counts once
    named = [one for one in events if isinstance(one, PhaseStarted | ScoreReleased | StartChecked)]
    if not named:
        return None
    found = total(charges(told[: draws.below(len(told))], told))
    due = _due(events)
    if Fraction(found.epsilon) < due[0] * (1 - _EXACT) or Fraction(found.delta) < due[1] * (1 - _EXACT):
        return f"models and forks of one data set cost epsilon = {float(due[0]):g}, and {found.epsilon} is told"
    *others, new = named
    before = [one for one in events if one in others or (others and isinstance(one, ReplayForked))]
    enough = float(_due([*before, new])[0])
    try:
        check_budget(before, new, (enough * (1.0 - 1e-6), 1.0))
    except InputError:
        return None
    return f"a row may pay less than epsilon = {enough:g}, and more is let pass"


def _due(events: Sequence[LedgerEvent]) -> tuple[Fraction, Fraction]:
    """Return what all of them together cost at least: each is a run, or a release, of its own."""
    paid = [one for one in events if isinstance(one, PhaseStarted | ReplayForked | ScoreReleased | StartChecked)]
    return sum((Fraction(one.epsilon) for one in paid), Fraction(0)), sum(
        (Fraction(one.delta) for one in paid), Fraction(0)
    )


def _event(draws: Draws, number: int) -> LedgerEvent:
    """Return an event of one of two models of a data set; equal figures are met with often."""
    epsilon, delta, model = 0.5 * (1 + draws.below(2)), 1e-6 * (1 + draws.below(2)), f"model {draws.below(2)}"
    name, data = f"{number:064x}", DataUse("rows", model, f"{number:032x}")
    kind = draws.below(4)
    if kind == 0:
        return ReplayForked(0, 1, name, 1 + draws.below(2), epsilon, delta, delta)
    if kind == 1:
        return ScoreReleased(model, "rows", name[32:], 7, 9, epsilon, epsilon, epsilon, epsilon, delta, delta)
    if kind == 2:  # noqa: PLR2004 -- one of four
        return StartChecked(0, model, 0, draws.below(3), 0, epsilon, True, epsilon, delta, data, name[32:])  # noqa: FBT003
    return PhaseStarted(0, 1, 100, epsilon, delta, delta, data=data)
