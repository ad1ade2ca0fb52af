"""A run as processes: `init`, `serve` with its web server over files, `status`, and restarts, one of which must fail.

The stream comes in chunks of one page of memory, so that the daemon reads each of them at once. A look is taken when
the snapshot behind a chunk is written: by then all that the chunk brings about has been told.
"""

import contextlib
import dataclasses
import json
import multiprocessing
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Literal

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from tests.leaks import child
from tests.leaks.questions import as_cells, as_labels, question_of
from tests.leaks.sightings import PATHS, Sightings, masked_rows
from tests.leaks.spelling import as_column, as_values
from tests.leaks.subjects import leak_plan, model_file
from tests.leaks.worlds import CHUNK, Pair, World, rounds_of, table_of
from tests.support.folders import write_config
from tests.support.waiting import TIMEOUT

KEPT_SECONDS: Final = 1.05
"""For a second the metrics that were asked for last are given again."""

Files = Literal["jsonl", "jsonl once", "parquet"]

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([child.__name__])
"""Starts processes that have imported everything already."""

_LINE: Final = 64
"""Bytes of every line of the log: so many lines fill a page."""

_NULL: Final = b"null\n"
_POLL: Final = 0.02
_ROWS: Final = 32
"""Rows of a message of a Parquet file."""


def sight(pair: Pair, which: int, folder: Path, *, files: Files = "jsonl", mutant: str | None = None) -> Sightings:
    """Run one of two worlds in a new folder, and return all that was in sight.

    Args:
        pair: The worlds.
        which: Which of them.
        folder: A place for the run.
        files: What the queries and the answers are written in; Parquet is served to its end, with no look on the way,
            and of "jsonl once" nothing is served again.
        mutant: How the processes are broken.
    """
    run = _Run(pair, which, folder, mutant)
    run.command("init", "model.toml", "--data", "rows.parquet", "--state", "out/state", channel="init")
    if files == "parquet":
        run.serve_table()
    else:
        run.serve_lines()
    if files == "jsonl":
        run.restart()
        run.ask_around()
        run.fail()
    run.command("status", "out/state", "--json", channel="status command")
    return run.seen


class _Run:
    """One world's folder: inputs, `out` with all that Perpetua writes, and `said` with what its processes say."""

    def __init__(self, pair: Pair, which: int, folder: Path, mutant: str | None) -> None:
        self._world, self._pair, self._mutant = pair.worlds[which], pair, mutant
        self._folder, self._out, self._said = folder, folder / "out", folder / "said"
        self._processes = 0
        self.seen = Sightings()
        for path in (folder, self._out, self._said):
            path.mkdir()
        (folder / "model.toml").write_text(model_file(self._world.subject))
        _write_rows(folder / "rows.parquet", self._world)

    # Processes

    def _start(self, arguments: Iterable[str]) -> BaseProcess:
        self._processes += 1
        said = self._said / str(self._processes)
        self._err, self._printed = said.with_suffix(".err"), said.with_suffix(".out")
        plan = leak_plan(self._world.subject).encode()
        order = child.Order(
            tuple(arguments), self._folder, self._printed, self._err, plan, self._world.apart, self._mutant
        )
        process = _CONTEXT.Process(target=child.run, args=(order,))
        process.start()
        return process

    def _end(self, process: BaseProcess, channel: str) -> None:
        process.join(TIMEOUT)
        assert process.exitcode is not None, self._err.read_text()
        self.seen.add("exit codes", f"{channel}: {process.exitcode}")

    def command(self, *arguments: str, channel: str) -> None:
        """Run a command to its end and see what it prints."""
        process = self._start(arguments)
        self._end(process, channel)
        for line in self._printed.read_bytes().splitlines():
            if line.startswith(b"{"):
                self.seen.document(channel, line)
            else:
                self.seen.add(channel, line)
        self.seen.log(self._err.read_text())

    # Serving a log of lines

    def serve_lines(self) -> None:
        """Serve the stream chunk by chunk, take a look behind each, and stop."""
        lines = [line_of(self._world, number) for number in range(len(self._world.messages))]
        log = self._folder / "q.jsonl"
        log.touch()
        process = self._start(["serve", self._config(follow=True)])
        try:
            port = self._until(process, "web.listening")["port"]
            for start in range(0, len(lines), CHUNK):
                with log.open("ab", buffering=0) as file:
                    file.write(_filled(lines[start : start + CHUNK]))
                self._until(process, "snapshot.written", round=rounds_of(self._world, start + CHUNK))
                self._look(f"http://127.0.0.1:{port}")
                if start == 0:
                    shutil.copytree(self._out / "state", self._folder / "early")
            process.terminate()
            self._end(process, "serve")
        finally:
            if process.is_alive():
                process.kill()
        self._see_all()

    def _until(self, process: BaseProcess, event: str, **fields: object) -> dict[str, object]:
        """Wait for a line in the log, and return it."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            for text in self._err.read_text().splitlines() if self._err.exists() else []:
                line = json.loads(text) if text.startswith("{") and text.endswith("}") else {}
                if line.get("event") == event and line.items() >= fields.items():
                    return line
            assert process.is_alive(), self._err.read_text()
            assert time.monotonic() < deadline, self._err.read_text()
            time.sleep(_POLL)

    def _look(self, url: str) -> None:
        see_pages(self.seen, url)
        self.seen.files(self._out)
        self.seen.snapshots(self._out / "state")
        self.seen.commit_record(self._out / "out.jsonl.commit", tag_differs=self._pair.tag_differs)

    def _see_all(self) -> None:
        """See what a process has left behind."""
        self.seen.log(self._err.read_text())
        self.seen.add("stdout", self._printed.read_bytes())
        self.seen.files(self._out)
        self.seen.snapshots(self._out / "state")
        self.seen.commit_record(self._out / "out.jsonl.commit", tag_differs=self._pair.tag_differs)
        for name in ("ledger", "dead"):
            self.seen.add(name, (self._out / f"{name}.jsonl").read_bytes())
        self.seen.answers((self._out / "out.jsonl").read_bytes(), self._pair.left_out)

    def _config(self, *, follow: bool = False) -> str:
        return write_config(
            self._folder,
            state={"folder": "out/state", "snapshot_rounds": 1},
            source={"path": "q.jsonl", "follow": follow},
            sink={"path": "out/out.jsonl", "ledger": "out/ledger.jsonl", "dead_letter": "out/dead.jsonl"},
            service={"log": "json", "batch_rows": CHUNK},
            web={"port": 0},
        ).name

    # Serving again

    def restart(self) -> None:
        """Serve from an early snapshot: what lies between is done again, and the process ends with the log."""
        self._set_back()
        process = self._start(["serve", self._config()])
        self._end(process, "restart")
        self._see_all()

    def ask_around(self) -> None:
        """Run the commands that say something of a state that is asked in public, and one that must be refused."""
        plan = leak_plan(self._world.subject)
        if not isinstance(plan, QuestionPlan):
            return
        self.command("check", "c.toml", channel="check")
        self.command("verify", "q.jsonl", "--from", "early", "--answers", "out/out.jsonl", channel="verify")
        self.command("audit", "sign", "out/state", channel="receipt")
        self.command("budget", "rows.budget.jsonl", channel="budget")
        self.command("init", "model.toml", "--data", "rows.parquet", "--state", "out/state", channel="init again")
        if plan.predictor == "statistics":
            self.command("hypothesis", "out/state", "--out", "out/cube.csv", channel="hypothesis")
            self.command("hypothesis", "out/state", "--out", "out/rows.csv", "--sample", "40", channel="hypothesis")
            for name in ("cube", "rows"):
                self.seen.add("hypothesis", (self._out / f"{name}.csv").read_bytes())
        self.seen.add("budget", (self._folder / "rows.budget.jsonl").read_bytes())
        self.seen.files(self._out)

    def fail(self) -> None:
        """Serve from an early snapshot a log in which one answered query, not the hidden one, is another now."""
        self._set_back()
        log = self._folder / "q.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        place = next(at for at in range(len(lines) - 1, 0, -1) if isinstance(self._world.messages[at], tuple))
        other = dataclasses.replace(self._world, messages=((0.5, 0.5),) * (place + 1))
        lines[place] = line_of(other, place).rstrip().ljust(len(lines[place]) - 1) + b"\n"
        log.write_bytes(b"".join(lines))
        process = self._start(["serve", self._config()])
        self._end(process, "failing restart")
        self._see_all()

    def _set_back(self) -> None:
        shutil.rmtree(self._out / "state")
        shutil.copytree(self._folder / "early", self._out / "state")

    # Serving a table

    def serve_table(self) -> None:
        """Serve a Parquet file to its end."""
        pq.write_table(table_of(self._world.subject, self._world.messages), self._folder / "q.parquet")
        config = write_config(
            self._folder,
            state={"folder": "out/state", "snapshot_rounds": 1},
            source={"kind": "parquet", "path": "q.parquet", "rows_per_message": _ROWS},
            sink={"kind": "parquet", "path": "out/out.parquet", "ledger": "out/ledger.jsonl"},
            service={"log": "json", "batch_rows": 2},
        )
        process = self._start(["serve", config.name])
        self._end(process, "serve")
        self.seen.log(self._err.read_text())
        self.seen.add("stdout", self._printed.read_bytes())
        self.seen.files(self._out)
        self.seen.snapshots(self._out / "state")
        self.seen.commit_record(self._out / "out.parquet.commit", tag_differs=self._pair.tag_differs)
        self.seen.add("ledger", (self._out / "ledger.jsonl").read_bytes())
        for part, path in enumerate(sorted((self._out / "out.parquet").iterdir())):
            self.seen.add("answers", self._part(path, part * _ROWS))

    def _part(self, path: Path, first: int) -> bytes | str:
        """Return a part that answers message number `first` and those that came with it, without what is left out."""
        left_out = self._pair.left_out
        if not any(number in left_out for number in range(first, first + _ROWS)):
            return path.read_bytes()
        return masked_rows(path.stat().st_size, pq.read_table(path).to_pylist(), first, left_out)


def see_pages(seen: Sightings, url: str) -> None:
    """Take note of all that a daemon's web server shows, when the metrics that were asked for last are stale."""
    time.sleep(KEPT_SECONDS)
    with httpx.Client(base_url=url, trust_env=False, timeout=TIMEOUT) as client:
        for path, headers in PATHS:
            answer = client.get(path, headers=headers)
            seen.page(path, answer.status_code, answer.headers.multi_items(), answer.content)


def _start_in(folder: Path, said: str, world: World, *arguments: str) -> BaseProcess:
    """Start a command of an unbroken Perpetua in a folder; what it says is in files there that begin with `said`."""
    plan = leak_plan(world.subject).encode()
    order = child.Order(arguments, folder, folder / f"{said}.out", folder / f"{said}.err", plan, world.apart, None)
    process = _CONTEXT.Process(target=child.run, args=(order,))
    process.start()
    return process


def init_in(folder: Path, world: World) -> None:
    """Make a world's state in a folder, with an unbroken Perpetua."""
    (folder / "model.toml").write_text(model_file(world.subject))
    _write_rows(folder / "rows.parquet", world)
    init = _start_in(folder, "init", world, "init", "model.toml", "--data", "rows.parquet", "--state", "state")
    init.join(TIMEOUT)
    assert init.exitcode == 0, (folder / "init.err").read_text()


@contextlib.contextmanager
def serving_in(folder: Path, config: str, world: World, seen: Sightings) -> Iterator[None]:
    """Serve a configuration in a folder until the context is left; what is said is in `serve.out` and `serve.err`."""
    process = _start_in(folder, "serve", world, "serve", config)
    try:
        yield
        process.terminate()
        process.join(TIMEOUT)
    finally:
        if process.is_alive():
            process.kill()
    seen.add("exit codes", str(process.exitcode))


def _write_rows(path: Path, world: World) -> None:
    """Write the training rows."""
    plan = leak_plan(world.subject)
    if isinstance(plan, TablePlan):
        cells = zip(plan.attributes, as_cells(plan, world.rows).T, strict=True)
        pq.write_table(pa.table({attribute.name: as_labels(attribute, column) for attribute, column in cells}), path)
        return
    values = as_cells(plan, world.rows) if isinstance(plan, QuestionPlan) else world.rows
    features = zip(plan.features, values.T.tolist(), strict=True)
    columns = {feature.name: as_column(feature, column) for feature, column in features}
    pq.write_table(pa.table({**columns, "label": world.labels}), path)


def line_of(world: World, number: int) -> bytes:
    """Return a message as a line of a fixed length: how long messages are is public."""
    message, plan = world.messages[number], leak_plan(world.subject)
    if message is None:
        return _NULL
    if isinstance(plan, QuestionPlan) and isinstance(message, tuple):
        text = question_of(plan, message)
    else:
        x = as_values(plan.features, message) if isinstance(message, tuple) else [0.5]
        text = json.dumps({"id": f"m{number:05d}", "x": x}, separators=(",", ":")).encode()
    assert len(text) < _LINE
    return text.ljust(_LINE - 1) + b"\n"


def _filled(lines: Sequence[bytes]) -> bytes:
    """Return a chunk of lines as a page of memory: `null` must stand alone, so the last other line is the longer."""
    last = max(at for at, line in enumerate(lines) if line != _NULL)
    missing = len(lines) * _LINE - sum(map(len, lines))
    longer = lines[last].rstrip(b"\n") + b" " * missing + b"\n"
    return b"".join((*lines[:last], longer, *lines[last + 1 :]))
