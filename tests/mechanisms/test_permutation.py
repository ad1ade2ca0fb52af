"""PRIVACY.md, Lemma 2: what a random permutation does to a view, beside a random function. Exactly, in miniature."""

import itertools
from fractions import Fraction

import pytest

OUTPUTS = 9
DRAWS = 4
COLLISIONS = Fraction(DRAWS * (DRAWS - 1), 2 * OUTPUTS)
"""c: with 2**128 outputs it is q (q - 1) / 2**129."""

View = tuple[bool, ...]
Laws = tuple[int, dict[View, Fraction], dict[View, Fraction]]


def edge(view: View, rule: int) -> int:
    """Return the edge that an adversary compares the next draw with, by what it has seen."""
    return 1 + (rule * (3 + 2 * sum(view)) + len(view) * sum(bit << place for place, bit in enumerate(view))) % OUTPUTS


def views(outputs: list[tuple[int, ...]], rule: int) -> dict[View, Fraction]:
    """Return the law of the view where each of `outputs` is as likely as any other."""
    law: dict[View, Fraction] = dict.fromkeys(itertools.product((False, True), repeat=DRAWS), Fraction(0))
    for drawn in outputs:
        view: View = ()
        for output in drawn:
            view = (*view, output < edge(view, rule))
        law[view] += Fraction(1, len(outputs))
    return law


@pytest.fixture(params=range(1, 8))
def laws(request: pytest.FixtureRequest) -> Laws:
    """An adversary, and the laws of its view under a function and under a permutation."""
    function = list(itertools.product(range(OUTPUTS), repeat=DRAWS))
    permutation = list(itertools.permutations(range(OUTPUTS), DRAWS))
    return request.param, views(function, request.param), views(permutation, request.param)


def test_no_event_is_likelier_by_more_than_the_factor(laws: Laws) -> None:
    """P_perm(A) <= P_func(A)/(1 - c), for every A: it is enough to look at single views."""
    _, function, permutation = laws
    assert all(permutation[view] <= function[view] / (1 - COLLISIONS) for view in function)


def test_no_event_is_rarer_by_more_than_the_addend(laws: Laws) -> None:
    """P_func(A) <= P_perm(A) + c, for the event that holds whatever the function makes likelier."""
    _, function, permutation = laws
    lost = sum(max(function[view] - permutation[view], Fraction(0)) for view in function)
    assert 0 < lost <= COLLISIONS


def test_given_all_before_an_answer_is_nearly_as_likely(laws: Laws) -> None:
    """|P_perm - P_func| <= q/(N - q) of every answer, given any view before it."""
    rule, _, permutation = laws
    for length in range(DRAWS):
        for seen in itertools.product((False, True), repeat=length):
            before = sum((mass for view, mass in permutation.items() if view[:length] == seen), Fraction(0))
            both = sum((mass for view, mass in permutation.items() if view[: length + 1] == (*seen, True)), Fraction(0))
            if before:
                apart = abs(both / before - Fraction(edge(seen, rule), OUTPUTS))
                assert apart <= Fraction(length, OUTPUTS - length)
