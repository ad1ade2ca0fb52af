"""Faults for durability tests: system calls that fail or crash at a chosen place, and a disk that is full."""

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

_CALLS = ("write", "fsync", "replace", "ftruncate", "unlink", "open")


class SimulatedCrash(BaseException):
    """The process is gone: no handler may tidy up, so every later system call raises it too."""


class Faults:
    """While entered, the n-th system call that changes files fails, or is where the process dies.

    A failing or crashing `write` writes the first half of its bytes before.

    Args:
        fail_at: Index of the one call that raises OSError.
        crash_at: Index of the call before whose effect the process dies.
    """

    def __init__(self, fail_at: int | None = None, crash_at: int | None = None) -> None:
        self.reached = False
        self.calls: list[str] = []
        self._fail_at = fail_at
        self._crash_at = crash_at
        self._real: dict[str, Callable[..., object]] = {}

    def __enter__(self) -> Self:
        for name in _CALLS:
            self._real[name] = getattr(os, name)
            setattr(os, name, self._wrap(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _wrap(self, name: str) -> Callable[..., object]:
        real = self._real[name]

        def call(*args: object, **kwargs: object) -> object:
            if name == "open" and not int(str(args[1])) & os.O_CREAT:
                if self.reached and self._crash_at is not None:
                    raise SimulatedCrash
                return real(*args, **kwargs)
            index = len(self.calls)
            self.calls.append(name)
            if index == self._fail_at:
                self.reached = True
                self._half(name, args)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if self._crash_at is not None and index >= self._crash_at:
                if not self.reached:
                    self._half(name, args)
                self.reached = True
                raise SimulatedCrash
            return real(*args, **kwargs)

        return call

    def _half(self, name: str, args: tuple[object, ...]) -> None:
        if name == "write":
            data = memoryview(args[1])  # type: ignore[arg-type]
            self._real["write"](args[0], data[: len(data) // 2])


@contextlib.contextmanager
def full_disk(mount_point: Path, *, mount: bool) -> Iterator[tuple[Path, Callable[[], AbstractContextManager[None]]]]:
    """Give a folder, and a context in which its disk is full.

    With `mount`, and where the test may mount, the folder is a small file system of its own, really filled;
    else the process's limit on file sizes is brought down to nothing.
    """
    mount_point.mkdir()
    mounted = mount and _mount(mount_point)
    try:
        yield mount_point, (lambda: _filled(mount_point)) if mounted else _no_file_may_grow
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(mount_point)], check=True)  # noqa: S607  # the system's own


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _filled(folder: Path) -> Iterator[None]:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def _no_file_may_grow() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
