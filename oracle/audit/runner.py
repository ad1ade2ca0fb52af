"""Runs the parts of an audit over all processor cores, keeps what is done, and goes on where it was broken off."""

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from oracle import durable
from oracle.audit.cells import Cell, run_cell
from oracle.audit.crash import play_daemon
from oracle.audit.findings import Check, Finding
from oracle.audit.structure import run_check
from oracle.audit.timing import run_timing
from oracle.errors import InputError, StorageError

__all__ = ["Daemon", "Game", "Job", "Result", "Settings", "Structure", "Time", "kept_seed", "run_jobs"]

Result = Finding | Check


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What two runs must have in common for one to go on with the other.

    Attributes:
        version: Of the software.
        software: Its fingerprint.
        seed: Of the auditor's dice, hex digits.
        miss: Probability that any claim at all is refuted by chance.
        jobs: Names of all parts.
    """

    version: str
    software: str
    seed: str
    miss: float
    jobs: tuple[str, ...]


class _Done(msgspec.Struct, frozen=True):
    """A part that is done.

    Attributes:
        job: Its name.
        results: What it found.
    """

    job: str
    results: tuple[Finding | Check, ...]


class Job(Protocol):
    """One part of an audit."""

    @property
    def alone(self) -> bool:
        """True if nothing else may run beside it."""
        ...

    @property
    def risks(self) -> bool:
        """True if it may be wrong by chance."""
        ...

    @property
    def name(self) -> str:
        """What identifies it among all."""
        ...

    def __call__(self, seed: bytes, miss: float) -> tuple[Result, ...]:
        """Run it.

        Args:
            seed: Of the auditor's dice.
            miss: Probability with which it may refute by chance.
        """
        ...


class Game(msgspec.Struct, frozen=True):
    """Games of one cell."""

    cell: Cell
    alone: ClassVar[bool] = False
    risks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """See `Job.name`."""
        return self.cell.name

    def __call__(self, seed: bytes, miss: float) -> tuple[Result, ...]:
        """See `Job`."""
        return (run_cell(self.cell, seed, miss),)


class Structure(msgspec.Struct, frozen=True):
    """One check of structure.

    Attributes:
        target: Whose.
        check: Its name.
    """

    target: str
    check: str
    alone: ClassVar[bool] = False
    risks: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """See `Job.name`."""
        return f"structure|{self.target}|{self.check}"

    def __call__(self, seed: bytes, miss: float) -> tuple[Result, ...]:  # noqa: ARG002 -- nothing is left to chance here
        """See `Job`."""
        return (run_check(self.target, self.check, seed),)


class Time(msgspec.Struct, frozen=True):
    """One measurement of time.

    Attributes:
        what: Which.
    """

    what: str
    alone: ClassVar[bool] = True
    risks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """See `Job.name`."""
        return f"timing|{self.what}"

    def __call__(self, seed: bytes, miss: float) -> tuple[Result, ...]:
        """See `Job`."""
        return (run_timing(self.what, seed, miss),)


class Daemon(msgspec.Struct, frozen=True):
    """Games through daemons that are killed.

    Attributes:
        games: In each world.
    """

    games: int
    alone: ClassVar[bool] = True
    risks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """See `Job.name`."""
        return f"daemon|{self.games}"

    def __call__(self, seed: bytes, miss: float) -> tuple[Result, ...]:
        """See `Job`."""
        with tempfile.TemporaryDirectory(prefix="perpetua-audit-", dir=_memory()) as folder:
            return play_daemon(Path(folder), seed, miss, games=self.games, beside=os.cpu_count() or 1)


def _memory() -> str | None:
    """Return a folder in memory, if there is one: a killed process loses nothing there, and syncing takes no time."""
    shared = Path("/dev/shm")  # noqa: S108 -- tempfile makes a folder of mode 0700 with a name of its own in it
    return str(shared) if os.access(shared, os.W_OK | os.X_OK) else None


def run_jobs(
    jobs: Sequence[Job],
    settings: Settings,
    *,
    workers: int,
    kept: Path | None,
    done: Callable[[int], None] = lambda _count: None,
) -> list[Result]:
    """Run what is not done yet and return all results, in the order of the jobs.

    Args:
        jobs: The parts, of distinct names.
        settings: What they are run under.
        workers: Processes; 1 runs all of it in this one.
        kept: File that results are added to, one JSON object a line; None keeps none.
        done: Called with the number of parts done.

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

    beside = [job for job in missing if workers > 1 and not job.alone]
    if beside:
        with ProcessPoolExecutor(workers) as pool:
            futures = {pool.submit(job, seed, miss): job for job in beside}
            try:
                for future in as_completed(futures):
                    take(futures[future], future.result())
            finally:
                for future in futures:
                    future.cancel()
    for job in missing:
        if job not in beside:
            take(job, job(seed, miss))
    return [result for job in jobs for result in found[job.name]]


def kept_seed(kept: Path, reports: Sequence[str] = ()) -> str | None:
    """Return the seed of the audit that a file is of, to go on with it; None if there is none, or if it is complete.

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
