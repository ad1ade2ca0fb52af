"""Files set back to older copies: the state folder, the sink, both, one file of them; and a log that changed."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from connectors.local.commitfile import DurableCommitFile
from oracle.state.folder import peek_folder
from tests.storms.files.arena import Arena, Row, expect_clear_stop, timed
from tests.storms.files.ground import Ground, Kind, Workspace
from tests.storms.files.processes import Violation


@dataclass(frozen=True)
class _Copy:
    """All files of a workspace right after a kill, with the phase and position of its snapshot, and its commit's."""

    workspace: Workspace
    phase: int
    position: int
    commit: int


def state_set_back(arena: Arena, kind: Kind, count: int) -> Row:
    """Set the state folder back, also across phases: the same answers; with another log since: a clear stop."""
    row = Row(f"state set back, {kind}")
    with timed(row):
        ground = arena.ground(kind)
        copies = _copies(arena, ground, row, min(6, count + 2))
        across = 0
        for number in range(count):
            older, newer = sorted(arena.rng.sample(range(len(copies)), 2))
            together = number % 5 == 4
            workspace = _mixed(arena, ground, state=copies[older], sink=copies[older] if together else copies[newer])
            across += copies[older].phase < copies[newer].phase
            if kind == "jsonl" and not together:
                _with_another_log(arena, ground, row, workspace, copies[older].position)
            ground.finish(workspace)
            row.identical += 1
            row.tries += 1
            arena.on_done(row.tries)
        row.note = f"{across} across phases"
    return row


def sink_set_back(arena: Arena, kind: Kind, count: int) -> Row:
    """Set the sink, its record or an output file back, or take it away: a clear stop; put back, the same answers."""
    row = Row(f"sink set back, {kind}")
    with timed(row):
        ground = arena.ground(kind)
        copies = _copies(arena, ground, row, min(4, count + 2))
        damages = _damages()
        for number in range(count):
            while True:
                older, newer = sorted(arena.rng.sample(range(len(copies)), 2))
                if copies[older].commit < copies[newer].position:
                    break
            damage, codes = damages[number % len(damages)]
            workspace = _mixed(arena, ground, state=copies[newer], sink=copies[newer])
            damage(workspace, copies[older].workspace)
            code, running = arena.launcher.run("serve", workspace.config)
            expect_clear_stop(code, running, codes)
            row.stops += 1
            _put_back(
                workspace,
                copies[newer].workspace,
                [workspace.output, workspace.ledger, workspace.commit, workspace.state],
            )
            ground.finish(workspace)
            row.identical += 1
            row.tries += 1
            arena.on_done(row.tries)
    return row


_DIGIT = re.compile(rb'(?<="x": \[0\.)[0-9](?=[0-9])|(?<="at": 0\.)[0-9](?=[0-9])|(?<="b": \[)0(?=\.0, [23])')
"""A digit of a query, or of a range that a question names and that is a smaller one without its first bin."""


def _with_another_log(arena: Arena, ground: Ground, row: Row, workspace: Workspace, position: int) -> None:
    """Change one query between the older snapshot and the commit: it must stop, and give nothing."""
    log = workspace.folder / "q.jsonl"
    data = log.read_bytes()
    found = _DIGIT.search(data, position)
    if found is None:
        raise Violation("no query is left that can be changed")
    digit = {b"0": b"1", b"7": b"3"}.get(found[0], b"7")
    log.write_bytes(data[: found.start()] + digit + data[found.end() :])
    seen = workspace.files()
    code, running = arena.launcher.run("serve", workspace.config)
    line = expect_clear_stop(code, running, (3,))
    if "log diverged" not in line:
        raise Violation(f"stopped for another reason: {line}")
    if any(not seen[name].startswith(content) for name, content in workspace.files().items()):
        raise Violation(f"{workspace.folder.name}: answers were given to another log")
    ground.check_seen(workspace)
    log.write_bytes(data)
    row.stops += 1


def _damages() -> list[tuple[Callable[[Workspace, Workspace], None], tuple[int, ...]]]:
    """Return what may happen to a sink, with the exit codes that are right for it."""

    def whole_sink(workspace: Workspace, older: Workspace) -> None:
        _put_back(workspace, older, [workspace.output, workspace.ledger, workspace.commit])

    def record_only(workspace: Workspace, older: Workspace) -> None:
        _put_back(workspace, older, [workspace.commit])

    def output_only(workspace: Workspace, older: Workspace) -> None:
        _put_back(workspace, older, [workspace.output])

    def no_record(workspace: Workspace, _older: Workspace) -> None:
        workspace.commit.unlink()

    def no_output(workspace: Workspace, _older: Workspace) -> None:
        _remove(workspace.output)

    def no_sink(workspace: Workspace, _older: Workspace) -> None:
        for path in (workspace.output, workspace.ledger, workspace.commit):
            _remove(path)

    def damaged_record(workspace: Workspace, _older: Workspace) -> None:
        data = bytearray(workspace.commit.read_bytes())
        data[len(data) // 2] ^= 1
        workspace.commit.write_bytes(data)

    def damaged_snapshot(workspace: Workspace, _older: Workspace) -> None:
        path = max(workspace.state.glob("*.perp"))
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    everywhere: list[tuple[Callable[[Workspace, Workspace], None], tuple[int, ...]]] = [
        (whole_sink, (3,)),
        (record_only, (3,)),
        (output_only, (4,)),
        (no_record, (3,)),
        (no_output, (4,)),
        (no_sink, (3,)),
        (damaged_record, (4,)),
        (damaged_snapshot, (3,)),
    ]
    return everywhere


def _copies(arena: Arena, ground: Ground, row: Row, count: int) -> list[_Copy]:
    """Kill a run so many times, spread over its length, and keep all its files of each time."""
    workspace = arena.workspace(ground)
    copies = []
    for number in range(count):
        target = ground.total * (2 * number + 1) // (2 * count)
        running = arena.launcher.start("serve", workspace.config)
        running.wait_until(lambda: workspace.output_bytes() >= target)  # noqa: B023 -- waits right here
        if running.kill() != -9:
            raise Violation(f"ended before it was killed: {running.errors()[-600:]}")
        row.kills += 1
        row.served += 1
        ground.check_seen(workspace)
        kept = Workspace(workspace.folder.with_name(f"{workspace.folder.name}-copy-{number}"), workspace.kind)
        shutil.copytree(workspace.folder, kept.folder)
        header, record = peek_folder(workspace.state), DurableCommitFile(workspace.commit).read()
        if header is None or record is None or record.position is None:
            raise Violation(f"{workspace.folder.name}: no snapshot or no commit after a kill")
        copies.append(_Copy(kept, header.phase, header.position, record.position))
    ground.finish(workspace)
    row.identical += 1
    return copies


def _mixed(arena: Arena, ground: Ground, *, state: _Copy, sink: _Copy) -> Workspace:
    """Make a workspace from copies of different moments."""
    workspace = arena.workspace(ground)
    _put_back(workspace, state.workspace, [workspace.state])
    _put_back(workspace, sink.workspace, [workspace.output, workspace.ledger, workspace.commit])
    return workspace


def _put_back(workspace: Workspace, source: Workspace, paths: list[Path]) -> None:
    for path in paths:
        kept = source.folder / path.relative_to(workspace.folder)
        _remove(path)
        if kept.is_dir():
            shutil.copytree(kept, path)
        elif kept.exists():
            shutil.copy2(kept, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
