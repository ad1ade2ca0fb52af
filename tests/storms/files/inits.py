"""kill -9 of `init`, at random moments and at every system call with which it writes."""

import itertools
import random
import signal
import time
from pathlib import Path

from tests.predictors.tables import TABLES
from tests.storms.files.arena import Arena, Row, expect_clear_stop, timed
from tests.storms.files.processes import Running, Violation
from tests.support.folders import write_config

_EXAMPLES = 6_000
_QUERIES = 500
_KILLED = -int(signal.SIGKILL)
_SETTINGS = {
    "rectangles": "epsilon = 8.0\nalpha = 0.4\nfirst_share = 0.5",
    "stumps": "epsilon = 12.0\nalpha = 0.4\nfirst_share = 0.5",
    "bisection": "epsilon = 8.0\nalpha = 0.4\nrounds = 300",
    "classical": "epsilon = 8.0\nalpha = 0.4",
    "statistics": "epsilon = 8.0\nalpha = 0.1\npaid = 12",
    "sparse-vector": "epsilon = 8.0\nalpha = 0.1\npaid = 12",
    "distribution": "epsilon = 8.0\nalpha = 0.1",
    "ensemble": 'epsilon = 8.0\nteacher_rows = 12\ncontested = 0.05\nlearner = "sklearn.tree.DecisionTreeClassifier"',
}
"""For every kind, what makes a small real plan, with phases that end within the log where it has such."""


def _model(predictor: str) -> str:
    return f"""
[model]
name = "interval"
predictor = "{predictor}"
examples = {_EXAMPLES}
{_SETTINGS[predictor]}

[[model.{"attributes" if predictor in TABLES else "features"}]]
name = "a"
{"" if predictor in {"ensemble", "distribution"} else "bounds = [0.0, 1.0]"}
{"bins = 10" if predictor in TABLES else ""}
"""


def in_init(arena: Arena, count: int) -> Row:
    """Kill `init` over and over in one folder, run it again, and serve what it made; two thirds at system calls."""
    row = Row("init")
    with timed(row):
        folder = arena.new_folder()
        _write_inputs(folder, arena.grounds.predictor)
        started = time.monotonic()
        code, running = arena.launcher.run(*_arguments(folder, "never-killed"))
        if code != 0:
            raise Violation(f"init ended with {code}: {running.errors()}")
        seconds = time.monotonic() - started
        calls = _at_system_calls(arena, row, folder, count - count // 3)
        while row.kills < count:
            name = f"random-{row.identical}"
            while row.kills < count:
                running = arena.launcher.start(*_arguments(folder, name))
                time.sleep(arena.rng.uniform(0.0, seconds))
                if not _died(arena, row, running.kill(), running):
                    break
            _finish(arena, row, folder, name)
        row.note = f"{calls} system calls"
    return row


def _at_system_calls(arena: Arena, row: Row, folder: Path, count: int) -> int:
    """Kill at each system call in turn while the same state is made; return how many there were."""
    said = folder / "died-at"
    for call in itertools.count():
        running = arena.launcher.start(*_arguments(folder, "by-call"), trap=("init", 1, call, said))
        code = running.wait()
        if code == 3:  # the call before was behind the snapshot, so the state is there
            expect_clear_stop(code, running)
            row.stops += 1
            break
        if not _died(arena, row, code, running):
            raise Violation("init: no trap was met")
        if row.kills >= count or said.read_text() == "done":
            break
    _finish(arena, row, folder, "by-call")
    return call


def _died(arena: Arena, row: Row, code: int, running: Running) -> bool:
    """Count a kill; return False if it came to its end, or if the state was there already and it said so."""
    if code == 3:
        expect_clear_stop(code, running)
        row.stops += 1
        return False
    if code == 0:
        return False
    if code != _KILLED:
        raise Violation(f"init: ended with {code}: {running.errors()[-600:]}")
    row.kills += 1
    arena.on_done(row.kills)
    return True


def _finish(arena: Arena, row: Row, folder: Path, name: str) -> None:
    """Make the state if it is not there yet, and check that it is as good as one that was never interrupted."""
    code, running = arena.launcher.run(*_arguments(folder, name))
    if code != 0:
        expect_clear_stop(code, running, (3,))
        if not list((folder / name).glob("snapshot-*.perp")):
            raise Violation(f"init: a state that is not there is refused: {running.errors()}")
        row.stops += 1
    never, state = folder / "never-killed", folder / name
    if (state / "plan.json").read_bytes() != (never / "plan.json").read_bytes():
        raise Violation("init: another plan")
    if _shape(state) != _shape(never) or list(folder.rglob("*.tmp")):
        raise Violation(f"init: other files than a run that was never killed leaves: {_shape(state)}")
    config = write_config(
        folder,
        name=f"{name}.toml",
        state={"folder": str(state)},
        sink={"path": str(folder / f"{name}-out.jsonl"), "ledger": str(folder / f"{name}-ledger.jsonl")},
    )
    for arguments in (
        ("check", config),
        ("serve", config),
        ("verify", folder / "q.jsonl", "--from", f"{state}.genesis", "--answers", f"{state}-out.jsonl"),
    ):
        code, running = arena.launcher.run(*arguments)
        if code != 0:
            raise Violation(f"init: {arguments[0]} ended with {code}: {running.errors()}")
    row.identical += 1


def _shape(state: Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and modes: contents differ, for keys are random."""
    paths = [*state.iterdir(), state.with_name(state.name + ".genesis")]
    return sorted((path.suffix or path.name, path.stat().st_size, path.stat().st_mode) for path in paths)


def _arguments(folder: Path, name: str) -> tuple[str | Path, ...]:
    state = folder / name
    files = ("--data", folder / "rows.csv", "--state", state, "--keep-genesis", f"{state}.genesis")
    return ("init", folder / "model.toml", *files)


def _write_inputs(folder: Path, predictor: str) -> None:
    rng = random.Random(1)  # noqa: S311  # rows and queries, not noise
    (folder / "model.toml").write_text(_model(predictor))
    values = [rng.random() for _ in range(_EXAMPLES)]
    rows = "".join(f"{value},{int(0.05 < value < 0.95)}\n" for value in values)
    (folder / "rows.csv").write_text("a,label\n" + rows)
    (folder / "q.jsonl").write_text("".join(f"{_query(predictor, rng.random())}\n" for _ in range(_QUERIES)))


def _query(predictor: str, number: float) -> str:
    if predictor == "distribution":
        return f'{{"at":{number}}}'
    if predictor not in TABLES:
        return f'{{"x":[{number}]}}'
    above = f',"above":{number}' if predictor == "sparse-vector" else ""
    return f'{{"where":{{"a":[0.0,{(1 + int(10 * number)) / 10}]}}{above}}}'
