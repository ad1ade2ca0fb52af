"""Runs for `oracle.audit.runs.whole`: rows, messages, and plans no two numbers of which are equal that need not be.

They are plans in form only. Sides are armed again every few dozen rounds and phases end after a hundred, with points,
noise, thresholds, Stoppers and lengths of their own, so that a number that is taken from elsewhere shows; no accountant
would pass the noise.
"""

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final, Literal

from msgspec import UNSET

from oracle.audit.randomness import Draws
from oracle.audit.references.bisection import PlainBisection
from oracle.audit.references.boxes import PlainBoxes
from oracle.audit.references.classical import PlainClassical
from oracle.audit.references.stumps import PlainStumps
from oracle.audit.references.values import Value
from oracle.audit.runs.whole import Run
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.features import Feature
from oracle.planning.model import Limits
from oracle.planning.plan import BoxPlan, CheckPlan, InstancePlan, Phase, PhasePlan, ScalePlan, StopperPlan
from oracle.planning.stumps.model import SelectionPlan, StumpsPlan

__all__ = ["bisection_run", "box_run", "classical_run", "run_with", "stump_run"]

_SILENT, _WRONG, _AGAIN = 0.08, 0.04, 0.1
_NEAR, _ANYWHERE = 0.55, 0.08
_INNER: Final = 0.15
"""What a box cuts off of a feature, at a side."""

_MANY: Final = 10
"""Sides from which on each has few points."""

_MISTAKEN: Final = 0.04
_MORE: Final = 2
"""Rows more than are declared."""

_LETTERS: Final = "\0\1 09AZ_az~\x7f\u00e9\u03c0\u07ff\u0800\ud7ff\uffff\U00010000\U0010ffff"
"""In the order of their codes, and of their bytes in UTF-8."""

_FIRST_DAY: Final = date(1999, 12, 1)

NUMBERS: Final = (
    Feature(name="a", sides="none"),
    Feature(name="b", sides="both", bounds=(2.0, 3.1)),
    Feature(name="c", sides="upper", bounds=(-0.45, 0.35)),
    Feature(name="d", sides="lower", bounds=(-40.0, -5.0)),
)
"""Numbers, of which one has no side."""

ANY: Final = (
    Feature(name="day", type="date", sides="lower"),
    Feature(name="none", sides="none"),
    Feature(name="text", type="string", max_bytes=8, sides="both"),
    Feature(name="price", type="decimal", places=2, sides="upper"),
)
"""Of every type; keys are bytes."""

SCALARS: Final = (
    Feature(name="day", type="date", sides="both"),
    Feature(name="none", type="string", sides="none"),
    Feature(name="price", type="decimal", places=2, sides="upper"),
    Feature(name="b", sides="lower"),
)
"""Dates and decimals, whose keys are numbers."""

MANY: Final = tuple(
    Feature(name=f"f{number}", sides=("both", "lower", "upper")[number % 3], bounds=(number - 3.5, number * 1.5 - 3.0))
    for number in range(11)
)

ONE: Final = (Feature(name="a", sides="lower"),)


def _value(feature: Feature, share: float) -> Value:
    """Return a feature's value, which grows with a number from 0 to 1; many have the same one."""
    match feature.kind:
        case "date":
            return (_FIRST_DAY + timedelta(days=int(share * 90))).isoformat()
        case "decimal":
            return round(share * 5.0 - 2.0, 1)
        case "string":
            place = int(share * 80)
            return _LETTERS[place // 4] + "az\u00e9"[: place % 4]
        case _:
            low, high = feature.bounds or (-0.5, 0.5)
            number = low + (round(share * 40.0) / 40.0 if int(share * 997) % 2 else share) * (high - low)
            return number or math.copysign(0.0, share - 0.5)


def _inside(feature: Feature, share: float) -> bool:
    low = feature.sides in {"both", "lower"} and share < _INNER
    high = feature.sides in {"both", "upper"} and share > 1.0 - _INNER
    return not low and not high


def _rows(draws: Draws, features: Sequence[Feature], count: int) -> tuple[list[tuple[Value, ...]], list[bool]]:
    """Return rows, and labels by a box, but for a few."""
    shares = [
        (0.5 + (0.6 + 0.4 * draws.below(2)) * (draws.uniform(len(features)) - 0.5)).tolist() for _ in range(count)
    ]
    labels = [
        all(_inside(*pair) for pair in zip(features, row, strict=True)) != (draws.one() < _MISTAKEN) for row in shares
    ]
    return [_row(features, row) for row in shares], labels


def _row(features: Sequence[Feature], shares: Sequence[float]) -> tuple[Value, ...]:
    return tuple(_value(*pair) for pair in zip(features, shares, strict=True))


def _messages(draws: Draws, features: Sequence[Feature], rounds: int) -> list[Any]:
    """Return queries about the sides' edges, and far inside; some again, rounds with none, and what is no query."""
    sided = [place for place, feature in enumerate(features) if feature.sides != "none"]
    messages: list[Any] = []
    while rounds:
        kind = draws.one()
        shares = (0.35 + 0.3 * draws.uniform(len(features))).tolist()
        if kind < _WRONG:
            messages.append(())
        elif kind < _WRONG + _SILENT:
            messages.append(None)
        elif messages and kind < _WRONG + _SILENT + _AGAIN:
            messages.append(messages[draws.below(len(messages))])
        elif kind < _WRONG + _SILENT + _AGAIN + _ANYWHERE:
            messages.append(_row(features, draws.uniform(len(features)).tolist()))
        else:
            if draws.one() < _NEAR:
                place = sided[-1 - draws.below(len(sided)) * draws.below(2)]  # the last one most often
                off = _INNER + 0.12 * draws.one() - 0.02
                ends = {"lower": [off], "upper": [1.0 - off], "both": [off, 1.0 - off]}[features[place].sides]
                shares[place] = ends[draws.below(len(ends))]
            messages.append(_row(features, shares))
        rounds -= messages[-1] != ()
    return messages


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
    rows, labels = _rows(draws, plan.features, plan.declared + _MORE)
    return Run(plan, plain, rows, labels, _messages(draws, plan.features, plan.rounds))


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
    rows = [_row(features, row) for row in shares]
    return Run(plan, PlainStumps, rows, labels, _messages(draws, features, plan.rounds))


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
    rows, labels = _rows(draws, features, declared + _MORE)
    return Run(plan, PlainClassical, rows, labels, _messages(draws, features, plan.rounds))


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
    return Run(plan, PlainBisection, rows, labels, _vectors(draws, plan))


def _vectors(draws: Draws, plan: BisectionPlan) -> list[Any]:
    """Return queries along the basis, some elsewhere or out of range; rounds with none, and what is no query."""
    messages: list[Any] = []
    rounds = plan.rounds
    while rounds:
        kind = draws.one()
        if kind < _WRONG:
            messages.append(())
        elif kind < 2.0 * _WRONG:
            messages.append(None)
        elif kind < 3.0 * _WRONG:
            messages.append(tuple((3.0 * draws.uniform(len(plan.features)) - 1.0).tolist()))
        elif plan.profile == "efficient":
            messages.append(tuple((draws.uniform(3) * (0.9, 0.6, 0.3)).tolist()))
        else:
            length = 0.5 + 0.5 * draws.one()
            messages.append((0.6 * length, 0.8 * length, 0.0) if draws.below(2) else (0.0, 0.004 * draws.one(), length))
        rounds -= messages[-1] != ()
    return messages
