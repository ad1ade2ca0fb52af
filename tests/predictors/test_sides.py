"""A box's sides: the keys they look at, and the harvest that the next ones are cut from."""

import numpy as np
import pytest

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.predictors.sides import Geometry, Harvest
from tests.predictors.plans import feature, tiny_plan
from tests.predictors.suite import SECRET

_FEATURES = (feature("a"), feature("b", "upper"), feature("c", "none"), feature("d", "lower"))


def test_keys_are_a_sides_own_feature_seen_from_outside() -> None:
    """A lower side takes its feature as it is, an upper one its opposite, and 0 is positive on both."""
    rows = np.random.default_rng(1).normal(size=(200, 4))
    rows[::7] = 0.0
    keys = Geometry(tiny_plan(_FEATURES)).keys(rows)
    sides = ((0, 1.0), (0, -1.0), (1, -1.0), (3, 1.0))
    assert [[sign * row[number] for row in rows.tolist()] for number, sign in sides] == keys.tolist()
    assert not np.signbit(keys[:, ::7]).any()


@pytest.mark.parametrize("slicing", ["faces", "sequential"])
def test_records_that_are_not_near_may_be_left_out(slicing) -> None:
    """A harvest of the near ones of every batch gives the slices of one that was given all; most are not near."""
    plan = tiny_plan(_FEATURES, slicing=slicing)
    geometry, addresses = Geometry(plan), Addresses(PhaseKey(SECRET), 4)
    whole, sparing = (Harvest(plan, geometry, plan.phases[0]) for _ in range(2))
    rng, left_out = np.random.default_rng(2), 0
    for first in range(0, 60_000, 1_500):
        rows = np.round(rng.random((1_500, 4)), 3)
        keys, records = geometry.keys(rows), np.arange(first, first + 1_500, dtype=np.uint64)
        hashes = addresses.hashes(rows, np.ones(1_500, dtype=np.bool_))
        near = sparing.near(keys)
        left_out += int(np.count_nonzero(~near))
        whole.add(addresses, keys, records, hashes)
        sparing.add(addresses, keys[:, near], records[near], hashes[near])
    assert left_out > 20_000
    for ours, theirs in zip(whole.slices(addresses), sparing.slices(addresses), strict=True):
        assert np.array_equal(ours, theirs)
