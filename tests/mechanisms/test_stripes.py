"""Learned edges: the choice's law and its privacy loss, equal values, who gets a record, and what a side holds."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.edges import side_candidates
from oracle.mechanisms.choice.stripes import Outermost, choose_sides, learn_edge, split_positions
from oracle.mechanisms.grid import NONE, number_at, positions_of
from oracle.mechanisms.keys import PhaseKey

_EDGES = 24
"""Edges of a small grid."""

_FEW = st.lists(st.integers(0, _EDGES - 2), max_size=9)
_COINS = np.random.default_rng(1).integers(0, 2**64, size=4_000, dtype=np.uint64)


def _law(records: list[int], rank: int, scale: float) -> list[mpmath.mpf]:
    """Return the exact law of the edge over a small grid, from the definition of the loss."""
    there = np.array(records)
    weights = []
    for edge in range(_EDGES):
        below, through = int((there < edge).sum()), int((there <= edge).sum())
        through += rank if edge == _EDGES - 1 else 0
        weights.append(mpmath.exp(-mpmath.mpf(scale) * max(0, below - rank, rank - through)))
    whole = mpmath.fsum(weights)
    return [weight / whole for weight in weights]


@given(_FEW, st.integers(1, 6))
def test_groups_are_the_definition(records: list[int], rank: int) -> None:
    """Every edge's loss, within reach, is the one that its groups have."""
    places = side_candidates(np.array(records, dtype=np.uint64), rank, 40, _EDGES)
    found = dict.fromkeys(range(_EDGES), -1)
    for start, width, loss in zip(*(part.tolist() for part in places[1:4]), strict=True):
        found |= dict.fromkeys(range(start, start + width), loss)
    law = _law(records, rank, 1.0)
    best = max(law)
    assert [round(float(mpmath.log(best / part))) for part in law] == [found[edge] for edge in range(_EDGES)]


@settings(deadline=None)
@given(_FEW, st.integers(0, _EDGES - 2), st.integers(1, 6), st.sampled_from([0.03, 0.4, 1.5]))
def test_the_loss_is_in_an_interval_of_length_two_e_and_has_its_rho(
    records: list[int], new: int, rank: int, scale: float
) -> None:
    """One record more: all log ratios lie within 2 e, and E exp(theta L) is at most exp(theta (1 + theta) e^2/2)."""
    worlds = _law(records, rank, scale), _law([*records, new], rank, scale)
    for one, other in (worlds, worlds[::-1]):
        losses = [mpmath.log(p / q) for p, q in zip(one, other, strict=True)]
        assert max(losses) - min(losses) <= 2 * mpmath.mpf(scale) * (1 + mpmath.mpf(1e-12))
        for theta in (0.1, 1.0, 7.0, 40.0):
            moment = mpmath.fsum(p * mpmath.exp(theta * loss) for p, loss in zip(one, losses, strict=True))
            assert mpmath.log(moment) <= theta * (1 + theta) * mpmath.mpf(scale) ** 2 / 2 + mpmath.mpf(1e-12)


def test_edges_have_their_law() -> None:
    """Two records and rank 1: how often an edge is on either side of each, against the widths' exact weights."""
    places = np.array([1 << 62, 3 << 62], dtype=np.uint64)
    first, second = places.tolist()
    weights = [(first, 1), (1, 0), (second - first - 1, 0), (1, 0), (NONE - second - 1, 1), (1, 1)]
    weighed = np.array([width * math.exp(-2.0 * loss) for width, loss in weights])
    drawn = [
        learn_edge(places, 1, 2.0, Addresses(PhaseKey(number.to_bytes(32)), 1), number % 3) for number in range(3_000)
    ]
    found = np.array([sum(edge < first for edge in drawn), sum(first <= edge <= second for edge in drawn)]) / len(drawn)
    expected = np.array([weighed[0], weighed[1:4].sum()]) / weighed.sum()
    assert found == pytest.approx(expected, abs=5.0 * math.sqrt(0.25 / len(drawn)))


def test_an_edge_is_near_its_rank() -> None:
    """Of twenty thousand records, of any scale, the edge has about the wanted number at or beyond it."""
    values = np.random.default_rng(2).standard_cauchy(20_000) * 1e-9 + 3e4
    coins = np.random.default_rng(3).integers(0, 2**64, size=20_000, dtype=np.uint64)
    for keys, lower in ((values, True), (-values, False), (np.full(20_000, -0.25), True)):
        places = split_positions(keys, coins, lower=lower)
        edge = learn_edge(places, 1_500, 0.1, Addresses(PhaseKey(bytes(32)), 1), 0)
        assert abs(int(np.count_nonzero(places <= edge)) - 1_500) < math.log(2.0**64 * 1e9) / 0.1


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=40))
def test_places_keep_the_order_of_values(values: list[float]) -> None:
    """Numbers further apart than 1024 floats keep their order; all are edges' neighbours, also the last ones."""
    keys = np.array(values) + 0.0
    places = split_positions(keys, _COINS[: len(keys)], lower=True)
    for (key, place), (other, theirs) in itertools.combinations(zip(positions_of(keys), places, strict=True), 2):
        if abs(int(key) - int(other)) >= 1024:
            assert (key < other) == (place < theirs)
    assert int(places.max()) < NONE
    assert int(split_positions(np.array([number_at(NONE - 1)]), _COINS[:1], lower=False)[0]) < NONE


def test_equal_values_are_parted_and_the_other_side_has_them_the_other_way_round() -> None:
    """Of a constant the outermost tenth of one side is the innermost tenth of the other one."""
    keys = np.full(4_000, 7.5)
    lower, upper = split_positions(keys, _COINS, lower=True), split_positions(-keys, _COINS, lower=False)
    tenth = [set(np.argsort(places, kind="stable")[:400].tolist()) for places in (lower, upper)]
    assert not tenth[0] & tenth[1]
    assert len(np.unique(lower)) > 900


def test_a_side_depends_on_the_record_and_its_coins_alone() -> None:
    """Assigned alone, in another order or among others, a record goes to the same side."""
    generator = np.random.default_rng(4)
    places = generator.integers(0, 2**63, size=(4, 500), dtype=np.uint64)
    edges, picks = np.full(4, 2**61, dtype=np.uint64), _COINS[:500]
    whole, order = choose_sides(edges, places, picks), generator.permutation(500)
    assert np.array_equal(choose_sides(edges, places[:, order], picks[order]), whole[order])
    alone = [int(choose_sides(edges, places[:, [row]], picks[[row]])[0]) for row in range(500)]
    assert alone == whole.tolist()


def test_those_beyond_an_edge_share_and_those_beyond_none_go_anywhere() -> None:
    """At or beyond one edge: there. At two: half and half. Beyond none: each of four."""
    edges = np.array([10, 10, 10, 10], dtype=np.uint64)
    for beyond, shares in (((1,), (0, 1, 0, 0)), ((0, 3), (0.5, 0, 0, 0.5)), ((), (0.25,) * 4)):
        places = np.array([[10 if side in beyond else 11] * 4_000 for side in range(4)], dtype=np.uint64)
        found = np.bincount(choose_sides(edges, places, _COINS), minlength=4) / 4_000
        assert found == pytest.approx(shares, abs=0.04)


_RECORDS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=30)


def _held(records: list[tuple[int, bool]], stripe: int, cut: int) -> int:
    places = np.array([place for place, _ in records], dtype=np.uint64)
    mine = np.array([given for _, given in records], dtype=np.bool_)
    counted = Outermost(places, stripe)
    counted.count(places[:cut], mine[:cut])
    counted.count(places[cut:], mine[cut:])
    return counted.held


@given(_RECORDS, st.integers(1, 12), st.integers(0, 30))
def test_a_side_s_outermost_records_are_counted(records: list[tuple[int, bool]], stripe: int, cut: int) -> None:
    """As by sorting, ties by number; in any two parts."""
    order = sorted(range(len(records)), key=lambda row: (records[row][0], row))[:stripe]
    assert _held(records, stripe, cut) == sum(records[row][1] for row in order)


@given(_RECORDS, st.tuples(st.integers(0, 6), st.booleans()), st.integers(0, 30), st.integers(1, 12))
def test_one_record_changes_what_a_side_holds_by_one(
    records: list[tuple[int, bool]], new: tuple[int, bool], at: int, stripe: int
) -> None:
    """Wherever it comes, with any place, and whoever gets it."""
    at = min(at, len(records))
    assert abs(_held([*records[:at], new, *records[at:]], stripe, 3) - _held(records, stripe, 3)) <= 1
