"""One model's log, what an uninterrupted run makes of it, and the check that nothing else is ever seen."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from connectors.base import ARROW_STREAM, Delivery, Source
from connectors.local.commitfile import DurableCommitFile
from connectors.local.jsonl import JsonlSource
from connectors.local.parquet_source import ParquetSource
from oracle.planning.plan import Plan
from oracle.runtime.shard import Shard
from tests.storms.files.processes import Launcher, Violation
from tests.support.folders import make_state, write_config, write_log, write_parquet
from tests.support.shards import bodies, first_snapshot, process

Kind = Literal["jsonl", "parquet", "arrow"]

BATCH_ROWS = 8
SNAPSHOT_ROUNDS = 100


class _Upto(NamedTuple):
    """What an uninterrupted run has given up to some position."""

    metadata: bytes
    answer_bytes: int
    answers: int
    ledger_bytes: int


@dataclass(frozen=True)
class Workspace:
    """A folder in which a daemon is tormented."""

    folder: Path
    kind: Kind

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "c.toml"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    @property
    def output(self) -> Path:
        """The answers."""
        return self.folder / f"out.{self.kind}"

    @property
    def ledger(self) -> Path:
        """The ledger."""
        return self.folder / "ledger.jsonl"

    @property
    def commit(self) -> Path:
        """The commit record."""
        return self.folder / f"out.{self.kind}.commit"

    def output_bytes(self) -> int:
        """Return how much output there is."""
        try:
            if self.output.is_dir():
                return sum(part.stat().st_size for part in self.output.iterdir())
            return self.output.stat().st_size
        except FileNotFoundError:
            return 0

    def files(self) -> dict[str, bytes]:
        """Return the visible answers by file."""
        if self.output.is_dir():
            return {part.name: part.read_bytes() for part in self.output.iterdir()}
        return {self.output.name: self.output.read_bytes()} if self.output.exists() else {}


class Ground:
    """A log, a state to start from, and all that an uninterrupted run shows.

    The uninterrupted run is made by a daemon of its own. Beside it, what is committed at each position is worked out
    message by message, without daemon, sink or batches.

    Args:
        folder: A new folder for all of it.
        kind: What the answers are written as.
        launcher: Starts the uninterrupted run.
        snapshot_rounds: How often a snapshot is taken.
        messages: Of the log; 4,000 end within the last of the plan's 16 phases.
        plan: As long as `long_plan`.
    """

    def __init__(  # noqa: PLR0913 -- what makes a run
        self, folder: Path, kind: Kind, launcher: Launcher, snapshot_rounds: int, *, messages: int, plan: Plan
    ) -> None:
        self.kind: Kind = kind
        self._folder = folder
        self._launcher = launcher
        self._plan = plan
        self._snapshot_rounds = snapshot_rounds
        self._template, plain = folder / "template", folder / "plain"
        self._template.mkdir(parents=True)
        make_state(self._template / "state", plan)
        if kind == "jsonl":
            write_log(self._template, messages, plan=plan)
        else:
            write_parquet(self._template / "q.parquet", bodies(messages))
        self._upto = _positions(plan, self._source())
        workspace = self.workspace(plain.name)
        code, running = launcher.run("serve", workspace.config)
        if code != 0:
            raise Violation(f"the uninterrupted run ended with {code}: {running.errors()}")
        self._answers, self._ledger = workspace.files(), workspace.ledger.read_bytes()
        self._record = DurableCommitFile(workspace.commit).read()
        self.total = workspace.output_bytes()
        self.phase_ends = [
            event["round"] for event in map(json.loads, self._ledger.splitlines()) if event["kind"] == "phase-ended"
        ]
        self.check_final(workspace)

    def workspace(self, name: str) -> Workspace:
        """Make a fresh folder, with a state that has answered nothing."""
        folder = self._folder / name
        shutil.copytree(self._template, folder)
        self.configure(folder)
        return Workspace(folder, self.kind)

    def configure(self, folder: Path, **tables: Mapping[str, object]) -> Path:
        """Write the configuration for a folder."""
        source: dict[str, object] = {} if self.kind == "jsonl" else {"kind": "parquet", "rows_per_message": BATCH_ROWS}
        name = "q.jsonl" if self.kind == "jsonl" else "q.parquet"
        sink: dict[str, object] = {} if self.kind == "jsonl" else {"kind": "parquet"}
        settings: dict[str, Any] = {
            "state": {"snapshot_rounds": self._snapshot_rounds},
            "service": {"batch_rows": BATCH_ROWS},
            "source": {**source, "path": str(folder / name)},
            "sink": {**sink, "path": str(folder / f"out.{self.kind}")},
        }
        for table, values in tables.items():
            settings[table].update(values)
        return write_config(folder, **settings)

    def ledger_bytes(self, phase_end: int) -> int:
        """Return how long the ledger is once it tells of the n-th end of a phase, from 0."""
        length = seen = 0
        for line in self._ledger.splitlines(keepends=True):
            length += len(line)
            seen += b'"phase-ended"' in line
            if seen > phase_end:
                break
        return length

    def check_seen(self, workspace: Workspace) -> None:
        """Check that whatever can be seen, torn ends and all, is the beginning of the uninterrupted run's.

        Raises:
            Violation: Something else was seen: a round was answered twice, or otherwise.
        """
        for name, data in workspace.files().items():
            expected = self._answers.get(name.removeprefix(".").removesuffix(".tmp"))
            whole = self.kind == "parquet" and not name.endswith(".tmp")
            if expected is None or not (data == expected if whole else expected.startswith(data)):
                raise Violation(f"{workspace.folder.name}: {name} is not what the uninterrupted run gives")
        if workspace.ledger.exists() and not self._ledger.startswith(workspace.ledger.read_bytes()):
            raise Violation(f"{workspace.folder.name}: the ledger is not what the uninterrupted run gives")
        self._check_record(workspace)

    def _check_record(self, workspace: Workspace) -> None:
        record = DurableCommitFile(workspace.commit).read()
        if record is None or record.position is None:
            return
        upto = self._upto.get(record.position)
        lengths = dict(record.lengths)
        output = lengths.get("output", lengths.get("parts"))
        if upto is None or (record.metadata, lengths["ledger"]) != (upto.metadata, upto.ledger_bytes):
            raise Violation(f"{workspace.folder.name}: the commit record is none of the uninterrupted run's")
        if self.kind != "arrow" and output != (upto.answer_bytes if self.kind == "jsonl" else upto.answers):
            raise Violation(f"{workspace.folder.name}: the commit record counts other answers than were given")

    def check_final(self, workspace: Workspace) -> None:
        """Check that all files are, byte for byte, those of the uninterrupted run, and that nothing is left over.

        Raises:
            Violation: They are not.
        """
        self.check_seen(workspace)
        if workspace.files() != self._answers or workspace.ledger.read_bytes() != self._ledger:
            raise Violation(f"{workspace.folder.name}: answers or ledger end before the uninterrupted run's")
        if DurableCommitFile(workspace.commit).read() != self._record:
            raise Violation(f"{workspace.folder.name}: the commit record is not the uninterrupted run's")
        if len(list(workspace.state.glob("*.perp"))) != 1 or list(workspace.folder.rglob("*.tmp")):
            raise Violation(f"{workspace.folder.name}: something is left over in the folders")

    def finish(self, workspace: Workspace) -> None:
        """Serve to the end of the log, check that the output is identical, and remove the folder.

        Raises:
            Violation: It is not, or the daemon did not come to the end.
        """
        self.complete(workspace)
        shutil.rmtree(workspace.folder)

    def complete(self, workspace: Workspace) -> None:
        """Serve to the end of the log and check that the output is identical.

        Raises:
            Violation: It is not, or the daemon did not come to the end.
        """
        code, running = self._launcher.run("serve", workspace.config)
        if code != 0:
            raise Violation(f"{workspace.folder.name}: the last run ended with {code}: {running.errors()[-600:]}")
        self.check_final(workspace)

    def _source(self) -> Source:
        if self.kind == "jsonl":
            return JsonlSource(self._template / "q.jsonl", body_limit=self._plan.limits.body_bytes)
        return ParquetSource(self._template / "q.parquet", rows_per_message=BATCH_ROWS)


def _positions(plan: Plan, source: Source) -> dict[int, _Upto]:
    shard = Shard(plan, first_snapshot(plan))
    upto: dict[int, _Upto] = {}
    answer_bytes = answers = ledger_bytes = 0
    for delivery in asyncio.run(_deliveries(source)):
        commit = process(shard, [delivery]).commit
        for reply in commit.replies.rows():
            answer_bytes += len(reply.body) + 1
            answers += reply.content_type == ARROW_STREAM
        ledger_bytes += sum(len(event) + 1 for event in commit.ledger)
        upto[delivery.position] = _Upto(commit.metadata, answer_bytes, answers, ledger_bytes)
    return upto


async def _deliveries(source: Source) -> list[Delivery]:
    await source.open(None)
    found: list[Delivery] = []
    while not source.exhausted:
        found += (await source.fetch(BATCH_ROWS, 1.0)).rows()
    await source.close()
    return found
