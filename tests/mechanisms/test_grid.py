"""The order of the finite float64 numbers as integers."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.mechanisms.grid import EDGES, NONE, mirror, number_at, positions_of

_FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
_LARGEST = 1.7976931348623157e308


def place(number: float) -> int:
    """Return one number's place."""
    return int(positions_of(np.array([number]))[0])


def test_every_pattern_is_counted_once():
    """Of 2^64 patterns 2^53 are infinite or no numbers, one zero is the other, and one edge is beyond all."""
    assert EDGES == 2**64 - 2**53 - 1 + 1
    assert place(-_LARGEST) == 0
    assert place(_LARGEST) == NONE - 1 == EDGES - 2
    assert number_at(NONE) == math.inf
    assert place(-0.0) == place(0.0) == NONE // 2
    assert struct.pack("<d", number_at(NONE // 2)) == struct.pack("<d", 0.0)


@given(_FINITE)
def test_numbers_come_back(number):
    """A place is its number again, bit by bit but for the sign of zero; the next number has the next place."""
    there = place(number)
    assert struct.pack("<d", number_at(there)) == struct.pack("<d", number + 0.0)
    assert int(mirror(positions_of(np.array([number])))[0]) == place(-number)
    assert there + 1 == place(math.nextafter(number, math.inf)) or number == _LARGEST


@given(_FINITE, _FINITE)
def test_order_is_kept(left, right):
    """Comparing places is comparing numbers."""
    assert (place(left) < place(right)) == (left < right)
    assert (place(left) == place(right)) == (left == right)


@pytest.mark.parametrize("number", [5e-324, -5e-324, 2.2250738585072014e-308, 1.0, -_LARGEST])
def test_lists_of_numbers_that_are_not_contiguous(number):
    """Every second element of an array has its own place."""
    numbers = np.array([number, 7.0, 1.0, 7.0])
    assert positions_of(numbers[::2]).tolist() == [place(number), place(1.0)]
