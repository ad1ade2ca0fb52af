"""Each snapshot is its shard's and no other's: the same noise never goes to two streams."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from oracle.errors import CorruptSnapshotError, ForeignShardError, StateError
from oracle.mechanisms.keys import PhaseKey
from oracle.state.folder import FolderStore, newest_bytes, peek_folder, read_plan
from oracle.state.format import decode, encode, peek
from oracle.state.shard_id import ShardId
from oracle.state.shards import begin_shards, finish_shards, refuse_copies, refuse_sharded, shard_count, shard_name
from oracle.state.waiting import DeferredStore
from tests.state.suite import DIGEST, KEY, PLAN, make_snapshot

SHARDS = 3


def _unbound(number, phase=2, generation=1):
    """Return what an earlier version's shard had in a phase: its key, ratcheted on."""
    key = PhaseKey(bytes([number + 1]) * 32)
    for _ in range(1, phase):
        key = key.ratchet()
    snapshot = make_snapshot(generation)
    arrays = {**snapshot.arrays, "key": np.frombuffer(key.secret, dtype=np.uint8)}
    return replace(snapshot, arrays=arrays, phase=phase, origin=None)


def _begun(folder):
    with FolderStore.open(folder, KEY) as store:
        begin_shards(folder, SHARDS)
        store.write_plan(PLAN)
        for number in range(SHARDS):
            with FolderStore.open(folder / shard_name(number), KEY) as shard:
                shard.write_plan(PLAN)
                shard.save(_unbound(number))
    return folder


@pytest.fixture
def state(tmp_path):
    """Return a state of three shards."""
    folder = _begun(tmp_path / "state")
    finish_shards(folder)
    return folder


@pytest.fixture
def old(state):
    """Return it as an earlier version left it."""
    for number in range(SHARDS):
        _put(state, number, encode(_unbound(number), KEY))
    return state


def _snapshot(state, number):
    (path,) = (state / shard_name(number)).glob("snapshot-*.perp")
    return path


def _put(state, number, data):
    for path in (state / shard_name(number)).glob("snapshot-*.perp"):
        path.unlink()
    path = state / shard_name(number) / f"snapshot-{peek(data).generation:020d}.perp"
    path.write_bytes(data)
    path.chmod(0o600)


def _load(folder):
    with FolderStore.open(folder, KEY) as store:
        return store.load_latest(DIGEST)


READERS = {
    "load": _load,
    "load on a bus": lambda folder: DeferredStore(folder, KEY).load_latest(DIGEST),
    "read": newest_bytes,
    "peek": peek_folder,
    "plan": read_plan,
    "shards": lambda folder: shard_count(folder.parent),
    "files": refuse_sharded,
}


@pytest.mark.parametrize("reader", READERS)
def test_snapshot_of_another_shard_is_refused(state, reader):
    """Copied over the shard's own one; whoever reads it is told whose it is, and what to do."""
    shutil.copy(_snapshot(state, 0), _snapshot(state, 1))
    with pytest.raises(
        ForeignShardError, match=r"shard-0001/snapshot-.*: belongs to shard 0 of 3, but this is shard 1"
    ):
        READERS[reader](state / "shard-0001")


@pytest.mark.parametrize("reader", READERS)
def test_folder_of_another_shard_is_refused(state, reader):
    """With all that is in it; also where the two have only changed places."""
    (state / "shard-0001").rename(state / "aside")
    shutil.copytree(state / "shard-0000", state / "shard-0001")
    with pytest.raises(ForeignShardError, match="belongs to shard 0 of 3, but this is shard 1 of 3"):
        READERS[reader](state / "shard-0001")
    shutil.rmtree(state / "shard-0000")
    (state / "aside").rename(state / "shard-0000")
    for name in ("shard-0000", "shard-0001"):
        with pytest.raises(ForeignShardError):
            READERS[reader](state / name)


def test_shard_in_a_state_of_other_size_is_refused(state, tmp_path):
    """As where a mark was changed by hand, or a shard's folder taken for a state of its own, or the reverse."""
    shutil.copytree(state / "shard-0002", tmp_path / "alone")
    with pytest.raises(ForeignShardError, match="belongs to shard 2 of 3, but this is shard 0 of 1"):
        _load(tmp_path / "alone")
    with FolderStore.open(tmp_path / "single", KEY) as store:
        store.save(make_snapshot())
    _put(state, 0, newest_bytes(tmp_path / "single"))
    with pytest.raises(ForeignShardError, match="belongs to shard 0 of 1, but this is shard 0 of 3"):
        shard_count(state)
    (state / "shards.json").write_text('{"version":1,"shards":2}')
    with pytest.raises(ForeignShardError, match="belongs to shard 1 of 3, but this is shard 1 of 2"):
        _load(state / "shard-0001")


def test_state_may_move_and_be_linked_to(state, tmp_path):
    """The shards' folders are what counts, under whatever name they are reached."""
    state.rename(tmp_path / "moved")
    (tmp_path / "link").symlink_to(tmp_path / "moved" / "shard-0001")
    assert shard_count(tmp_path / "moved") == SHARDS
    assert _load(tmp_path / "link") is not None


def test_what_a_snapshot_is_bound_to_is_encrypted_with_it(state):
    """A header of another shard, or of the version that has none, does not open it."""
    data = newest_bytes(state / "shard-0000")
    assert data is not None
    header = peek(data)
    assert header.origin is not None
    for origin in (None, header.origin._replace(shard_id=ShardId(1, 3)), header.origin._replace(genesis=bytes(32))):
        with pytest.raises(CorruptSnapshotError):
            decode(replace(header, origin=origin).pack() + data[header.header_bytes :], KEY, DIGEST)


def test_equal_noise_side_by_side_is_refused(tmp_path):
    """Shards of one key, each bound to its own place: no mark is given to them, and none that is there counts."""
    folder = _begun(tmp_path / "state")
    _put(folder, 2, encode(_unbound(0).bound(ShardId(2, SHARDS)), KEY))
    equal = "shard-0002 is a copy of shard-0000: both would draw the same noise"
    with pytest.raises(ForeignShardError, match=equal):
        finish_shards(folder)
    (folder / "unfinished.json").rename(folder / "shards.json")
    for look in (shard_count, lambda state: refuse_sharded(state / "shard-0001")):
        with pytest.raises(ForeignShardError, match=equal):
            look(folder)


@pytest.mark.parametrize("bound", ["none", "original", "copy"])
@pytest.mark.parametrize("phases", [(2, 2), (2, 4), (5, 3)])
def test_copies_that_an_earlier_version_left_are_found(old, phases, bound):
    """It said nothing of shards; the keys do, however far each has gone, and whichever this version has saved since."""
    refuse_copies(old, KEY)
    for number, phase, name in ((0, phases[0], "original"), (1, phases[1], "copy")):
        snapshot = _unbound(0, phase)
        _put(old, number, encode(snapshot.bound(ShardId(number, SHARDS)) if bound == name else snapshot, KEY))
    for folder in (old, old / "shard-0002"):
        with pytest.raises(ForeignShardError, match="shard-0001 is a copy of shard-0000"):
            refuse_copies(folder, KEY)


def test_no_work_is_done_on_the_word_of_a_header(old):
    """A phase that nobody has written, and that would take for ever to reach, is damage before it is a number."""
    data = newest_bytes(old / "shard-0002")
    assert data is not None
    header = peek(data)
    _put(old, 2, replace(header, phase=2**62).pack() + data[header.header_bytes :])
    with pytest.raises(CorruptSnapshotError):
        refuse_copies(old, KEY)


@pytest.mark.parametrize("open_store", [FolderStore.open, DeferredStore])
def test_snapshot_of_an_earlier_version_is_bound_when_it_is_read(old, open_store):
    """The file is let be; the next ones are its shard's and of one run, though its key goes on in each phase."""
    folder = old / "shard-0001"
    store = open_store(folder, KEY)
    found = store.load_latest(DIGEST)
    before = peek_folder(folder)
    assert found is not None
    assert before is not None
    assert before.origin is None
    for generation in (2, 3):
        later = _unbound(1, generation, generation)
        store.save(replace(later, origin=found.origin))
    store.close()
    header = peek_folder(folder)
    assert header is not None
    assert header.origin is not None
    assert header.origin.shard_id == ShardId(1, SHARDS)
    shutil.copytree(folder, old / "shard-0002", dirs_exist_ok=True)
    with pytest.raises(ForeignShardError):
        _load(old / "shard-0002")


def test_snapshot_is_saved_over_those_of_its_own_run_only(tmp_path):
    """What somebody has put there meanwhile is not gone on with, nor erased."""
    with FolderStore.open(tmp_path / "state", KEY) as store:
        store.save(_unbound(0))
        with pytest.raises(StateError, match="belongs to another run"):
            store.save(_unbound(1, generation=2))
        store.save(_unbound(0, phase=2, generation=2))
