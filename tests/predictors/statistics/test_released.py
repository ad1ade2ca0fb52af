"""What follows from released intervals, and sums over cells, against every data set of a small table."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.planning.attributes import Attribute, Layout
from oracle.predictors.statistics import released as module
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.released import Interval, Released
from oracle.predictors.statistics.sums import Rows
from tests.predictors.suite import Calls

_SMALL = (Attribute(name="a", categories=("x", "other")), Attribute(name="b", categories=("u",)))
_LAYOUT = Layout.of(_SMALL)
_ROWS = 4
_MOST = 12

_WIDE = (
    Attribute(name="a", categories=("x", "y")),
    Attribute(name="b", bounds=(0.0, 60.0), bins=60),
    Attribute(name="c", categories=("u", "other")),
)


def _all_tables() -> np.ndarray:
    """Return the counts of all tables of four rows: int64[tables, cells]. All rows are there, as `init` sees to it."""
    tables = combinations_with_replacement(range(_LAYOUT.size), _ROWS)
    return np.array([np.bincount(table, minlength=_LAYOUT.size) for table in tables])


_TABLES = _all_tables()


def _question(bits: int) -> list[np.ndarray]:
    masks, start = [], 0
    for cells in _LAYOUT.shape:
        masks.append(np.array([bits >> (start + cell) & 1 for cell in range(cells)], dtype=np.bool_))
        start += cells
    return masks


def _counted(tables: np.ndarray, masks: list[np.ndarray]) -> np.ndarray:
    inside = np.zeros(_LAYOUT.shape, dtype=np.bool_)
    inside[np.ix_(*masks)] = True
    counts: np.ndarray = tables[:, inside.reshape(-1)].sum(axis=1)
    return counts


_QUESTIONS = st.integers(0, 2 ** sum(_LAYOUT.shape) - 1).map(_question)


@settings(max_examples=60, deadline=None)
@given(
    table=st.integers(0, len(_TABLES) - 1),
    paid=st.lists(st.tuples(_QUESTIONS, st.integers(0, 2), st.integers(0, 2)), max_size=_MOST),
    asked=st.lists(_QUESTIONS, min_size=1, max_size=30),
)
def test_implied_intervals_hold_for_every_table_that_the_released_ones_allow(table, paid, asked):
    """All tables of four rows are tried: none that agrees with what is released has a count outside."""
    released, agree = Released(_LAYOUT, _ROWS, _MOST), np.ones(len(_TABLES), dtype=np.bool_)
    for masks, below, above in paid:
        counts = _counted(_TABLES, masks)
        low, high = float(max(counts[table] - below, 0)), float(min(counts[table] + above, _ROWS))
        released.add(_LAYOUT.row(masks), Interval(low, high))
        agree &= (counts >= low) & (counts <= high)
    assert agree[table]
    rows = np.array([_LAYOUT.row(masks) for masks in asked])
    for masks, (low, high) in zip(asked, released.implied(rows), strict=True):
        counts = _counted(_TABLES[agree], masks)
        assert 0.0 <= low <= counts.min()
        assert counts.max() <= high <= _ROWS


def test_what_is_paid_for_in_parts_is_known():
    """A question whose parts were released has the sum of their intervals; so has what is in none of them."""
    released = Released(_LAYOUT, 100, _MOST)
    parts = ([True, False, False], [False, True, False])
    for number, part in enumerate(parts):
        released.add(_LAYOUT.row([np.array(part), np.ones(3, np.bool_)]), Interval(10.0 + number, 12.0 + number))
    both, rest = np.array([True, True, False]), np.array([False, False, True])
    found = released.implied(np.array([_LAYOUT.row([mask, np.ones(3, np.bool_)]) for mask in (both, rest)]))
    assert found.tolist() == [[21.0, 25.0], [75.0, 79.0]]
    within = released.implied(_LAYOUT.row([np.array(parts[0]), rest])[None])
    assert within.tolist() == [[0.0, 12.0]]


def test_intervals_of_one_question_are_cut_and_the_newer_one_wins():
    """Two intervals of one question become what they have in common, or, where that is nothing, the newer one."""
    row = _LAYOUT.row([np.array([True, False, False]), np.ones(3, np.bool_)])
    released = Released(_LAYOUT, 100, _MOST)
    for found, expected in (((10, 20), (10, 20)), ((15, 30), (15, 20)), ((40, 50), (40, 50))):
        released.add(row, Interval(*found))
        assert len(released) == 1
        assert released.implied(row[None]).tolist() == [list(expected)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), asked=st.integers(1, 40))
def test_sums_are_those_of_naive_masks(seed, asked):
    """Rows and weights summed cell by cell, and the masks of a row, are what the partial sums say, to the last bit."""
    generator = np.random.default_rng(seed)
    layout = Layout.of(_WIDE)
    cells = generator.integers(-1, layout.size, 200)
    weights = np.rint(generator.random(layout.shape) * 2.0 ** generator.integers(1, 44)) + 1.0
    questions = [[generator.random(size) < generator.random() for size in layout.shape] for _ in range(asked)]
    questions = [[mask | (generator.random() < 0.3) for mask in masks] for masks in questions]
    rows = np.array([layout.row(masks) for masks in questions])
    assert rows.shape == (asked, layout.width)
    assert (rows == np.floor(rows)).all()
    masks = layout.masks(rows)
    table, hypothesis = Rows(layout.shape, cells), Hypothesis(weights.copy())
    counts, sums = table.over(masks), hypothesis.over(masks)
    for number, question in enumerate(questions):
        for found, wanted in zip(masks, question, strict=True):
            assert found[number].tolist() == wanted.tolist()
        inside = np.zeros(layout.shape, dtype=np.bool_)
        inside[np.ix_(*question)] = True
        assert counts[number] == sum(cell >= 0 and inside.reshape(-1)[cell] for cell in cells.tolist())
        exact = sum(int(weight) for weight, there in zip(weights.flat, inside.flat, strict=True) if there)
        assert sums[number] == float(exact)
        assert hypothesis.share(question) == float(exact) / hypothesis.total
    assert table.total == float((cells >= 0).sum())


def _naive_sums(parts: list[tuple[set[int], float, float]]) -> tuple[set[int], float, float]:
    """Return the union, and the sums of the intervals, of disjoint parts: the large ones first."""
    union: set[int] = set()
    low = high = 0.0
    for cells, below, above in sorted(parts, key=lambda part: -len(part[0])):
        if not cells & union:
            union, low, high = union | cells, low + below, high + above
    return union, low, high


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 60), summed=st.sampled_from([8, 4096]))
def test_sums_of_parts_are_the_naive_ones(seed, count, summed):
    """The intervals that follow are those by sets of cells, of which the first so many are added up."""
    generator = np.random.default_rng(seed)
    attributes = (Attribute(name="a", bounds=(0.0, 70.0), bins=70), Attribute(name="b", categories=("u", "other")))
    layout, rows = Layout.of(attributes), 1000
    chances = ((0.01, 0.03, 0.4, 1.0), (0.5, 1.0))

    def question() -> list[np.ndarray]:
        masks = [
            generator.random(cells) < generator.choice(ways) for cells, ways in zip(layout.shape, chances, strict=True)
        ]
        return [mask | (np.arange(len(mask)) == generator.integers(len(mask))) for mask in masks]

    def cells_of(masks: list[np.ndarray]) -> set[int]:
        return set(np.ravel_multi_index(np.ix_(*map(np.flatnonzero, masks)), layout.shape).reshape(-1).tolist())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SUMMED", summed)
        released, known = Released(layout, rows, count), {}
        for _ in range(count):
            masks, low = question(), float(generator.integers(0, 20))
            if layout.row(masks).tobytes() not in known:
                known[layout.row(masks).tobytes()] = (cells_of(masks), low, low + 3.0)
                released.add(layout.row(masks), Interval(low, low + 3.0))
        parts = list(known.values())
        everything = set(range(layout.size))
        wholes = [[np.bitwise_or.reduce(pair) for pair in zip(question(), question(), strict=True)] for _ in range(20)]
        for masks in [*wholes, [np.ones(cells, dtype=np.bool_) for cells in layout.shape]]:
            asked = cells_of(masks)
            low = max((part[1] for part in parts if part[0] <= asked), default=0.0)
            high = min((part[2] for part in parts if part[0] >= asked), default=float(rows))
            rest = everything - asked
            within, outside = [[part for part in parts if part[0] <= of] for of in (asked, rest)]
            if any(sum(len(part[0]) for part in some) >= len(of) for some, of in ((within, asked), (outside, rest))):
                union, below, above = _naive_sums([part for part in parts[:summed] if part in within])
                low, high = max(low, below), min(high, above) if union == asked and asked else high
                union, below, above = _naive_sums([part for part in parts[:summed] if part in outside])
                high = min(high, rows - below)
                low = max(low, rows - above) if union == rest and rest else low
            assert released.implied(layout.row(masks)[None]).tolist() == [[low, high]]


def test_the_work_of_a_question_hardly_grows_with_what_was_paid_for():
    """A question about all of 1,500 that were paid for one by one: few calls for each, not one for each pair."""
    attributes = (Attribute(name="a", categories=tuple(map(str, range(1500)))),)
    layout = Layout.of(attributes)
    released = Released(layout, 10**6, 1500)
    for number in range(1500):
        released.add(layout.row([np.arange(layout.size) == number]), Interval(10.0, 12.0))
    asked = layout.row([np.arange(layout.size) < 1500])[None]
    with Calls() as calls:
        found = released.implied(asked)
    assert found.tolist() == [[15_000.0, 18_000.0]]
    assert len(calls.made) < 10 * 1500
