"""The kinds of predictors, by the name that a model file gives: models, plans, and who makes and checks these.

What a kind answers with stands in `oracle.predictors.kinds`, a floor above; both tables have the same names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from oracle.errors import PlanError, newer_version
from oracle.planning.bisection.model import BisectionModel, BisectionPlan, check_bisection_model
from oracle.planning.bisection.tight import plan_bisection, verify_bisection_plan
from oracle.planning.boxes.model import BoxModel, check_box_model, with_slicing
from oracle.planning.boxes.paper import check_paper, check_runnable, plan_paper
from oracle.planning.boxes.tight import plan_boxes, quick_examples
from oracle.planning.classical.model import ClassicalModel, ClassicalPlan, check_classical_model, with_faces
from oracle.planning.classical.tight import plan_classical, verify_classical_plan
from oracle.planning.distribution.model import DistributionModel, DistributionPlan, check_distribution_model
from oracle.planning.distribution.paper import plan_distribution_paper, verify_distribution_paper
from oracle.planning.distribution.tight import plan_distribution, verify_distribution
from oracle.planning.ensemble.checks import check_ensemble_model
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.ensemble.tight import plan_ensemble, quick_ensemble_examples
from oracle.planning.ensemble.verification import verify_ensemble
from oracle.planning.guarantees import verify
from oracle.planning.model import Model
from oracle.planning.plan import PLAN_VERSION, BoxPlan, Plan
from oracle.planning.statistics.model import (
    SparseVectorModel,
    SparseVectorPlan,
    StatisticsModel,
    StatisticsPlan,
    check_table_model,
)
from oracle.planning.statistics.paper import plan_statistics_paper, verify_statistics_paper
from oracle.planning.statistics.tight import (
    plan_sparse_vector,
    plan_statistics,
    quick_examples_of_sparse_vector,
    quick_examples_of_statistics,
    verify_sparse_vector,
    verify_statistics,
)
from oracle.planning.stumps.model import StumpsModel, StumpsPlan, check_stumps_model
from oracle.planning.stumps.paper import check_stumps_paper, plan_stumps_paper
from oracle.planning.stumps.tight import plan_stumps, quick_stump_examples

__all__ = ["KINDS", "Kind", "Profile", "decode_plan"]

ModelT = TypeVar("ModelT", bound=Model)
PlanT = TypeVar("PlanT", bound=Plan)


def _as_it_is(table: Mapping[str, object]) -> Mapping[str, object]:
    return table


def _runs(_plan: Plan) -> None:
    """Refuse no plan: the planner makes none that no state can be made of."""


@dataclass(frozen=True, slots=True)
class Profile(Generic[ModelT, PlanT]):
    """Who plans one profile of a predictor, and who checks its plans.

    Attributes:
        plan: Plans a model, for the fewest examples that suffice where it declares too few; if it searches, it calls
            the function it is given after each of at most `oracle.planning.boxes.tight.PLAN_STEPS` steps.
        verify: Makes every figure of a plan again, and refuses one that does not hold (`PlanError`): with the
            accountant, or, where epsilon is nominal, by what the paper's proofs assert.
        quick: Returns a number of examples that suffices, a few percent above what `plan` finds, without a search;
            None where `plan` is quick itself.
        check_runnable: Refuses a plan that no state can be made of (`PlanError`).
    """

    plan: Callable[[ModelT, Callable[[int], None]], PlanT]
    verify: Callable[[PlanT], None]
    quick: Callable[[ModelT], int] | None = None
    check_runnable: Callable[[PlanT], None] = _runs


@dataclass(frozen=True, slots=True)
class Kind(Generic[ModelT, PlanT]):
    """What planning knows of one predictor.

    Attributes:
        model: Class of its model: what its `[model]` table may hold.
        plan: Class of its plan. Its fields' order is its canonical JSON's: fields are only ever added, and left out
            where they are not set.
        check_model: Refuses a model with a value outside its bound (`InputError`).
        profiles: Its profiles, by the names that a model may give.
        fill: Fills in settings of a model file whose default depends on another one.
        paper: What a model with the same promises sets beside `profile = "paper"`, where there is that profile.
        classical: What the model of a classical learner with the same promises sets, where there is one.
    """

    model: type[ModelT]
    plan: type[PlanT]
    check_model: Callable[[ModelT], None]
    profiles: Mapping[str, Profile[ModelT, PlanT]]
    fill: Callable[[Mapping[str, object]], Mapping[str, object]] = _as_it_is
    paper: Mapping[str, object] | None = None
    classical: Mapping[str, object] | None = None


_BISECTION: Final = Profile(plan_bisection, verify_bisection_plan)

KINDS: Final[Mapping[str, Kind[Any, Any]]] = {
    "rectangles": Kind(
        model=BoxModel,
        plan=BoxPlan,
        check_model=check_box_model,
        profiles={
            "tight": Profile(plan_boxes, verify, quick_examples),
            "paper": Profile(lambda model, _: plan_paper(model), check_paper, check_runnable=check_runnable),
        },
        fill=with_slicing,
        paper={"slicing": "rsc", "trim": 0, "share": None, "first_share": None, "truth": None},
        classical={},
    ),
    "stumps": Kind(
        model=StumpsModel,
        plan=StumpsPlan,
        check_model=check_stumps_model,
        profiles={
            "tight": Profile(plan_stumps, verify, quick_stump_examples),
            "paper": Profile(
                lambda model, _: plan_stumps_paper(model), check_stumps_paper, check_runnable=check_runnable
            ),
        },
        paper={"first_share": None, "truth": None},
        classical={"concept": "stump"},
    ),
    "classical": Kind(
        model=ClassicalModel,
        plan=ClassicalPlan,
        check_model=check_classical_model,
        profiles={
            "tight": Profile(plan_classical, verify_classical_plan, check_runnable=verify_classical_plan),
        },
        fill=with_faces,
    ),
    "bisection": Kind(
        model=BisectionModel,
        plan=BisectionPlan,
        check_model=check_bisection_model,
        profiles={"efficient": _BISECTION, "paper": _BISECTION},
        paper={},
    ),
    "statistics": Kind(
        model=StatisticsModel,
        plan=StatisticsPlan,
        check_model=check_table_model,
        profiles={
            "tight": Profile(plan_statistics, verify_statistics, quick_examples_of_statistics),
            "paper": Profile(plan_statistics_paper, verify_statistics_paper),
        },
        paper={"paid": None},
    ),
    "sparse-vector": Kind(
        model=SparseVectorModel,
        plan=SparseVectorPlan,
        check_model=check_table_model,
        profiles={"tight": Profile(plan_sparse_vector, verify_sparse_vector, quick_examples_of_sparse_vector)},
    ),
    "distribution": Kind(
        model=DistributionModel,
        plan=DistributionPlan,
        check_model=check_distribution_model,
        profiles={
            "tight": Profile(plan_distribution, verify_distribution),
            "paper": Profile(plan_distribution_paper, verify_distribution_paper),
        },
        paper={},
    ),
    "ensemble": Kind(
        model=EnsembleModel,
        plan=EnsemblePlan,
        check_model=check_ensemble_model,
        profiles={"tight": Profile(plan_ensemble, verify_ensemble, quick_ensemble_examples)},
    ),
}
"""Every kind there is; names are never taken away."""


class _Header(msgspec.Struct):
    """What every plan of every version says of itself."""

    version: int
    predictor: str


def decode_plan(data: bytes) -> Plan:
    """Read a plan back, as the class of the predictor that it names.

    Raises:
        PlanError: It is not a plan of this or an older version.
    """
    try:
        header = msgspec.json.decode(data, type=_Header)
        if header.version > PLAN_VERSION:
            raise PlanError(f"plan: {newer_version(header.version, PLAN_VERSION)}")
        if header.version < 1:
            raise PlanError(f"plan: version = {header.version}: no Perpetua wrote such a plan")
        if header.predictor not in KINDS:
            raise PlanError(f"plan: predictor = {header.predictor!r}: this Perpetua knows {', '.join(KINDS)}")
        plan: Plan = msgspec.json.decode(data, type=KINDS[header.predictor].plan)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise PlanError(f"plan: cannot be read: {exc}") from exc
    return plan
