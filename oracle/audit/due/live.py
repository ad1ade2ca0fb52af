"""What may answer, by plan and phase: the laws, slopes, thresholds and counts of everything that draws or chooses.

Worked out from what the plan promises and not from what it says of its own mechanisms, where the two differ: a choice
goes by the epsilon that is claimed for it, and by how far one row moves its losses.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan, Plan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["Mechanism", "due_mechanisms"]

Mechanism = tuple[Any, ...]
"""Its kind, then its public parameters."""

_NO_CAP: Final = 1 << 60
"""Votes are asked about without a K of their own: lives end by their Stoppers."""


def due_mechanisms(plan: Plan) -> Mapping[int, set[Mechanism]]:
    """Return what may be drawn from in each phase; in phase 1 with all that training draws."""
    if isinstance(plan, BoxPlan):
        return {phase.phase: _of_box(plan, phase) for phase in plan.phases}
    if isinstance(plan, EnsemblePlan):
        return {phase.phase: _of_ensemble(plan, phase.phase) for phase in plan.phases}
    if isinstance(plan, BisectionPlan):
        return {1: {("bits", plan.noise, plan.scale)}, 2: {("bits", plan.noise, plan.scale)}}
    if isinstance(plan, ClassicalPlan):
        moves = 1 if plan.concept == "stump" else 2 * (1 if plan.slicing == "faces" else len(plan.sides))
        return {1: {("choice", plan.epsilon / moves)}}
    if isinstance(plan, DistributionPlan):
        return {1: _asked("logistic", plan.thresholds.slope, plan.paid, gap=plan.thresholds.gap)}
    if isinstance(plan, TablePlan):
        return {1: _of_table(plan)}
    raise TypeError


def _asked(law: str, slope: float, paid: int, threshold: float | None = None, gap: int | None = None) -> set[Mechanism]:
    """Return paid questions, and the noise on the counts that they release."""
    noise: set[Mechanism] = {("noise", law, slope)}
    if law == "exponential":
        noise = {("noise", "laplace", one) for one in (slope, threshold)}
    return {("questions", law, slope, paid, threshold, gap)} | noise


def _of_table(plan: TablePlan) -> set[Mechanism]:
    threshold = None if plan.paid_noise.threshold_slope is UNSET else plan.paid_noise.threshold_slope
    due = _asked(plan.paid_noise.law, plan.paid_noise.slope, plan.paid, threshold)
    if isinstance(plan, StatisticsPlan) and plan.start_slope is not UNSET:
        due.add(("noise", "discrete-laplace", plan.start_slope))
    return due


def _of_ensemble(plan: EnsemblePlan, number: int) -> set[Mechanism]:
    """Return what lives of a phase and of the one before draw from, and the counts of blocks and classes."""
    due: set[Mechanism] = {("noise", "discrete-laplace", plan.control.epsilon)}
    if number == 1 and plan.share_slope is not UNSET:
        due.add(("noise", "discrete-laplace", plan.share_slope))
    for phase in plan.phases[max(number - 2, 0) : number]:
        due |= _asked("logistic", phase.slope, _NO_CAP, gap=phase.gap)
        due |= {("Stopper", "discrete-laplace", phase.stopper.epsilon, phase.stopper.threshold)}
        due |= {("noise", "discrete-laplace", phase.stopper.epsilon)}
    return due


def _of_box(plan: BoxPlan, phase: PhasePlan) -> set[Mechanism]:
    paper = plan.profile == "paper"
    due: set[Mechanism] = {_depths(phase.start), _depths(phase.rearmed)}
    if paper:
        due.add(("Stopper", "laplace", phase.stopper.scale, phase.stopper.threshold))
        slices = [one.start.slice_scale for one in plan.phases if phase.phase in {1, one.phase - 1}]
        due |= {("noise", "laplace", scale) for scale in slices[:2]}
    else:
        due.add(("Stopper", "discrete-laplace", phase.stopper.epsilon, phase.stopper.threshold))
        due.add(("noise", "discrete-laplace", phase.stopper.epsilon))
    if phase.phase > 1:
        return due
    if plan.scale is not UNSET:
        due.add(("choice", plan.scale.scale))
    if plan.check is not UNSET:
        due.add(("noise", "discrete-laplace", plan.check.epsilon))
    if isinstance(plan, StumpsPlan):
        selection = plan.selection
        cut = ("noise", "laplace", selection.cut_epsilon) if paper else ("choice", selection.cut_epsilon / 2.0)
        due |= {("choice", selection.epsilon / (2.0 if paper else 1.0)), cut}
    return due


def _depths(instance: InstancePlan) -> Mechanism:
    return ("depths", instance.law, instance.scale, instance.low, instance.high, instance.points)
