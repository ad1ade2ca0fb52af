"""What `perpetua plan` shows of a plan of boxes, beside what it shows of every plan."""

import math
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET
from rich.table import Table

from oracle.cli.output import Row, figure_table
from oracle.cli.plan.page import ABOUT_REARMS, comparison, mebibytes
from oracle.planning.plan import BoxPlan, InstancePlan

__all__ = ["TERMS", "box_phases", "box_rows", "compare_boxes", "noise_rows"]

_SHOWN = 6
_SLICINGS: Final = {
    "faces": "a row counts for a side that it lies far out on",
    "sequential": "one side after another takes its rows out",
    "rsc": "one side after another takes a noisy number of rows out",
}
"""How each side comes by its points, in words."""

TERMS = (
    (
        "points/side",
        "the outermost rows labelled 1 that a side holds: a query's depth is how many of them it reaches past",
    ),
    ("thresholds", "depth and noise below the first: the side says 0; beyond the second: it says 1; between: a medium"),
    (
        "mediums",
        "queries between them, answered 0; privacy is accounted by them, and after so many a side is re-armed",
    ),
    ABOUT_REARMS,
)
"""The terms of the table of phases."""


def box_rows(plan: BoxPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    yield "sides", f"{', '.join(plan.sides)}"
    yield "", f"{plan.slicing}: {_SLICINGS[plan.slicing]}"
    yield "", f"it gets {plan.share:.0%} of its stripe, the band of rows labelled 1 that lie farthest out on it"
    yield from _start_rows(plan)
    yield from noise_rows(plan)


def _start_rows(plan: BoxPlan) -> Iterator[Row]:
    """Yield what `init` releases, which a training row pays for within its epsilon."""
    if plan.scale is not UNSET:
        each = 2.0 * plan.scale.scale
        yield (
            "scale",
            f"learned by `init`: an edge for each side, epsilon {each:.3g} each, {each / plan.epsilon:.1%} of all",
        )
    if plan.check is not UNSET:
        share = plan.check.epsilon / plan.epsilon
        yield (
            "check",
            f"by `init`: a noisy count of the side that holds the least, epsilon {plan.check.epsilon:.3g}, {share:.1%}",
        )


def noise_rows(plan: BoxPlan) -> Iterator[Row]:
    """Yield what is said of the noise and the memory."""
    first = plan.phases[0]
    yield "noise", f"{first.start.law}, keyed (made again, not drawn again, after a crash), exact to 128 bits"
    yield "", "noise scale: nats for each point of depth; the smaller, the more noise"
    yield (
        "phases",
        "each has points of its own: training rows in the first, later ones queries answered in the one before",
    )
    yield "", f"Stopper epsilon {first.stopper.epsilon:.4g}: spent on when a side with too many mediums is re-armed"
    yield "memory", f"{mebibytes(first.memory_bytes)} in phase 1, {mebibytes(plan.memory_bytes)} at most"


def box_phases(plan: BoxPlan) -> Table:
    """Return the table of the phases."""
    table = figure_table("phase", "rounds", "delta", "points/side", "mediums", "noise scale", "thresholds")
    for index, phase in enumerate(plan.phases):
        if _SHOWN <= index < len(plan.phases) - 1:
            if index == _SHOWN:
                table.add_row(*["..."] * 7)
            continue
        table.add_row(str(phase.phase), f"{phase.rounds:,}", f"{phase.delta:.2e}", *_columns(phase.start))
        table.add_row("  re-armed", "", "", *_columns(phase.rearmed))
    return table


def compare_boxes(tight: BoxPlan, paper: BoxPlan) -> Table:
    """Return both plans' figures side by side, and how many times the paper's is."""
    ours, theirs = tight.phases[0], paper.phases[0]
    rows = (
        ("examples needed", tight.examples, paper.examples),
        ("points a side, phase 1", ours.start.points, _held(theirs.start)),
        ("mediums until a re-arm", ours.stopper.threshold, theirs.stopper.threshold),
        ("noise, std. deviation", _deviation(ours.start), _deviation(theirs.start)),
        ("rounds of phase 1", ours.rounds, theirs.rounds),
        ("memory of phase 1, MiB", ours.memory_bytes / 2**20, theirs.memory_bytes / 2**20),
    )
    return comparison(tight, paper, "sum of delta", rows, ",.1f")


def _deviation(instance: InstancePlan) -> float:
    """Standard deviation of the depths' noise, in points; DLap(e)'s is Laplace's but for a part of e^2/24."""
    return (math.pi / math.sqrt(3.0) if instance.law == "logistic" else math.sqrt(2.0)) / instance.scale


def _held(instance: InstancePlan) -> int:
    return instance.points if instance.base is msgspec.UNSET else instance.base


def _columns(instance: InstancePlan) -> tuple[str, str, str, str]:
    thresholds = f"{instance.low:,}-{instance.high:,}"
    return f"{_held(instance):,}", f"{instance.mediums:,}", f"{instance.scale:.3g}", thresholds
