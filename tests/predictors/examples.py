"""A small plan of every predictor, for the tests of all that serves predictors without knowing which."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oracle.planning.plan import Plan
from tests.predictors.plans import (
    feature,
    tiny_bisection_plan,
    tiny_classical_plan,
    tiny_distribution_plan,
    tiny_ensemble_plan,
    tiny_plan,
    tiny_sparse_plan,
    tiny_statistics_plan,
    tiny_stumps_plan,
)


def _rectangles(points: Sequence[int], rounds: int) -> Plan:
    return tiny_plan([feature("a"), feature("b")], points=points, rounds=rounds)


def _stumps(points: Sequence[int], rounds: int) -> Plan:
    return tiny_stumps_plan([feature("a"), feature("b")], points=points, rounds=rounds)


def _bisection(points: Sequence[int], rounds: int) -> Plan:
    boxes = tiny_plan([feature("a"), feature("b")], points=points, rounds=rounds)
    return tiny_bisection_plan(boxes.phases[0].rounds, boxes.rounds - boxes.phases[0].rounds)


def _classical(points: Sequence[int], rounds: int) -> Plan:
    as_long = _rectangles(points, rounds).rounds
    return tiny_classical_plan([feature("a"), feature("b")], rounds=as_long)


def _statistics(points: Sequence[int], rounds: int) -> Plan:
    as_long = _rectangles(points, rounds).rounds
    return tiny_statistics_plan(as_long, paid=20, epsilon=8.0, margins=(8, 50))


def _sparse_vector(points: Sequence[int], rounds: int) -> Plan:
    return tiny_sparse_plan(_rectangles(points, rounds).rounds, paid=20, epsilon=8.0)


def _ensemble(points: Sequence[int], rounds: int) -> Plan:
    lengths = [phase.rounds for phase in _rectangles(points, rounds).phases]
    least = min(lengths) // 3
    return tiny_ensemble_plan([feature("a"), feature("b")], rounds=lengths, least_rounds=least, examples=240)


def _distribution(points: Sequence[int], rounds: int) -> Plan:
    return tiny_distribution_plan(_rectangles(points, rounds).rounds)


EXAMPLES: Final[Mapping[str, Callable[[Sequence[int], int], Plan]]] = {
    "rectangles": _rectangles,
    "stumps": _stumps,
    "bisection": _bisection,
    "classical": _classical,
    "statistics": _statistics,
    "sparse-vector": _sparse_vector,
    "distribution": _distribution,
    "ensemble": _ensemble,
}
"""For every kind, what makes its plan: features a and b with values about 0 to 1, one phase for each number of points,
of some so many rounds; bisection, which has two phases only, and the others, which have one, last as long as all of
them. Statistics and sparse vectors have the attributes of `tests.predictors.tables`, distributions the
feature a."""


def example(predictor: str, phases: int = 4, rounds: int = 250) -> Plan:
    """Return a small plan of a predictor.

    Args:
        predictor: Its name.
        phases: How many phases.
        rounds: About how many rounds each of them lasts.
    """
    return EXAMPLES[predictor]((12, 15, 10, 13) * (phases // 4), rounds)
