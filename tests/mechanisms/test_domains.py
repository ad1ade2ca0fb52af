"""Every value has a rank and every rank a value, in the order of keys."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.mechanisms.domains import Dates, Decimals, Domain, Numbers, Texts
from oracle.mechanisms.orders import code_bytes, digit_codes, digit_count, text_digits
from oracle.mechanisms.scalars import decimal_of

_LONGEST = 7


def _key(text: str, longest: int = _LONGEST) -> bytes:
    count = digit_count(longest)
    key: bytes = digit_codes(np.array([text_digits(text.encode(), count)]), code_bytes(count))[0].item()
    return key


def _fits(text: str) -> bool:
    return len(text.encode()) <= _LONGEST


TEXTS = st.text(st.characters(codec="utf-8"), max_size=_LONGEST).filter(_fits)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_in_order(one: float, other: float) -> None:
    """Also those that are next to each other, and zeros of either sign are one."""
    one, other = one + 0.0, other + 0.0
    numbers = Numbers()
    assert (numbers.rank(one) < numbers.rank(other)) == (one < other)
    assert numbers.row(numbers.rank(one)) == (one,)
    after = math.nextafter(one, math.inf) + 0.0
    if math.isfinite(after):
        assert numbers.rank(after) == numbers.rank(one) + 1
    assert numbers.rank(-0.0) == numbers.rank(0.0)


@given(TEXTS, TEXTS)
def test_texts_are_in_the_order_of_their_bytes(one: str, other: str) -> None:
    """Of 1 to 4 bytes a character, with zero bytes and without."""
    texts = Texts(_LONGEST)
    ranks = texts.rank(_key(one)), texts.rank(_key(other))
    assert (ranks[0] < ranks[1]) == (one.encode() < other.encode())
    assert (ranks[0] < ranks[1]) == (_key(one) < _key(other))
    assert texts.row(ranks[0]) == text_digits(one.encode(), digit_count(_LONGEST))


@given(st.integers(0))
def test_any_rank_is_a_text(rank: int) -> None:
    """Valid UTF-8 of so many bytes at most, whose rank it is."""
    texts = Texts(_LONGEST)
    rank %= texts.size
    row = texts.row(rank)
    key = digit_codes(np.array([row]), code_bytes(len(row)))[0].item()
    assert texts.rank(key) == rank
    assert row == text_digits(key[1:].translate(bytes([255, *range(255)])), len(row))


def test_all_short_texts_are_counted() -> None:
    """One by one, for two bytes: the empty one, those of one byte, and of two."""
    ones = [chr(code) for code in range(0x80)]
    twos = [*map("".join, itertools.product(ones, ones)), *(chr(code) for code in range(0x80, 0x800))]
    every = sorted(text.encode() for text in ("", *ones, *twos))
    texts = Texts(2)
    assert texts.size == len(every)
    assert [texts.rank(_key(text.decode(), 2)) for text in every] == list(range(len(every)))


@pytest.mark.parametrize("text", ["\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\x7f", "\x80", "\u07ff"])
def test_characters_at_the_edges_of_lengths(text: str) -> None:
    """Beside surrogates, which are no characters, and where a character takes a byte more."""
    texts = Texts(_LONGEST)
    assert texts.row(texts.rank(_key(text))) == text_digits(text.encode(), digit_count(_LONGEST))


def test_the_last_values() -> None:
    """Each type's first and last."""
    assert (Numbers().row(0), Numbers().row(Numbers().size - 1)) == (
        (-np.finfo(np.float64).max,),
        (np.finfo(np.float64).max,),
    )
    days = [np.datetime64(int(Dates().row(rank)[0]), "D") for rank in (0, Dates().size - 1)]
    assert [str(day) for day in days] == ["0001-01-01", "9999-12-31"]
    assert Texts(4).row(0) == text_digits(b"", 1)
    assert Texts(4).row(Texts(4).size - 1) == text_digits("\U0010ffff".encode(), 1)


@pytest.mark.parametrize("places", [0, 2, 12])
@given(place=st.integers(-(10**15) + 1, 10**15 - 1))
def test_decimals_are_those_of_messages(places: int, place: int) -> None:
    """The number of a rank is the one that the decimal's text has, and each has a rank of its own."""
    decimals = Decimals(places)
    rank = place + 10**15 - 1
    digits = f"{abs(place):0{places + 1}d}"
    text = f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}" if places else digits
    number = decimal_of(("-" if place < 0 else "") + text, places)
    assert decimals.size == 2 * (10**15 - 1) + 1
    assert decimals.row(rank) == (number,)
    assert number is not None
    assert decimals.rank(number) == rank


@pytest.mark.parametrize("domain", [Numbers(), Dates(), Decimals(3), Decimals(12)])
@given(part=st.floats(0.0, 1.0, exclude_max=True))
def test_ranks_and_values_are_one_to_one(domain: Domain[float], part: float) -> None:
    """Anywhere, and between neighbours."""
    rank = int(part * domain.size)
    (value,) = domain.row(rank)
    assert domain.rank(value) == rank
    if rank:
        assert domain.row(rank - 1)[0] < value
