"""A small snapshot, and how two are compared."""

import hashlib
from typing import Any

import numpy as np

from oracle.state.format import Snapshot
from oracle.state.header import Origin
from oracle.state.shard_id import ShardId

KEY = bytes(range(32))
PLAN = b'{"name":"a plan"}'
OTHER_PLAN = b'{"name":"another plan"}'
DIGEST = hashlib.sha256(PLAN).digest()


def make_snapshot(generation: int = 1, fill: float = 0.5, plan: bytes = PLAN, **counts: Any) -> Snapshot:
    """Return a small snapshot."""
    return Snapshot(
        plan_digest=hashlib.sha256(plan).digest(),
        generation=generation,
        position=1000 + generation,
        round=900 + generation,
        phase=2,
        rearms=3,
        tag=bytes([generation % 256]) * 16,
        arrays={"points": np.full((3, 2), fill), "key": np.arange(32, dtype=np.uint8)},
        origin=Origin(ShardId(0, 1), bytes(32)),
        **counts,
    )


def assert_same(left: Snapshot | None, right: Snapshot) -> None:
    """Compare two snapshots field by field, arrays bit by bit."""
    assert left is not None
    for name in (
        "plan_digest",
        "generation",
        "position",
        "round",
        "phase",
        "rearms",
        "tag",
        "paid",
        "rested",
        "rest_left",
    ):
        assert getattr(left, name) == getattr(right, name), name
    assert left.arrays.keys() == right.arrays.keys()
    for name, array in right.arrays.items():
        assert left.arrays[name].shape == array.shape
        assert left.arrays[name].dtype == array.dtype.newbyteorder("=")
        assert left.arrays[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()
