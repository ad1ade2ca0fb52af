"""Runs the parts of an audit over all processor cores, keeps what is done, and goes on where it was broken off."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol

import msgspec

from oracle.audit.cells import Cell, run_cell
from oracle.audit.findings import Check, Finding
from oracle.audit.plans import TARGETS
from oracle.audit.structure import run_check
from oracle.errors import InputError, StorageError

__all__ = ["Game", "Job", "Result", "Settings", "Structure", "run_jobs"]

Result = Finding | Check


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What two runs must have in common for one to go on with the other.

    Attributes:
        version: Of the software.
        seed: Of the auditor's dice, hex digits.
        miss: Probability that any claim at all is refuted by chance.
        jobs: Names of all parts.
    """

    version: str
    seed: str
    miss: float
    jobs: tuple[str, ...]


class Job(Protocol):
    """One part of an audit, that a process of its own can run."""

    @property
    def name(self) -> str:
        """What identifies it among all."""
        ...

    def __call__(self, seed: bytes, miss: float) -> Result:
        """Run it.

        Args:
            seed: Of the auditor's dice.
            miss: Probability with which it may refute by chance.
        """
        ...


class Game(msgspec.Struct, frozen=True):
    """Games of one cell."""

    cell: Cell

    @property
    def name(self) -> str:
        """See `Job.name`."""
        return self.cell.name

    def __call__(self, seed: bytes, miss: float) -> Finding:
        """See `Job`."""
        return run_cell(self.cell, seed, miss)


class Structure(msgspec.Struct, frozen=True):
    """One check of structure.

    Attributes:
        target: Whose.
        check: Its name.
    """

    target: str
    check: str

    @property
    def name(self) -> str:
        """See `Job.name`."""
        return f"structure|{self.target}|{self.check}"

    def __call__(self, seed: bytes, miss: float) -> Check:  # noqa: ARG002 -- nothing is left to chance here
        """See `Job`."""
        return run_check(next(target for target in TARGETS if target.name == self.target), self.check, seed)


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
        InputError: The file is of an audit with other settings.
        StorageError: It cannot be read or written.
    """
    found = _begin(kept, settings) if kept is not None else {}
    missing = [job for job in jobs if job.name not in found]
    seed, miss = bytes.fromhex(settings.seed), settings.miss / max(len(jobs), 1)

    def take(result: Result) -> None:
        found[result.cell] = result
        if kept is not None:
            _append(kept, msgspec.json.encode(result))
        done(len(found))

    if workers == 1:
        for job in missing:
            take(job(seed, miss))
    else:
        with ProcessPoolExecutor(workers) as pool:
            futures = [pool.submit(job, seed, miss) for job in missing]
            try:
                for future in as_completed(futures):
                    take(future.result())
            finally:
                for future in futures:
                    future.cancel()
    return [found[job.name] for job in jobs]


def kept_seed(kept: Path) -> str | None:
    """Return the seed of the audit that a file is of; None if there is none yet."""
    lines = _lines(kept)
    return msgspec.json.decode(lines[0], type=Settings).seed if lines else None


def _lines(kept: Path) -> list[bytes]:
    try:
        return [line for line in kept.read_bytes().split(b"\n") if line]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"{kept}: {exc.strerror}") from exc


def _begin(kept: Path, settings: Settings) -> dict[str, Result]:
    lines = _lines(kept)
    if not lines:
        _append(kept, msgspec.json.encode(settings))
        return {}
    found: dict[str, Result] = {}
    try:
        before = msgspec.json.decode(lines[0], type=Settings)
    except msgspec.MsgspecError as exc:
        raise InputError("--out", str(kept), "is not of an audit") from exc
    if before != settings:
        raise InputError(
            "--out", str(kept), "is of an audit with other settings; give another folder, or the same ones"
        )
    for line in lines[1:]:
        try:
            result = msgspec.json.decode(line, type=Finding | Check)
        except msgspec.MsgspecError:  # the line that a crash tore
            continue
        found[result.cell] = result
    return found


def _append(kept: Path, line: bytes) -> None:
    try:
        with kept.open("ab") as file:
            torn = file.tell() > 0 and kept.read_bytes()[-1:] != b"\n"
            file.write((b"\n" if torn else b"") + line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as exc:
        raise StorageError(f"{kept}: {exc.strerror}") from exc
