import numpy as np
import pytest
from scipy import stats

from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.partition import Partition

KEY = PhaseKey(bytes(range(32)))


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 1024])
def test_each_row_goes_to_exactly_one_shard(shards):
    """Every block is assigned as a permutation, so all parts have one size."""
    orders = Partition(KEY, shards).orders(5, 40)
    assert orders.shape == (40, shards)
    assert (np.sort(orders, axis=1) == np.arange(shards)).all()


def test_a_row_is_assigned_by_its_number_alone():
    """Any slicing of the blocks gives the same assignment; another key, or another position, gives another."""
    whole = Partition(KEY, 8).orders(0, 100)
    parts = [Partition(KEY, 8).orders(first, count) for first, count in ((0, 1), (1, 62), (63, 37))]
    assert (np.concatenate(parts) == whole).all()
    assert (Partition(PhaseKey(bytes(32)), 8).orders(0, 100) != whole).any()
    assert (whole[:50] != whole[50:]).any()


def _chi_square(orders):
    """Return the p-value of all orders of three rows being equally likely."""
    codes = orders[:, 0] * 3 + orders[:, 1]
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 6
    return stats.chisquare(counts).pvalue


def test_all_orders_are_equally_likely():
    """A chi-square test over 60,000 blocks of three; it rejects an assignment that favours an order slightly."""
    orders = Partition(KEY, 3).orders(0, 60_000)
    assert _chi_square(orders) > 1e-3
    biased = orders.copy()
    biased[::40] = [0, 1, 2]
    assert _chi_square(biased) < 1e-6
