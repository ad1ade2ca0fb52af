"""What a run is measured by, and the bounds that it must keep."""

from dataclasses import dataclass

import numpy as np

from oracle.planning.plan import BoxPlan, InstancePlan
from tests.experiments.adversaries.weighted import Armed


@dataclass
class PhaseFigures:
    """One phase.

    Attributes:
        phase: Its number.
        rounds: Its length.
        honest: Honest queries.
        misses: Honest queries inside the box that got label 0.
        false_ones: Honest queries outside the box that got label 1.
        outside_ones: Hostile queries outside the box that got label 1.
        rearms: How often a side was armed afresh.
        first_rearm: Round of the phase before which the first was, 0 if none.
        fill: Least part of M that a side held when it was armed.
        contamination: Most points of a side, as a multiple of eta M, that lay outside the true edge or further inside
            than all points that the side started the phase with.
    """

    phase: int
    rounds: int
    honest: int = 0
    misses: int = 0
    false_ones: int = 0
    outside_ones: int = 0
    rearms: int = 0
    first_rearm: int = 0
    fill: float = 1.0
    contamination: float = 0.0

    @property
    def error(self) -> float:
        """Part of the honest queries that was answered wrongly."""
        return (self.misses + self.false_ones) / max(self.honest, 1)

    def see_armed(self, plan: BoxPlan, armed: Armed, edge: float, last: float) -> None:
        """Look at a side that was just armed.

        Args:
            plan: The plan.
            armed: The side.
            edge: Key of the box's true edge.
            last: The innermost key that the side started the phase with.
        """
        self.fill = min(self.fill, armed.fill / armed.instance.points)
        bound = tolerated(plan, armed.instance)
        outside = int(armed.depth(np.nextafter(edge, -np.inf)))
        deep = armed.fill - int(armed.depth(np.array(last)))
        self.contamination = max(self.contamination, outside / bound, deep / bound)


def tolerated(plan: BoxPlan, instance: InstancePlan) -> float:
    """Return eta M, the most points that a flood may place in a side: eta X in noise units, over e."""
    return plan.contamination / instance.scale


def worst(figures: list[PhaseFigures]) -> tuple[float, float, float]:
    """Return the largest error of any phase or up to any phase's end, the least fill and the most contamination."""
    wrong = honest = 0
    errors = []
    for phase in figures:
        wrong += phase.misses + phase.false_ones
        honest += phase.honest
        errors += [phase.error, wrong / max(honest, 1)]
    return max(errors), min(phase.fill for phase in figures), max(phase.contamination for phase in figures)


def broken_bounds(plan: BoxPlan, figures: list[PhaseFigures]) -> list[str]:
    """Return the bounds that a run broke, by name; none if all held."""
    error, fill, contamination = worst(figures)
    checks = {"error": error <= plan.alpha, "starved": fill >= 1.0, "contamination": contamination <= 1.0}
    return [name for name, held in checks.items() if not held]
