"""Files and folders that survive a loss of power: all durable changes are made here.

Bytes last once their file is synced, and a name once its folder is: so a file that is made, renamed, linked or unlinked
here, and a folder that is made or removed, has its folder synced before the call returns. What is new is made with
mode 0600 (folders: 0700) and opens no link that somebody put in its place.

Everything here raises OSError; its caller knows what the file was for, and says so. Descriptors are for the caller to
close, and no child process gets them.
"""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Final

__all__ = [
    "UnsyncedError",
    "cut",
    "erase",
    "hold",
    "make_folder",
    "open_lasting",
    "open_new",
    "open_regular",
    "place",
    "read",
    "remove",
    "remove_folder",
    "rename",
    "replace",
    "sync",
    "sync_folder",
    "write_all",
    "write_exclusive",
    "write_new",
]

_ZEROS: Final = bytes(1 << 20)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})
"""Errors of file systems without hard links."""


class UnsyncedError(OSError):
    """The new name is there, and a crash may still bring the old one back."""


def sync(descriptor: int) -> None:
    """Make a file's bytes durable."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, unsynced; a failure may leave a part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def cut(descriptor: int, length: int) -> None:
    """Truncate a file to a length (bytes), unsynced."""
    os.ftruncate(descriptor, length)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file without blocking, as a pipe would.

    Args:
        path: The file.
        flags: As of `os.open`; what they make has mode 0600.

    Raises:
        OSError: It cannot be opened, or is a pipe, a socket, a device or a folder.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        if exc.errno == errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise _not_regular(path) from exc
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise _not_regular(path)


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", str(path))


def read(path: Path) -> bytes:
    """Return what a regular file holds.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def open_new(path: Path, flags: int = 0) -> int:
    """Open a new file for writing; its name is not durable before its folder is synced.

    Raises:
        FileExistsError: Something has the name, be it a link to nowhere.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | flags, 0o600)


def open_lasting(path: Path, flags: int = 0) -> int:
    """Open a file for reading and writing, created if missing; its name is durable."""
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | flags)
    try:
        sync_folder(path.parent)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def hold(path: Path) -> int:
    """Lock a file, created if missing, until its descriptor is closed or the process ends.

    Raises:
        BlockingIOError: Another process has it.
    """
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Make a folder, and with `parents` the folders above it, where missing.

    One that is there may be what a process made that died before it could sync: so it is synced too, unless this user
    cannot have made it.
    """
    if parents and not folder.exists():
        make_folder(folder.parent, parents=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        if not os.access(folder.parent, os.R_OK | os.W_OK):
            return
    sync_folder(folder.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write and sync a new file; a failure leaves nothing. Its name is not durable before its folder is synced.

    Raises:
        FileExistsError: Something has the name.
    """
    descriptor = open_new(path)
    try:
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        _discard(path)
        raise


def write_exclusive(path: Path, data: bytes) -> None:
    """Write a new file atomically; a crash may leave `.NAME.tmp` beside it, which the next try unlinks.

    Raises:
        FileExistsError: Something has the name; it is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # not erased: after a crash it may be the file itself, under its second name
    sync_folder(path.parent)  # what a dead process named and did not sync is to be there wherever the new file is
    write_new(temporary, data)
    try:
        os.link(temporary, path)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        write_new(path, data)
    finally:
        with contextlib.suppress(OSError):  # unlinked only: the bytes have another name
            temporary.unlink()
    try:
        sync_folder(path.parent)
    except OSError:
        _discard(path)
        raise


def replace(path: Path, temporary: Path, data: bytes) -> None:
    """Put `data` at `path`, so that a crash leaves the old file or the new one.

    Args:
        path: The file.
        temporary: In the same folder; erased first, if something is there.
        data: Its new bytes.

    Raises:
        UnsyncedError: The new file is there, and a crash may still bring the old one back.
        OSError: The old one stands, and `temporary` is gone.
    """
    place(path, temporary, data)
    try:
        sync_folder(path.parent)
    except OSError as exc:
        raise UnsyncedError(exc.errno, exc.strerror, str(path)) from exc


def place(path: Path, temporary: Path, data: bytes) -> None:
    """As `replace`, but the caller syncs the folder, once for many files."""
    erase(temporary)
    write_new(temporary, data)
    try:
        temporary.replace(path)
    except OSError:
        _discard(temporary)
        raise


def rename(path: Path, target: Path) -> None:
    """Rename a file within its folder, replacing what has that name."""
    path.replace(target)
    sync_folder(target.parent)


def remove(path: Path) -> None:
    """Unlink a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def remove_folder(folder: Path) -> None:
    """Remove an empty folder."""
    folder.rmdir()
    sync_folder(folder.parent)


def erase(path: Path, *, linked: bool = False) -> None:
    """Overwrite a file with zeros as far as the file system allows, and unlink it; unlink a link itself.

    A file system that copies on write, or a flash drive, may keep the old bytes; encryption covers for that.

    Args:
        path: The file.
        linked: Whether to overwrite it also where it has a second name; a file that somebody may have put there under
            a name that we use is only unlinked then.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError:  # not ours to write, or a link: it can still be unlinked
        remove(path)
        return
    with contextlib.suppress(OSError):
        _overwrite(descriptor, linked=linked)
    os.close(descriptor)
    remove(path)


def _overwrite(descriptor: int, *, linked: bool) -> None:
    status = os.fstat(descriptor)
    left = status.st_size if linked or status.st_nlink == 1 else 0
    while left > 0:
        left -= os.write(descriptor, _ZEROS[:left])
    os.fsync(descriptor)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        erase(path)
