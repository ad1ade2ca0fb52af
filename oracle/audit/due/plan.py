"""A whole plan, accounted for a second time."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from oracle.audit.due.books import person_due
from oracle.audit.due.boxes import box_dues
from oracle.audit.due.parts import Due, as_check, schedule
from oracle.audit.due.questions import (
    bisection_dues,
    classical_dues,
    distribution_dues,
    ensemble_dues,
    table_dues,
)
from oracle.audit.findings import Check
from oracle.errors import PlanError, RefusedError
from oracle.planning.plan import Plan
from oracle.planning.planner import verify_plan

__all__ = ["audit_plan"]

_DUES: Final[Mapping[str, Callable[[Any], Iterator[Due]]]] = {
    "rectangles": box_dues,
    "stumps": box_dues,
    "classical": classical_dues,
    "bisection": bisection_dues,
    "distribution": distribution_dues,
    "statistics": table_dues,
    "sparse-vector": table_dues,
    "ensemble": ensemble_dues,
}


def audit_plan(plan: Plan) -> Iterator[Check]:
    """Yield what both accountants say of a plan: the planner's, and then, part by part, the second one.

    Of profile `paper` where epsilon is nominal there is nothing that a theorem says is due; only the schedule is added
    up, and the planner's own check makes its constants again.

    Args:
        plan: Any plan.
    """
    yield _verified(plan)
    dues = _all(plan)
    while True:
        begun = time.process_time()
        try:
            due = next(dues, None)
        except (RefusedError, ArithmeticError, ValueError, IndexError, MemoryError) as exc:
            says = f"{str(exc) or type(exc).__name__}: nothing behind this was looked at"
            due = Due("plan", "its figures are some that a plan can have", holds=False, says=says)
        if due is None:
            return
        yield msgspec.structs.replace(as_check(due), seconds=time.process_time() - begun)


def _all(plan: Plan) -> Iterator[Due]:
    yield from schedule(plan)
    yield from person_due(plan)
    if not plan.nominal or plan.predictor == "bisection":
        yield from _DUES[plan.predictor](plan)


def _verified(plan: Plan) -> Check:
    begun = time.process_time()
    try:
        verify_plan(plan)
        says = (
            "constants made again; epsilon and delta are nominal, no proof bounds them" if plan.nominal else "all of it"
        )
        passed = True
    except PlanError as exc:
        says, passed = str(exc), False
    what = "the planner's accountant proves every figure"
    return Check(
        cell="plan|verify", target="plan", name=what, passed=passed, says=says, seconds=time.process_time() - begun
    )
