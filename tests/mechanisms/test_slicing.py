"""The rules that send records to sides, and the sensitivity of the windows cut from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.slicing import Faces, cut_window, sequential_slices
from oracle.mechanisms.windows import Window

BOX = Faces(np.zeros(4), np.ones(4), 0.2)  # the sides of two features: lower, upper, lower, upper
GRID = np.arange(-1, 13)


def oriented(points: np.ndarray) -> np.ndarray:
    """Return the keys of float64[n, 2] points on the four sides."""
    return np.stack([points[:, 0], -points[:, 0], points[:, 1], -points[:, 1]])


def words_for(count: int, seed: int) -> np.ndarray:
    """Return uniform words of a seed."""
    return np.random.default_rng(seed).integers(0, 2**64, size=(count, 2), dtype=np.uint64)


def test_a_side_depends_on_the_record_and_its_coin_alone() -> None:
    """Chosen alone, in another order or among others, a record goes to the same side."""
    points, words = np.random.default_rng(5).normal(size=(500, 2)), words_for(500, 5)
    whole = BOX.choose(oriented(points), words)
    order = np.random.default_rng(6).permutation(500)
    assert np.array_equal(BOX.choose(oriented(points[order]), words[order]), whole[order])
    alone = [int(BOX.choose(oriented(points[i : i + 1]), words[i : i + 1])[0]) for i in range(500)]
    assert alone == whole.tolist()


def test_a_fifth_of_the_records_goes_to_a_random_side() -> None:
    """A record next to one face goes there with probability 0.8 + 0.2/4, and to each other side with 0.05."""
    count = 40_000
    chosen = BOX.choose(oriented(np.tile([0.9, 0.1], (count, 1))), words_for(count, 9))
    frequency = np.bincount(chosen, minlength=4) / count
    assert frequency == pytest.approx([0.05, 0.85, 0.05, 0.05], abs=5e-3)


def test_near_faces_share_and_far_ones_get_nothing_without_the_coin() -> None:
    """Scores 1 and 0.95 share evenly; 0.85 is not near."""
    faces = Faces(np.zeros(3), np.array([1.0, 1.0, 1.0]), 0.0)
    keys = np.tile(np.array([[-1.0], [-0.95], [-0.85]]), (1, 20_000))
    frequency = np.bincount(faces.choose(keys, words_for(20_000, 2)), minlength=3) / 20_000
    assert frequency[:2] == pytest.approx([0.5, 0.5], abs=0.015)
    assert frequency[2] == 0.0


def test_duplicate_features_starve_no_side() -> None:
    """With x2 = x1 every one of the four sides gets at least its part of the coin."""
    value = np.random.default_rng(8).normal(size=20_000)
    chosen = BOX.choose(oriented(np.stack([value, value], axis=1)), words_for(20_000, 8))
    assert (np.bincount(chosen, minlength=4) / 20_000 > 0.2).all()


def test_a_subset_of_the_sides_covers_records_inside_all_of_them() -> None:
    """With upper sides only, a record far from both still goes to the one it is nearer to."""
    faces = Faces(np.zeros(2), np.ones(2), 0.0)
    assert faces.choose(np.array([[5.0], [2.0]]), words_for(1, 1)).tolist() == [1]


def test_one_side_gets_everything() -> None:
    """With a single side there is no choice, even for keys that overflow its scale."""
    faces = Faces(np.array([1e308]), np.array([1e-300]), 0.2)
    keys = np.array([[0.0, -1e308, 1e308, 1.0]])
    assert faces.choose(keys, words_for(4, 4)).tolist() == [0, 0, 0, 0]


def test_infinite_scores_are_ordered_without_a_warning() -> None:
    """A score that overflows is the nearest; all minus infinity is shared."""
    faces = Faces(np.zeros(2), np.full(2, 1e-300), 0.0)
    assert faces.choose(np.array([[-1e300], [-1e-300]]), words_for(1, 1)).tolist() == [0]
    assert set(faces.choose(np.full((2, 200), 1e300), words_for(200, 1)).tolist()) == {0, 1}


def padded_depths(window: np.ndarray) -> np.ndarray:
    """Return the depth of every query on a grid around all keys."""
    return window.searchsorted(GRID, side="right")


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 11), min_size=1, max_size=25), st.integers(1, 8), st.integers(0, 6), st.data())
def test_a_trimmed_window_moves_depths_by_at_most_one(
    keys: list[int], points: int, trim: int, data: st.DataObject
) -> None:
    """Removing any record changes every depth by 0 or 1, also when the record was trimmed."""
    gone = data.draw(st.integers(0, len(keys) - 1))
    ordered = np.sort(np.array(keys, dtype=np.float64))
    present = cut_window(ordered, points, trim)
    absent = cut_window(np.sort(np.delete(np.array(keys, dtype=np.float64), gone)), points, trim)
    assert present.shape == absent.shape == (points,)
    finite = ordered[trim : trim + points]
    assert np.array_equal(present[: len(finite)], finite)
    assert np.isinf(present[len(finite) :]).all()
    assert set((padded_depths(present) - padded_depths(absent)).tolist()) <= {0, 1}


def slices_of(keys: np.ndarray, records: np.ndarray, points: int, trim: int) -> list[np.ndarray]:
    """Cut the slices of records with a key on each side, from windows of the least capacity that is allowed."""
    windows = [Window((side + 1) * (points + trim)) for side in range(len(keys))]
    for window, column in zip(windows, keys, strict=True):
        window.add(column[records].astype(np.float64), records)
    return sequential_slices(windows, points, trim)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 25), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**32 - 1), st.data()
)
def test_one_record_changes_each_slice_by_at_most_one_swap(  # noqa: PLR0913, PLR0917 -- shapes of a case
    sides: int, count: int, points: int, trim: int, seed: int, data: st.DataObject
) -> None:
    """Neighbouring data sets differ by at most one key each way in each slice, and by at most 1 in each depth."""
    gone = data.draw(st.integers(0, count - 1))
    keys = np.random.default_rng(seed).integers(0, 12, size=(sides, count))
    records = np.arange(count)
    ours = slices_of(keys, records, points, trim)
    theirs = slices_of(keys, np.delete(records, gone), points, trim)
    for mine, other in zip(ours, theirs, strict=True):
        counts = [np.bincount(part[np.isfinite(part)].astype(int), minlength=12) for part in (mine, other)]
        assert np.maximum(counts[0] - counts[1], 0).sum() <= 1
        assert np.maximum(counts[1] - counts[0], 0).sum() <= 1
        assert np.abs(padded_depths(mine) - padded_depths(other)).max() <= 1


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(0, 25), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_slices_are_taken_one_after_another(sides: int, count: int, points: int, trim: int, seed: int) -> None:
    """Each side takes the outermost records that no earlier side took, as a plain loop does."""
    keys = np.random.default_rng(seed).integers(0, 12, size=(sides, count))
    free = set(range(count))
    for column, mine in zip(keys, slices_of(keys, np.arange(count), points, trim), strict=True):
        taken = sorted(free, key=lambda record: (column[record], record))[: points + trim]
        free -= set(taken)
        wanted = [float(column[record]) for record in taken[trim:]]
        assert mine[np.isfinite(mine)].tolist() == wanted
