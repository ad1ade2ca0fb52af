"""What every store must do; each store's test class inherits it."""

import hashlib
from abc import ABC, abstractmethod

import numpy as np
import pytest

from oracle.errors import ForeignPlanError, InputError, WrongKeyError
from oracle.state.format import Snapshot
from oracle.state.header import Origin
from oracle.state.place import Place
from oracle.state.store import Store

KEY = bytes(range(32))
PLAN = b'{"name":"a plan"}'
OTHER_PLAN = b'{"name":"another plan"}'
DIGEST = hashlib.sha256(PLAN).digest()


def make_snapshot(generation: int = 1, fill: float = 0.5, plan: bytes = PLAN) -> Snapshot:
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
        origin=Origin(Place(0, 1), bytes(32)),
    )


def assert_same(left: Snapshot | None, right: Snapshot) -> None:
    """Compare two snapshots field by field, arrays bit by bit."""
    assert left is not None
    for name in ("plan_digest", "generation", "position", "round", "phase", "rearms", "tag"):
        assert getattr(left, name) == getattr(right, name), name
    assert left.arrays.keys() == right.arrays.keys()
    for name, array in right.arrays.items():
        assert left.arrays[name].shape == array.shape
        assert left.arrays[name].dtype == array.dtype.newbyteorder("=")
        assert left.arrays[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


class StoreSuite(ABC):
    """A store's contract."""

    @abstractmethod
    def reopen(self, key: bytes = KEY) -> Store:
        """Return a new store object over what the last one kept, as after a crash or a clean stop."""

    def test_new_store_is_empty(self):
        """Nothing is there before the first save."""
        store = self.reopen()
        assert store.load_latest(DIGEST) is None
        assert store.latest_bytes() is None
        assert store.peek() is None
        assert store.read_plan() is None

    def test_newest_snapshot_comes_back(self):
        """What was saved last is loaded, by this object and by the next."""
        store = self.reopen()
        for generation in (1, 2, 7):
            store.save(make_snapshot(generation, fill=generation))
            assert_same(store.load_latest(DIGEST), make_snapshot(generation, fill=generation))
        assert_same(self.reopen().load_latest(DIGEST), make_snapshot(7, fill=7))

    def test_peek_shows_public_facts(self):
        """The header is read without plan or key."""
        store = self.reopen()
        store.save(make_snapshot(4))
        header = store.peek()
        assert header is not None
        assert (header.generation, header.position, header.round, header.phase, header.rearms) == (4, 1004, 904, 2, 3)
        assert header.plan_digest == DIGEST
        data = store.latest_bytes()
        assert data is not None
        assert header.total_bytes == len(data)

    @pytest.mark.parametrize("generation", [0, 2, 3])
    def test_generations_must_grow(self, generation):
        """A generation not above the newest one is refused and changes nothing."""
        store = self.reopen()
        store.save(make_snapshot(3))
        with pytest.raises(InputError, match="generation"):
            store.save(make_snapshot(generation, fill=9.0))
        assert_same(store.load_latest(DIGEST), make_snapshot(3))

    def test_wrong_key_is_named(self):
        """Another key is told apart from damage."""
        self.reopen().save(make_snapshot())
        with pytest.raises(WrongKeyError):
            self.reopen(bytes(32)).load_latest(DIGEST)

    def test_foreign_plan_is_named(self):
        """A snapshot of another plan is refused."""
        store = self.reopen()
        store.save(make_snapshot())
        with pytest.raises(ForeignPlanError):
            store.load_latest(hashlib.sha256(OTHER_PLAN).digest())

    def test_plan_comes_back_byte_for_byte(self):
        """The plan is kept as given; writing the same again is fine."""
        store = self.reopen()
        store.write_plan(PLAN)
        store.write_plan(PLAN)
        store.save(make_snapshot())
        assert store.read_plan() == PLAN
        assert self.reopen().read_plan() == PLAN

    def test_another_plan_is_refused(self):
        """A plan is never replaced."""
        store = self.reopen()
        store.write_plan(PLAN)
        with pytest.raises(ForeignPlanError):
            store.write_plan(OTHER_PLAN)
        assert store.read_plan() == PLAN

    def test_plan_must_be_the_snapshots(self):
        """A plan is checked against the newest snapshot when written and when read."""
        store = self.reopen()
        store.save(make_snapshot())
        with pytest.raises(ForeignPlanError):
            store.write_plan(OTHER_PLAN)
        assert store.read_plan() is None
        store.write_plan(PLAN)
        store.save(make_snapshot(2, plan=OTHER_PLAN))
        with pytest.raises(ForeignPlanError):
            store.read_plan()
