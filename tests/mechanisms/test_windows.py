"""Windows against sorted lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import InputError
from oracle.mechanisms.windows import Window


def filled(capacity: int, keys: np.ndarray, sizes: list[int]) -> Window:
    """Add the keys, numbered from 0, in batches of the given sizes and the rest at once."""
    window = Window(capacity)
    start = 0
    for size in [*sizes, len(keys)]:
        stop = min(start + size, len(keys))
        window.add(keys[start:stop], np.arange(start, stop))
        start = stop
    return window


def kept(window: Window) -> list[tuple[float, int]]:
    """Return the pairs as a list."""
    return [(float(key), int(record)) for key, record in zip(*window.ordered(), strict=True)]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(0, 3000),
    st.lists(st.integers(0, 1200), max_size=6),
    st.sampled_from([3, 50, 10**6]),
    st.integers(0, 2**32 - 1),
)
def test_a_window_keeps_the_smallest_pairs_of_all(
    capacity: int, count: int, sizes: list[int], distinct: int, seed: int
) -> None:
    """Whatever the batches and however many ties, it is the head of the sorted list; export and restore keep it."""
    keys = np.random.default_rng(seed).integers(0, distinct, size=count).astype(np.float64)
    window = filled(capacity, keys, sizes)
    wanted = sorted((float(key), record) for record, key in enumerate(keys))[:capacity]
    assert kept(window) == wanted
    exported_keys, exported_records, exported_count = window.export()
    assert exported_keys.shape == exported_records.shape == (capacity,)
    assert exported_count == len(wanted)
    assert not exported_keys[exported_count:].any()
    again = Window(capacity)
    again.restore(exported_keys, exported_records, exported_count)
    assert kept(again) == wanted


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 12), st.lists(st.integers(0, 9), min_size=1, max_size=40), st.data())
def test_one_record_moves_every_depth_by_at_most_one(capacity: int, keys: list[int], data: st.DataObject) -> None:
    """Between neighbours the kept pairs differ by the record and at most the innermost one it pushes out."""
    gone = data.draw(st.integers(0, len(keys) - 1))
    numbers = np.arange(len(keys))
    present, absent = Window(capacity), Window(capacity)
    present.add(np.array(keys, dtype=np.float64), numbers)
    absent.add(np.delete(np.array(keys, dtype=np.float64), gone), np.delete(numbers, gone))
    ours, theirs = kept(present), kept(absent)
    assert set(ours) - set(theirs) <= {(float(keys[gone]), gone)}
    assert set(theirs) - set(ours) <= ({theirs[-1]} if theirs else set())
    depths = [np.searchsorted([key for key, _ in pairs], np.arange(-1, 11), side="right") for pairs in (ours, theirs)]
    assert set((depths[0] - depths[1]).tolist()) <= {0, 1}


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 3000), st.sampled_from([3, 50, 10**6]), st.integers(0, 2**32 - 1))
def test_a_key_that_is_not_near_is_not_kept(capacity: int, count: int, distinct: int, seed: int) -> None:
    """As many as are kept lie before it; and a key that would be kept is near."""
    rng = np.random.default_rng(seed)
    window = filled(capacity, rng.integers(0, distinct, size=count).astype(np.float64), [])
    asked = rng.integers(0, distinct, size=40).astype(np.float64)
    near = window.near(asked)
    pairs = kept(window)
    for key, is_near in zip(asked.tolist(), near.tolist(), strict=True):
        would_be_kept = len(pairs) < capacity or key < pairs[-1][0]
        assert is_near or not would_be_kept
    full = np.sort(window.ordered()[0])
    assert window.near(asked).tolist() == [len(full) < capacity or key <= full[-1] for key in asked]


def test_a_window_of_bytes_keeps_the_smallest() -> None:
    """Keys that are no numbers are ordered as bytes, ties by the record's number."""
    keys = np.array([b"%03d" % number for number in np.random.default_rng(4).integers(0, 90, size=3000)])
    window = Window(70, keys.dtype)
    for start in range(0, 3000, 700):
        window.add(keys[start : start + 700], np.arange(start, min(start + 700, 3000)))
    wanted = sorted(zip(keys.tolist(), range(3000), strict=True))[:70]
    assert list(zip(*(part.tolist() for part in window.ordered()), strict=True)) == wanted
    assert window.near(np.array([wanted[-1][0], b"089"])).tolist() == [True, False]


def test_memory_does_not_grow_with_what_is_added() -> None:
    """After a hundred thousand pairs the arrays have the size they had at the start."""
    window = Window(10)
    before = window._keys.nbytes + window._records.nbytes
    window.add(np.arange(100_000, dtype=np.float64)[::-1], np.arange(100_000))
    assert window._keys.nbytes + window._records.nbytes == before
    assert window.capacity == 10
    assert window.ordered()[0].tolist() == list(range(10))


def test_clear_forgets_and_overwrites() -> None:
    """Nothing that was held is left in memory, and nothing of it decides what is kept next."""
    window = filled(3, np.array([5.0, 6.0, 7.0, 4.0]), [])
    assert kept(window)[-1] == (6.0, 1)
    window.clear()
    assert kept(window) == []
    assert not window._keys.any()
    assert not window._records.any()
    window.add(np.array([9.0]), np.array([8]))
    assert kept(window) == [(9.0, 8)]


def test_a_capacity_below_one_is_refused() -> None:
    """The message names the bound."""
    with pytest.raises(InputError, match="window capacity = 0: must be at least 1"):
        Window(0)
