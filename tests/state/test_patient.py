"""The store of a shard whose folder another process may hold still, or take over at any moment."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from oracle import durable
from oracle.errors import CorruptSnapshotError, StorageError
from oracle.state.folder import FolderStore
from oracle.state.waiting import DeferredStore
from tests.support.shards import MASTER_KEY, first_snapshot, small_plan
from tests.support.waiting import TIMEOUT


@pytest.fixture
def folder(tmp_path):
    """A shard's folder with its first snapshot."""
    with FolderStore.open(tmp_path / "state", MASTER_KEY) as store:
        store.save(first_snapshot())
    return tmp_path / "state"


def _at(position):
    return replace(first_snapshot(), position=position)


def _is_snapshot(descriptor):
    return Path(f"/proc/self/fd/{descriptor}").readlink().name.startswith(".snapshot-")


def test_the_folder_is_let_go_only_when_the_save_has_ended(folder, monkeypatch):
    """Otherwise the next process erases, through its open file, the snapshot that is given its name meanwhile."""
    synced, go_on = threading.Event(), threading.Event()
    fsync, write = os.fsync, os.write
    store, other = DeferredStore(folder, MASTER_KEY), DeferredStore(folder, MASTER_KEY)
    saving = threading.Thread(target=store.save, args=(_at(10),))

    def slow(descriptor):
        fsync(descriptor)
        if threading.current_thread() is saving and _is_snapshot(descriptor):
            synced.set()
            assert go_on.wait(TIMEOUT)

    def renamed_first(descriptor, data):
        if threading.current_thread() is threading.main_thread() and _is_snapshot(descriptor) and not go_on.is_set():
            go_on.set()
            saving.join()
        return write(descriptor, data)

    monkeypatch.setattr(os, "fsync", slow)
    monkeypatch.setattr(os, "write", renamed_first)
    saving.start()
    assert synced.wait(TIMEOUT)
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    with pytest.raises(StorageError, match="another process holds it"):
        other.save(_at(20))
    go_on.set()
    closing.join(TIMEOUT)
    saving.join(TIMEOUT)
    found = other.load_latest(small_plan().digest)
    assert found is not None
    assert found.position == 10
    other.save(_at(20))
    assert [path.name for path in folder.glob("*snapshot*")] == ["snapshot-00000000000000000003.perp"]


def test_a_save_behind_the_close_is_refused_and_holds_nothing(folder):
    """A thread that comes too late does not take the folder for ever."""
    store = DeferredStore(folder, MASTER_KEY)
    store.save(_at(10))
    store.close()
    with pytest.raises(StorageError, match="the store is closed"):
        store.save(_at(20))
    other = DeferredStore(folder, MASTER_KEY)
    other.save(_at(15))
    other.close()


def _tear(path):
    """Erase the encrypted part of a snapshot, as far as its owner has come with it."""
    data = path.read_bytes()
    path.write_bytes(data[:-100] + bytes(100))


def test_a_snapshot_erased_while_it_is_read_is_read_again(folder, monkeypatch):
    """Its owner has saved a newer one; that is the one to load."""
    owner = DeferredStore(folder, MASTER_KEY)
    read = DeferredStore(folder, MASTER_KEY).load_latest
    torn: list[Path] = []
    real = durable.read

    def reading(path):
        data = real(path)
        if path.name.startswith("snapshot-") and not torn:
            torn.append(path)
            owner.save(_at(30))
            return data[:-100] + bytes(100)
        return data

    monkeypatch.setattr(durable, "read", reading)
    found = read(small_plan().digest)
    assert torn
    assert found is not None
    assert found.position == 30
    owner.close()


def test_a_snapshot_that_stays_torn_is_an_error(folder):
    """Nobody is erasing it: it is damaged."""
    _tear(next(folder.glob("snapshot-*")))
    with pytest.raises(CorruptSnapshotError):
        DeferredStore(folder, MASTER_KEY).load_latest(small_plan().digest)
