"""The exact exponential mechanism: bounds, law, and that no digit is ever made up."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.exponential import Candidates, KeyedBits, _decide, choose_exactly, exp_bounds
from oracle.mechanisms.keys import PhaseKey

_GROUPS = ((0, 3), (2, 1), (2, 5), (1, 2), (7, 6), (3, 0))
"""Losses and widths of 17 candidates in groups; the last group is empty."""


class _Given:
    """Bits that are given, and no more of them."""

    def __init__(self, bits: int, count: int) -> None:
        self._bits, self._left = bits, count

    def take(self, count: int) -> int:
        """Return the next bits."""
        if count > self._left:
            raise EOFError
        self._left -= count
        return (self._bits >> self._left) & ((1 << count) - 1)


def places(groups: Sequence[tuple[int, int]]) -> Candidates:
    """Return groups one after another, the first at place 10, of owners 0, 1, ..."""
    losses, widths = (np.array(column) for column in zip(*groups, strict=True))
    starts = 10 + np.concatenate([[0], np.cumsum(widths)[:-1]])
    return Candidates(
        np.arange(len(groups)), starts.astype(np.uint64), widths.astype(np.uint64), losses, int(widths.sum())
    )


def nothing_far(groups: Sequence[tuple[int, int]]) -> Callable[[int], Candidates]:
    """Return what shows only the groups within a reach of the least loss, as a caller may."""

    def near(reach: int) -> Candidates:
        whole = places(groups)
        least = whole.losses[whole.widths > 0].min()
        kept = np.flatnonzero((whole.losses <= least + reach) & (whole.widths > 0))
        return Candidates(*(column[kept] for column in whole[:4]), whole.whole)  # type: ignore[arg-type,call-arg]

    return near


def law(scale: float, groups: Sequence[tuple[int, int]]) -> dict[tuple[int, int], mpmath.mpf]:
    """Return each candidate's probability by the definition, to 400 bits."""
    with mpmath.workprec(400):
        weights, start = {}, 10
        for owner, (loss, width) in enumerate(groups):
            for candidate in range(start, start + width):
                weights[owner, candidate] = mpmath.exp(-mpmath.mpf(scale) * loss)
            start += width
        total = mpmath.fsum(weights.values())
        return {candidate: weight / total for candidate, weight in weights.items()}


@given(
    exponent=st.fractions(0, 60, max_denominator=2**40) | st.floats(0, 60).map(Fraction),
    digits=st.integers(1, 300),
)
def test_bounds_hold_and_are_close(exponent, digits):
    """exp(-x) lies between them; they are so far apart as some hundred roundings can bring them."""
    low, high = exp_bounds(exponent, digits)
    with mpmath.workprec(500):
        value = mpmath.ldexp(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator), digits)
        assert low <= value <= high
    assert high - low <= 2000


def every_string(scale: float, precision: int, most: int) -> tuple[dict[tuple[int, int], Fraction], Fraction]:
    """Return the share of bit strings that choose each candidate, and of those that choose none by `most` bits."""
    found = dict.fromkeys(law(scale, _GROUPS), Fraction(0))
    undecided = Fraction(0)
    waiting = [(0, 0)]
    while waiting:
        bits, count = waiting.pop()
        share = Fraction(1, 1 << count)
        try:
            found[choose_exactly(scale, nothing_far(_GROUPS), _Given(bits, count), precision=precision)] += share
        except EOFError:
            if count < most:
                waiting += [(2 * bits, count + 1), (2 * bits + 1, count + 1)]
            else:
                undecided += share
    return found, undecided


@pytest.mark.parametrize(("scale", "precision"), [(0.3, 5), (1.0, 2), (2.75, 3)])
def test_every_string_of_bits_leads_to_the_law(scale: float, precision: int) -> None:
    """The share of strings that choose a candidate is its probability, but for the few that are undecided yet."""
    found, undecided = every_string(scale, precision, 14)
    assert undecided < Fraction(1, 4)
    for candidate, probability in law(scale, _GROUPS).items():
        least, most = found[candidate], found[candidate] + undecided
        assert mpmath.mpf(least.numerator) / least.denominator <= probability
        assert probability <= mpmath.mpf(most.numerator) / most.denominator
        assert least > 0 or probability < undecided


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (1.4, False), (0.7, False)])
def test_keyed_choices_have_the_law(factor: float, same: bool) -> None:  # noqa: FBT001 -- a table's column
    """A chi-square test over all candidates, which rejects another scale."""
    expected = law(0.5, _GROUPS)
    addresses, count = Addresses(PhaseKey(bytes([5] * 32)), 1), 250
    drawn = dict.fromkeys(expected, 0)
    for side in range(count):
        bits = KeyedBits(addresses, side)
        for _ in range(10):
            drawn[choose_exactly(0.5 * factor, nothing_far(_GROUPS), bits)] += 1
    table = [float(probability) * 10 * count for probability in expected.values()]
    assert bool(stats.chisquare(list(drawn.values()), table, sum_check=False).pvalue > 1e-4) == same


def test_widths_of_the_whole_grid_are_added_without_loss():
    """Groups of nearly 2^64 places each: the last place of the last one is chosen by the last of all bits."""
    width = 2**64 - 2**53
    count = 70
    many = Candidates(
        np.arange(count),
        np.zeros(count, dtype=np.uint64),
        np.full(count, width, dtype=np.uint64),
        np.zeros(count, dtype=np.int64),
        count * width,
    )
    size = (count * width - 1).bit_length()
    for offset in (0, width - 1, width, count * width - 1):
        bits = _Given((1 << (255 + size)) | offset, 256 + size)
        assert choose_exactly(1.0, lambda _reach: many, bits) == divmod(offset, width)


def test_more_digits_are_asked_for_only_where_needed():
    """Two candidates of one weight: the first digit decides, unless it is all that is known of a third one."""
    pair = places([(0, 1), (1, 1)])

    class _Counting(_Given):
        asked = 0

        def take(self, count: int) -> int:
            self.asked += count
            return super().take(count)

    least = float(mpmath.mpf(1) / (1 + mpmath.exp(-1)))  # 0.731...
    for near_edge, more in ((0.2, False), (least, True)):
        bits = _Counting(int(near_edge * 2**53) << 459, 512)
        choose_exactly(1.0, lambda _reach: pair, bits, precision=8)
        assert (bits.asked > 16) == more


def test_a_level_is_chosen_only_where_all_weights_within_their_bounds_agree() -> None:
    """Two levels of one weight, known to be from 10 to 12: digits near the middle do not say which."""
    weights = [(10, 12), (10, 12), (0, 0)]
    assert [_decide(prefix, 8, [1, 1], weights, 0) for prefix in (0, 105, 106, 153, 154, 200)] == [
        0,
        0,
        None,
        None,
        1,
        1,
    ]


def test_streams_of_bits_are_one_stream_however_they_are_taken():
    """Bits taken singly are those taken together; sides and keys have streams of their own."""
    addresses = Addresses(PhaseKey(bytes(32)), 1)
    whole = KeyedBits(addresses, 3).take(1000)
    source, parts = KeyedBits(addresses, 3), 0
    for count in itertools.cycle([0, 1, 7, 64, 128, 129]):
        taken = min(count, 1000 - parts)
        parts += taken
        assert source.take(taken) == (whole >> (1000 - parts)) & ((1 << taken) - 1)
        if parts == 1000:
            break
    others = [KeyedBits(addresses, 4), KeyedBits(Addresses(PhaseKey(bytes([1] * 32)), 1), 3)]
    assert len({whole, *(other.take(1000) for other in others)}) == 3
    assert 400 < whole.bit_count() < 600


def test_what_is_out_of_reach_is_not_forgotten():
    """A million candidates too far away to be looked at first weigh more than the one that is near."""
    near = nothing_far([(0, 1), (7, 10**6)])
    assert len(near(3).losses) == 1
    owners = [choose_exactly(1.0, near, _Given((lead << 252) | (1 << 190), 256), precision=4)[0] for lead in range(16)]
    assert owners == [0] * owners.count(0) + [1] * owners.count(1)
    assert owners.count(1) >= 15
