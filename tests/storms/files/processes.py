"""Processes of `perpetua` that are monitored and killed."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.support.folders import environment
from tests.support.waiting import TIMEOUT

_POLL = 0.0002


class Violation(Exception):  # noqa: N818 -- a broken promise of the daemon, not an error of the tests
    """A promise was broken."""


class Running:
    """One process, until it has ended.

    Args:
        launcher: Who started it.
        process: Its process id.
        errors: The file that its standard error goes to.
        before: How much of that file is older than the process.
    """

    def __init__(self, launcher: "Launcher", process: int, errors: Path, before: int) -> None:
        self._launcher = launcher
        self._code: int | None = None
        self._errors = errors
        self._said = before
        try:
            self._handle: int | None = os.pidfd_open(process)
        except ProcessLookupError:
            self._handle = None  # it has ended already

    def signal(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, unless it has ended."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def ended(self) -> bool:
        """Return whether it has ended."""
        if self._code is None:
            self._code = self._launcher.code(0.0)
        return self._code is not None

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until it has ended or the condition holds, looking very often."""
        deadline = time.monotonic() + TIMEOUT
        while not condition() and not self.ended():
            if time.monotonic() > deadline:
                self.signal()
                raise Violation(f"the daemon does not get on: {self.errors()}")
            time.sleep(_POLL)

    def wait(self) -> int:
        """Wait for its end and return the exit code, or minus the signal's number."""
        if self._code is None:
            self._code = self._launcher.code(TIMEOUT)
        if self._code is None:
            self.signal()
            raise Violation(f"the daemon does not end: {self.errors()}")
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        return self._code

    def kill(self) -> int:
        """Kill it and return how it ended."""
        self.signal()
        return self.wait()

    def errors(self) -> str:
        """Return what it wrote to standard error."""
        with contextlib.suppress(FileNotFoundError), self._errors.open("rb") as file:
            file.seek(self._said)
            return file.read().decode(errors="replace")
        return ""


class Launcher:
    """Starts processes one after the other (`launcher.py`).

    Args:
        folder: Where the processes' output goes.
        mutant: How they are broken, as `launcher.py` has it; None for the real ones.
    """

    def __init__(self, folder: Path, mutant: str | None = None) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        self._mutant = mutant
        script = Path(__file__).with_name("launcher.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(
        self,
        *arguments: str | Path,
        trap: tuple[str, int, int, Path] | None = None,
        file_bytes: int | None = None,
    ) -> Running:
        """Start `perpetua` with these arguments.

        Args:
            arguments: Its arguments.
            trap: Region, entry, call and a file, as `launcher.Trap` takes them.
            file_bytes: The most bytes that a file may have.
        """
        order = {
            "arguments": [str(argument) for argument in arguments],
            "out": str(self._out),
            "err": str(self._err),
            "trap": trap and [*trap[:3], str(trap[3])],
            "file_bytes": file_bytes,
            "mutant": self._mutant,
        }
        assert self._process.stdin is not None
        size = self._err.stat().st_size if self._err.exists() else 0
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        process = self._line(TIMEOUT)
        assert process is not None
        return Running(self, int(process), self._err, size)

    def run(self, *arguments: str | Path, file_bytes: int | None = None) -> tuple[int, Running]:
        """Run `perpetua` to its end."""
        running = self.start(*arguments, file_bytes=file_bytes)
        return running.wait(), running

    def code(self, seconds: float) -> int | None:
        """Return how the running process ended, if it does within this time."""
        line = self._line(seconds)
        return None if line is None else int(line)

    def output(self) -> str:
        """Return all that went to standard output."""
        return self._out.read_text() if self._out.exists() else ""

    def _line(self, seconds: float) -> bytes | None:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return None
        line = b""
        while not line.endswith(b"\n"):
            byte = self._process.stdout.read(1)
            if not byte:
                raise Violation("the launcher died")
            line += byte
        return line
