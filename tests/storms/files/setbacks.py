"""Files set back to older copies: the state folder, the sink, both, one file of them; and a log that changed."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from connectors.local.commitfile import DurableCommitFile
from oracle.state.folder import peek_folder
from tests.storms.files.arena import Arena, Row, expect_clear_stop, timed
from tests.storms.files.ground import Ground, Kind, Place
from tests.storms.files.processes import Violation

__all__ = ["sink_set_back", "state_set_back"]


@dataclass(frozen=True)
class _Copy:
    """All files of a place at one moment, right after a kill: the snapshot's phase and position, and the commit's."""

    place: Place
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
            place = _mixed(arena, ground, state=copies[older], sink=copies[older] if together else copies[newer])
            across += copies[older].phase < copies[newer].phase
            if kind == "jsonl" and not together:
                _with_another_log(arena, ground, row, place, copies[older].position)
            ground.finish(place)
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
            place = _mixed(arena, ground, state=copies[newer], sink=copies[newer])
            damage(place, copies[older].place)
            code, running = arena.launcher.run("serve", place.config)
            expect_clear_stop(code, running, codes)
            row.stops += 1
            _put_back(place, copies[newer].place, [place.output, place.ledger, place.commit, place.state])
            ground.finish(place)
            row.identical += 1
            row.tries += 1
            arena.on_done(row.tries)
    return row


def _with_another_log(arena: Arena, ground: Ground, row: Row, place: Place, position: int) -> None:
    """Change one query between the older snapshot and the commit: it must stop, and give nothing."""
    log = place.folder / "q.jsonl"
    data = log.read_bytes()
    start = data.index(b'"x": [0.', position) + len(b'"x": [0.')
    log.write_bytes(data[:start] + (b"3" if data[start : start + 1] == b"7" else b"7") + data[start + 1 :])
    seen = place.files()
    code, running = arena.launcher.run("serve", place.config)
    line = expect_clear_stop(code, running, (3,))
    if "log diverged" not in line:
        raise Violation(f"stopped for another reason: {line}")
    if any(not seen[name].startswith(content) for name, content in place.files().items()):
        raise Violation(f"{place.folder.name}: answers were given to another log")
    ground.check_seen(place)
    log.write_bytes(data)
    row.stops += 1


def _damages() -> list[tuple[Callable[[Place, Place], None], tuple[int, ...]]]:
    """Return what may happen to a sink, with the exit codes that are right for it."""

    def whole_sink(place: Place, older: Place) -> None:
        _put_back(place, older, [place.output, place.ledger, place.commit])

    def record_only(place: Place, older: Place) -> None:
        _put_back(place, older, [place.commit])

    def output_only(place: Place, older: Place) -> None:
        _put_back(place, older, [place.output])

    def no_record(place: Place, _older: Place) -> None:
        place.commit.unlink()

    def no_output(place: Place, _older: Place) -> None:
        _remove(place.output)

    def no_sink(place: Place, _older: Place) -> None:
        for path in (place.output, place.ledger, place.commit):
            _remove(path)

    def damaged_record(place: Place, _older: Place) -> None:
        data = bytearray(place.commit.read_bytes())
        data[len(data) // 2] ^= 1
        place.commit.write_bytes(data)

    def damaged_snapshot(place: Place, _older: Place) -> None:
        path = max(place.state.glob("*.perp"))
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    everywhere: list[tuple[Callable[[Place, Place], None], tuple[int, ...]]] = [
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
    place = arena.place(ground)
    copies = []
    for number in range(count):
        target = ground.total * (2 * number + 1) // (2 * count)
        running = arena.launcher.start("serve", place.config)
        running.wait_until(lambda: place.output_bytes() >= target)  # noqa: B023 -- waits right here
        if running.kill() != -9:
            raise Violation(f"ended before it was killed: {running.errors()[-600:]}")
        row.kills += 1
        row.served += 1
        ground.check_seen(place)
        kept = Place(place.folder.with_name(f"{place.folder.name}-copy-{number}"), place.kind)
        shutil.copytree(place.folder, kept.folder)
        header, record = peek_folder(place.state), DurableCommitFile(place.commit).read()
        if header is None or record is None or record.position is None:
            raise Violation(f"{place.folder.name}: no snapshot or no commit after a kill")
        copies.append(_Copy(kept, header.phase, header.position, record.position))
    ground.finish(place)
    row.identical += 1
    return copies


def _mixed(arena: Arena, ground: Ground, *, state: _Copy, sink: _Copy) -> Place:
    """Make a place from copies of different moments."""
    place = arena.place(ground)
    _put_back(place, state.place, [place.state])
    _put_back(place, sink.place, [place.output, place.ledger, place.commit])
    return place


def _put_back(place: Place, source: Place, paths: list[Path]) -> None:
    for path in paths:
        kept = source.folder / path.relative_to(place.folder)
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
