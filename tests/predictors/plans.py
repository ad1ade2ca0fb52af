"""Plans for tests: a small real one, and tiny hand-made ones with a phase or re-arm every few hundred rounds.

The tiny ones are plans in form only: no accountant has seen them, and they protect nobody.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

from oracle.mechanisms.noise.tables import Law
from oracle.planning.bisection.model import BisectionModel, BisectionPlan
from oracle.planning.bisection.tight import plan_bisection
from oracle.planning.boxes.model import BoxModel, side_names
from oracle.planning.boxes.tight import plan_tight
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionModel, DistributionPlan
from oracle.planning.ensemble.model import Class, ControlPlan, EnsemblePhase, EnsemblePlan
from oracle.planning.kinds import KINDS
from oracle.planning.model import Feature, Limits
from oracle.planning.plan import BoxPlan, CheckPlan, InstancePlan, Phase, PhasePlan, ScalePlan, StopperPlan
from oracle.planning.statistics.model import SparseVectorModel, SparseVectorPlan, StatisticsModel, StatisticsPlan
from oracle.planning.statistics.tight import plan_sparse_vector, plan_statistics
from oracle.planning.stumps.model import SelectionPlan, StumpsPlan
from tests.predictors.tables import TABLE


def feature(name: str, sides: Literal["lower", "upper", "both", "none"] = "both") -> Feature:
    """Return a feature with bounds [0, 1]."""
    return Feature(name=name, sides=sides, bounds=(0.0, 1.0))


@cache
def planned() -> BoxPlan:
    """Return a plan that the accountant has passed: an interval, phases of some ten thousand rounds."""
    return plan_tight(
        BoxModel(
            name="interval",
            predictor="rectangles",
            epsilon=8.0,
            alpha=0.4,
            examples=6_000,
            first_share=0.5,
            features=(feature("a"),),
        )
    )


def _instance(law: Law, points: int, trim: int) -> InstancePlan:
    low = max(points // 4, 1)
    return InstancePlan(
        law=law,
        scale=2.5,
        low=low,
        high=max(points // 2, low),
        points=points,
        trim=trim,
        mediums=1000,
        instances=1,
        epsilon=1.0,
        delta_between=0.1,
    )


def tiny_plan(  # noqa: PLR0913 -- each is one thing that tests vary
    features: Sequence[Feature],
    *,
    law: Law = "logistic",
    slicing: Literal["faces", "sequential"] = "faces",
    trim: int = 0,
    points: Sequence[int] = (12, 10, 11),
    rearmed: int = 8,
    threshold: int = 8,
    rounds: int = 400,
    examples: int = 400,
    learned: bool = False,
) -> BoxPlan:
    """Return a plan whose phase p starts with `points[p - 1]` points a side; phases differ in length and size.

    Its scale is the declared bounds, as of plans of before, or learned.
    """
    names = side_names(
        BoxModel(name="tiny", predictor="rectangles", epsilon=8.0, examples=examples, features=tuple(features))
    )
    phases = tuple(
        PhasePlan(
            phase=index + 1,
            rounds=rounds + 30 * index,
            delta=1e-6,
            delta_noise=1e-9,
            alpha=0.1,
            beta=0.1,
            margin=3.0,
            start=_instance(law, size, trim),
            rearmed=_instance(law, rearmed + index, 0),
            stopper=StopperPlan(epsilon=1.5, threshold=threshold, cap=100, delta_cap=1e-8),
            memory_bytes=0,
        )
        for index, size in enumerate(points)
    )
    return msgspec.structs.replace(
        planned(),
        name="tiny",
        features=tuple(features),
        sides=names,
        slicing=slicing,
        coin=0.2 if slicing == "faces" and len(names) > 1 and not learned else 0.0,
        declared=examples,
        phases=phases,
        scale=ScalePlan(rank=2 * points[0], scale=2.0) if learned else msgspec.UNSET,
        check=CheckPlan(epsilon=1.0, needed=points[0] + trim, margin=3, miss=0.05, stripe=2 * points[0])
        if learned
        else msgspec.UNSET,
    )


def tiny_stumps_plan(  # noqa: PLR0913 -- each is one thing that tests vary
    features: Sequence[Feature],
    *,
    points: Sequence[int] = (12, 10, 11),
    rearmed: int = 8,
    threshold: int = 8,
    rounds: int = 400,
    examples: int = 400,
    scale: float = 1.0,
) -> StumpsPlan:
    """Return a plan of stumps over `tiny_plan`'s phases with one side; each choice has weights exp(-scale * loss)."""
    edge = [feature("stump", "lower")]
    side = tiny_plan(edge, points=points, rearmed=rearmed, threshold=threshold, rounds=rounds, examples=examples)
    fields = msgspec.structs.asdict(side) | {
        "predictor": "stumps",
        "features": tuple(features),
        "sides": ("stump:edge",),
        "selection": SelectionPlan(
            candidates=2 * len(features),
            scale=scale,
            epsilon=scale,
            cut_law="choice",
            cut_scale=scale,
            cut_epsilon=2.0 * scale,
            error=0.01,
        ),
    }
    return StumpsPlan(**fields)


@cache
def tiny_bisection_plan(  # noqa: PLR0913 -- each is one thing that tests vary
    learning: int,
    after: int,
    *,
    profile: Literal["efficient", "paper"] = "efficient",
    scale: float = 0.1,
    warmup: int = 0,
    features: tuple[str, ...] = ("a", "b"),
) -> BisectionPlan:
    """Return a plan with two directions and short phases; its noise is less than its epsilon asks for.

    Args:
        learning: Rounds of the first phase.
        after: Rounds of the second one.
        profile: Which learner.
        scale: Scale of the noise.
        warmup: Queries from which the basis is found; 0 for the first two features' axes.
        features: Names, at least two.
    """
    model = BisectionModel(
        name="tiny",
        predictor="bisection",
        epsilon=1.0,
        alpha=0.5,
        rounds=learning,
        examples=400,
        features=tuple(Feature(name=name) for name in features),
        basis=None if warmup else tuple(tuple(float(i == j) for j in range(len(features))) for i in range(2)),
        directions=2 if warmup else None,
        warmup=warmup or None,
        profile=profile,
    )
    plan = plan_bisection(model, lambda _step: None)
    phases = (plan.phases[0], Phase(phase=2, rounds=after, delta=0.0))
    return msgspec.structs.replace(plan, scale=scale, phases=phases)


def tiny_classical_plan(  # noqa: PLR0913 -- each is one thing that tests vary
    features: Sequence[Feature],
    *,
    concept: Literal["box", "stump"] = "box",
    slicing: Literal["faces", "whole"] = "faces",
    rounds: int = 1000,
    examples: int = 400,
    scale: float = 8.0,
    rank: int = 8,
) -> ClassicalPlan:
    """Return a classical plan of so many rounds; 8 * 8 nats leave an edge outside all examples little chance."""
    names = side_names(
        BoxModel(name="tiny", predictor="rectangles", epsilon=8.0, examples=examples, features=tuple(features))
    )
    faces = concept == "box" and slicing == "faces"
    return ClassicalPlan(
        name="tiny",
        predictor="classical",
        profile="tight",
        concept=concept,
        features=tuple(features),
        sides=names,
        slicing="faces" if faces else "whole",
        coin=0.2 if faces and len(names) > 1 else 0.0,
        share=1.0,
        epsilon=8.0,
        delta=0.0,
        alpha=0.1,
        beta=0.1,
        gamma=1.0,
        examples=examples,
        declared=examples,
        scale=scale,
        spread=2 if concept == "box" else 1,
        choices=1 if faces or concept == "stump" else len(names),
        rank=rank if concept == "box" else 0,
        expected_error=1.0,
        limits=Limits(),
        phases=(Phase(phase=1, rounds=rounds, delta=0.0),),
        memory_bytes=0,
    )


_TINY_TABLE: Final[dict[str, Any]] = {"name": "tiny", "delta": 1e-6, "examples": 1, "attributes": TABLE, "rounds": 1000}


@cache
def tiny_statistics_plan(
    rounds: int = 1000,
    *,
    paid: int | None = 6,
    alpha: float = 0.2,
    epsilon: float = 4.0,
    margins: tuple[int, int] | None = None,
) -> StatisticsPlan:
    """Return a real plan about `TABLE`, with the fewest rows, whose phase ends early.

    Args:
        rounds: After which it ends.
        paid: Answers that are paid for; None for as many as can be needed.
        alpha: Error.
        epsilon: For ever.
        margins: First and last; others than the planner's keep no error, but much is paid for.
    """
    model = StatisticsModel(predictor="statistics", epsilon=epsilon, alpha=alpha, paid=paid, **_TINY_TABLE)
    plan = plan_statistics(model, lambda _step: None)
    first, last = margins or (plan.first_margin, plan.margin)
    phases = (Phase(phase=1, rounds=rounds, delta=plan.delta),)
    return msgspec.structs.replace(plan, phases=phases, first_margin=first, margin=last)


@cache
def tiny_sparse_plan(
    rounds: int = 1000, *, paid: int = 8, alpha: float = 0.2, epsilon: float = 4.0
) -> SparseVectorPlan:
    """Return a real plan of threshold questions about `TABLE`, with the fewest rows, whose phase ends early."""
    model = SparseVectorModel(predictor="sparse-vector", epsilon=epsilon, alpha=alpha, paid=paid, **_TINY_TABLE)
    plan = plan_sparse_vector(model, lambda _step: None)
    return msgspec.structs.replace(plan, phases=(Phase(phase=1, rounds=rounds, delta=plan.delta),))


@cache
def tiny_distribution_plan(  # noqa: PLR0913 -- each is one thing that tests vary
    rounds: int = 1000,
    *,
    of: Feature = Feature(name="a"),  # noqa: B008 -- it is frozen
    profile: Literal["tight", "paper"] = "tight",
    alpha: float = 0.1,
    epsilon: float = 8.0,
    questions: int = 1000,
) -> DistributionPlan:
    """Return a real plan of a distribution, with the fewest rows, whose phase ends early.

    Args:
        rounds: After which it ends.
        of: The values' feature.
        profile: Of the plan.
        alpha: Error.
        epsilon: For ever.
        questions: That the error is promised for.
    """
    model = DistributionModel(
        name="tiny",
        predictor="distribution",
        profile=profile,
        epsilon=epsilon,
        alpha=alpha,
        examples=1,
        rounds=questions,
        features=(of,),
    )
    plan: DistributionPlan = KINDS["distribution"].profiles[profile].plan(model, lambda _step: None)
    return msgspec.structs.replace(plan, phases=(Phase(phase=1, rounds=rounds, delta=plan.delta),))


def tiny_ensemble_plan(  # noqa: PLR0913 -- each is one thing that tests vary
    features: Sequence[Feature],
    *,
    rounds: Sequence[int] = (150, 230, 340),
    classes: tuple[Class, ...] = (0, 1),
    teachers: int = 14,
    examples: int = 120,
    threshold: int = 9,
    least_rounds: int = 60,
    keep: float = 0.9,
    learner: str = "sklearn.tree.DecisionTreeClassifier",
) -> EnsemblePlan:
    """Return an ensemble plan in form: every phase has a length, a slope and sizes of its own."""
    questions = min(2, len(classes) - 1)
    phases = tuple(
        EnsemblePhase(
            phase=number,
            rounds=count,
            delta=1e-3 / number,
            delta_noise=0.0,
            slope=1.5 - number % 8 / 8,
            gap=2 if number == 2 else 1,
            paid=questions * (threshold + 30),
            stopper=StopperPlan(epsilon=2.0 + number / 4, threshold=threshold, cap=threshold + 30, delta_cap=0.1),
            least_rounds=least_rounds + number,
            kept_rows=examples + 7 * number,
            keep=keep,
            lag=11 + number,
            memory_bytes=0,
        )
        for number, count in enumerate(rounds, start=1)
    )
    return EnsemblePlan(
        name="tiny",
        predictor="ensemble",
        profile="tight",
        learner=learner,
        parameters={"max_depth": 2} if learner.endswith("TreeClassifier") else {},
        preprocessing=(),
        features=tuple(features),
        classes=classes,
        teachers=teachers,
        teacher_rows=9,
        contested=0.1,
        questions=questions,
        epsilon=4.0,
        delta=0.1,
        alpha=0.1,
        beta=0.05,
        gamma=1.0,
        examples=examples,
        declared=examples,
        share_slope=0.5,
        control=ControlPlan(block_rounds=47, epsilon=1.0, gain=0.5, leak=0.05),
        changed=0.1,
        limits=Limits(),
        phases=phases,
        memory_bytes=0,
    )
