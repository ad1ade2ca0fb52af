"""Runs the parts of an audit on all cores, stores results, and resumes an interrupted audit."""

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from oracle import durable
from oracle.audit.crashes.boundaries import strike_boundaries
from oracle.audit.crashes.daemons import play_daemon
from oracle.audit.findings import Check, Finding
from oracle.audit.games.cells import Cell, run_cell
from oracle.audit.structure.checks import run_check
from oracle.audit.timing.checks import run_timing
from oracle.errors import InputError, StorageError

__all__ = [
    "Job",
    "Result",
    "Settings",
    "daemon_job",
    "game_job",
    "kept_seed",
    "run_jobs",
    "structure_job",
    "timing_job",
]

Result = Finding | Check


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that two runs must share for one to resume the other.

    Attributes:
        version: Of the software.
        software: Its fingerprint.
        seed: Of the audit's randomness, hex digits.
        miss: Probability that any claim at all is refuted by chance.
        jobs: Names of all parts.
    """

    version: str
    software: str
    seed: str
    miss: float
    jobs: tuple[str, ...]


class _Done(msgspec.Struct, frozen=True):
    """The results of a finished part.

    Attributes:
        job: Its name.
        results: What it found.
    """

    job: str
    results: tuple[Finding | Check, ...]


class Job(NamedTuple):
    """One part of an audit.

    Attributes:
        name: Its unique name.
        run: Runs it, given the seed and the probability with which it may refute by chance.
        alone: True if nothing else may run beside it.
        risks: True if it may be wrong by chance.
    """

    name: str
    run: Callable[[bytes, float], tuple[Result, ...]]
    alone: bool = False
    risks: bool = True


def structure_job(target: str, check: str) -> Job:
    """Return one check of structure, which leaves nothing to chance."""
    return Job(f"structure|{target}|{check}", partial(_structure, target, check), risks=False)


def game_job(cell: Cell) -> Job:
    """Return the games of one cell."""
    return Job(cell.name, partial(_games, cell))


def timing_job(what: str) -> Job:
    """Return one of `TIMINGS`."""
    return Job(f"timing|{what}", partial(_timing, what), alone=True)


def daemon_job(games: int) -> Job:
    """Return so many games in each world through daemons that are killed."""
    return Job(f"daemon|{games}", partial(_daemons, games), alone=True)


def _structure(target: str, check: str, seed: bytes, _miss: float) -> tuple[Result, ...]:
    return (run_check(target, check, seed),)


def _games(cell: Cell, seed: bytes, miss: float) -> tuple[Result, ...]:
    return (run_cell(cell, seed, miss),)


def _timing(what: str, seed: bytes, miss: float) -> tuple[Result, ...]:
    return (run_timing(what, seed, miss),)


def _daemons(games: int, seed: bytes, miss: float) -> tuple[Result, ...]:
    with tempfile.TemporaryDirectory(prefix="perpetua-audit-", dir=_memory()) as folder:
        found = play_daemon(Path(folder), seed, miss, games=games, beside=os.cpu_count() or 1)
        return (*found, strike_boundaries(Path(folder), seed))


def _memory() -> str | None:
    """Return a folder in memory, if any: killed processes lose nothing there, and syncing takes no time."""
    shared = Path("/dev/shm")  # noqa: S108 -- tempfile makes a folder of mode 0700 with a name of its own in it
    return str(shared) if os.access(shared, os.W_OK | os.X_OK) else None


def run_jobs(  # noqa: PLR0913 -- two of them tell how far it is
    jobs: Sequence[Job],
    settings: Settings,
    *,
    workers: int,
    kept: Path | None,
    done: Callable[[int], None] = lambda _count: None,
    unfinished: Callable[[Sequence[Result]], None] = lambda _results: None,
) -> list[Result]:
    """Run the unfinished jobs and return all results, in the order of the jobs.

    Args:
        jobs: The parts, of distinct names.
        settings: What they are run under.
        workers: Processes; 1 runs all of it in this one.
        kept: File that results are added to, one JSON object a line; None keeps none.
        done: Called with the number of parts done.
        unfinished: Called with what was found so far, before anything is run, and where it is broken off.

    Raises:
        InputError: The file is of an audit with other settings, or of other software.
        StorageError: It cannot be read or written.
    """
    found = _begin(kept, settings) if kept is not None else {}
    missing = [job for job in jobs if job.name not in found]
    seed, miss = bytes.fromhex(settings.seed), settings.miss / max(sum(job.risks for job in jobs), 1)

    def take(job: Job, results: tuple[Result, ...]) -> None:
        found[job.name] = results
        if kept is not None:
            _append(kept, msgspec.json.encode(_Done(job.name, results)))
        done(len(found))

    def so_far() -> list[Result]:
        return [result for job in jobs for result in found.get(job.name, ())]

    unfinished(so_far())
    try:
        _run_all(missing, seed, miss, workers, take)
    except BaseException:
        unfinished(so_far())
        raise
    return so_far()


def _run_all(
    missing: Sequence[Job], seed: bytes, miss: float, workers: int, take: Callable[[Job, tuple[Result, ...]], None]
) -> None:
    beside = [job for job in missing if workers > 1 and not job.alone]
    if beside:
        with ProcessPoolExecutor(workers) as pool:
            futures = {pool.submit(job.run, seed, miss): job for job in beside}
            try:
                for future in as_completed(futures):
                    take(futures[future], future.result())
            finally:
                for future in futures:
                    future.cancel()
    for job in missing:
        if job not in beside:
            take(job, job.run(seed, miss))


def kept_seed(kept: Path, reports: Sequence[str] = ()) -> str | None:
    """Return the seed of an interrupted audit, to resume it; None if there is none, or it is complete.

    A complete one is put aside with its reports (renamed to end in `.old`): the next audit is of the software as it is
    then, and must not stand beside what was found before. Without its last report it is not complete.

    Args:
        kept: The file.
        reports: Names of what is written beside it at the end, in that order.

    Raises:
        InputError: The file is not of an audit.
        StorageError: It cannot be read or renamed.
    """
    lines = _lines(kept)
    if not lines:
        return None
    settings, found = _read(kept, lines)
    written = all(kept.with_name(name).exists() for name in reports[-1:])
    if not written or not all(job in found for job in settings.jobs):
        return settings.seed
    for path in (kept, *map(kept.with_name, reports)):
        try:
            durable.rename(path, path.with_name(path.name + ".old"))
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise StorageError(f"{path}: {exc.strerror}") from exc
    return None


def _lines(kept: Path) -> list[bytes]:
    try:
        return [line for line in kept.read_bytes().split(b"\n") if line]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{kept}: {exc.strerror}") from exc


def _begin(kept: Path, settings: Settings) -> dict[str, tuple[Result, ...]]:
    lines = _lines(kept)
    if not lines:
        _append(kept, msgspec.json.encode(settings))
        return {}
    before, found = _read(kept, lines)
    if before.software != settings.software:
        raise InputError(
            "--out",
            str(kept),
            "is of an audit that was broken off and of other software than this: give another folder",
        )
    if before != settings:
        raise InputError(
            "--out", str(kept), "is of an audit with other settings; give another folder, or the same ones"
        )
    return found


def _read(kept: Path, lines: list[bytes]) -> tuple[Settings, dict[str, tuple[Result, ...]]]:
    """Return the settings and what is done."""
    found: dict[str, tuple[Result, ...]] = {}
    try:
        before = msgspec.json.decode(lines[0], type=Settings)
    except msgspec.MsgspecError as exc:
        raise InputError("--out", str(kept), "is not of an audit") from exc
    for line in lines[1:]:
        try:
            part = msgspec.json.decode(line, type=_Done)
        except msgspec.MsgspecError:  # the line that a crash tore
            continue
        found[part.job] = part.results
    return before, found


def _append(kept: Path, line: bytes) -> None:
    try:
        descriptor = durable.open_lasting(kept, os.O_APPEND | os.O_NOFOLLOW)
        try:
            torn = kept.read_bytes()[-1:] not in {b"", b"\n"}
            durable.write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
            durable.sync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise StorageError(f"{kept}: {exc.strerror}") from exc
