"""What `perpetua audit` says of a tree: its checks and games, then a new state of each model, up to what it refutes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from oracle.audit.findings import Check, Finding, refuted

_MODELS: Final = Path(__file__).with_name("models")
_SHARDED: Final = "boxes.toml"
_ROWS: Final = 40_000
_SETTINGS: Final = ("--epsilon", "2", "--workers", "1", "--seed", "5eed" * 8)
_WAIT: Final = 0.2
"""Seconds between looks at what was found so far."""

_PASSED: Final = 0
_VERDICTS: Final = (_PASSED, 1)
"""Exit statuses of `perpetua audit` behind which there is a verdict."""


class Verdict(NamedTuple):
    """What became of a fault.

    Attributes:
        outcome: "found"; "missed"; or "broken", where the audit, or what it needs, ends with an error: whoever runs it
            sees that something is wrong, but no check has said so.
        check: What found it, if anything did.
        seconds: How long it took.
    """

    outcome: str
    check: str
    seconds: float


class BrokenError(Exception):
    """A tree makes no state of a model that the audit is to look at, or the audit itself ends with an error."""


class _Part(msgspec.Struct):
    """A line of the file that an audit keeps what it found in."""

    results: tuple[Finding | Check, ...] = ()


def audited(tree: Path, about: Sequence[str], games: int, seconds: float) -> Verdict:
    """Audit a tree until something is refuted, or all that is about these parts was looked at.

    Args:
        tree: Where the package is.
        about: Names of the audit's parts.
        games: In each world.
        seconds: After so many, what is left is given up.
    """
    started, broken = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory(prefix="attack-") as scratch:
        work = Path(scratch)
        for number, step in enumerate(_steps(tree, about, games, work)):
            left = seconds - (time.monotonic() - started)
            try:
                found = _refuted_by(tree, step, work / str(number), max(left, 1.0))
            except BrokenError as exc:  # what comes later may still find it
                broken.append(str(exc))
                continue
            if found is not None:
                return Verdict("found", found, time.monotonic() - started)
    return Verdict("broken" if broken else "missed", broken[0] if broken else "", time.monotonic() - started)


def _steps(tree: Path, about: Sequence[str], games: int, work: Path) -> Iterator[tuple[str, ...] | BrokenError]:
    """Yield arguments of `perpetua audit`, each when the ones before found nothing: what is quick and certain first."""
    models = [path for path in sorted(_MODELS.glob("*.toml")) if path.stem.split("-")[0] in about]
    predictors = dict.fromkeys(path.stem.split("-")[0] for path in models)
    if predictors:
        yield (*_only(f"structure|{name}" for name in predictors), "--daemon-games", "0", *_SETTINGS)
        yield from _states(tree, models, work)
    daemon_games = str(max(games // 8, 16)) if "daemon" in about else "0"
    parts = [f"predictor|{name}" if name in predictors else name for name in about]
    yield (*_only(parts), "--games", str(games), "--daemon-games", daemon_games, *_SETTINGS)


def _only(parts: Iterable[str]) -> list[str]:
    return [option for part in parts for option in ("--only", part)]


def _states(tree: Path, models: Sequence[Path], work: Path) -> Iterator[tuple[str, ...] | BrokenError]:
    """Make a state of each model, and yield arguments that audit it, or that none could be made."""
    rows = np.random.default_rng(1).random((_ROWS, 3)).round(6)
    inside = ((rows[:, :2] > 0.1) & (rows[:, :2] < 0.9)).all(axis=1)
    np.savetxt(work / "rows.csv", np.column_stack([rows, inside]), "%g", ",", header="a,b,c,label", comments="")
    for model in models:
        for shards in ("1", "2") if model.name == _SHARDED else ("1",):
            state = work / f"{model.stem} {shards}"
            made = ("init", str(model), "--data", str(work / "rows.csv"), "--state", str(state), "--shards", shards)
            if _perpetua(tree, made, None).wait() != _PASSED:
                yield BrokenError(f"init of {model.stem}, which ends with an error")
                continue
            yield ("--state", str(state))


def _refuted_by(tree: Path, step: tuple[str, ...] | BrokenError, out: Path, seconds: float) -> str | None:
    """Run an audit with a step's arguments; return the first thing that it refutes, None if there is none.

    Raises:
        BrokenError: It ended otherwise than with a verdict.
    """
    if isinstance(step, BrokenError):
        raise step
    ends = time.monotonic() + seconds
    process = _perpetua(tree, ("audit", *step, "--out", str(out)), out.with_suffix(".txt"))
    try:
        while process.poll() is None and time.monotonic() < ends:
            time.sleep(_WAIT)
            if found := _first(out / "audit.jsonl"):
                return found
        if process.poll() in {None, _PASSED}:
            return None
        report = out / "audit.json"
        if process.returncode not in _VERDICTS or not report.is_file():
            raise BrokenError(f"the audit, which ends with an error (exit status {process.returncode})")
        return next(iter(msgspec.json.decode(report.read_bytes())["refuted"]), None)  # none where it could not tell
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _first(kept: Path) -> str | None:
    """Return the name of the first part that refutes, of an audit that is still under way."""
    lines = kept.read_bytes().splitlines() if kept.is_file() else []
    for line in lines:
        try:
            found = refuted(msgspec.json.decode(line, type=_Part).results)
        except msgspec.MsgspecError:  # the settings, or a line that is being written
            continue
        if found:
            return found[0].cell
    return None


def _perpetua(tree: Path, arguments: Sequence[str], said: Path | None) -> "subprocess.Popen[bytes]":
    """Start the command of a tree, in a group of processes of its own."""
    with (said or Path(os.devnull)).open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "oracle.cli", *arguments],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
