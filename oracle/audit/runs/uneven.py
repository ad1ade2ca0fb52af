"""Runs for `oracle.audit.runs.whole`: their plans, no two numbers of which are equal that need not be.

They are plans in form only. Sides are armed again every few dozen rounds and phases end after a hundred, with points,
noise, thresholds, Stoppers and lengths of their own, so that a number that is taken from elsewhere shows; no accountant
would pass the noise.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import UNSET

from oracle.audit.randomness import Draws
from oracle.audit.references.bisection import PlainBisection
from oracle.audit.references.boxes import PlainBoxes
from oracle.audit.references.classical import PlainClassical
from oracle.audit.references.stumps import PlainStumps
from oracle.audit.runs.inputs import ANY, MANY, NUMBERS, ONE, SCALARS, drawn_rows, messages_about, row_at, vectors_for
from oracle.audit.runs.whole import Run
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.features import Feature
from oracle.planning.model import Limits
from oracle.planning.plan import BoxPlan, CheckPlan, InstancePlan, Phase, PhasePlan, ScalePlan, StopperPlan
from oracle.planning.stumps.model import SelectionPlan, StumpsPlan

__all__ = ["bisection_run", "box_run", "classical_run", "run_with", "stump_run"]

_MANY: Final = 10
"""Sides from which on each has few points."""

_MORE: Final = 2
"""Rows more than are declared."""


def _instance(
    draws: Draws, law: Literal["logistic", "discrete-laplace"], low: int, points: int, trim: int
) -> InstancePlan:
    low += draws.below(2)
    return InstancePlan(
        law=law,
        scale=1.0 + 1.5 * draws.one(),
        low=low,
        high=low + 1 + draws.below(2),
        points=points,
        trim=trim,
        mediums=60 + draws.below(99),
        instances=1,
        epsilon=3.0 + draws.one(),
        delta_between=0.1 * draws.one(),
    )


def _phase(draws: Draws, number: int, rounds: int, trim: int, points: int) -> PhasePlan:
    laws: tuple[Literal["logistic", "discrete-laplace"], ...] = ("logistic", "discrete-laplace")
    law, again = laws[draws.below(4) == 0], (6, 4, 5)[number - 1]
    return PhasePlan(
        phase=number,
        rounds=rounds,
        delta=1e-4 / (number + draws.one()),
        delta_noise=0.0,
        alpha=0.1,
        beta=0.1,
        margin=3.0,
        start=_instance(draws, law, points // 4, points + (4, 2, 0)[number - 1] + draws.below(2), trim),
        rearmed=_instance(draws, law, 1, again, 0),
        stopper=StopperPlan(
            epsilon=(1.5, 1.9, 1.1)[number - 1] + 0.3 * draws.one(),
            threshold=again + 2 + draws.below(2),
            cap=50 + draws.below(99),
            delta_cap=1e-6 * draws.one(),
        ),
        memory_bytes=0,
    )


def _sides(features: Sequence[Feature]) -> tuple[str, ...]:
    ends = {"both": ("lower", "upper"), "lower": ("lower",), "upper": ("upper",), "none": ()}
    return tuple(f"{one.name}:{end}" for one in features for end in ends[one.sides])


def _boxes(
    draws: Draws,
    features: Sequence[Feature],
    rounds: Sequence[int],
    *,
    slicing: Literal["faces", "sequential"],
    learned: bool,
) -> BoxPlan:
    sides = _sides(features)
    trims = [1 + draws.below(2), 0, 2 + draws.below(2)] if draws.below(3) else [0, 1, 0]
    points = 6 if len(sides) < _MANY else 4
    phases = tuple(_phase(draws, number, count, trims[number - 1], points) for number, count in enumerate(rounds, 1))
    held = phases[0].start.points + phases[0].start.trim
    declared = 150 + 25 * len(sides) + draws.below(20)
    return BoxPlan(
        name="audited",
        predictor="rectangles",
        profile="tight",
        features=tuple(features),
        sides=sides,
        slicing=slicing,
        coin=0.15 + 0.1 * draws.one() if slicing == "faces" and len(sides) > 1 and not learned else 0.0,
        share=0.9,
        epsilon=4.0 + draws.one(),
        delta=0.1,
        alpha=0.1,
        beta=0.1,
        gamma=1.0,
        examples=declared,
        declared=declared,
        expected_error=0.1,
        deep_error=0.0,
        stopper_share=0.3,
        first_share=0.5,
        contamination=0.0,
        limits=Limits(),
        phases=phases,
        memory_bytes=0,
        scale=ScalePlan(rank=held + 3 + draws.below(9), scale=0.5 + draws.one()) if learned else UNSET,
        check=CheckPlan(
            epsilon=0.4 + draws.one(),
            needed=held,
            margin=3,
            miss=0.05,
            stripe=2 * held + draws.below(9) if learned else 0,
        )
        if learned or draws.below(2)
        else UNSET,
    )


def box_run(draws: Draws, slicing: Literal["faces", "sequential"], *, learned: bool, sides: int) -> Run:
    """Return a run of boxes.

    Args:
        draws: Sizes, rows and messages are drawn.
        slicing: Of the plan.
        learned: Whether edges are learned.
        sides: 1 for one side, else some, or many.
    """
    rounds = [125 + draws.below(20), 150 + draws.below(20), 95 + draws.below(20)]
    features: Sequence[Feature] = (*NUMBERS,)
    if sides == 1:
        features = ONE
    elif sides >= _MANY:
        features, rounds = MANY, [count * 2 // 3 for count in rounds]
    elif slicing == "sequential":
        features = (NUMBERS, ANY, SCALARS)[draws.below(3)]
    elif learned:
        features = (NUMBERS, SCALARS)[draws.below(2)]
    plan = _boxes(draws, features, rounds, slicing=slicing, learned=learned)
    return run_with(draws, plan, PlainBoxes)


def run_with(draws: Draws, plan: BoxPlan, plain: Any) -> Run:  # noqa: ANN401 -- a class
    """Return a run of any plan of boxes or stumps, beside a re-implementation."""
    rows, labels = drawn_rows(draws, plan.features, plan.declared + _MORE)
    return Run(plan, plain, rows, labels, messages_about(draws, plan.features, plan.rounds))


def stump_run(draws: Draws, *, rounds: int = 90) -> Run:
    """Return a run of stumps; several pairs are nearly as good as the best."""
    features = (ANY, NUMBERS, SCALARS)[draws.below(3)]
    boxes = _boxes(draws, ONE, [rounds, rounds + 31, rounds + 17], slicing="faces", learned=False)
    epsilon, cut = 0.1 + 0.2 * draws.one(), 0.3 + 0.2 * draws.one()
    declared = 90 + draws.below(30)
    fields = {name: getattr(boxes, name) for name in boxes.__struct_fields__} | {
        "predictor": "stumps",
        "features": features,
        "sides": ("stump:edge",),
        "declared": declared,
        "check": UNSET,
        "selection": SelectionPlan(
            candidates=len(_sides(features)),
            scale=epsilon,
            epsilon=epsilon,
            cut_law="choice",
            cut_scale=cut / 2.0,
            cut_epsilon=cut,
            error=0.0,
        ),
    }
    plan = StumpsPlan(**fields)
    shares = [draws.uniform(len(features)).tolist() for _ in range(declared + _MORE)]
    labels = [sum(row) > len(row) / 2.0 for row in shares]
    rows = [row_at(features, row) for row in shares]
    return Run(plan, PlainStumps, rows, labels, messages_about(draws, features, plan.rounds))


def classical_run(
    draws: Draws, concept: Literal["box", "stump"], slicing: Literal["faces", "whole"], *, one_side: bool
) -> Run:
    """Return a run of a classical learner."""
    features = ONE if one_side else (NUMBERS, MANY[:3])[draws.below(2)]
    if slicing == "whole" and not one_side and draws.below(2):
        features = SCALARS[2:]
    sides = _sides(features)
    faces = concept == "box" and slicing == "faces"
    spread, choices = (2, 1 if faces else len(sides)) if concept == "box" else (1, 1)
    epsilon = (0.4 + 2.0 * draws.one()) * spread * choices  # so that losses other than the least are chosen too
    declared = 60 + draws.below(30)
    plan = ClassicalPlan(
        name="audited",
        predictor="classical",
        profile="tight",
        concept=concept,
        features=tuple(features),
        sides=sides,
        slicing="faces" if faces else "whole",
        coin=0.2 + 0.1 * draws.one() if faces and len(sides) > 1 else 0.0,
        share=1.0,
        epsilon=epsilon,
        delta=0.0,
        alpha=0.1,
        beta=0.1,
        gamma=1.0,
        examples=declared,
        declared=declared,
        scale=epsilon / (spread * choices),
        spread=spread,
        choices=choices,
        rank=3 + draws.below(5) if concept == "box" else 0,
        expected_error=1.0,
        limits=Limits(),
        phases=(Phase(phase=1, rounds=50 + draws.below(9), delta=0.0),),
        memory_bytes=0,
    )
    rows, labels = drawn_rows(draws, features, declared + _MORE)
    return Run(plan, PlainClassical, rows, labels, messages_about(draws, features, plan.rounds))


def bisection_run(draws: Draws, profile: Literal["efficient", "paper"]) -> Run:
    """Return a run of OnlineBisection, over given axes or found ones."""
    count = 3
    names = tuple(f"f{number}" for number in range(count))
    warmup = 20 + draws.below(9) if draws.below(2) and profile == "efficient" else 0
    directions = 1 + draws.below(2) if profile == "paper" else 2
    basis = ((0.6, 0.8, 0.0), (0.0, 0.0, 1.0))[:directions]
    learning = 750 + draws.below(50) if profile == "paper" else 170 + draws.below(50)
    declared = 40 + draws.below(20)
    plan = BisectionPlan(
        name="audited",
        predictor="bisection",
        profile=profile,
        features=tuple(Feature(name=name) for name in names),
        noise=("laplace", "gaussian")[draws.below(2)],
        scale=0.02 + 0.03 * draws.one() + (0.06 if directions == 1 else 0.0),
        basis=() if warmup else basis,
        directions=directions,
        warmup=warmup,
        epsilon=1.0 + draws.one(),
        delta=0.05,
        alpha=0.1,
        beta=0.1,
        gamma=1.0,
        examples=declared,
        declared=declared,
        expected_error=0.1,
        limits=Limits(),
        phases=(Phase(phase=1, rounds=learning, delta=1e-3), Phase(phase=2, rounds=31 + draws.below(9), delta=0.0)),
        memory_bytes=0,
    )
    rows = []
    for _ in range(declared + _MORE):
        shares = draws.uniform(count)
        rows.append(tuple((shares / max(1.0, float((shares**2).sum()) ** 0.5)).tolist()))
    labels = [draws.one() < 0.7 for _ in rows]  # noqa: PLR2004 -- some are 0
    return Run(plan, PlainBisection, rows, labels, vectors_for(draws, plan))
