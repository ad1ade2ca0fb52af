"""`FileGroup`: several growing files that change together, by one commit record."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from connectors.base import Committed
from connectors.local.appendfile import AppendFile
from connectors.local.checks import check_metadata, check_private
from connectors.local.commitfile import CommitRecord, DurableCommitFile, InDoubtError
from connectors.local.paths import refuse_shared
from oracle import durable
from oracle.errors import InputError, StorageError

__all__ = ["FileGroup"]

_BESIDE = {
    "the commit record": "",
    "the commit record's lock": ".lock",
    "the commit record's temporary file": ".tmp",
    "the intent record": ".intent",
    "the intent record's temporary file": ".intent.tmp",
}
"""What stands beside the files, by what is behind the commit record's name."""


class FileGroup:
    """Growing files with a commit record beside them.

    Formal guarantees:
        After a crash anywhere, `open` cuts every file to what the last durable record says.

    Args:
        commit_path: The commit record.
        paths: The files by their roles, which are kept in the record; None for what is dropped.
        counts: Roles of numbers that the caller keeps in the record beside the files' lengths.

    Raises:
        InputError: Two of the files are the same.
    """

    def __init__(self, commit_path: Path, paths: Mapping[str, Path | str | None], counts: tuple[str, ...] = ()) -> None:
        self._record_file = DurableCommitFile(commit_path)
        self._files = {role: AppendFile(Path(path)) for role, path in paths.items() if path is not None}
        self._counts = dict.fromkeys(counts, 0)
        self._ready = False
        self._lock: int | None = None
        self._mutex = threading.RLock()  # a cancelled commit goes on in its thread
        refuse_shared(self.paths())

    def paths(self) -> Mapping[str, Path]:
        """Return every file that may be written or cut, by what it is called where the user sets it."""
        record = self._record_file.path
        beside = {name: record.with_name(record.name + suffix) for name, suffix in _BESIDE.items()}
        return {_setting(role): file.path for role, file in self._files.items()} | beside

    @property
    def counts(self) -> Mapping[str, int]:
        """The committed counts."""
        return self._counts

    def length(self, role: str) -> int:
        """Return the committed length of the role's file."""
        return self._files[role].length

    def inspect(self) -> Committed | None:
        """Do the checks of `open`, raise and return what it would, but cut, hold and make nothing."""
        record = self._record_file.read()
        try:
            sizes = {role: file.size() for role, file in self._files.items()}
            self._check(record, sizes)
            self._check_private()
        except OSError as exc:
            raise self._cannot_open(exc) from exc
        return None if record is None or record.position is None else Committed(record.position, record.metadata)

    def recorded(self, role: str) -> int:
        """Return the length or count that the record has for a role, without opening anything.

        Raises:
            StorageError: The record cannot be read.
        """
        record = self._record_file.read()
        return 0 if record is None else record.lengths.get(role, 0)

    def open(self) -> Committed | None:
        """Cut the files to the last durable commit and return it, or None before the first one.

        Raises:
            InputError: There is a file with content that no record speaks of, which is not cut; or others can read
                answers or dead letters.
            StorageError: A file is shorter than what was committed, or cannot be opened.
        """
        with self._mutex:
            return self._open()

    def _open(self) -> Committed | None:
        self.close()
        self.inspect()  # what cannot be opened leaves no new file behind
        try:
            self._hold()
            record = self._record_file.read()
            sizes = {role: file.open() for role, file in self._files.items()}
            self._check(record, sizes)
            self._check_private()
            if record is None:
                self._begin(sizes)
                record = CommitRecord()
            else:
                self._restore(record)
        except OSError as exc:
            self.close()
            raise self._cannot_open(exc) from exc
        except BaseException:
            self.close()
            raise
        self._ready = True
        return None if record.position is None else Committed(record.position, record.metadata)

    def _cannot_open(self, error: OSError) -> StorageError:
        where = error.filename or self._record_file.path
        return StorageError(f"{where}: the sink cannot be opened: {error.strerror}")

    def commit(
        self, data: Mapping[str, bytes], position: int, metadata: bytes, counts: Mapping[str, int] | None = None
    ) -> None:
        """Append to each file, by role, and make that count, durably; what is for no file is dropped.

        Raises:
            InputError: The metadata is too long.
            StorageError: It could not be written. The files were cut back; or `open` must be called first, and the
                message says so.
        """
        check_metadata(metadata)
        with self._mutex:
            self._commit(data, CommitRecord(position, metadata, counts or {}))

    def check_ready(self) -> None:
        """Refuse to commit before `open`, or after a failure whose outcome only `open` can tell.

        Raises:
            StorageError: `open` must be called (again) first.
        """
        if not self._ready:
            raise StorageError(f"{self._record_file.path}: the sink must be opened (again) before it can commit")

    async def run(self, commit: Callable[[], None]) -> None:
        """Run a commit in a thread; if that is cancelled, nobody knows whether it committed until the next `open`."""

        def run_alone() -> None:
            with self._mutex:  # `close` waits for all of it, so that the next owner of the files never meets it
                commit()

        try:
            await asyncio.to_thread(run_alone)
        except asyncio.CancelledError:
            with self._mutex:  # waits for the thread
                self._ready = False
            raise

    def _commit(self, data: Mapping[str, bytes], record: CommitRecord) -> None:
        self.check_ready()
        grown = {file: data[role] for role, file in self._files.items() if data.get(role)}
        lengths = {role: file.length + len(data.get(role, b"")) for role, file in self._files.items()}
        counts = {**self._counts, **record.lengths}
        self._ready = False  # until it is known that the files agree with the record again
        try:
            # 1. The data.
            for file, content in grown.items():
                file.append(content)
            # 2. fsync it: a record must never speak of bytes that a crash could take away.
            for file in grown:
                file.sync()
            # 3.-6. The record: temporary file, fsync, rename, fsync of the folder.
            self._record_file.write(replace(record, lengths={**lengths, **counts}))
        except InDoubtError:
            raise  # either record may survive, and the files satisfy both; so nothing is cut
        except (OSError, StorageError) as exc:
            self._cut_back()
            if isinstance(exc, StorageError):
                raise
            raise StorageError(f"{self._record_file.path}: cannot commit: {exc.strerror}") from exc
        for role, file in self._files.items():
            file.length = lengths[role]
        self._counts = counts
        self._ready = True

    def close(self) -> None:
        """Let go of the files."""
        with self._mutex:
            self._ready = False
            for file in self._files.values():
                file.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _hold(self) -> None:
        """Keep a second sink off the same files; the lock goes with the process."""
        path = self._record_file.path
        try:
            self._lock = durable.hold(path.with_name(path.name + ".lock"))
        except BlockingIOError as exc:
            raise StorageError(f"{path}: another process writes to this sink") from exc

    def _check_private(self) -> None:
        """Refuse files that others can read; the ledger is for everybody."""
        for role, file in self._files.items():
            status = file.status()
            if role != "ledger" and status is not None:
                check_private(_setting(role), file.path, status)

    def _check(self, record: CommitRecord | None, sizes: Mapping[str, int]) -> None:
        """Refuse files that do not go with the record."""
        where = self._record_file.path
        if record is None:
            for role, size in sizes.items():
                if size:
                    raise InputError(
                        _setting(role),
                        str(self._files[role].path),
                        f"the file has content but {where} is missing, so nobody knows how much of it was committed; "
                        "choose a new path, or move the file away",
                    )
            return
        for role, length in record.lengths.items():
            if length and role not in sizes and role not in self._counts:
                raise InputError(_setting(role), None, f"{where} names such a file; give its path again")
        for role, size in sizes.items():
            path = self._files[role].path
            length = record.lengths.get(role, 0)
            if size < length:
                raise _too_short(path, size, length)
            if size and role not in record.lengths:
                raise InputError(_setting(role), str(path), f"the file has content that {where} does not account for")

    def _begin(self, sizes: Mapping[str, int]) -> None:
        # The record comes before the first byte, so that after a crash the files are known to be ours.
        self._record_file.write(CommitRecord(None, b"", {**sizes, **self._counts}))
        for file in self._files.values():
            file.cut(0)

    def _restore(self, record: CommitRecord) -> None:
        self._counts = {role: record.lengths.get(role, count) for role, count in self._counts.items()}
        for role, file in self._files.items():
            file.cut(record.lengths.get(role, 0))
        # A process that died before it could sync may have left the record; what follows relies on it.
        durable.sync_folder(self._record_file.path.parent)

    def _cut_back(self) -> None:
        with contextlib.suppress(OSError):
            for file in self._files.values():
                file.cut(file.length)
            self._ready = True


def _setting(role: str) -> str:
    """Return what the user calls a role's file."""
    return "sink.path" if role == "output" else f"sink.{role}"


def _too_short(path: Path, size: int, length: int) -> StorageError:
    found = f"has {size}" if path.exists() else "is gone"
    way = "put it back"
    if path.suffix != ".arrow":
        way += f". If you no longer need its content, its length is enough: umask 077; truncate -s {length} {path}"
    return StorageError(f"{path}: {length} bytes of it were committed, but it {found}; {way}")
