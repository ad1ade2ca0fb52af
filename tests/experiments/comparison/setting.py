"""One method at one epsilon, ready to run: what all methods have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.experiments.comparison.task import Bools


@dataclass(frozen=True, slots=True)
class Setting:
    """One method at one epsilon.

    Attributes:
        answer: From a seed to bool[m], the answers to the queries; None where the method refuses to run.
        wanted: Labelled rows that the method's own bound or planner asks for; None where it knows none.
        rounds: Queries after which its guarantee needs a new plan; None where there is no such number.
        first_phase: Queries that its first phase lasts; None where it has no phases.
    """

    answer: Callable[[int], Bools] | None
    wanted: int | None = None
    rounds: int | None = None
    first_phase: int | None = None
