# ruff: noqa: INP001 - beside broker.py, not in a package
"""Processes as the broker's tool needs them: run to their end, left behind, ended; and what it tells its user."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["STOP_SECONDS", "BrokerError", "detach", "end", "last_lines", "locked", "run", "say", "started_at"]

STOP_SECONDS = 30.0
"""Time for a process to end by itself, and after SIGKILL."""


class BrokerError(Exception):
    """Raised when a command cannot do what it was asked for; its text says why and what to do."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; the kernel releases it with the process."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(text + "\n")


def run(command: Sequence[str], *, seconds: float, purpose: str) -> str:
    """Run a command to its end and return what it printed, errors included."""
    try:
        done = subprocess.run(  # noqa: S603 - commands of this tool, with the user's own folder and options
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"It took longer than {seconds} s to {purpose}.") from error
    if done.returncode:
        raise BrokerError(f"Could not {purpose}:\n{last_lines(done.stdout + done.stderr)}")
    return done.stdout + done.stderr


def detach(command: Sequence[str], output: Path) -> "subprocess.Popen[bytes]":
    """Start a process that outlives this one and hears no Ctrl-C of its terminal."""
    with output.open("ab") as file:
        return subprocess.Popen(  # noqa: S603 - as in `run`
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )


def started_at(pid: int) -> int | None:
    """Return when a process started, in ticks of the kernel's clock; None if it has ended, reaped or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def end(pid: int, *, kill: bool, seconds: float) -> None:
    """End a process and wait until it has ended: SIGTERM, and SIGKILL after the deadline or if asked for."""
    try:
        handle = os.pidfd_open(pid)
        try:
            for sign, grace in ((signal.SIGTERM, 0.0 if kill else seconds), (signal.SIGKILL, STOP_SECONDS)):
                if grace:
                    signal.pidfd_send_signal(handle, sign)
                    signal.pidfd_send_signal(handle, signal.SIGCONT)  # a stopped process hears SIGTERM only now
                    if select.select([handle], [], [], grace)[0]:
                        return
        finally:
            os.close(handle)
    except ProcessLookupError:
        return
    raise BrokerError(f"Process {pid} did not end within {STOP_SECONDS:g} s of SIGKILL.")


def last_lines(text: str, count: int = 15) -> str:
    """Return the last lines of a text, indented."""
    return "\n".join("  " + line for line in text.strip().splitlines()[-count:])
