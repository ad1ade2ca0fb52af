"""What follows from released intervals, and sums over cells, against every data set of a small table."""

from itertools import combinations_with_replacement

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.planning.attributes import Attribute, Layout
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.released import Interval, Released
from oracle.predictors.statistics.sums import Rows

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
