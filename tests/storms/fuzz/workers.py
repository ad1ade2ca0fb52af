"""Processes that fuzz, and what becomes of one that dies."""

import multiprocessing
import resource
import tempfile
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, NamedTuple

from tests.storms.fuzz import arrow, codecs, readers
from tests.storms.fuzz.verdicts import BrokenPromiseError

_MEMORY: Final = 4 << 30  # bytes of address space, so that a message cannot bring the machine down

Counts = Counter[tuple[str, str]]


class Job(NamedTuple):
    """One run of one target; the same whatever process does it."""

    target: str
    run: int


def run_jobs(jobs: list[Job], seed: int, workers: int, on_done: Callable[[int], None]) -> tuple[Counts, list[str]]:
    """Hand the jobs to processes, and gather what they found; a process that dies is a finding."""
    context = multiprocessing.get_context("spawn")
    counts: Counts = Counter()
    broken: list[str] = []
    waiting = iter(jobs)
    done = 0
    ends: dict[Connection, tuple[multiprocessing.process.BaseProcess, Job | None]] = {}

    def begin() -> None:
        mine, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, seed), daemon=True)
        process.start()
        theirs.close()
        ends[mine] = (process, None)
        hand_job(mine)

    def hand_job(end: Connection) -> None:
        job = next(waiting, None)
        ends[end] = (ends[end][0], job)
        end.send(job)
        if job is None:
            ends.pop(end)[0].join()

    for _ in range(min(workers, len(jobs))):
        begin()
    while ends:
        for end in wait(list(ends)):
            assert isinstance(end, Connection)
            process, job = ends[end]
            try:
                found, problem = end.recv()
            except (EOFError, ConnectionResetError):
                process.join()
                del ends[end]
                broken.append(f"{job}: the process died with {process.exitcode}")
                begin()
                continue
            counts += found
            broken += [f"{job}: {problem}"] if problem else []
            done += codecs.RUN
            on_done(done)
            hand_job(end)
    return counts, broken


def _work(end: Connection, seed: int) -> None:
    """Do jobs until there are none."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while (job := end.recv()) is not None:
            counts: Counts = Counter()
            problem = ""
            try:
                if job.target == "codecs":
                    codecs.fuzz_codecs(seed, job.run, counts)
                elif job.target == "missing":
                    codecs.fuzz_missing(seed, job.run, counts)
                elif job.target == "questions":
                    codecs.fuzz_questions(seed, job.run, counts)
                elif job.target == "distributions":
                    codecs.fuzz_distributions(seed, job.run, counts)
                elif job.target == "arrow":
                    arrow.fuzz_arrow(seed, job.run, counts)
                else:
                    readers.fuzz_reader(job.target, seed, job.run, counts, Path(folder))
            except BrokenPromiseError as exc:
                problem = str(exc)
            end.send((counts, problem))
