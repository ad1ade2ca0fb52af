"""The ledger of forks, beside the state folder or genesis file that they start from: what was spent on other logs.

One line of JSON a fork (`ReplayForked`), appended and never rewritten. It holds public facts only; what it is beside is
left untouched.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from oracle import durable
from oracle.accounting.ledger import ReplayForked, decode, encode
from oracle.errors import StateError, StorageError

__all__ = ["forks_path", "read_forks", "record_fork"]


def forks_path(origin: Path) -> Path:
    """Return where the forks of a state folder or genesis file are recorded; links do not lead to another place."""
    whole = origin.resolve()
    return whole.with_name(whole.name + ".forks.jsonl")


def read_forks(origin: Path) -> Sequence[ReplayForked]:
    """Return the forks recorded for a state folder or genesis file, oldest first.

    Raises:
        StateError: The record is not one that this Perpetua has written.
        StorageError: It cannot be read.
    """
    path = forks_path(origin)
    try:
        data = durable.read(path)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    return _parse(path, data)


def record_fork(origin: Path, make: Callable[[int], ReplayForked]) -> ReplayForked:
    """Record one more fork, durably, before anything of it is shown.

    Args:
        origin: The state folder or genesis file that is forked.
        make: Returns the event, given the number of forks with this one.

    Raises:
        StateError: What is recorded already cannot be understood.
        StorageError: It could not be written; then nothing was recorded.
    """
    path = forks_path(origin)
    try:
        # 1. The file, and its name: from here on no crash can take it away.
        descriptor = durable.open_lasting(path, os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # two replays at once are two forks
            return _append(path, descriptor, make)
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written, so nothing was answered: {exc.strerror}") from exc


def _append(path: Path, descriptor: int, make: Callable[[int], ReplayForked]) -> ReplayForked:
    durable.sync(descriptor)  # a line that a process wrote and did not sync before it died comes before ours
    data = durable.read(path)
    event = make(len(_parse(path, data)) + 1)
    whole = data.rfind(b"\n") + 1
    try:
        # 2. Cut off what a crash left of a line: nothing of that fork was shown.  3. The line.  4. fsync it.
        if whole < len(data):
            durable.cut(descriptor, whole)
        durable.write_all(descriptor, encode(event) + b"\n")
        durable.sync(descriptor)
    except OSError:
        with suppress(OSError):
            durable.cut(descriptor, whole)
        raise
    return event


def _parse(path: Path, data: bytes) -> list[ReplayForked]:
    forks = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            event = decode(line)
        except msgspec.MsgspecError as exc:
            raise StateError(f"{path}: line {number}: not a ledger event that this Perpetua knows") from exc
        if not isinstance(event, ReplayForked):
            raise StateError(f"{path}: line {number}: not a fork")
        forks.append(event)
    return forks
