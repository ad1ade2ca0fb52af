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
from tests.storms.files.ground import Ground, Kind, Place
from tests.storms.files.processes import Running, Violation

__all__ = ["at_phase_ends", "at_random", "at_system_calls", "in_snapshots", "with_signals"]

_KILLED = -int(signal.SIGKILL)
_CHAIN = 40
"""About how many kills one run sees before it is at its end."""

_REGIONS: dict[Kind, tuple[str, ...]] = {
    "jsonl": ("open", "recover", "commit", "snapshot"),
    "parquet": ("parts", "snapshot"),
    "arrow": ("commit",),
}

Moment = Callable[[Running, Place], None]
Judge = Callable[[Place], bool]


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

        def moment(running: Running, place: Place) -> None:
            lines = place.ledger.read_bytes().count(b'"phase-ended"') if place.ledger.exists() else 0
            wanted = ground.ledger_bytes(lines)
            running.wait_until(lambda: place.ledger.exists() and place.ledger.stat().st_size >= wanted)
            if arena.rng.random() < 0.75:
                record = place.commit.stat().st_ino
                _watch(running, lambda: place.commit.stat().st_ino != record, seconds=1)

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

        def moment(running: Running, place: Place) -> None:
            target = place.output_bytes() + arena.rng.randrange(1, 2 * ground.total // _CHAIN)
            running.wait_until(lambda: place.output_bytes() >= target)
            _watch(running, lambda: _half_done(place), seconds=10)

        hits = _torment(arena, ground, row, count, moment, _half_done)
        row.note = f"{hits} left it half done"
    return row


def at_system_calls(arena: Arena, kind: Kind, count: int) -> Row:
    """Kill at every single system call that changes files, within commits, snapshots and recovery; `count` at most."""
    row = Row(f"serve, {kind}, at each system call")
    with timed(row):
        ground = arena.ground(kind, 20)
        place = arena.place(ground)
        calls: dict[str, int] = {}
        for region in _REGIONS[kind]:
            for call in itertools.count():
                if row.kills >= count:
                    break
                entry = 1 if region in {"open", "recover"} else arena.rng.randrange(1, 4)
                before = place.output_bytes()
                said = arena.folder / "died-at"
                running = arena.launcher.start("serve", place.config, trap=(region, entry, call, said))
                if running.wait() != _KILLED:
                    raise Violation(f"{place.folder.name}: no trap was met: {running.errors()[-600:]}")
                ground.check_seen(place)
                _count(arena, row, place, before)
                calls[region] = call
                if said.read_text() == "done":
                    break
        ground.finish(place)
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
            place = arena.place(ground)
            while row.tries < count and place.output_bytes() < ground.total:
                before = place.output_bytes()
                running = arena.launcher.start("serve", place.config)
                moment(running, place)
                running.signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
                second = rng.choice([None, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL])
                if second is not None:
                    time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.02)]))
                    running.signal(second)
                code = running.wait()
                if code not in allowed or "internal error" in running.errors():
                    raise Violation(f"{place.folder.name}: ended with {code}: {running.errors()[-600:]}")
                ground.check_seen(place)
                row.tries += 1
                drained += code == 0
                if code == _KILLED:
                    _count(arena, row, place, before)
            ground.finish(place)
            row.identical += 1
        row.note = f"{drained} drained"
    return row


def _torment(  # noqa: PLR0913, PLR0917 -- each is one thing that scenarios vary
    arena: Arena, ground: Ground, row: Row, count: int, moment: Moment, judge: Judge = lambda _place: False
) -> int:
    """Kill so many times, over as many runs as it takes; return how many kills the judge says hit."""
    hits = 0
    while row.kills < count:
        place = arena.place(ground)
        while row.kills < count:
            before = place.output_bytes()
            running = arena.launcher.start("serve", place.config)
            moment(running, place)
            code = running.kill()
            ground.check_seen(place)
            if code == 0:
                break
            if code != _KILLED:
                raise Violation(f"{place.folder.name}: ended by itself with {code}: {running.errors()[-600:]}")
            _count(arena, row, place, before)
            hits += judge(place)
        ground.finish(place)
        row.identical += 1
    return hits


def _count(arena: Arena, row: Row, place: Place, before: int) -> None:
    row.kills += 1
    row.served += place.output_bytes() > before
    arena.on_done(row.kills)


def _random_moment(arena: Arena, ground: Ground) -> Moment:
    rng = arena.rng

    def moment(running: Running, place: Place) -> None:
        if rng.random() < 1 / 6:
            time.sleep(rng.uniform(0.0, 0.15))
            return
        target = place.output_bytes() + rng.randrange(1, 2 * ground.total // _CHAIN)
        running.wait_until(lambda: place.output_bytes() >= target)
        time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.004)]))

    return moment


def _half_done(place: Place) -> bool:
    """Return whether the state folder shows a snapshot that is not finished: a temporary file, or two generations."""
    names = [path.name for path in place.state.iterdir()]
    return any(name.endswith(".tmp") for name in names) or sum(name.endswith(".perp") for name in names) > 1


def _phase_is_behind(place: Place) -> bool:
    """Return whether the newest snapshot is of an earlier phase than the newest commit."""
    header, record = peek_folder(place.state), DurableCommitFile(place.commit).read()
    if header is None or record is None or record.position is None:
        return False
    ended = [int(round_) for round_ in _ends(place.ledger)]
    committed = CommitMark.unpack(record.metadata).round
    return any(header.round < end <= committed for end in ended)


def _ends(ledger: Path) -> list[str]:
    lines = ledger.read_text().splitlines()
    return [line.split('"round":')[1].split(",")[0] for line in lines if '"phase-ended"' in line]
