"""PRIVACY.md, Theorem 10: cuts of neighbouring rankings can be paired, at the price of one choice and not of two."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from oracle.mechanisms.choice.stumps import cut_losses

LONGEST = 7


def masses(labels: tuple[bool, ...], base: Fraction) -> list[Fraction]:
    """Return the exact law of the cut, summed up from the first: element c is P(cut < c)."""
    weights = [base ** int(loss) for loss in cut_losses(np.array(labels, dtype=np.bool_))]
    whole = sum(weights)
    return [Fraction(0), *itertools.accumulate(weight / whole for weight in weights)]


def between(sums: list[Fraction], first: int, last: int) -> Fraction:
    """Return P(first <= cut <= last), whatever of it there is."""
    return sums[min(last, len(sums) - 2) + 1] - sums[max(first, 0)]


@pytest.mark.parametrize("base", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
def test_cuts_of_neighbours_can_be_paired(base: Fraction) -> None:
    """Hall's condition in both directions, exactly: every ranking, one record more anywhere, every run of cuts."""
    for size in range(LONGEST + 1):
        for labels in itertools.product((False, True), repeat=size):
            mine = masses(labels, base)
            for place, label in itertools.product(range(size + 1), (False, True)):
                theirs = masses((*labels[:place], label, *labels[place:]), base)
                for first, last in itertools.combinations_with_replacement(range(size + 2), 2):
                    assert between(theirs, first, last) * base <= between(mine, first - 1, last)
                    if last <= size:
                        assert between(mine, first, last) * base <= between(theirs, first, last + 1)


def test_a_smaller_price_would_not_do() -> None:
    """One positive record more where there was none: the cut that takes it in has weight 1 of 1 + v."""
    base = Fraction(1, 2)
    mine, theirs = masses((True, True), base), masses((True, True, False, False, False), base)
    assert theirs != mine
    worst = max(
        between(masses((*labels[:place], label, *labels[place:]), base), first, last)
        / between(masses(labels, base), first - 1, last)
        for labels in itertools.product((False, True), repeat=5)
        for place, label in itertools.product(range(6), (False, True))
        for first, last in itertools.combinations_with_replacement(range(7), 2)
    )
    assert Fraction(1) < worst <= 1 / base
