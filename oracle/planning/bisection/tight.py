"""Plans of OnlineBisection: the noise that the declared epsilon and delta ask for, and the error that follows."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import msgspec

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import ThresholdBitsEvent
from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS
from oracle.mechanisms.noise.laws import named_law
from oracle.planning.bisection.bound import average_error_bound
from oracle.planning.bisection.model import BisectionModel, BisectionPlan, is_orthonormal, unit_vector
from oracle.planning.model import promises_of
from oracle.planning.plan import Phase

__all__ = ["plan_bisection", "row_event", "verify_bisection_plan"]

_MOST_EXAMPLES: Final = 2**32
_SCALES: Final = (2.0**-30, 2.0**60)
_PRECISION: Final = 2.0**-20

_SHORTFALL: Final = 1.5
"""The error of `efficient` over that of the best estimator, at most: between 0.5 and 1.45 in simulations."""


def row_event(plan: BisectionPlan) -> ThresholdBitsEvent:
    """Return what a training row goes through.

    A row that is there or not moves w* by a vector in [0, 1/n]^D, and so w*.q by at most D/n for every query in
    [0, 1]^D: 1/n in units of D. At most T bits are ever asked. What is answered is a function of these bits and of the
    queries.
    """
    return _event(plan, plan.scale)


def _event(plan: BisectionPlan, scale: float) -> ThresholdBitsEvent:
    return ThresholdBitsEvent(plan.noise, scale, 1.0 / plan.declared, plan.phases[0].rounds, len(plan.features))


def plan_bisection(model: BisectionModel, progress: Callable[[int], None]) -> BisectionPlan:
    """Plan a model, as if just enough examples were declared where it declares too few for its alpha.

    Raises:
        PlanError: No number of examples would be enough.
    """
    del progress  # there is nothing to search that takes time
    if _plan(model, _MOST_EXAMPLES, _MOST_EXAMPLES).expected_error > model.alpha:
        raise PlanError(f"model.alpha = {model.alpha:g}: no number of examples is enough for rounds = {model.rounds:,}")
    low, high = 0, _MOST_EXAMPLES
    while high - low > 1:
        middle = (low + high) // 2
        enough = _plan(model, middle, middle).expected_error <= model.alpha
        low, high = (low, middle) if enough else (middle, high)
    return _plan(model, high, max(model.examples, high))


def _plan(model: BisectionModel, examples: int, declared: int) -> BisectionPlan:
    """Plan with the least noise that keeps delta."""
    dimension = len(model.features)
    basis = _basis(model, dimension)
    delta = model.delta / declared
    if declared * Fraction(delta) > Fraction(model.delta):  # rounded towards privacy, exactly
        delta = math.nextafter(delta, 0.0)
    directions = model.directions or len(basis)
    moments = dimension * (dimension + 3) if model.warmup else 0
    plan = BisectionPlan(
        **promises_of(model),
        profile=model.profile,
        noise=model.noise,
        scale=1.0,
        basis=basis,
        directions=directions,
        warmup=model.warmup or 0,
        examples=examples,
        declared=declared,
        expected_error=0.0,
        phases=(
            Phase(phase=1, rounds=model.rounds, delta=delta),
            Phase(phase=2, rounds=MAX_ROUNDS // 2, delta=0.0),
        ),
        memory_bytes=8 * (dimension * (directions + 2) + directions * (directions + 8) + moments),
    )
    plan = msgspec.structs.replace(plan, scale=_least_scale(plan))
    return msgspec.structs.replace(plan, expected_error=_error(plan))


def _basis(model: BisectionModel, dimension: int) -> tuple[tuple[float, ...], ...]:
    if model.directions is not None:
        return ()
    axes = (tuple(float(i == j) for j in range(dimension)) for i in range(dimension))
    vectors = model.basis if model.basis is not None else axes
    return tuple(map(unit_vector, vectors))


def _least_scale(plan: BisectionPlan) -> float:
    """Return about the least scale at which a row's delta is proved; delta falls with the scale."""
    low, high = _SCALES
    while high > low * (1.0 + _PRECISION):
        middle = math.sqrt(low * high)
        proved = delta_at(_event(plan, middle), plan.epsilon) <= plan.phases[0].delta
        low, high = (low, middle) if proved else (middle, high)
    return high


def _error(plan: BisectionPlan) -> float:
    """Return the expected average error over the learning rounds, in units of D; at most 1/2, that of knowing nothing.

    Under `efficient`, t queries leave a mean absolute error of sqrt(2/pi) sqrt(d) / (2 rho sqrt(t)), rho the noise's
    density at 0: a bit at the threshold has Fisher information 4 rho^2, and d directions share them. Its mean over t
    is twice that at T; finding the region takes some queries a direction.
    """
    law = named_law(plan.noise, plan.scale)
    rounds = plan.phases[0].rounds
    learning = rounds - plan.warmup
    directions, dimension = plan.directions, len(plan.features)
    if plan.profile == "paper":
        learned = average_error_bound(law, directions, dimension, rounds, 1.0 / directions) / dimension
    else:
        at_end = math.sqrt(2.0 / math.pi) * math.sqrt(directions) * 0.5 / law.density / math.sqrt(learning)
        learned = _SHORTFALL * 2.0 * at_end + (2.0 * directions + 6.0) / learning
    return min((0.5 * plan.warmup + min(learned, 0.5) * learning) / rounds, 0.5)


def verify_bisection_plan(plan: BisectionPlan) -> None:
    """Check every figure of a plan.

    Raises:
        PlanError: A row's delta is below what the accountant proves, the sum exceeds delta, or the error alpha.
    """
    first, *others = plan.phases
    if not 0.0 < plan.scale < math.inf:
        raise PlanError(f"plan.scale = {plan.scale!r}: must be above 0 and finite")
    proved = delta_at(row_event(plan), plan.epsilon)
    if not proved <= first.delta:
        raise PlanError(f"plan.phases[0].delta = {first.delta!r}: the accountant proves {proved!r} only")
    if not plan.declared * first.delta <= plan.delta:
        raise PlanError(f"plan.delta = {plan.delta!r}: the schedule spends {plan.declared * first.delta!r}")
    if len(others) != 1 or others[0].delta != 0.0:
        raise PlanError("plan.phases: must be two, the second one of delta 0")
    _verify_error(plan)


def _verify_error(plan: BisectionPlan) -> None:
    """Check what the error rests on: directions that there are, and a figure that follows from them.

    Raises:
        PlanError: A figure does not hold.
    """
    dimension, found = len(plan.features), plan.warmup > 0
    if not 1 <= plan.directions <= dimension:
        raise PlanError(f"plan.directions = {plan.directions}: must be from 1 to {dimension}")
    if len(plan.basis) != (0 if found else plan.directions) or not is_orthonormal(plan.basis, dimension):
        msg = f"must be {plan.directions} orthonormal ones, or none beside warmup"
        raise PlanError(f"plan.basis: has {len(plan.basis)} vectors; {msg}")
    if not 0 <= plan.warmup < plan.phases[0].rounds:
        raise PlanError(f"plan.warmup = {plan.warmup}: must be from 0 to below the {plan.phases[0].rounds} rounds")
    error = _error(plan)
    if not error <= plan.alpha:
        raise PlanError(f"plan.alpha = {plan.alpha!r}: the expected error is {error!r}")
    if not error <= plan.expected_error * (1.0 + 1e-9):
        raise PlanError(f"plan.expected_error = {plan.expected_error!r}: it is {error!r}")
