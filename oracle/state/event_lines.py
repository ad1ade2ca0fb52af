"""Ledger files beside a state: one JSON event a line, appended and never rewritten."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from oracle import durable
from oracle.accounting.ledger import LedgerEvent, decode, encode
from oracle.errors import StateError, StorageError

__all__ = ["read_events", "record_event"]

EventT = TypeVar("EventT", bound=LedgerEvent)


def read_events(path: Path, kind: type[EventT] | tuple[type[EventT], ...], noun: str) -> list[EventT]:
    """Return the events of a file, oldest first; an empty list if there is no file.

    Args:
        path: The file.
        kind: Of all its events, or several kinds.
        noun: What one of them is called in an error's text.

    Raises:
        StateError: It is not one that this Perpetua has written.
        StorageError: It cannot be read.
    """
    try:
        data = durable.read(path)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    return _parse(path, data, kind, noun)


def record_event(
    path: Path,
    kind: type[EventT] | tuple[type[EventT], ...],
    make: Callable[[int], EventT],
    noun: str,
    done: str,
) -> EventT:
    """Append an event durably, before anything of it is shown.

    Args:
        path: The file; it is made where there is none.
        kind: Of all its events, or several kinds.
        make: Returns the event, given the number of events with this one.
        noun: What one of them is called in an error's text.
        done: What was not done where it could not be recorded: "answered".

    Raises:
        StateError: What is recorded already cannot be understood.
        StorageError: It could not be written; then nothing was recorded.
    """
    try:
        # 1. The file, and its name: from here on no crash can take it away.
        descriptor = durable.open_lasting(path, os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # two at once are two events
            return _append(path, descriptor, kind, make, noun)
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written, so nothing was {done}: {exc.strerror}") from exc


def _append(
    path: Path,
    descriptor: int,
    kind: type[EventT] | tuple[type[EventT], ...],
    make: Callable[[int], EventT],
    noun: str,
) -> EventT:
    durable.sync(descriptor)  # a line that a process wrote and did not sync before it died comes before ours
    data = durable.read(path)
    event = make(len(_parse(path, data, kind, noun)) + 1)
    whole = data.rfind(b"\n") + 1
    try:
        # 2. Cut off what a crash left of a line: nothing of that event was shown.  3. The line.  4. fsync it.
        if whole < len(data):
            durable.cut(descriptor, whole)
        durable.write_all(descriptor, encode(event) + b"\n")
        durable.sync(descriptor)
    except OSError:
        with suppress(OSError):
            durable.cut(descriptor, whole)
        raise
    return event


def _parse(path: Path, data: bytes, kind: type[EventT] | tuple[type[EventT], ...], noun: str) -> list[EventT]:
    events: list[EventT] = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            event = decode(line)
        except msgspec.MsgspecError as exc:
            raise StateError(f"{path}: line {number}: not a ledger event that this Perpetua knows") from exc
        if not isinstance(event, kind):
            raise StateError(f"{path}: line {number}: not a {noun}")
        events.append(event)
    return events
