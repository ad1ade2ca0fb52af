import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.sums import dots, running_sum

_ROWS = np.random.default_rng(1).normal(size=(200, 7)) * 10.0 ** np.random.default_rng(2).integers(-8, 8, (200, 7))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_running_sums_do_not_depend_on_the_cut(cuts):
    """Bit for bit, whatever parts the rows come in; a sum of sums would differ in the last bits."""
    whole = running_sum(np.zeros(7), _ROWS)
    total = np.zeros(7)
    bounds = [0, *sorted(cuts), 200]
    for start, stop in itertools.pairwise(bounds):
        total = running_sum(total, _ROWS[start:stop])
    assert total.tobytes() == whole.tobytes()


def test_rows_are_added_in_order():
    """It is Python's own loop over floats, and near the exact sum."""
    for column, value in zip(_ROWS.T, running_sum(np.zeros(7), _ROWS), strict=True):
        expected = 0.0
        for entry in column.tolist():
            expected += entry
        assert value == expected
        assert math.isclose(value, float(sum(map(Fraction, column.tolist()))), rel_tol=1e-9)


def test_dot_products_are_those_of_one_row_alone():
    """A query's products are the same alone, among others, and as a slice of a larger array."""
    vectors = np.random.default_rng(3).normal(size=(3, 7))
    whole = dots(_ROWS, vectors)
    np.testing.assert_allclose(whole, vectors @ _ROWS.T, rtol=1e-9, atol=1e-3)
    for row in range(0, 200, 17):
        alone = dots(_ROWS[row : row + 1], vectors)
        assert alone.tobytes() == np.ascontiguousarray(whole[:, row : row + 1]).tobytes()
    assert dots(_ROWS[::3], vectors).tobytes() == np.ascontiguousarray(whole[:, ::3]).tobytes()
