import contextlib
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.errors import (
    CorruptSnapshotError,
    ForeignPlanError,
    InputError,
    StateBusyError,
    StateError,
    StorageError,
    TruncatedSnapshotError,
    WrongKeyError,
)
from oracle.state.folder import FolderStore, newest_bytes, peek_folder, read_plan
from tests.faults import Faults, SimulatedCrash, full_disk
from tests.state.suite import DIGEST, KEY, OTHER_PLAN, PLAN, assert_same, make_snapshot

ROOT = Path(__file__).parents[2]


class TestFolderStore:
    """The store on disk."""

    @pytest.fixture(autouse=True)
    def _make(self, tmp_path):
        self.folder = tmp_path / "state"
        self.store = None
        yield
        if self.store is not None:
            self.store.close()

    def reopen(self, key=KEY):
        """Close the last store, which frees the lock as its process's death would, and open a new one."""
        if self.store is not None:
            self.store.close()
        self.store = FolderStore.open(self.folder, key)
        return self.store

    def names(self):
        """Return the folder's file names."""
        return sorted(path.name for path in self.folder.iterdir())

    def test_new_store_is_empty(self):
        """Nothing is there before the first save."""
        store = self.reopen()
        assert store.load_latest(DIGEST) is None
        assert newest_bytes(self.folder) is None
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
        data = newest_bytes(self.folder)
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

    def test_modes_do_not_depend_on_the_umask(self):
        """Folder 0700, files 0600."""
        old = os.umask(0)
        try:
            store = self.reopen()
            store.write_plan(PLAN)
            store.save(make_snapshot())
        finally:
            os.umask(old)
        assert stat.S_IMODE(self.folder.stat().st_mode) == 0o700
        assert len(self.names()) == 3
        for path in self.folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name

    @pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
    def test_open_folders_are_refused_with_a_hint(self, mode):
        """A folder that others can look into is refused, not silently closed: it may be somebody's."""
        self.folder.mkdir()
        self.folder.chmod(mode)
        with pytest.raises(StateError, match="chmod 700"):
            FolderStore.open(self.folder, KEY)
        assert stat.S_IMODE(self.folder.stat().st_mode) == mode

    def test_folder_must_be_one(self):
        """A file in the folder's place is refused."""
        self.folder.write_bytes(b"")
        with pytest.raises(StateError, match="not a folder"):
            FolderStore.open(self.folder, KEY)

    def test_only_the_newest_generation_stays(self):
        """After a save one snapshot is there, and no temporary file."""
        store = self.reopen()
        for generation in range(1, 4):
            store.save(make_snapshot(generation))
            assert self.names() == ["lock", f"snapshot-{generation:020d}.perp"]

    def test_old_generations_are_overwritten(self, tmp_path):
        """A hard link to the old file sees zeros: it was overwritten before it was unlinked."""
        store = self.reopen()
        store.save(make_snapshot(1))
        size = (self.folder / f"snapshot-{1:020d}.perp").stat().st_size
        os.link(self.folder / f"snapshot-{1:020d}.perp", tmp_path / "link")
        store.save(make_snapshot(2))
        assert (tmp_path / "link").read_bytes() == bytes(size)

    def test_other_files_are_let_be(self):
        """Files that are not the store's survive opening, saving and loading."""
        self.reopen()
        others = ["answers.commit", ".other.tmp", "snapshot-1.perp", "snapshot.tmp"]
        for name in others:
            (self.folder / name).write_bytes(b"mine")
        store = self.reopen()
        store.save(make_snapshot(1))
        store.save(make_snapshot(2))
        store.load_latest(DIGEST)
        for name in others:
            assert (self.folder / name).read_bytes() == b"mine"

    def test_leftovers_of_a_crash_are_cleaned_at_open(self):
        """Temporary files go, since they may hold half a private state."""
        self.reopen()
        for name in (f".snapshot-{9:020d}.perp.tmp", ".plan.json.tmp"):
            (self.folder / name).write_bytes(b"half")
        self.reopen()
        assert self.names() == ["lock"]

    def test_newest_corrupt_is_an_error_and_erases_nothing(self):
        """With an intact older snapshot beside it, a damaged newest one is still the error."""
        store = self.reopen()
        store.save(make_snapshot(1))
        old = self.folder / f"snapshot-{1:020d}.perp"
        kept = old.read_bytes()
        store.save(make_snapshot(2))
        old.write_bytes(kept)
        new = self.folder / f"snapshot-{2:020d}.perp"
        data = new.read_bytes()
        new.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(CorruptSnapshotError):
            self.reopen().load_latest(DIGEST)
        new.write_bytes(data[:-1])
        with pytest.raises(TruncatedSnapshotError):
            self.reopen().load_latest(DIGEST)
        with pytest.raises(TruncatedSnapshotError):
            peek_folder(self.folder)
        assert old.read_bytes() == kept
        new.write_bytes(data)
        assert_same(self.reopen().load_latest(DIGEST), make_snapshot(2))
        assert not old.exists()

    def test_renamed_snapshot_is_refused(self):
        """An old snapshot under a newer name does not pass for a newer one."""
        self.reopen().save(make_snapshot(1))
        (self.folder / f"snapshot-{1:020d}.perp").rename(self.folder / f"snapshot-{5:020d}.perp")
        with pytest.raises(CorruptSnapshotError, match="name"):
            self.reopen().load_latest(DIGEST)
        with pytest.raises(CorruptSnapshotError, match="name"):
            peek_folder(self.folder)

    def test_second_owner_is_refused_and_readers_are_not(self):
        """Another process cannot hold the folder, but it can look at its public facts."""
        store = self.reopen()
        store.write_plan(PLAN)
        store.save(make_snapshot(3))
        code = (
            "import sys; from pathlib import Path\n"
            "from oracle.errors import StateBusyError\n"
            "from oracle.state.folder import FolderStore, peek_folder, read_plan\n"
            "folder = Path(sys.argv[1])\n"
            "try:\n    FolderStore.open(folder, bytes(32))\n"
            "except StateBusyError:\n    print('busy', peek_folder(folder).generation, read_plan(folder).decode())\n"
        )
        run = subprocess.run(
            [sys.executable, "-c", code, str(self.folder)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert run.stdout == f"busy 3 {PLAN.decode()}\n"
        with pytest.raises(StateBusyError):
            FolderStore.open(self.folder, KEY)
        store.close()
        FolderStore.open(self.folder, KEY).close()

    def test_closed_store_saves_nothing(self):
        """After close another process may hold the folder, so writing is refused."""
        with FolderStore.open(self.folder, KEY) as store:
            store.close()
            with pytest.raises(StateError, match="closed"):
                store.save(make_snapshot())
            with pytest.raises(StateError, match="closed"):
                store.write_plan(PLAN)

    def test_readers_of_a_missing_folder_see_nothing(self, tmp_path):
        """`status` before `init` is no error."""
        assert peek_folder(tmp_path / "nowhere") is None
        assert read_plan(tmp_path / "nowhere") is None

    def test_missing_parent_is_a_storage_error(self, tmp_path):
        """Only the last part of the path is made."""
        with pytest.raises(StorageError, match="No such file"):
            FolderStore.open(tmp_path / "a" / "b", KEY)

    def test_order_of_the_steps(self):
        """The new snapshot is synced, named and its name synced before the old one is overwritten and unlinked."""
        store = self.reopen()
        store.save(make_snapshot(1))
        with Faults() as faults:
            store.save(make_snapshot(2))
        put, erase = ["open", "write", "fsync", "replace", "fsync"], ["write", "fsync", "unlink", "fsync"]
        assert faults.calls == put + erase

    def test_every_failing_call_leaves_the_earlier_generation(self):
        """Whichever system call of `save` fails: StorageError, old generation intact, no leftovers, retry works."""
        store = self.reopen()
        store.save(make_snapshot(1))
        generation, index = 2, 0
        while True:
            snapshot = make_snapshot(generation)
            with Faults(fail_at=index) as faults:
                try:
                    store.save(snapshot)
                except StorageError:
                    failed = True
                else:
                    failed = False
            if not faults.reached:
                break
            newest = peek_folder(self.folder)
            assert newest is not None
            if failed and newest.generation < generation:
                assert_same(store.load_latest(DIGEST), make_snapshot(newest.generation))
                assert not [name for name in self.names() if name.endswith(".tmp")]
                store.save(snapshot)
            assert_same(store.load_latest(DIGEST), snapshot)
            assert self.names() == ["lock", f"snapshot-{generation:020d}.perp"]
            generation, index = generation + 1, index + 1
        assert index >= 8

    def test_crash_at_every_call_leaves_a_loadable_state(self):
        """A crash at any system call of `save` leaves the old snapshot or the new one, whole."""
        self.reopen().save(make_snapshot(1))
        generation, index, seen = 2, 0, set()
        while True:
            store = self.reopen()
            with Faults(crash_at=index) as faults, contextlib.suppress(SimulatedCrash):
                store.save(make_snapshot(generation))
            if not faults.reached:
                break
            loaded = self.reopen().load_latest(DIGEST)
            assert loaded is not None
            assert loaded.generation in (generation - 1, generation)
            seen.add(loaded.generation - generation)
            assert_same(loaded, make_snapshot(loaded.generation))
            assert self.names() == ["lock", f"snapshot-{loaded.generation:020d}.perp"]
            generation, index = loaded.generation + 1, index + 1
        assert seen == {-1, 0}

    @pytest.mark.parametrize("mount", [True, False])
    def test_full_disk_leaves_the_earlier_generation(self, tmp_path, mount):
        """A disk that is really full: StorageError, the old snapshot intact, no leftovers, and it goes on later."""
        with full_disk(tmp_path / "disk", mount=mount) as (folder, fill):
            self.folder = folder / "state"
            store = self.reopen()
            store.save(make_snapshot(1))
            with fill(), pytest.raises(StorageError, match=r"No space left|File too large"):
                store.save(make_snapshot(2))
            assert self.names() == ["lock", f"snapshot-{1:020d}.perp"]
            assert_same(store.load_latest(DIGEST), make_snapshot(1))
            store.save(make_snapshot(2))
            assert_same(store.load_latest(DIGEST), make_snapshot(2))
            store.close()


def test_peek_survives_a_busy_owner(tmp_path):
    """A reader beside an owner who saves all the time sees whole headers, each at least as new as the last."""
    folder = tmp_path / "state"
    code = (
        "import sys; from pathlib import Path\n"
        "from oracle.state.folder import FolderStore\n"
        "from tests.state.suite import KEY, make_snapshot\n"
        "store = FolderStore.open(Path(sys.argv[1]), KEY)\n"
        "for generation in range(1, 301):\n"
        "    store.save(make_snapshot(generation))\n"
    )
    generations = [0]
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=ROOT) as process:
        while process.poll() is None:
            header = peek_folder(folder)
            generations.append(header.generation if header else 0)
    assert process.returncode == 0
    assert generations == sorted(generations)
    assert len(set(generations)) > 2
