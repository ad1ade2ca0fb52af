"""Edges and their losses: against brute force over whole small grids, and how one record can change them."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.edges import best_cuts, cut_candidates, side_candidates
from oracle.mechanisms.choice.exponential import Candidates, KeyedBits, choose_exactly
from oracle.mechanisms.keys import PhaseKey

_EDGES = 7
_FAR = 10**6

Losses = list[int]


def spread_out(places: Candidates, edges: int) -> Losses:
    """Return every edge's loss from the groups, which must hold each edge once."""
    losses = [-1] * edges
    for start, width, loss in zip(places.starts.tolist(), places.widths.tolist(), places.losses.tolist(), strict=True):
        for edge in range(start, start + width):
            assert losses[edge] == -1
            losses[edge] = loss
    return losses


def side(records: Sequence[int], rank: int, reach: int = _FAR, edges: int = _EDGES) -> Losses:
    """Return the losses of all edges of a side."""
    return spread_out(side_candidates(np.array(records, dtype=np.uint64), rank, reach, edges), edges)


def side_by_definition(records: Sequence[int], rank: int, edges: int = _EDGES) -> Losses:
    """Return them by brute force, with `rank` more records at the last edge."""
    every = [*records, *[edges - 1] * rank]
    return [max(0, sum(r < edge for r in every) - rank, rank - sum(r <= edge for r in every)) for edge in range(edges)]


def cut(records: Sequence[tuple[int, bool]], edges: int = _EDGES) -> Losses:
    """Return the losses of all edges of a stump."""
    ranked = sorted(records)
    numbers = np.array([record for record, _ in ranked], dtype=np.uint64)
    labels = np.array([label for _, label in ranked], dtype=np.bool_)
    return spread_out(cut_candidates(numbers, labels, 0, edges), edges)


def cut_by_definition(records: Sequence[tuple[int, bool]], edges: int = _EDGES) -> Losses:
    """Return them by brute force."""
    return [sum((record >= edge) != label for record, label in records) for edge in range(edges)]


@given(st.lists(st.integers(0, _EDGES - 2), max_size=12), st.integers(1, 5))
def test_sides_are_what_they_are_defined_as(records, rank):
    """Every edge is in one group, with the loss of the definition; some edge has none."""
    losses = side(records, rank)
    assert losses == side_by_definition(records, rank)
    assert min(losses) == 0


@given(st.lists(st.integers(0, _EDGES - 2), max_size=30), st.integers(1, 5), st.integers(0, 9))
def test_what_is_left_out_of_a_side_loses_more(records, rank, reach):
    """Groups are the same as without a reach, or lose more than it."""
    whole = side(records, rank)
    places = side_candidates(np.array(records, dtype=np.uint64), rank, reach, _EDGES)
    near = spread_out(places, _EDGES)
    assert places.whole == _EDGES
    for found, expected in zip(near, whole, strict=True):
        assert found == expected or (found == -1 and expected > reach)


@given(st.lists(st.tuples(st.integers(0, _EDGES - 2), st.booleans()), max_size=12))
def test_cuts_are_what_they_are_defined_as(records):
    """Every edge is in one group, with the number of records it gets wrong."""
    assert cut(records) == cut_by_definition(records)


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (1.4, False)])
def test_edges_of_a_small_grid_are_chosen_by_their_law(factor: float, same: bool) -> None:  # noqa: FBT001 -- a column
    """A chi-square test over every single edge, those between, at and beyond the records; it rejects another scale."""
    records = np.array([1, 1, 1, 2, 4, 5, 5], dtype=np.uint64)
    losses = np.array(side_by_definition(records.tolist(), 3))
    weights = np.exp(-0.6 * losses)
    addresses, count = Addresses(PhaseKey(bytes([9] * 32)), 1), 1500
    bits, near = KeyedBits(addresses, 0), partial(side_candidates, records, 3, edges=_EDGES)
    drawn = [choose_exactly(0.6 * factor, near, bits)[1] for _ in range(count)]
    found = np.bincount(drawn, minlength=_EDGES)
    expected = count * weights / weights.sum()
    assert bool(stats.chisquare(found, expected).pvalue > 1e-4) == same


@given(
    st.lists(st.lists(st.tuples(st.integers(0, _EDGES - 2), st.booleans()), max_size=12), min_size=1, max_size=4),
    st.integers(0, 5),
)
def test_best_cuts_leave_out_only_what_loses_more(stumps, reach):
    """Of several stumps all edges within reach of the best one are there."""
    cuts = []
    for owner, records in enumerate(stumps):
        ranked = sorted(records)
        numbers = np.array([record for record, _ in ranked], dtype=np.uint64)
        cuts.append(cut_candidates(numbers, np.array([label for _, label in ranked], dtype=np.bool_), owner, _EDGES))
    best = best_cuts(iter(cuts), reach)
    assert best.whole == _EDGES * len(stumps)
    least = int(best.losses.min())
    expected = {
        (owner, edge, loss)
        for owner, records in enumerate(stumps)
        for edge, loss in enumerate(cut_by_definition(records))
    }
    assert least == min(loss for _, _, loss in expected)
    groups = zip(*(column.tolist() for column in best[:4]), strict=True)
    found = {(owner, edge, loss) for owner, start, width, loss in groups for edge in range(start, start + width)}
    assert {each for each in expected if each[2] <= least + reach} <= found <= expected


def _law(base: Fraction, losses: Losses) -> list[Fraction]:
    """Return exp(-e loss) normalised, for base = exp(-e)."""
    weights = [base**loss for loss in losses]
    return [weight / sum(weights) for weight in weights]


def _worst(base: Fraction, pairs: Sequence[tuple[Losses, Losses]]) -> Fraction:
    """Return the largest ratio of any edge's probabilities, in either direction."""
    worst = Fraction(1)
    for one, other in pairs:
        for left, right in zip(_law(base, one), _law(base, other), strict=True):
            worst = max(worst, left / right, right / left)
    return worst


def _side_pairs(edges: int, most: int, losses: Callable[[Sequence[int], int], Losses]) -> list[tuple[Losses, Losses]]:
    """Return both losses of all neighbours of up to `most` records on a grid, for ranks 1 and 2."""
    return [
        (losses(records, rank), losses([*records, more], rank))
        for size in range(most + 1)
        for records in itertools.combinations_with_replacement(range(edges - 1), size)
        for more in range(edges - 1)
        for rank in (1, 2)
    ]


@pytest.mark.parametrize("base", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 1000)])
def test_sides_are_private_exactly(base: Fraction) -> None:
    """Of all neighbours of small data sets no edge's probability changes by more than exp(2e), in exact rationals."""
    pairs = _side_pairs(5, 4, lambda records, rank: side(records, rank, edges=5))
    worst = _worst(base, pairs)
    assert worst <= base**-2
    assert worst > base**-1  # so 2 e is what a side pays, and not e


def test_a_rank_without_its_ties_would_not_be_private():
    """The check notices a loss that moves by two: one that counts the records at an edge twice."""

    def twice(records: Sequence[int], rank: int) -> Losses:
        return side_by_definition([*records, *records], rank, 5)

    base = Fraction(1, 1000)
    assert _worst(base, _side_pairs(5, 4, twice)) > base**-2


@pytest.mark.parametrize("base", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 1000)])
def test_cuts_are_private_exactly(base: Fraction) -> None:
    """The same for two stumps chosen from together, upward and downward: exp(e), without a factor of 2."""
    edges, pairs = 4, []
    points = [(record, label) for record in range(edges - 1) for label in (False, True)]

    def both(records: Sequence[tuple[int, bool]]) -> Losses:
        return cut(records, edges) + cut([(edges - 2 - record, label) for record, label in records], edges)

    for size in range(5):
        for records in itertools.combinations_with_replacement(points, size):
            pairs += [(both(records), both([*records, more])) for more in points]
    worst = _worst(base, pairs)
    assert worst <= base**-1
    assert float(worst) > float(base) ** -0.5  # so a good part of it is paid
