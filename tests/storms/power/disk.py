"""A disk that loses power: what a run really asked of the system, and all that a loss of power may leave of it.

After Pillai et al. (2014), "All file systems are not created equal": the calls that change files are recorded while the
code runs on real files. After any number of them the power goes: a name counts for sure once its folder was synced
behind the call that gave or took it, and bytes once their file was; of all other calls any may have reached the disk,
in whatever order. The weakest file system that is allowed, on purpose.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from tests.faults import SimulatedCrash

_CALLS: Final = (
    "open",
    "close",
    "write",
    "fsync",
    "ftruncate",
    "mkdir",
    "rmdir",
    "replace",
    "rename",
    "unlink",
    "link",
)
_WITHOUT_EFFECT: Final = frozenset({"fsync", "said"})
_FEW: Final = 3
"""Up to so many calls in doubt, every subset of them is looked at."""


class Call(NamedTuple):
    """One call, as far as the disk is concerned.

    Attributes:
        kind: What was called; "said" where the code told somebody that something is durable.
        inode: The file or folder that must be synced to make it last.
        arguments: Of its kind.
        site: The functions that led to it, innermost first.
        lines: Of these.
    """

    kind: str
    inode: int
    arguments: tuple[Any, ...]
    site: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        shown = [
            repr(part) if isinstance(part, str) else f"{len(part)} bytes"
            for part in self.arguments[:2]
            if isinstance(part, str | bytes)
        ]
        return f"{self.kind}({', '.join(shown)}) in {' < '.join(self.site)}"


@dataclass
class _Tree:
    """Files and folders by inode; the root is 0."""

    files: dict[int, bytes] = field(default_factory=dict)
    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})

    def find(self, path: Path) -> int | None:
        inode: int | None = 0
        for name in path.parts:
            inode = self.folders.get(-1 if inode is None else inode, {}).get(name)
        return inode

    def apply(self, call: Call) -> None:
        inode, arguments = call.inode, call.arguments
        match call.kind:
            case "write":
                offset, data = arguments
                old = self.files.get(inode, b"").ljust(offset, b"\0")
                self.files[inode] = old[:offset] + data + old[offset + len(data) :]
            case "ftruncate":
                self.files[inode] = self.files.get(inode, b"")[: arguments[0]].ljust(arguments[0], b"\0")
            case "open" | "link":
                self.folders[inode][arguments[0]] = arguments[1]
                self.files.setdefault(arguments[1], b"")
            case "mkdir":
                self.folders[inode][arguments[0]] = arguments[1]
                self.folders.setdefault(arguments[1], {})
            case "unlink" | "rmdir":
                if self.folders[inode].get(arguments[0]) == arguments[1]:
                    del self.folders[inode][arguments[0]]
            case "replace":
                old_name, name, what = arguments
                if self.folders[inode].get(old_name) == what != self.folders[inode].get(name):
                    del self.folders[inode][old_name]
                self.folders[inode][name] = what

    def copy(self) -> "_Tree":
        return _Tree(dict(self.files), {inode: dict(names) for inode, names in self.folders.items()})

    def flat(self, inode: int = 0, prefix: str = "") -> Iterator[tuple[str, bytes | None]]:
        for name, inner in sorted(self.folders[inode].items()):
            if inner in self.folders:
                yield prefix + name, None
                yield from self.flat(inner, f"{prefix}{name}/")
            else:
                yield prefix + name, self.files.get(inner, b"")


class Recorder:
    """While entered, records what changes files below a folder; `said` notes what was acknowledged meanwhile.

    Args:
        root: The folder. What is in it at first is taken to be durable.
        killed_at: Number of the call before which the process dies; enter it again for the one that follows.
    """

    def __init__(self, root: Path, killed_at: int | None = None) -> None:
        self.calls: list[Call] = []
        self.first = _Tree()
        self._root = root
        self._killed_at = killed_at
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[int, int]] = {}
        self._real: dict[str, Callable[..., Any]] = {}
        self._read(root, 0)
        self._live = self.first.copy()

    def __enter__(self) -> Self:
        for name in _CALLS:
            self._real[name] = getattr(os, name)
            setattr(os, name, self._wrapped(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        self._killed_at = None

    def said(self, what: object) -> None:
        """Note that something was told to be durable."""
        self.calls.append(Call("said", -1, (what,)))

    def _read(self, folder: Path, inode: int) -> None:
        for path in folder.iterdir():
            number = next(self._numbers)
            self.first.folders[inode][path.name] = number
            if path.is_dir():
                self.first.folders[number] = {}
                self._read(path, number)
            else:
                self.first.files[number] = path.read_bytes()

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self._real[name]
        note = getattr(self, f"_note_{name}", None)

        def call(*args: Any, **kwargs: Any) -> Any:
            if note is None:
                return real(*args, **kwargs)
            if self._killed_at is not None and len(self.calls) >= self._killed_at and name != "close":
                raise SimulatedCrash
            return note(real, *args, **kwargs)

        return call

    def _add(self, kind: str, inode: int, *arguments: Any) -> None:
        call = Call(kind, inode, arguments, *_site())
        self.calls.append(call)
        self._live.apply(call)

    def _inner(self, path: Any) -> Path | None:
        whole = Path(os.path.abspath(path))  # noqa: PTH100 -- links are not followed
        return whole.relative_to(self._root) if whole.is_relative_to(self._root) else None

    def _place(self, path: Any) -> tuple[int, str, int | None] | None:
        """Return folder, name and inode of a path, None if it is not ours."""
        inner = self._inner(path)
        if inner is None:
            return None
        folder = self._live.find(inner.parent)
        return None if folder is None else (folder, inner.name, self._live.find(inner))

    def _note_open(self, real: Any, path: Any, flags: int, *mode: int, **options: Any) -> int:
        place = self._place(path) if isinstance(path, str | os.PathLike) else None
        descriptor = int(real(path, flags, *mode, **options))
        self._open.pop(descriptor, None)
        if place is None or (flags & os.O_TMPFILE) == os.O_TMPFILE:
            return descriptor
        folder, name, inode = place
        if self._inner(path) == Path():
            inode = 0
        if inode is None:
            inode = next(self._numbers)
            self._add("open", folder, name, inode)
        elif flags & os.O_TRUNC:
            self._add("ftruncate", inode, 0)
        self._open[descriptor] = (inode, flags)
        return descriptor

    def _note_close(self, real: Any, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        real(descriptor)

    def _note_write(self, real: Any, descriptor: int, data: Any) -> int:
        if descriptor not in self._open:
            return int(real(descriptor, data))
        inode, flags = self._open[descriptor]
        end = flags & os.O_APPEND
        offset = len(self._live.files[inode]) if end else os.lseek(descriptor, 0, os.SEEK_CUR)
        count = int(real(descriptor, data))
        self._add("write", inode, offset, bytes(data[:count]))
        return count

    def _note_fsync(self, real: Any, descriptor: int) -> None:
        real(descriptor)
        if descriptor in self._open:
            self._add("fsync", self._open[descriptor][0])

    def _note_ftruncate(self, real: Any, descriptor: int, length: int) -> None:
        real(descriptor, length)
        if descriptor in self._open:
            self._add("ftruncate", self._open[descriptor][0], length)

    def _note_mkdir(self, real: Any, path: Any, *mode: int) -> None:
        place = self._place(path)
        real(path, *mode)
        if place is not None:
            self._add("mkdir", place[0], place[1], next(self._numbers))

    def _note_unlink(self, real: Any, path: Any, **options: Any) -> None:
        self._gone("unlink", real, path, options)

    def _note_rmdir(self, real: Any, path: Any, **options: Any) -> None:
        self._gone("rmdir", real, path, options)

    def _gone(self, kind: str, real: Any, path: Any, options: dict[str, Any]) -> None:
        place = self._place(path)
        real(path, **options)
        if place is not None:
            self._add(kind, *place)

    def _note_replace(self, real: Any, path: Any, target: Any) -> None:
        old, new = self._place(path), self._place(target)
        real(path, target)
        if old is not None and new is not None:
            assert old[0] == new[0], "a rename between folders needs both synced, and nothing here does that"
            self._add("replace", old[0], old[1], new[1], old[2])

    _note_rename = _note_replace

    def _note_link(self, real: Any, path: Any, target: Any) -> None:
        old, new = self._place(path), self._place(target)
        real(path, target)
        if old is not None and new is not None:
            self._add("link", new[0], new[1], old[2])


_OURS: Final = (f"{os.sep}oracle{os.sep}", f"{os.sep}connectors{os.sep}")


def _site() -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return which functions of ours asked for it: those of `oracle.durable`, and the first one that called them."""
    frame, names, lines = sys._getframe(2), [], []
    while frame is not None:
        path = frame.f_code.co_filename
        if any(part in path for part in _OURS) and "site-packages" not in path:
            names.append(f"{Path(path).stem}.{frame.f_code.co_name}")
            lines.append(frame.f_lineno)
            if not path.endswith(f"oracle{os.sep}durable.py"):
                break
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(names), tuple(lines)


@dataclass(frozen=True)
class Crash:
    """What a loss of power may leave.

    Attributes:
        files: Each file's bytes by its path; None for a folder.
        said: What had been told to be durable.
        lost: The calls before it that did not reach the disk.
        kept: The calls that did although nobody had synced them.
        data: The bytes of every inode, also of those without a name.
    """

    files: tuple[tuple[str, bytes | None], ...]
    said: tuple[Any, ...]
    lost: tuple[Call, ...]
    kept: tuple[Call, ...]
    data: tuple[bytes, ...]

    def make(self, folder: Path) -> None:
        """Make real files of it."""
        folder.mkdir(mode=0o700)
        for name, data in self.files:
            if data is None:
                (folder / name).mkdir(mode=0o700)
            else:
                (folder / name).touch(mode=0o600)
                (folder / name).write_bytes(data)


def crashes(recorder: Recorder, calls: Sequence[Call], start: int = 0, seen: set[Any] | None = None) -> Iterator[Crash]:
    """Yield all that a loss of power after any number of calls may leave.

    Args:
        recorder: Of the calls.
        calls: Its own, or without some.
        start: From how many calls on.
        seen: What need not come, as it has come before; added to.
    """
    seen = set() if seen is None else seen
    for end in range(start, len(calls) + 1):
        if end < len(calls) and calls[end].kind == "said":
            continue  # the same disk, of which less must hold
        for crash in _after(recorder.first, calls[:end]):
            key = (crash.files, crash.said, crash.data)
            if key not in seen:
                seen.add(key)
                yield crash


def _after(first: _Tree, calls: Sequence[Call]) -> Iterator[Crash]:
    synced: dict[int, int] = {call.inode: number for number, call in enumerate(calls) if call.kind == "fsync"}
    doubt = [
        number
        for number, call in enumerate(calls)
        if call.kind not in _WITHOUT_EFFECT and synced.get(call.inode, -1) < number
    ]
    said = tuple(call.arguments[0] for call in calls if call.kind == "said")
    for lost, torn in _choices(calls, doubt):
        tree = first.copy()
        for call in calls:  # a folder whose own name is lost may still hold others
            if call.kind == "mkdir":
                tree.folders.setdefault(call.arguments[1], {})
        for number, call in enumerate(calls):
            if number == torn:
                tree.apply(
                    call._replace(arguments=(call.arguments[0], call.arguments[1][: len(call.arguments[1]) // 2]))
                )
            elif number not in lost and call.kind not in _WITHOUT_EFFECT:
                tree.apply(call)
        yield Crash(
            tuple(tree.flat()),
            said,
            tuple(calls[number] for number in sorted(lost)),
            tuple(calls[number] for number in doubt if number not in lost),
            tuple(tree.files.values()),
        )


def _choices(calls: Sequence[Call], doubt: Sequence[int]) -> Iterator[tuple[frozenset[int], int | None]]:
    """Yield which calls in doubt are lost, and a write of which only half is there."""
    everything = frozenset(doubt)
    if len(doubt) <= _FEW:
        for count in range(len(doubt) + 1):
            yield from ((frozenset(some), None) for some in itertools.combinations(doubt, count))
    else:
        yield everything, None
        yield frozenset(), None
        for number in doubt:
            yield frozenset({number}), None
            yield everything - {number}, None
    writes = [number for number in doubt if calls[number].kind == "write"]
    if writes:
        yield frozenset(), writes[-1]
