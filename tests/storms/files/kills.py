"""kill -9 of `serve` at moments of all kinds."""

import itertools
import signal
import time
from collections.abc import Callable
from pathlib import Path

from connectors.local.commitfile import DurableCommitFile
from oracle.runtime.marks import CommitMark
from oracle.state.folder import peek_folder
from tests.storms.files.arena import Arena, Row, timed
from tests.storms.files.ground import Ground, Kind, Workspace
from tests.storms.files.processes import Running, Violation

_KILLED = -int(signal.SIGKILL)
_CHAIN = 40
"""About how many kills one run sees before it is at its end."""

_REGIONS: dict[Kind, tuple[str, ...]] = {
    "jsonl": ("open", "recover", "commit", "snapshot"),
    "parquet": ("parts", "snapshot"),
    "arrow": ("commit",),
}

Moment = Callable[[Running, Workspace], None]
Judge = Callable[[Workspace], bool]


def at_random(arena: Arena, kind: Kind, count: int) -> Row:
    """Kill at random moments: while it serves, and now and then while it starts or recovers."""
    row = Row(f"serve, {kind}, at random")
    with timed(row):
        ground = arena.ground(kind)
        _torment(arena, ground, row, count, _random_moment(arena, ground))
    return row


def at_phase_ends(arena: Arena, kind: Kind, count: int) -> Row:
    """Kill right at the ends of phases; count the kills between the commit that ended one and its snapshot."""
    row = Row(f"serve, {kind}, at a phase end")
    with timed(row):
        ground = arena.ground(kind)

        def moment(running: Running, workspace: Workspace) -> None:
            lines = workspace.ledger.read_bytes().count(b'"phase-ended"') if workspace.ledger.exists() else 0
            wanted = ground.ledger_bytes(lines)
            running.wait_until(lambda: workspace.ledger.exists() and workspace.ledger.stat().st_size >= wanted)
            if arena.rng.random() < 0.75:
                record = workspace.commit.stat().st_ino
                _watch(running, lambda: workspace.commit.stat().st_ino != record, seconds=1)

        hits = _torment(arena, ground, row, count, moment, _phase_is_behind)
        row.note = f"{hits} between its commit and its snapshot"
    return row


def _watch(running: Running, seen: Callable[[], bool], *, seconds: float) -> None:
    """Look without a pause until something is seen: a snapshot takes less time than the shortest sleep."""
    deadline = time.monotonic() + seconds
    while not seen() and not running.ended() and time.monotonic() < deadline:
        pass


def in_snapshots(arena: Arena, kind: Kind, count: int) -> Row:
    """Kill as soon as a snapshot is seen being written; count the kills that left one half done."""
    row = Row(f"serve, {kind}, in a snapshot")
    with timed(row):
        ground = arena.ground(kind, 20)

        def moment(running: Running, workspace: Workspace) -> None:
            target = workspace.output_bytes() + arena.rng.randrange(1, 2 * ground.total // _CHAIN)
            running.wait_until(lambda: workspace.output_bytes() >= target)
            _watch(running, lambda: _half_done(workspace), seconds=10)

        hits = _torment(arena, ground, row, count, moment, _half_done)
        row.note = f"{hits} left it half done"
    return row


def at_system_calls(arena: Arena, kind: Kind, count: int) -> Row:
    """Kill at every single system call that changes files, within commits, snapshots and recovery; `count` at most."""
    row = Row(f"serve, {kind}, at each system call")
    with timed(row):
        ground = arena.ground(kind, 20)
        workspace = arena.workspace(ground)
        calls: dict[str, int] = {}
        for region in _REGIONS[kind]:
            for call in itertools.count():
                if row.kills >= count:
                    break
                entry = 1 if region in {"open", "recover"} else arena.rng.randrange(1, 4)
                before = workspace.output_bytes()
                said = arena.folder / "died-at"
                running = arena.launcher.start("serve", workspace.config, trap=(region, entry, call, said))
                if running.wait() != _KILLED:
                    raise Violation(f"{workspace.folder.name}: no trap was met: {running.errors()[-600:]}")
                ground.check_seen(workspace)
                _count(arena, row, workspace, before)
                calls[region] = call
                if said.read_text() == "done":
                    break
        ground.finish(workspace)
        row.identical += 1
        row.note = ", ".join(f"{region}: {number}" for region, number in calls.items())
    return row


def with_signals(arena: Arena, kind: Kind, count: int) -> Row:
    """Send SIGTERM or SIGINT, and then let it drain, send another one, or kill it."""
    row = Row(f"serve, {kind}, signals and kills")
    rng = arena.rng
    allowed = {0, 124, 130, 143, -int(signal.SIGTERM), -int(signal.SIGINT), _KILLED}
    with timed(row):
        ground = arena.ground(kind)
        moment = _random_moment(arena, ground)
        drained = 0
        while row.tries < count:
            workspace = arena.workspace(ground)
            while row.tries < count and workspace.output_bytes() < ground.total:
                before = workspace.output_bytes()
                running = arena.launcher.start("serve", workspace.config)
                moment(running, workspace)
                running.signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
                second = rng.choice([None, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL])
                if second is not None:
                    time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.02)]))
                    running.signal(second)
                code = running.wait()
                if code not in allowed or "internal error" in running.errors():
                    raise Violation(f"{workspace.folder.name}: ended with {code}: {running.errors()[-600:]}")
                ground.check_seen(workspace)
                row.tries += 1
                drained += code == 0
                if code == _KILLED:
                    _count(arena, row, workspace, before)
            ground.finish(workspace)
            row.identical += 1
        row.note = f"{drained} drained"
    return row


def _torment(  # noqa: PLR0913, PLR0917 -- each is one thing that scenarios vary
    arena: Arena, ground: Ground, row: Row, count: int, moment: Moment, judge: Judge = lambda _workspace: False
) -> int:
    """Kill so many times, over as many runs as it takes; return how many kills the judge says hit."""
    hits = 0
    while row.kills < count:
        workspace = arena.workspace(ground)
        while row.kills < count:
            before = workspace.output_bytes()
            running = arena.launcher.start("serve", workspace.config)
            moment(running, workspace)
            code = running.kill()
            ground.check_seen(workspace)
            if code == 0:
                break
            if code != _KILLED:
                raise Violation(f"{workspace.folder.name}: ended by itself with {code}: {running.errors()[-600:]}")
            _count(arena, row, workspace, before)
            hits += judge(workspace)
        ground.finish(workspace)
        row.identical += 1
    return hits


def _count(arena: Arena, row: Row, workspace: Workspace, before: int) -> None:
    row.kills += 1
    row.served += workspace.output_bytes() > before
    arena.on_done(row.kills)


def _random_moment(arena: Arena, ground: Ground) -> Moment:
    rng = arena.rng

    def moment(running: Running, workspace: Workspace) -> None:
        if rng.random() < 1 / 6:
            time.sleep(rng.uniform(0.0, 0.15))
            return
        target = workspace.output_bytes() + rng.randrange(1, 2 * ground.total // _CHAIN)
        running.wait_until(lambda: workspace.output_bytes() >= target)
        time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.004)]))

    return moment


def _half_done(workspace: Workspace) -> bool:
    """Return whether the state folder shows a snapshot that is not finished: a temporary file, or two generations."""
    names = [path.name for path in workspace.state.iterdir()]
    return any(name.endswith(".tmp") for name in names) or sum(name.endswith(".perp") for name in names) > 1


def _phase_is_behind(workspace: Workspace) -> bool:
    """Return whether the newest snapshot is of an earlier phase than the newest commit."""
    header, record = peek_folder(workspace.state), DurableCommitFile(workspace.commit).read()
    if header is None or record is None or record.position is None:
        return False
    ended = [int(round_) for round_ in _ends(workspace.ledger)]
    committed = CommitMark.unpack(record.metadata).round
    return any(header.round < end <= committed for end in ended)


def _ends(ledger: Path) -> list[str]:
    lines = ledger.read_text().splitlines()
    return [line.split('"round":')[1].split(",")[0] for line in lines if '"phase-ended"' in line]
