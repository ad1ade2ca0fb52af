"""Strings and numbers as keys: one to one, in the values' order, from either end."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.orders import (
    NUMBERS,
    blank_keys,
    code_bytes,
    digit_codes,
    digit_count,
    key_type,
    last_key,
    load_keys,
    mirrored,
    number_codes,
    ordinals,
    plain_keys,
    text_digits,
    texts_digits,
)
from oracle.mechanisms.windows import Window
from tests.predictors.texts import read_text

_SEVERAL = settings(max_examples=150, deadline=None, derandomize=True, database=None)
_LONGEST = 22
_COUNT = digit_count(_LONGEST)
_SIZE = code_bytes(_COUNT)
_letters = st.one_of(
    st.sampled_from("\0\x01ab\x7f\u00e9\u07ff\uffff\U0010ffff"), st.characters(exclude_categories=["Cs"])
)
_texts = st.text(_letters, max_size=_LONGEST).filter(lambda text: len(text.encode()) <= _LONGEST)
_numbers = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)


def _codes(texts):
    return digit_codes(np.array([text_digits(text.encode(), _COUNT) for text in texts]).reshape(-1, _COUNT), _SIZE)


@_SEVERAL
@given(st.lists(_numbers, min_size=1, max_size=30))
@example([0.0, 5e-324, -5e-324, 2.2250738585072014e-308, -1.7976931348623157e308, 1.7976931348623157e308, 1.0, -1.0])
def test_ordinals_are_ordered_as_numbers_are(numbers):
    """Ties, subnormal numbers, either sign and both ends of the range, and what lies beyond all keys."""
    keys = np.array([*numbers, last_key(NUMBERS)])
    found = ordinals(keys)
    for at, key in enumerate(keys.tolist()):
        assert (found <= found[at]).tolist() == [other <= key for other in keys.tolist()]


@_SEVERAL
@given(st.lists(_texts, min_size=1, max_size=30))
@example(["", "\0", "\0\0", "a", "a\0", "ab", "b", "a" * _LONGEST, "a" * (_LONGEST - 1)])
@example(["\U0010ffff" * 5 + "\u07ff", "\U0010ffff" * 5, "\uffff", ""])
def test_order_of_keys_is_that_of_texts(texts):
    """Texts with zero bytes, prefixes, the longest: keys sort, search and compare as the texts, and from above too."""
    keys = _codes(texts)
    ordered = sorted(texts)
    assert [texts[row] for row in np.lexsort((np.arange(len(texts)), keys))] == ordered
    assert [texts[row] for row in np.argsort(mirrored(keys), kind="stable")] == sorted(texts, reverse=True)
    for at, text in enumerate(texts):
        assert (keys <= keys[at]).tolist() == [other <= text for other in texts]
        assert (mirrored(keys) < mirrored(keys)[at]).tolist() == [other > text for other in texts]
    for sides, key in ((np.sort(keys), keys), (np.sort(mirrored(keys)), mirrored(keys))):
        depths = sides.searchsorted(key, side="right")
        assert depths.tolist() == [int(np.count_nonzero(sides <= one)) for one in key]
        assert (key < last_key(key.dtype)).all()


@_SEVERAL
@given(st.lists(_texts, max_size=30), st.integers(0, 5))
def test_texts_are_encoded_alike_one_by_one_and_together(texts, skipped):
    """Digits are whole numbers below 2^48 that give the text back, from a buffer that may begin later."""
    data = [text.encode() for text in texts]
    lengths = np.array([len(text) for text in data], dtype=np.int64)
    starts = skipped + np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
    buffer = np.frombuffer(b"\xc3" * skipped + b"".join(data), dtype=np.uint8)
    digits = texts_digits(buffer, starts, lengths, _COUNT)
    assert digits.tolist() == [text_digits(text, _COUNT) for text in data]
    assert [read_text(row) for row in digits] == texts
    assert ((digits >= 0.0) & (digits < 2.0**48) & (digits == np.floor(digits))).all()


def test_many_texts_are_encoded_in_parts():
    """More texts than are worked on at once come out in their order."""
    data = np.frombuffer(b"abcdefgh" * 1250, dtype=np.uint8)
    digits = texts_digits(data, np.arange(9999), np.full(9999, 1), 1)
    assert [read_text(row) for row in digits[[0, 4095, 4096, 8191, 8192, 9998]]] == ["a", "h", "a", "h", "a", "g"]


@_SEVERAL
@given(st.lists(_numbers, min_size=1, max_size=30))
@example([0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1.0, -1.0])
def test_order_of_keys_is_that_of_numbers(numbers):
    """Numbers beside strings: bytes that sort as the numbers do, from either end, below the last key."""
    values = np.array(numbers)
    keys = number_codes(values, _SIZE)
    for at, number in enumerate(numbers):
        assert (keys <= keys[at]).tolist() == [other <= number for other in numbers]
        assert (mirrored(keys) <= mirrored(keys)[at]).tolist() == [other >= number for other in numbers]
    assert (keys < last_key(keys.dtype)).all()
    assert (mirrored(keys) < last_key(keys.dtype)).all()
    assert mirrored(values).tolist() == [0.0 - number for number in numbers]


def test_no_rows_have_no_keys():
    """Empty batches are encoded too."""
    assert digit_codes(np.empty((0, _COUNT)), _SIZE).shape == (0,)
    assert number_codes(np.empty(0), _SIZE).shape == (0,)


@pytest.mark.parametrize("size", [8, 9, _SIZE])
def test_keys_go_through_a_state(size):
    """As plain numbers of the same shape for the same count, and back; keys of another length are refused."""
    kind = key_type(size)
    keys = blank_keys(4, kind)
    if kind == NUMBERS:
        keys[:2] = [1.5, -2.0]
    else:
        keys[:2] = number_codes(np.array([1.5, -2.0]), size)
        with pytest.raises(CorruptSnapshotError, match="another length"):
            load_keys(plain_keys(keys), key_type(size + 1))
    plain = plain_keys(keys)
    assert plain.dtype == (np.float64 if kind == NUMBERS else np.uint8)
    assert load_keys(plain, kind).tolist() == keys.tolist()
    assert load_keys(plain, kind).dtype == kind


@_SEVERAL
@given(st.lists(_texts, max_size=60), st.lists(st.integers(0, 59), max_size=3), st.booleans())
def test_windows_keep_the_outermost_texts(texts, cuts, upper):
    """What is kept is a function of the set, ties going by number; it comes back from an export; nothing is left."""
    keys = mirrored(_codes(texts)) if upper else _codes(texts)
    window, records = Window(10, key_type(_SIZE)), np.arange(len(texts))
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(texts)], strict=True):
        window.add(keys[start:stop], records[start:stop])
        again = Window(10, key_type(_SIZE))
        again.restore(*window.export())
        window = again
    ranked = sorted(range(len(texts)), key=lambda row: texts[row], reverse=upper)[:10]  # stable: ties by number
    assert window.ordered()[1].tolist() == ranked
    window.clear()
    assert not window.export()[0].view(np.uint8).any()
