"""A disk that fills up: a small file system of its own where mounting is allowed, and a limit on file sizes."""

import contextlib
import math
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tests.storms.files.arena import Arena, Row, expect_clear_stop, timed
from tests.storms.files.ground import Ground, Workspace
from tests.storms.files.processes import Running, Violation

_PAGE = 4096
_FULL = 4
What = Literal["everything", "state", "ledger"]


def full_disk(arena: Arena, what: What, stages: int) -> Row | None:
    """Let the disk fill up, make a little room, and so on to the end of the log; None where nothing can be mounted.

    Every fourth daemon is killed instead of seen to its stop. `stages` is about how often the disk gets full.
    """
    row = Row(f"full disk (tmpfs), {what}")
    with timed(row):
        ground = arena.ground("jsonl")
        workspace = arena.workspace(ground)
        point = {"everything": workspace.folder, "state": workspace.state, "ledger": workspace.folder / "small"}[what]
        if what == "ledger":  # it is short: let something else take the one page that there is
            point.mkdir()
            (point / "ballast").write_bytes(bytes(_PAGE))
        pages = _pages(point) + (2 if what == "everything" else 0)
        with _small_disk(point, pages) as mounted:
            if not mounted:
                return None
            if what == "ledger":
                workspace.ledger.symlink_to(point / "ledger.jsonl")
            where: Counter[str] = Counter()
            while True:
                running = arena.launcher.start("serve", workspace.config)
                if row.tries % 4 == 3:
                    target = workspace.output_bytes() + arena.rng.randrange(1, 20_000)
                    running.wait_until(lambda: workspace.output_bytes() >= target)  # noqa: B023 -- waits right here
                    running.signal()
                code = running.wait()
                if _judge(ground, workspace, row, code, running, where):
                    break
                arena.on_done(row.tries)
                pages += arena.rng.randrange(1, max(2, 2 * ground.total // _PAGE // stages))
                _mount(point, f"remount,size={pages * _PAGE}")
            ground.check_final(workspace)
        shutil.rmtree(workspace.folder)
        row.identical += 1
        row.note = _told(where)
    return row


def quota(arena: Arena, stages: int) -> Row:
    """The same with a limit on the size of every file, which grows from 100 bytes to enough."""
    row = Row("quota (file size limit)")
    with timed(row):
        ground = arena.ground("jsonl")
        workspace = arena.workspace(ground)
        where: Counter[str] = Counter()
        limit = 100
        while True:
            code, running = arena.launcher.run("serve", workspace.config, file_bytes=limit)
            if _judge(ground, workspace, row, code, running, where):
                break
            arena.on_done(row.tries)
            small = limit < 3 * _PAGE
            limit += arena.rng.randrange(1, _PAGE) if small else arena.rng.randrange(1, 2 * ground.total // stages)
        ground.check_final(workspace)
        shutil.rmtree(workspace.folder)
        row.identical += 1
        row.note = _told(where)
    return row


def _judge(  # noqa: PLR0913, PLR0917 -- all that is judged
    ground: Ground, workspace: Workspace, row: Row, code: int, running: Running, where: Counter[str]
) -> bool:
    """Check how a run ended, count it, and return whether it came to the end of the log."""
    ground.check_seen(workspace)
    where["snapshot, and went on"] += running.errors().count("snapshot.failed")
    if code == 0:
        return True
    row.tries += 1
    if code < 0:
        row.kills += 1
        return False
    line = expect_clear_stop(code, running, (_FULL,))
    if "No space left" not in line and "File too large" not in line:
        raise Violation(f"stopped for another reason: {line}")
    row.stops += 1
    where[_call_of(line)] += 1
    return False


def _call_of(line: str) -> str:
    for text, where in (
        ("cannot commit", "answers or ledger"),
        ("commit record", "commit record"),
        (".perp", "snapshot"),
    ):
        if text in line:
            return where
    return "opening"


def _told(where: Counter[str]) -> str:
    return ", ".join(f"{count} in {name}" for name, count in sorted(where.items()) if count)


def _pages(folder: Path) -> int:
    """Return how many pages the files take as they are."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(math.ceil(path.stat().st_size / _PAGE) for path in files)


@contextlib.contextmanager
def _small_disk(point: Path, pages: int) -> Iterator[bool]:
    """Put a small file system at a folder, with what the folder held."""
    aside = point.with_name(point.name + ".aside")
    point.mkdir(exist_ok=True)
    shutil.copytree(point, aside)
    mounted = _mount(point, f"size={pages * _PAGE},mode=700")
    try:
        if mounted:
            shutil.copytree(aside, point, dirs_exist_ok=True)
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(point)], check=True)  # noqa: S607  # the system's own
        shutil.rmtree(aside)


def _mount(point: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
