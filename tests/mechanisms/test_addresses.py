"""Addressed randomness: the same address, the same bits; another address, other bits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import InputError
from oracle.mechanisms.addresses import MAX_ROUNDS, MAX_SIDES, Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey

KEY = PhaseKey(bytes(range(32)))
ROUNDS = np.arange(100, 160, dtype=np.uint64)
SIDES = np.array([0, 1, 5], dtype=np.uint64)
HASHES = np.arange(60, dtype=np.uint64) * np.uint64(2**57 + 3)
FEATURES = np.random.default_rng(3).normal(size=(60, 2))
PRESENT = np.arange(60) % 7 != 0


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.integers(0, 60), max_size=6), st.booleans())
def test_any_slicing_of_rounds_gives_the_same_numbers(cuts: list[int], hashed: bool) -> None:  # noqa: FBT001
    """Words, hashes and the running tag do not depend on where batches are cut."""
    addresses = Addresses(KEY, 2)
    hashes = HASHES if hashed else None
    whole = addresses.words(Purpose.DEPTH, ROUNDS, SIDES, hashes)
    tag = addresses.tag(ROUNDS, HASHES, PRESENT)
    features = addresses.hashes(FEATURES, PRESENT)
    edges = sorted({0, 60, *cuts})
    pieces = [slice(a, b) for a, b in pairwise(edges)]
    parts = [addresses.words(Purpose.DEPTH, ROUNDS[p], SIDES, None if hashes is None else hashes[p]) for p in pieces]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    assert np.array_equal(np.concatenate([addresses.hashes(FEATURES[p], PRESENT[p]) for p in pieces]), features)
    tags = [addresses.tag(ROUNDS[p], HASHES[p], PRESENT[p]) for p in pieces]
    assert np.array_equal(np.bitwise_xor.reduce(tags, axis=0), tag)


def test_each_part_of_the_address_changes_the_block() -> None:
    """Purposes, sides, rounds and hashes at their extremes give pairwise distinct blocks."""
    addresses = Addresses(KEY, 1)
    rounds = np.array([0, 1, 2, 1 << 20, MAX_ROUNDS - 1], dtype=np.uint64)
    sides = np.array([0, 1, 2, MAX_SIDES - 1], dtype=np.uint64)
    blocks: set[tuple[int, ...]] = set()
    for purpose in Purpose:
        for value in (0, 1, 2**63, 2**64 - 1):
            words = addresses.words(purpose, rounds, sides, np.full(5, value, dtype=np.uint64))
            blocks.update(map(tuple, words.reshape(-1, 2).tolist()))
    assert len(blocks) == len(Purpose) * 4 * len(rounds) * len(sides)


def test_a_side_gets_the_same_words_whichever_sides_are_asked_with_it() -> None:
    """Asking for one side alone gives what asking for all gave it."""
    addresses = Addresses(KEY, 1)
    whole = addresses.words(Purpose.STOPPER, ROUNDS, SIDES, None)
    assert np.array_equal(addresses.words(Purpose.STOPPER, ROUNDS, SIDES[1:2], None)[0], whole[1])


def test_words_hashes_and_tags_are_keyed() -> None:
    """Another phase key changes all three; so does the ratchet."""
    other = Addresses(KEY.ratchet(), 2)
    addresses = Addresses(KEY, 2)
    here, there = (a.words(Purpose.COIN, ROUNDS, SIDES, None) for a in (addresses, other))
    assert not (here == there).all(axis=-1).any()
    everywhere = np.ones(60, dtype=np.bool_)
    assert not (addresses.hashes(FEATURES, everywhere) == other.hashes(FEATURES, everywhere)).any()
    assert not np.array_equal(addresses.tag(ROUNDS, HASHES, PRESENT), other.tag(ROUNDS, HASHES, PRESENT))


def test_the_hash_knows_the_column_of_a_value() -> None:
    """Swapped features hash differently, and equal rows hash alike."""
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [2.0, 2.0], [1.0, 2.0]])
    hashes = Addresses(KEY, 2).hashes(rows, np.ones(5, dtype=np.bool_))
    assert hashes[0] == hashes[4]
    assert len(set(hashes[:4].tolist())) == 4


def test_absent_rows_hash_to_zero_whatever_their_features() -> None:
    """What stands in an absent row, NaN included, does not matter."""
    rows = np.array([[np.nan, 1.0], [3.0, 4.0]])
    assert Addresses(KEY, 2).hashes(rows, np.zeros(2, dtype=np.bool_)).tolist() == [0, 0]


def test_the_tag_tells_an_absent_query_from_a_present_one() -> None:
    """Presence, hash and round each change the tag."""
    addresses = Addresses(KEY, 1)
    one = np.ones(1, dtype=np.uint64)
    yes, no = np.ones(1, dtype=np.bool_), np.zeros(1, dtype=np.bool_)
    tags = {
        tuple(addresses.tag(rounds, hashes, present).tolist())
        for rounds, hashes, present in ((one, one, yes), (one, one, no), (one, one + one, yes), (one + one, one, yes))
    }
    assert len(tags) == 4


def test_no_rows_give_empty_results() -> None:
    """An empty batch is a batch."""
    addresses = Addresses(KEY, 2)
    none = np.empty(0, dtype=np.uint64)
    assert addresses.words(Purpose.DEPTH, none, SIDES, none).shape == (3, 0, 2)
    assert addresses.tag(none, none, np.empty(0, dtype=np.bool_)).tolist() == [0, 0]
    assert addresses.hashes(np.empty((0, 2)), np.empty(0, dtype=np.bool_)).shape == (0,)


def test_a_key_of_another_length_is_refused_and_none_is_printed() -> None:
    """The message names the length only; repr shows no secret."""
    with pytest.raises(InputError, match="phase key length = 31: must be 32 bytes"):
        PhaseKey(bytes(31))
    assert "secret" not in repr(KEY)
