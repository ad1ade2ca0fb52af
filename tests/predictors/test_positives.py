"""Positive rows assigned by learned edges: what one row moves, whatever the batches, and what the count says."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.features import Feature
from oracle.planning.plan import ScalePlan
from oracle.predictors.kinds import new_trainer, points_beyond, restore_predictor
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from oracle.predictors.sides import Geometry, Harvest
from tests.predictors.plans import feature, tiny_plan

_PLAN = tiny_plan([feature("a"), feature("b")], learned=True)
_KEY = bytes(range(32))


def _rows(count, seed):
    generator = np.random.default_rng(seed)
    return generator.standard_cauchy((count, 2)).round(1), generator.random(count) < 0.6


def _trainer(rows, cuts=()):
    features, labels = rows
    trainer = new_trainer(_PLAN, _KEY)
    for part in np.split(np.arange(len(features)), cuts):
        trainer.add(features[part], labels[part])
    assert isinstance(trainer, RectanglesTrainer)
    return trainer


def _assigned(geometry, features, records):
    addresses, harvest = Addresses(PhaseKey(_KEY), 2), Harvest(_PLAN, geometry, _PLAN.phases[0])
    hashes = addresses.hashes(features, np.ones(len(features), dtype=np.bool_))
    harvest.add(addresses, geometry.keys(features), records, hashes)
    return harvest.slices(addresses)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 119))
def test_one_row_moves_each_depth_by_one_at_most(seed, row):
    """Given the edges, in one side; no other record goes elsewhere."""
    features, _ = _rows(120, seed)
    edges = np.random.default_rng(seed).integers(2**62, 2**64 - 2**54, size=4, dtype=np.uint64)
    geometry, records = Geometry(_PLAN, edges=edges), np.arange(120, dtype=np.uint64)
    kept = np.delete(np.arange(120), row)
    moved = 0
    for here, there in zip(
        _assigned(geometry, features, records), _assigned(geometry, features[kept], records[kept]), strict=True
    ):
        keys = np.unique(np.concatenate([here, there]))
        depths = [points.searchsorted(keys, side="right") for points in (here, there)]
        change = int(np.abs(depths[0] - depths[1]).max())
        assert change <= 1
        moved += change
    assert moved <= 1


def test_a_side_does_not_starve_whatever_the_values_are():
    """Constants, equal values and units: each side is given about as many of its outermost rows as any other."""
    plan = msgspec.structs.replace(
        tiny_plan([Feature(name="a"), Feature(name="b"), Feature(name="c")], learned=True, examples=4_000),
        scale=ScalePlan(rank=300, scale=1.0),
    )
    generator = np.random.default_rng(8)
    features = np.column_stack(
        [np.full(4_000, 17.0), generator.integers(0, 2, 4_000) * 1.0, generator.lognormal(0, 3, 4_000) * 1e6]
    )
    trainer = new_trainer(plan, _KEY)
    trainer.add(features, np.ones(4_000, dtype=np.bool_))
    edges = trainer.finish().export()["edges"]
    geometry, addresses = Geometry(plan, edges=edges.astype(np.uint64)), Addresses(PhaseKey(_KEY), 3)
    records, hashes = np.arange(4_000, dtype=np.uint64), addresses.hashes(features, np.ones(4_000, dtype=np.bool_))
    keys = geometry.keys(features)
    sides = geometry.assign(addresses, keys, records, hashes)
    for side in range(6):
        beyond = geometry.positions(addresses, keys[side], side, records, hashes) <= edges[side]
        assert 250 < np.count_nonzero(beyond) < 350
        assert np.count_nonzero(sides[beyond] == side) > 0.75 * np.count_nonzero(beyond)


def test_a_state_without_its_edges_is_refused():
    """Missing, or one too few; a plan with declared bounds has none."""
    state = dict(_trainer(_rows(400, 6)).finish().export())
    assert isinstance(restore_predictor(_PLAN, state), RectanglesPERP)
    for edges in ({}, {"edges": state["edges"][:3]}):
        broken = {name: array for name, array in state.items() if name != "edges"} | edges
        with pytest.raises(CorruptSnapshotError, match="it has no edges of its plan"):
            restore_predictor(_PLAN, broken)
    trainer = new_trainer(tiny_plan([feature("a"), feature("b")]), _KEY)
    trainer.add(*_rows(400, 6))
    assert "edges" not in trainer.finish().export()
    assert points_beyond(trainer) is None
