"""Links that somebody has planted at the names that commands write: what they lead to stays as it is.

The names are not guessed: a first run of each command tells, by Python's own audit events, which names it makes, and
then each of them is planted in a fresh copy of the folder. What the user names (answers, ledger) may be a link.
"""

import functools
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.folders import write_config

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_ENDS = {0, 2, 3, 4}
_OURS = b"not to be touched\n"


class _Recorder:
    """Collects the names that are opened for writing, made, or put in place, while it is told to."""

    def __init__(self) -> None:
        self.names: list[str] | None = None
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.names is None:
            return
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            self.names.append(str(arguments[0]))
        elif event in {"os.rename", "os.link"}:
            self.names.append(str(arguments[1]))

    def names_in(self, folder: Path, run: Callable[[], object]) -> set[str]:
        """Return which names a run makes or opens for writing below a folder."""
        self.names = []
        try:
            run()
            return {os.path.relpath(name, folder) for name in self.names if name.startswith(f"{folder}{os.sep}")}
        finally:
            self.names = None


@functools.cache
def _recorder() -> _Recorder:
    return _Recorder()


@pytest.fixture
def commands(cli, ready, model, tmp_path_factory):
    """Return a function that makes a folder ready for a command, and returns the folder and what runs it there."""
    rows = ready / "rows.csv"
    rows.write_text("a,label\n" + "".join(f"{i / 12000},{int(1200 < i < 10800)}\n" for i in range(12000)))
    text = model(12000).read_text()
    numbers = itertools.count()

    def prepare(name):
        folder = tmp_path_factory.mktemp(f"copy-{next(numbers)}") / "own"
        shutil.copytree(ready, folder, copy_function=shutil.copy2)
        (folder / "model.toml").write_text(text)
        pq.write_table(pa.table({"a": [0.5, 0.25]}), folder / "q.parquet")
        dead, ledger = str(folder / "dead.jsonl"), str(folder / "ledger.jsonl")
        sinks: dict[str, dict[str, object]] = {
            "serve to lines": {"dead_letter": dead},
            "serve to standard output": {"kind": "stdout", "path": None, "dead_letter": dead},
            "serve to parts": {"kind": "parquet", "path": str(folder / "out.parquet")},
            "serve to a stream": {"kind": "parquet", "path": str(folder / "out.arrow")},
        }
        sink: dict[str, object] = {"ledger": ledger, **sinks.get(name, {})}
        columns = {"kind": "parquet", "path": str(folder / "q.parquet")}
        config = write_config(folder, sink=sink, source=columns if sink.get("kind") == "parquet" else {})
        made = ["init", folder / "model.toml", "--data", folder / "rows.csv", "--state", folder / "new"]
        lines = {
            "init": [*made, "--key", folder / "new-key", "--keep-genesis", folder / "genesis"],
            "init of shards": [*made, "--shards", "2"],
            "check": ["check", config],
            "sign": ["audit", "sign", folder / "state", "--out", folder / "receipt.json"],
        }
        return folder, lambda: cli(*lines.get(name, ["serve", config]))

    return prepare


def _plant(path: Path, kind: str, target: Path) -> bool:
    """Put a link in a name's place; return whether that can be."""
    if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):
        return False
    path.unlink(missing_ok=True)
    if kind == "hard":
        path.hardlink_to(target)
    else:
        path.symlink_to(target if kind == "soft" else target.with_name("nowhere"))
    return True


def _state_of(target: Path) -> tuple[bytes, int, bool]:
    return target.read_bytes(), stat.S_IMODE(target.stat().st_mode), target.with_name("nowhere").exists()


_COMMANDS = (
    "init",
    "init of shards",
    "serve to lines",
    "serve to standard output",
    "serve to parts",
    "serve to a stream",
    "check",
    "sign",
)
_NAMED = {"out.jsonl", "out.arrow", "ledger.jsonl", "dead.jsonl"}


@pytest.mark.parametrize("kind", ["soft", "nowhere", "hard"])
@pytest.mark.parametrize("name", _COMMANDS)
def test_nothing_is_written_through_a_planted_link(commands, tmp_path_factory, name, kind):
    """The command ends well, or with one clear line; the file at the link's other end, or its absence, stays."""
    folder, run = commands(name)
    names = _recorder().names_in(folder, run)
    assert names or name == "check"
    for planted in sorted(names - (_NAMED if kind == "nowhere" else set())):
        target = tmp_path_factory.mktemp("target") / "file"
        target.touch(mode=0o600)
        target.write_bytes(_OURS)
        folder, run = commands(name)
        if not _plant(folder / planted, kind, target):
            continue
        before = _state_of(target)
        result = run()
        assert _state_of(target) == before, (planted, result)
        assert result.code in _ENDS | ({1} if name == "check" else set()), (planted, result)
        assert "internal error" not in result.err, (planted, result)
