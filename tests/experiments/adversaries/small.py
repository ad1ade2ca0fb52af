"""A plan of short phases, for the real predictor."""

from functools import cache
from typing import TypeVar

import msgspec

from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_boxes
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan, InstancePlan

PlanT = TypeVar("PlanT", bound=BoxPlan)


@cache
def small_plan(dimension: int, trim: int = 0, share: float | None = None, width: float = 1.0) -> BoxPlan:
    """Return an accounted plan whose first six phases are 0.8 million rounds (d = 1) or 2.6 million (d = 2).

    Args:
        dimension: d.
        trim: Outermost points skipped.
        share: Declared share of a stripe; None for the planner's estimate.
        width: Width of the declared bounds of the last feature; 1 is right. It counts in a plan without `scale` only.
    """
    low, high = 0.5 - width / 2.0, 0.5 + width / 2.0
    bounds = [(0.0, 1.0)] * (dimension - 1) + [(low, high)]
    return plan_boxes(
        BoxModel(
            name="small",
            predictor="rectangles",
            epsilon=12.0,
            alpha=0.4,
            gamma=0.5,
            examples=6_000,
            first_share=0.3,
            trim=trim,
            share=share,
            features=tuple(Feature(name=f"f{index}", bounds=pair) for index, pair in enumerate(bounds)),
        )
    )


def narrow(plan: PlanT, part: float) -> PlanT:
    """Return a plan whose margin outside is a part of what it should be."""

    def shrunk(instance: InstancePlan) -> InstancePlan:
        low = int(instance.low * part)
        return msgspec.structs.replace(instance, low=low, high=low + instance.high - instance.low)

    phases = tuple(
        msgspec.structs.replace(phase, start=shrunk(phase.start), rearmed=shrunk(phase.rearmed))
        for phase in plan.phases
    )
    return msgspec.structs.replace(plan, phases=phases)
