"""The sizes of one phase: margin, thresholds, points, Stopper (PRIVACY.md, Estimate 14).

Privacy rests on none of this: whatever comes out is handed to the accountant. What is worked out here is how small an
instance can be and still answer well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import scipy  # which loads its parts when they are asked for

from oracle.accounting.between_thresholds import laplace_log_delta, logistic_fits
from oracle.accounting.race import race_log_delta
from oracle.accounting.stopper import cap_slack, early_slack, log_overflow
from oracle.errors import PlanError
from oracle.mechanisms.noise.tables import Law

__all__ = ["CAP_SHARE", "MANY", "NOISE_SHARE", "Shares", "SizedInstance", "SizedPhase", "largest_scale", "size_phase"]

CAP_SHARE = 0.02
"""Part of a phase's delta that pays for the Stopper's overflow."""

NOISE_SHARE = 0.05
"""Part of a phase's delta that pays for the Stopper tables' distance; a phase that needs more is not planned."""

_LARGEST_SCALE = 8.0
"""Nats per point beyond which one point of depth decides everything anyway."""

_SMALLEST_SCALE = 1e-5
"""Nats per point below which no plan is made: sides of millions of points."""

_SMALLEST_STOPPER = 1e-4
"""Nats below which no Stopper is planned: see the slack of `log_overflow`."""

_PRECISION = 1e-6
"""Relative precision of the search for a scale; what is found always satisfies the target."""

_SECANTS = 4
"""Steps of the secant by which Theorem 26 raises a scale; more do not pay, as K and g are integers."""

_MOST_GAIN = 1.5
"""Factor on a scale by which Theorem 26 is looked for to be better than Theorem 5: a few hundredths are usual."""

_SHORT = 1e-3
"""Nats of log delta by which these steps stay below their target."""

MANY = 1_000_000
"""A threshold at which the Stopper's overflow depends on cap - threshold only."""

_PASSES = 40
"""Most iterations of the fixed point margin -> scale -> points -> margin; it contracts by about 0.1 a pass."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What the planner searches over (PRIVACY.md, Estimate 14).

    Attributes:
        contamination: eta X, below 1: adversarial points a side tolerates, in noise units.
        gap: g e, in noise units (nats).
        stopper: eps_S / epsilon.
        first: alpha_1 / (sum of alpha_p).
    """

    contamination: float
    gap: float
    stopper: float
    first: float


@dataclass(frozen=True, slots=True)
class SizedInstance:
    """One kind of armed side, in integers."""

    scale: float
    low: int
    high: int
    points: int
    mediums: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class SizedPhase:
    """One phase's instances, Stopper and margin."""

    start: SizedInstance
    rearmed: SizedInstance
    margin: float
    stopper_epsilon: float
    threshold: int
    cap: int


def largest_scale(  # noqa: PLR0913, PLR0917 -- the unknowns of one equation
    law: Law,
    gap: Callable[[float], int],
    mediums: Callable[[float], int],
    epsilon: float,
    log_delta: float,
    guess: float | None = None,
    rho: float = 0.0,
    *,
    quick: bool = False,
) -> float:
    """Return about the largest e whose instance is (epsilon, exp(log_delta)), by bisection on log e.

    Args:
        law: Law of the noise.
        gap: Thresholds' distance as a function of e.
        mediums: K as a function of e.
        epsilon: eps (nats).
        log_delta: Target.
        guess: Where to look first.
        rho: Of what was released before (logistic noise only).
        quick: Whether Theorem 5 is to do for logistic noise; else Theorem 26 raises what it gives, by 2 to 5 %.
    """

    def above(scale: float) -> float:
        return race_log_delta(scale, gap(scale), mediums(scale) + 1, epsilon, rho=rho) - log_delta

    @cache
    def within(scale: float) -> bool:
        if law == "logistic":
            return logistic_fits(scale, gap(scale), mediums(scale), epsilon, log_delta, rho)
        return laplace_log_delta(scale, gap(scale), mediums(scale), epsilon) <= log_delta

    middle = guess or epsilon / math.sqrt(2.0 * mediums(0.01) * max(-log_delta, 1.0))
    step = 1.02 if guess else 1.5
    low = high = middle
    while not within(low):
        low, high, step = low / step, low, step * step
    while high <= low or (within(high) and high < _LARGEST_SCALE):
        low, high, step = (high if within(high) else low), high * step, step * step
    while high / low > 1.0 + (_PRECISION if law == "logistic" else 1e-3):
        half = math.sqrt(low * high)
        if within(half):
            low = half
        else:
            high = half
    return low if quick or law != "logistic" else _raised(low, above, log_delta)


def _raised(scale: float, above: Callable[[float], float], log_delta: float) -> float:
    """Return a scale, not below the one given, at which nothing is above the target, by secants on log e.

    Args:
        scale: Where to begin.
        above: By how much log delta is above its target at a scale.
        log_delta: The target: at large K log delta goes about with its square.
    """
    found, excess, slope = scale, above(scale), -2.0 * log_delta
    if excess > 0.0:
        return scale
    at = scale
    for _ in range(_SECANTS):
        before, short = at, excess
        at = min(max(at * math.exp(-(excess + _SHORT) / slope), scale), scale * _MOST_GAIN)
        excess = above(at)
        if excess <= 0.0:
            found = max(found, at)
        if -2.0 * _SHORT < excess <= 0.0 or at == before:
            break
        change = (excess - short) / math.log(at / before)
        slope = change if change > 0.0 else slope
    return found


def _instance(scale: float, margin: float, gap_nats: float, mediums: int, epsilon: float) -> SizedInstance:
    edge = _edge(scale, margin)
    return SizedInstance(scale, edge, edge + _gap(scale, gap_nats), _points(scale, margin, gap_nats), mediums, epsilon)


def _points(scale: float, margin: float, gap_nats: float) -> int:
    return 2 * _edge(scale, margin) + _gap(scale, gap_nats)


def _edge(scale: float, margin: float) -> int:
    # P(not low | f = 0) <= exp(-e (t_l - 1/2)) and P(not high | f = M) <= exp(-e (M - t_h - 1/2)): both exp(-l)
    return math.ceil(margin / scale + 0.5)


def _gap(scale: float, gap_nats: float) -> int:
    return max(math.ceil(gap_nats / scale), 1)


def size_phase(  # noqa: PLR0913 -- the unknowns of one phase
    *,
    law: Law,
    epsilon: float,
    delta: float,
    rounds: int,
    sides: int,
    shares: Shares,
    beta: float,
    least_margin: float,
    start_instances: int,
    start_epsilon: float | None = None,
    start_rho: float = 0.0,
    quick: bool = False,
) -> SizedPhase:
    """Solve the margin's fixed point and return the phase in integers.

    l = ln(t_p / mu) + eta X exp(eta X - g e), where mu is the mean at which a Poisson count exceeds eta M with
    probability beta / (4 S): an adversary's t_p rounds far outside (or far inside) put at most eta M points in a side.
    (The rate of such points rises by exp(u) when u = e y of them sit in the life at hand; over lives that share t_p
    rounds with e t_p exp(-l) <= 1 their mean stays below its first-life value, by induction.)

    Args:
        law: Law of the noise.
        epsilon: Per-record epsilon.
        delta: Per-record delta of the phase.
        rounds: t_p.
        sides: S.
        shares: The searched shares.
        beta: Probability of missing any bound of this phase.
        least_margin: The margin is never below it (nats).
        start_instances: Instances one record may sit in at the start (1; S for sequential).
        start_epsilon: What the instances armed at the start are sized for, where it is not `epsilon`.
        start_rho: Of what was released before and armed them, within `start_epsilon`.
        quick: See `largest_scale`.
    """
    stopper_epsilon = shares.stopper * epsilon
    log_between = math.log(delta * (1.0 - CAP_SHARE - NOISE_SHARE)) - 1e-6
    early = early_slack(stopper_epsilon, rounds, beta / (4.0 * sides))
    log_cap = math.log(delta * CAP_SHARE / start_instances)
    over = cap_slack(stopper_epsilon, log_cap, MANY)

    def gap(scale: float) -> int:
        return _gap(scale, shares.gap)

    def scale_at(margin: float, guess: float | None, *, quick: bool) -> float:
        def mediums(scale: float) -> int:
            return _points(scale, margin, shares.gap) + early + over

        return largest_scale(law, gap, mediums, epsilon - stopper_epsilon, log_between, guess, quick=quick)

    margin, plain, gain = 12.0, None, 1.0
    for number in range(_PASSES):
        plain = scale_at(margin, plain, quick=True)
        if number == 1 and not quick:  # near enough to the margin in the end: Theorem 26's gain is much the same
            gain = scale_at(margin, plain, quick=False) / plain
        scale = gain * plain
        tolerated = math.floor(shares.contamination / scale)
        mean = float(scipy.special.gammaincinv(tolerated + 1.0, beta / (4.0 * sides)))
        wanted = math.log(rounds / mean) + shares.contamination * math.exp(shares.contamination - shares.gap)
        wanted = max(wanted, least_margin)
        settled = abs(wanted - margin) < 1e-4  # noqa: PLR2004 -- nats
        margin = max(wanted, margin) if settled else wanted
        if settled:
            break
    scale = scale_at(margin, plain, quick=quick)
    if scale < _SMALLEST_SCALE or stopper_epsilon < _SMALLEST_STOPPER:
        raise PlanError(f"model.epsilon = {epsilon!r}: too small; the noise would be wider than its tables can be")
    rearmed = _instance(scale, margin, shares.gap, 0, epsilon - stopper_epsilon)
    threshold = rearmed.points + early
    cap = threshold + over
    if log_overflow(stopper_epsilon, threshold, cap) > log_cap:
        msg = (
            "model: a Stopper of so few points overflows too easily; a smaller epsilon or alpha makes the sides larger"
        )
        raise PlanError(msg)
    total_mediums = cap * start_instances
    at_start = epsilon if start_epsilon is None else start_epsilon
    start_scale = largest_scale(law, gap, lambda _: total_mediums, at_start, log_between, plain, start_rho, quick=quick)
    start = _instance(start_scale, margin, shares.gap, total_mediums, at_start)
    rearmed = SizedInstance(rearmed.scale, rearmed.low, rearmed.high, rearmed.points, cap, rearmed.epsilon)
    return SizedPhase(start, rearmed, margin, stopper_epsilon, threshold, cap)
