"""Starts `perpetua` over and over, each time in a process of its own, without importing it anew each time.

It is run as a script. It reads one JSON object a line (`Order`), forks, writes the child's process id, waits, and
writes how the child ended. The child is a `perpetua` like any other, but that it can be told to die by SIGKILL at a
chosen system call (`Trap`), to live with a limit on file sizes, or to be broken on purpose (`mutant`).
"""

import functools
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path[0] = str(Path(__file__).resolve().parents[3])

from connectors.local import parquet_sink  # noqa: E402 -- the project's root must be on the path before
from connectors.local.appendfile import AppendFile  # noqa: E402
from connectors.local.filegroup import FileGroup  # noqa: E402
from oracle.cli.init import command as init  # noqa: E402
from oracle.cli.main import main  # noqa: E402
from oracle.cli.models import read_model  # noqa: E402
from oracle.planning.plan import Plan  # noqa: E402
from oracle.planning.planner import plan_model  # noqa: E402
from oracle.state.folder import FolderStore  # noqa: E402
from tests.support.mutants import draw_noise  # noqa: E402

_CALLS: Final = ("write", "fsync", "replace", "ftruncate", "unlink", "open", "link", "mkdir")
_REGIONS: Final[dict[str, tuple[Any, str]]] = {
    "snapshot": (FolderStore, "save"),
    "recover": (FolderStore, "load_latest"),
    "open": (FileGroup, "_open"),
    "commit": (FileGroup, "_commit"),
    "parts": (parquet_sink.ParquetSink, "_commit_parts"),
    "init": (init, "_make_one"),
}


class Trap:
    """Kills this process at the n-th system call that changes files, within the e-th run of a region of the code.

    A `write` there writes half its bytes before. If the region ends before its n-th call, it is killed there.

    Args:
        region: One of `_REGIONS`.
        entry: Which run of the region, from 1.
        call: Which system call within it, from 0.
        said: File that is told where the process died.
    """

    def __init__(self, region: str, entry: int, call: int, said: str) -> None:
        self._region, self._entry, self._call, self._said = region, entry, call, said
        self._entries = self._calls = 0
        self._inside = False
        self._real: dict[str, Callable[..., Any]] = {}

    def set(self) -> None:
        """Patch the region and the system calls."""
        owner, name = _REGIONS[self._region]
        real = getattr(owner, name)

        @functools.wraps(real)
        def region(*args: Any, **kwargs: Any) -> Any:
            self._entries += 1
            self._inside = self._entries == self._entry
            try:
                return real(*args, **kwargs)
            finally:
                if self._inside:
                    self._die("done")

        setattr(owner, name, region)
        for call in _CALLS:
            self._real[call] = getattr(os, call)
            setattr(os, call, self._wrapped(call))

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            changes = name != "open" or bool(args[1] & os.O_CREAT)
            if self._inside and changes:
                if self._calls == self._call:
                    if name == "write":
                        real(args[0], memoryview(args[1])[: len(args[1]) // 2])
                    self._die(name)
                self._calls += 1
            return real(*args, **kwargs)

        return call

    def _die(self, where: str) -> None:
        descriptor = self._real["open"](self._said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._real["write"](descriptor, where.encode())
        os.kill(os.getpid(), signal.SIGKILL)


def _keep_what_a_crash_left() -> None:
    """Break recovery: a file is not cut back to what was committed."""
    setattr(AppendFile, "cut", lambda self, length: setattr(self, "length", length))  # noqa: B010 -- as in `draw_noise`


_MUTANTS: Final = {"drawn noise": draw_noise, "nothing cut": _keep_what_a_crash_left}


@functools.cache
def _plan_of(model_file: str) -> Plan:
    """Plan once: it takes seconds and changes no file, so it is no place for a trap."""
    return plan_model(read_model(Path(model_file)))


def _child(order: dict[str, Any], errors: int | None) -> None:
    os.setsid()
    for descriptor, path in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        if descriptor == 2 and errors is not None:
            os.dup2(errors, 2)
            continue
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    if order.get("file_bytes") is not None:
        limit = int(order["file_bytes"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if order.get("mutant"):
        _MUTANTS[order["mutant"]]()
    if order.get("trap"):
        Trap(*order["trap"]).set()
        if order["arguments"][0] == "init":
            init.plan_shards = lambda *_: _plan_of(order["arguments"][1])  # type: ignore[attr-defined]  # made before
    sys.argv = ["perpetua", *order["arguments"]]
    main()


def _serve_orders() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("trap") and order["arguments"][0] == "init":
            _plan_of(order["arguments"][1])
        # A limit on file sizes must not hit standard error, so then it comes through a pipe.
        reading, writing = os.pipe() if order.get("file_bytes") is not None else (None, None)
        process = os.fork()
        if not process:
            code = 70
            try:
                _child(order, writing)
            except SystemExit as exc:
                code = exc.code if isinstance(exc.code, int) else 1
            finally:
                sys.stderr.flush()
                sys.stdout.flush()
                os._exit(code)
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()
        if reading is not None and writing is not None:
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe, Path(order["err"]).open("ab") as file:
                file.write(pipe.read())
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve_orders()
