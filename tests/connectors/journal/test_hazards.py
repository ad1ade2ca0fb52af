"""The journal and what disks, crashes and those who have the disk may do to it."""

import errno
import itertools
import os
import shutil
from pathlib import Path

import pytest

from connectors.base import Delivery
from connectors.journal import journal as journal_module
from connectors.journal.journal import Journal
from connectors.journal.sealing import HEADER_BYTES, SegmentCipher
from connectors.journal.source import JournalSource
from oracle.errors import StorageError
from tests.connectors.journal.conftest import KEY, append, opened, reopened
from tests.faults import Faults, SimulatedCrash, full_disk


def test_what_a_killed_process_had_not_synced_is_synced_before_it_counts(tmp_path, monkeypatch):
    """A process dies between write and fsync: the next one finds the record, and must make it durable itself.

    Otherwise the broker's redelivery would be acknowledged for a record that a loss of power takes away.
    """
    journal = opened(tmp_path / "j")
    journal.append([b"one"])
    with Faults(crash_at=1) as faults, pytest.raises(SimulatedCrash):
        journal.append([b"two"])
    assert faults.calls == ["write", "fsync"]
    journal.close()
    synced: list[Path] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    journal = opened(tmp_path / "j")
    assert journal.end == 2
    (segment,) = (tmp_path / "j").glob("*.journal")
    assert segment in synced
    journal.close()


def test_record_that_meets_the_end_of_the_disk_is_taken_back(tmp_path):
    """A real disk ends in the middle of a record: that is told, nothing of it stays, and smaller ones go on."""
    with full_disk(tmp_path / "disk", mount=True) as (folder, filled):
        journal = opened(folder / "j")
        journal.append([b"one"])
        with filled(), pytest.raises(StorageError, match="cannot be written"):
            journal.append([bytes(300_000)])
        assert journal.end == 1
        assert journal.append([b"two"]) == 2
        journal.close()
        assert reopened(folder / "j") == [b"one", b"two"]


def test_what_cannot_be_cut_back_needs_open(tmp_path, monkeypatch):
    """Where what a failed append has left cannot be taken away, nothing is written behind it until `open`."""

    def fail(*_arguments: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = opened(tmp_path / "j")
    journal.append([b"one"])
    with monkeypatch.context() as patched:
        for call in ("fsync", "ftruncate"):
            patched.setattr(os, call, fail)
        with pytest.raises(StorageError, match="cannot be written"):
            journal.append([b"two"])
    with pytest.raises(StorageError, match=r"opened \(again\)"):
        journal.append([b"three"])
    journal.open()
    assert journal.append([b"three"]) == 3  # what was written and not synced is there after all
    journal.close()


def test_no_nonce_is_used_twice_whatever_fails(tmp_path, monkeypatch):
    """Through failures and crashes at every call, and restarts, no position is sealed twice under one segment's key."""
    sealed: list[tuple[bytes, int]] = []
    seal = SegmentCipher.seal

    def spy(cipher: SegmentCipher, position: int, synced: int, body: bytes) -> bytes:
        sealed.append((cipher.key_check, position))
        return seal(cipher, position, synced, body)

    monkeypatch.setattr(SegmentCipher, "seal", spy)
    for crash in (False, True):
        for index in itertools.count():
            folder = tmp_path / f"{crash}-{index}"
            folder.mkdir(mode=0o700)
            with Faults(**{"crash_at" if crash else "fail_at": index}) as faults:
                _three_processes(folder)
            _three_processes(folder)
            if not faults.reached:
                break
        assert index > 10
    assert len(sealed) > 200
    assert len(set(sealed)) == len(sealed)


def _three_processes(folder: Path) -> None:
    """Append in three processes one after the other, twice where the first try fails."""
    for number in range(3):
        journal = Journal(folder, KEY, "test", limit=1 << 20)
        try:
            journal.open()
            for _ in range(2):
                try:
                    journal.append([b"a%d" % number, b"b"])
                except StorageError:
                    journal.append([b"c%d" % number])
        except (SimulatedCrash, StorageError):
            pass
        journal.close()


class _Disk:
    """A journal of four segments of equal length, and somebody who has the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for number in range(4):
            append(folder, [b"%d-%d" % (number, part) for part in range(3)])
        self.segments = sorted(folder.glob("*.journal"))
        assert len({path.stat().st_size for path in self.segments}) == 1

    def swap_contents(self) -> None:
        first, second = self.segments[1].read_bytes(), self.segments[2].read_bytes()
        self.segments[1].write_bytes(second)
        self.segments[2].write_bytes(first)

    def swap_names(self) -> None:
        self.segments[0].rename(self.folder / "x")
        self.segments[1].rename(self.segments[0])
        (self.folder / "x").rename(self.segments[1])

    def copy_behind_the_end(self) -> None:
        shutil.copy(self.segments[0], self.folder / "99999999999999999999.journal")

    def copy_beside(self) -> None:
        shutil.copy(self.segments[3], self.folder / f"{self.segments[3].stem} copy.journal")

    def take_away_one_between(self) -> None:
        self.segments[2].unlink()

    def repeat_a_record(self) -> None:
        data = self.segments[1].read_bytes()
        size = (len(data) - HEADER_BYTES) // 3
        first = data[HEADER_BYTES : HEADER_BYTES + size]
        self.segments[1].write_bytes(data[:HEADER_BYTES] + first + first + data[HEADER_BYTES + 2 * size :])

    def cut_a_record(self) -> None:
        data = self.segments[1].read_bytes()
        self.segments[1].write_bytes(data[: HEADER_BYTES + 2 * (len(data) - HEADER_BYTES) // 3])

    def put_in_one_of_the_same_place(self) -> None:
        for _ in range(2):
            append(self.folder.parent / "other", [b"8-0", b"8-1", b"8-2"])
        shutil.copy(self.folder.parent / "other" / self.segments[1].name, self.segments[0])


_DEEDS = [name for name in vars(_Disk) if not name.startswith("_")]


@pytest.mark.parametrize("deed", _DEEDS)
def test_who_has_the_disk_is_found_out(tmp_path, deed):
    """Segments exchanged, renamed, copied, taken away, or with a record repeated or cut: it stops, and says which."""
    disk = _Disk(tmp_path / "j")
    before = {path.name: path.read_bytes() for path in disk.segments}
    getattr(disk, deed)()
    with pytest.raises(StorageError, match=r"\.journal: "):
        reopened(disk.folder)
    for path in disk.folder.glob("*.journal"):
        path.unlink()
    for name, data in before.items():
        (disk.folder / name).write_bytes(data)
    assert len(reopened(disk.folder)) == 12


async def test_large_records_are_read_in_portions(tmp_path, monkeypatch):
    """However many are asked for, no more is read ahead than a few megabytes hold, and nothing is passed over."""
    monkeypatch.setattr(journal_module, "_READ_BYTES", 100_000)
    journal = opened(tmp_path / "j")
    bodies = [b"%d" % number + bytes(30_000) for number in range(20)]
    for body in bodies:
        journal.append([body])
    journal.append([bytes(150_000), b"last"])
    assert [len(journal.reader(at).read(1000)) for at in (0, 18, 20, 21)] == [4, 3, 1, 1]
    source = JournalSource(journal, lambda found: Delivery(found.position, found.body), live=False)
    await source.open(None)
    read: list[Delivery] = []
    while not source.exhausted:
        some = await source.fetch(1000, 5.0)
        assert sum(len(one.body or b"") for one in some.rows()) < 300_000
        read += some.rows()
    assert [one.body for one in read] == [*bodies, bytes(150_000), b"last"]
    await source.close()
    journal.close()
