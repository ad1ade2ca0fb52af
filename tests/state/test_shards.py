import contextlib
import hashlib
import stat
from dataclasses import replace

import numpy as np
import pytest

from oracle.errors import NewerVersionError, StateError, StorageError
from oracle.state.folder import FolderStore
from oracle.state.shards import (
    begin_shards,
    discard_unfinished,
    finish_shards,
    holds_state,
    refuse_sharded,
    shard_count,
    shard_folder,
    shard_name,
)
from tests.faults import Faults, SimulatedCrash
from tests.state.suite import KEY, PLAN, make_snapshot


def _fill(folder):
    snapshot = make_snapshot()
    key = np.frombuffer(hashlib.sha256(folder.name.encode()).digest(), dtype=np.uint8)
    with FolderStore.open(folder, KEY) as store:
        store.write_plan(PLAN)
        store.save(replace(snapshot, arrays={**snapshot.arrays, "key": key}, origin=None))


def _begun(folder, count=3):
    """Make shards, but not the word that they are all there."""
    with FolderStore.open(folder, KEY) as store:
        begin_shards(folder, count)
        store.write_plan(PLAN)
        for number in range(count):
            _fill(folder / shard_name(number))
    return folder


@pytest.fixture
def sharded(tmp_path):
    """Return a state of three shards."""
    folder = _begun(tmp_path / "state")
    finish_shards(folder)
    return folder


def test_shards_are_found(sharded):
    """Their number, and each one's folder, which opens as any state does."""
    assert shard_count(sharded) == 3
    assert [shard_folder(sharded, number).name for number in range(3)] == ["shard-0000", "shard-0001", "shard-0002"]
    for number in range(3):
        with FolderStore.open(shard_folder(sharded, number), KEY) as store:
            assert store.peek() is not None
    assert (sharded / "shards.json").read_bytes() == b'{"version":1,"shards":3}'
    assert stat.S_IMODE((sharded / "shards.json").stat().st_mode) == 0o600
    assert not (sharded / "unfinished.json").exists()
    assert holds_state(sharded)


def test_state_of_one_shard(tmp_path):
    """It is its shard's folder itself, and nothing refuses it."""
    _fill(tmp_path / "state")
    assert shard_count(tmp_path / "state") == 1
    assert shard_folder(tmp_path / "state", 0) == tmp_path / "state"
    assert holds_state(tmp_path / "state")
    refuse_sharded(tmp_path / "state")


@pytest.mark.parametrize("number", [-1, 3, 1024])
def test_shard_that_is_not_one(sharded, number):
    """The number is told, and how many there are."""
    with pytest.raises(StateError, match=f"has 3 shards, numbered from 0: there is no number {number}"):
        shard_folder(sharded, number)


@pytest.mark.parametrize("there", [True, False])
def test_no_state(tmp_path, there):
    """A folder that is empty or not there has no shards, and `init` may make some."""
    if there:
        (tmp_path / "state").mkdir()
    with pytest.raises(StateError, match="holds no state; make one with `perpetua init`"):
        shard_count(tmp_path / "state")
    assert not holds_state(tmp_path / "state")
    refuse_sharded(tmp_path / "state")


def test_missing_and_extra_shards(sharded):
    """Mark and folders must agree; the first one that is too few or too many is named."""
    (sharded / "shard-0001").rename(sharded / "elsewhere")
    with pytest.raises(StateError, match=r"shards.json says 3 shards, and shard-0001 is missing"):
        shard_folder(sharded, 0)
    (sharded / "shard-0001").write_text("a file is no folder")
    with pytest.raises(StateError, match=r"shard-0001 is missing"):
        shard_count(sharded)
    (sharded / "shard-0001").unlink()
    (sharded / "elsewhere").rename(sharded / "shard-0001")
    (sharded / "shard-0003").mkdir()
    with pytest.raises(StateError, match=r"shards.json says 3 shards, and there is shard-0003"):
        shard_count(sharded)


def test_other_files_are_let_be(sharded):
    """Such as the record of a shard's forks, which is beside it."""
    (sharded / "shard-0001.forks.jsonl").touch()
    (sharded / "out").mkdir()
    assert shard_count(sharded) == 3


def test_snapshot_beside_shards(sharded):
    """Two states in one folder are none."""
    _fill(sharded)
    with pytest.raises(StateError, match="there is a snapshot beside it"):
        shard_count(sharded)


def test_mark_is_missing(sharded):
    """Shards without it are no state, and no `init` may write over them."""
    (sharded / "shards.json").unlink()
    with pytest.raises(StateError, match=r"holds shard-0000, but shards.json is missing"):
        shard_count(sharded)
    assert holds_state(sharded)


@pytest.mark.parametrize("mark", [b"", b"{}", b'{"version":1,"shards":1}', b'{"version":0,"shards":3}', b"\xff"])
def test_damaged_mark(sharded, mark):
    """It is told, and not taken for one shard."""
    (sharded / "shards.json").write_bytes(mark)
    with pytest.raises(StateError, match=r"shards.json: the file is damaged"):
        shard_count(sharded)
    with pytest.raises(StateError, match=r"shards.json"):
        refuse_sharded(sharded)


def test_newer_mark(sharded):
    """A later Perpetua may have meant something else by it."""
    (sharded / "shards.json").write_bytes(b'{"version":2,"shards":3}')
    with pytest.raises(NewerVersionError, match="version = 2"):
        shard_count(sharded)


def test_unreadable_mark(sharded):
    """That is the disk's fault."""
    (sharded / "shards.json").unlink()
    (sharded / "shards.json").mkdir()
    with pytest.raises(StorageError, match=r"shards.json: cannot be read"):
        shard_count(sharded)


def test_files_take_one_shard(sharded):
    """What works on files refuses the whole and says what to name; it takes a shard's folder."""
    with pytest.raises(StateError) as caught:
        refuse_sharded(sharded)
    assert str(caught.value) == (
        f"{sharded}: has 3 shards and is served from Kafka; to serve one shard from files, name its folder, "
        f"such as {sharded / 'shard-0000'}, and the key file (by default {sharded / 'key'})"
    )
    refuse_sharded(sharded / "shard-0001")


def test_unfinished_state_serves_nobody(tmp_path):
    """Neither the whole nor a shard that is complete by itself: the next `init` erases it."""
    folder = _begun(tmp_path / "state")
    for path in (folder, folder / "shard-0000"):
        with pytest.raises(StateError, match="has not finished this state; run the same command again"):
            refuse_sharded(path)
    with pytest.raises(StateError, match="has not finished this state"):
        shard_folder(folder, 0)
    assert not holds_state(folder)


def test_discarding_leaves_what_is_not_the_shards(tmp_path):
    """Shards, their plan and the word are gone; key and lock stay. A finished state is not touched."""
    folder = _begun(tmp_path / "state")
    (folder / "key").write_text("k")
    discard_unfinished(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["key", "lock"]
    _begun(folder)
    finish_shards(folder)
    before = sorted(folder.rglob("*"))
    discard_unfinished(folder)
    assert sorted(folder.rglob("*")) == before


def test_discarding_can_be_interrupted(tmp_path):
    """A crash at any system call leaves an unfinished state or none, never one that could be served."""
    for index in range(200):
        folder = _begun(tmp_path / f"state-{index}", 2)
        with Faults(crash_at=index) as faults, contextlib.suppress(SimulatedCrash):
            discard_unfinished(folder)
        if not faults.reached:
            break
        assert not holds_state(folder)
        with pytest.raises(StateError, match=r"not finished|holds no state"):
            shard_count(folder)
        discard_unfinished(folder)
        assert [path.name for path in folder.iterdir()] == ["lock"]
    assert index > 10


def test_failures_are_named(tmp_path):
    """A disk that refuses is told as such, by the file that was not written."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    with Faults(fail_at=0), pytest.raises(StorageError, match=r"unfinished.json: cannot be written"):
        begin_shards(folder, 2)
    with pytest.raises(StorageError, match=r"shards.json: cannot be written"):
        finish_shards(folder)
    (_begun(folder) / "shard-0001" / "somebody's").mkdir()
    with pytest.raises(StorageError, match="unfinished parts cannot be erased"):
        discard_unfinished(folder)
