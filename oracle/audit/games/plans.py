"""Small plans to attack: their phases are short, and the accountant has verified every figure.

They promise nothing about errors. What they promise about privacy is what the planner's own plans do, by the same
events; only with few points and few mediums can thousands of whole games be played.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import msgspec

from oracle.accounting.stopper import cap_slack
from oracle.errors import InputError
from oracle.mechanisms.noise.tables import tail_reach
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.planning.boxes.paper import instance_privacy
from oracle.planning.guarantees import noise_delta
from oracle.planning.model import Feature, Limits
from oracle.planning.plan import BoxPlan, CheckPlan, InstancePlan, PhasePlan, ScalePlan, StopperPlan
from oracle.planning.planner import verify_plan
from oracle.planning.sizes import largest_scale
from oracle.planning.stumps.model import SelectionPlan, StumpsPlan

__all__ = ["TARGETS", "Target", "between_instance", "small_plan", "thresholds_of"]

_OUTER, _GAP, _INNER = 0.5, 2.5, 2.5
"""Distances in noise units (nats): from no point to t_l, from t_l to t_h, and from t_h to all points."""

_STOPPER: Final = 0.3
"""eps_S / epsilon."""

_SELECTION, _CUT = 0.05, 0.15
"""What the choice of a stump and of its cut cost, as parts of epsilon."""

_EDGES, _COUNT = 0.08, 0.12
"""Of learned edges: e of each choice, and the noise of the count of what the sides got, as parts of epsilon."""

_BETWEEN, _CAP = 0.7, 0.25
"""Parts of delta for BetweenThresholds and for the Stopper's overflow."""

_FIRST_RHO: Final = 2.0
"""Points more than a side's, in units of the Stopper's noise, that its threshold is at."""


@dataclass(frozen=True)
class Target:
    """A predictor under attack.

    Attributes:
        name: What reports call it.
        predictor: As in model files.
        profile: `tight`, or `paper` (its claims are nominal).
        slicing: Rule that gives records to sides.
        sides: Of the one feature.
        learned: Whether edges are learned, and what the sides got is counted, before phase 1.
    """

    name: str
    predictor: str
    profile: Literal["tight", "paper"]
    slicing: Literal["faces", "sequential", "rsc"]
    sides: Literal["lower", "both"]
    learned: bool = False

    @property
    def instances(self) -> int:
        """Start instances that one record may sit in."""
        return 2 if self.slicing == "sequential" and self.sides == "both" else 1


TARGETS: Final = (
    Target("boxes, one side", "rectangles", "tight", "faces", "lower"),
    Target("boxes, faces", "rectangles", "tight", "faces", "both"),
    Target("boxes, learned edges", "rectangles", "tight", "faces", "both", learned=True),
    Target("boxes, sequential", "rectangles", "tight", "sequential", "both"),
    Target("stumps", "stumps", "tight", "faces", "both"),
    Target("boxes, paper", "rectangles", "paper", "rsc", "lower"),
    Target("stumps, paper", "stumps", "paper", "rsc", "both"),
)
"""Every shipped predictor, in every profile and slicing."""


def thresholds_of(instance: InstancePlan) -> BetweenThresholds:
    """Return the mechanism that an instance of a plan runs."""
    return BetweenThresholds(instance.law, instance.scale, instance.low, instance.high, instance.points)


def between_instance(
    law: Literal["logistic", "discrete-laplace"], epsilon: float, delta: float, mediums: int
) -> BetweenThresholds:
    """Return an instance with nearly the least noise that the accountant passes at (epsilon, delta) for K mediums."""

    def gap(scale: float) -> int:
        return max(math.ceil(_GAP / scale), 1)

    scale = largest_scale(law, gap, lambda _: mediums, epsilon, math.log(delta))
    low, high = math.ceil(_INNER / scale), math.ceil(_INNER / scale) + gap(scale)
    return BetweenThresholds(law, scale, low, high, high + low)


def _sized(scale: float) -> tuple[int, int, int]:
    """Return t_l, t_h and M."""
    low = math.ceil(_OUTER / scale)
    high = low + max(math.ceil(_GAP / scale), 1)
    return low, high, high + math.ceil(_INNER / scale)


def _instance(scale: float, mediums: int, epsilon: float, delta: float, instances: int) -> InstancePlan:
    low, high, points = _sized(scale)
    return InstancePlan(
        law="logistic",
        scale=scale,
        low=low,
        high=high,
        points=points,
        trim=0,
        mediums=mediums,
        instances=instances,
        epsilon=epsilon,
        delta_between=delta,
    )


def _tight_phase(target: Target, epsilon: float, delta: float, released: float) -> PhasePlan:
    """Size a phase as the planner does, but for few points instead of few errors.

    Args:
        target: What is attacked.
        epsilon: Per-record epsilon.
        delta: Per-record delta.
        released: Nats that a training record has paid before.
    """
    stopper, between = _STOPPER * epsilon, math.log(_BETWEEN * delta)
    early = math.ceil(_FIRST_RHO / stopper)
    over = cap_slack(stopper, math.log(_CAP * delta / target.instances), 1_000_000)

    def largest(mediums: Callable[[float], int], left: float, rho: float = 0.0) -> float:
        return largest_scale("logistic", lambda scale: max(math.ceil(_GAP / scale), 1), mediums, left, between, rho=rho)

    rearmed = largest(lambda scale: _sized(scale)[2] + early + over, epsilon - stopper)
    threshold = _sized(rearmed)[2] + early
    cap = threshold + over
    rho = (2.0 * _EDGES**2 + _COUNT**2) / 2.0 * epsilon**2 if target.learned else 0.0
    start = largest(lambda _: cap * target.instances, epsilon - released, rho)
    rounds = 12 * cap
    return PhasePlan(
        phase=1,
        rounds=rounds,
        delta=delta,
        delta_noise=noise_delta(stopper, rounds, target.instances),
        alpha=0.1,
        beta=0.1,
        margin=_INNER,
        start=_instance(start, cap * target.instances, epsilon - released, _BETWEEN * delta, target.instances),
        rearmed=_instance(rearmed, cap, epsilon - stopper, _BETWEEN * delta, 1),
        stopper=StopperPlan(epsilon=stopper, threshold=threshold, cap=cap, delta_cap=_CAP * delta / target.instances),
        memory_bytes=0,
    )


_PAPER_POINTS: Final = 40


def _paper_phase(target: Target, epsilon: float, delta: float) -> PhasePlan:
    """Take the scales of Algorithms 2 to 4 of Stemmer (2024) for sides of forty points, far fewer than proofs ask."""
    inner, part = instance_privacy(epsilon, delta, 2 if target.sides == "both" else 1)
    threshold, rounds = 2 * _PAPER_POINTS, 1_200
    cap = threshold + math.ceil(8.0 / inner * math.log(2.0 / part) * math.log(rounds / part))
    scale = inner / (4.0 * math.sqrt(cap * math.log(4.0 / part)))
    stopper = inner / (8.0 * math.log(2.0 / part))

    def instance(points: int, *, base: bool) -> InstancePlan:
        return InstancePlan(
            law="laplace",
            scale=scale,
            low=10,
            high=30,
            points=points,
            trim=0,
            mediums=cap,
            instances=1,
            epsilon=inner,
            delta_between=part / 2.0,
            base=_PAPER_POINTS if base else msgspec.UNSET,
            slice_scale=inner if base else msgspec.UNSET,
        )

    return PhasePlan(
        phase=1,
        rounds=rounds,
        delta=delta,
        delta_noise=0.0,
        alpha=0.1,
        beta=0.1,
        margin=1.0,
        start=instance(_PAPER_POINTS + tail_reach(inner), base=True),
        rearmed=instance(threshold + tail_reach(stopper) + 1, base=False),
        stopper=StopperPlan(
            epsilon=inner, threshold=threshold, cap=cap, delta_cap=part / 2.0, law="laplace", scale=stopper
        ),
        memory_bytes=0,
    )


@cache
def small_plan(target: Target, epsilon: float, delta: float) -> BoxPlan:
    """Return a plan of two phases; every record of it is (epsilon, delta)-private by the accountant.

    Formal guarantees:
        * `tight`: the plan is verified as the planner's own are (`oracle.planning.kinds`).
        * `paper`: epsilon and delta are nominal.

    Args:
        target: What it is for.
        epsilon: Per-record epsilon (nats).
        delta: Per-record delta of every record.

    Raises:
        PlanError: The accountant does not prove a figure.
    """
    paper, stumps = target.profile == "paper", target.predictor == "stumps"
    released = (_SELECTION + _CUT) * epsilon if stumps else 0.0
    first = _paper_phase(target, epsilon, delta) if paper else _tight_phase(target, epsilon, delta, released)
    phases = (first, msgspec.structs.replace(first, phase=2))
    sides = ("a:lower", "a:upper") if target.sides == "both" else ("a:lower",)
    if stumps and not paper:
        sides = ("stump:edge",)
    declared = _declared(target, first)
    plan = BoxPlan(
        name="audited",
        predictor=target.predictor,
        profile=target.profile,
        features=(Feature(name="a", sides=target.sides, bounds=(-1.0, 1.0)),),
        sides=sides,
        slicing=target.slicing,
        coin=0.2 if target.slicing == "faces" and len(sides) > 1 and not target.learned else 0.0,
        share=1.0,
        epsilon=epsilon,
        delta=math.nextafter(delta * (declared + 2.0 * first.rounds) * (1.0 + 1e-12), math.inf),
        alpha=0.1,
        beta=0.1,
        gamma=1.0,
        examples=declared,
        declared=declared,
        expected_error=0.1,
        deep_error=0.0,
        stopper_share=_STOPPER,
        first_share=0.5,
        contamination=0.0,
        limits=Limits(),
        phases=phases,
        memory_bytes=0,
        nominal_privacy=True if paper else msgspec.UNSET,
    )
    if target.learned:
        points = first.start.points
        plan = msgspec.structs.replace(
            plan,
            scale=ScalePlan(rank=points + 1, scale=_EDGES * epsilon),
            check=CheckPlan(epsilon=_COUNT * epsilon, needed=points, margin=1, miss=0.5, stripe=declared),
        )
    if stumps:
        plan = StumpsPlan(**msgspec.structs.asdict(plan), selection=_selection(epsilon, paper=paper))
    if not paper:
        verify_plan(plan)
    return plan


def _selection(epsilon: float, *, paper: bool) -> SelectionPlan:
    if paper:  # Algorithm 7 of Stemmer (2024): a quarter for each
        part = epsilon / 4.0
        return SelectionPlan(
            candidates=2, scale=part / 2.0, epsilon=part, cut_law="laplace", cut_scale=part, cut_epsilon=part, error=0.0
        )
    scale, cut = _SELECTION * epsilon, _CUT * epsilon
    return SelectionPlan(
        candidates=2, scale=scale, epsilon=scale, cut_law="choice", cut_scale=cut / 2.0, cut_epsilon=cut, error=0.0
    )


def _declared(target: Target, phase: PhasePlan) -> int:
    """Return how many rows an adversary has: as many as the sides hold, and for stumps as many of the other label."""
    rows = 2 * phase.start.points + 8
    if phase.rounds < 1:
        raise InputError("rounds", phase.rounds, "must be at least 1")
    return 2 * rows if target.sides == "both" else rows
