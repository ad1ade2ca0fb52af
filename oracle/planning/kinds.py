"""The kinds of predictors, by the name that a model file gives: models, plans, and who makes and checks these.

What a kind answers with stands in `oracle.predictors.kinds`, a floor above; both tables have the same names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from oracle.errors import PlanError, newer_version
from oracle.planning.bisection.model import BisectionModel, BisectionPlan, check_bisection_model
from oracle.planning.bisection.tight import (
    bisection_as_paper,
    check_bisection_runnable,
    verify_bisection_plan,
    wish_for_bisection,
)
from oracle.planning.boxes.kind import (
    box_as_paper,
    check_box_runnable,
    quick_box_examples,
    verify_box_plan,
    wish_for_box,
)
from oracle.planning.boxes.model import BoxModel, check_box_model, with_slicing
from oracle.planning.classical.model import ClassicalModel, ClassicalPlan, check_classical_model, with_faces
from oracle.planning.classical.tight import (
    box_as_classical,
    stumps_as_classical,
    verify_classical_plan,
    wish_for_classical,
)
from oracle.planning.model import Model
from oracle.planning.plan import PLAN_VERSION, BoxPlan, Plan
from oracle.planning.stumps.kind import (
    check_stumps_runnable,
    quick_stumps_examples,
    stumps_as_paper,
    verify_stumps_plan,
    wish_for_stumps,
)
from oracle.planning.stumps.model import StumpsModel, StumpsPlan, check_stumps_model

__all__ = ["KINDS", "Kind", "decode_plan"]

ModelT = TypeVar("ModelT", bound=Model)
PlanT = TypeVar("PlanT", bound=Plan)


def _as_it_is(table: Mapping[str, object]) -> Mapping[str, object]:
    return table


@dataclass(frozen=True, slots=True)
class Kind(Generic[ModelT, PlanT]):
    """What planning knows of one predictor.

    Attributes:
        model: Class of its model: what its `[model]` table may hold.
        plan: Class of its plan. Its fields' order is its canonical JSON's: fields are only ever added, and left out
            where they are not set.
        check_model: Refuses a model with a value outside its bound (`InputError`).
        wish: Plans a model, as if just enough examples were declared where it declares too few; calls the function it
            is given after each of at most `oracle.planning.boxes.tight.PLAN_STEPS` steps, if it searches.
        verify: Makes every figure of a plan again, and refuses one that does not hold (`PlanError`).
        check_runnable: Refuses a plan that no state can be made of (`PlanError`).
        quick: Returns examples that are enough, and a few percent more than `wish` finds, without a search; where it is
            not set, `wish` takes no time itself.
        fill: Fills in settings of a model file whose default depends on another one.
        as_paper: Returns a model with the same promises for the `paper` profile, where there is one.
        as_classical: Returns the model of a classical learner with the same promises, where there is one.
    """

    model: type[ModelT]
    plan: type[PlanT]
    check_model: Callable[[ModelT], None]
    wish: Callable[[ModelT, Callable[[int], None]], PlanT]
    verify: Callable[[PlanT], None]
    check_runnable: Callable[[PlanT], None]
    quick: Callable[[ModelT], int] | None = None
    fill: Callable[[Mapping[str, object]], Mapping[str, object]] = _as_it_is
    as_paper: Callable[[ModelT], ModelT] | None = None
    as_classical: Callable[[ModelT], ClassicalModel] | None = None


KINDS: Final[Mapping[str, Kind[Any, Any]]] = {
    "rectangles": Kind(
        model=BoxModel,
        plan=BoxPlan,
        check_model=check_box_model,
        wish=wish_for_box,
        verify=verify_box_plan,
        check_runnable=check_box_runnable,
        quick=quick_box_examples,
        fill=with_slicing,
        as_paper=box_as_paper,
        as_classical=box_as_classical,
    ),
    "stumps": Kind(
        model=StumpsModel,
        plan=StumpsPlan,
        check_model=check_stumps_model,
        wish=wish_for_stumps,
        verify=verify_stumps_plan,
        check_runnable=check_stumps_runnable,
        quick=quick_stumps_examples,
        as_paper=stumps_as_paper,
        as_classical=stumps_as_classical,
    ),
    "classical": Kind(
        model=ClassicalModel,
        plan=ClassicalPlan,
        check_model=check_classical_model,
        wish=wish_for_classical,
        verify=verify_classical_plan,
        check_runnable=verify_classical_plan,
        fill=with_faces,
    ),
    "bisection": Kind(
        model=BisectionModel,
        plan=BisectionPlan,
        check_model=check_bisection_model,
        wish=wish_for_bisection,
        verify=verify_bisection_plan,
        check_runnable=check_bisection_runnable,
        as_paper=bisection_as_paper,
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
            msg = f"plan: {newer_version(header.version, PLAN_VERSION)}"
            raise PlanError(msg)
        if header.version < 1:
            msg = f"plan: version = {header.version}: no Perpetua wrote such a plan"
            raise PlanError(msg)
        if header.predictor not in KINDS:
            msg = f"plan: predictor = {header.predictor!r}: this Perpetua knows {', '.join(KINDS)}"
            raise PlanError(msg)
        plan: Plan = msgspec.json.decode(data, type=KINDS[header.predictor].plan)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        msg = f"plan: cannot be read: {exc}"
        raise PlanError(msg) from exc
    return plan
