"""What models under test on any bus have in common: their daemons' processes, and what these have logged."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from oracle.planning.plan import Plan
from tests.support.folders import environment
from tests.support.shards import deliveries_of, new_shard, process_in_batches

_ROOT = Path(__file__).resolve().parents[2]


class Served:
    """A model with daemons of its own.

    Attributes:
        folder: Where their logs are.
        plan: The plan.
        processes: The daemons that were started.
    """

    folder: Path
    plan: Plan
    processes: list[subprocess.Popen[bytes]]

    def start(self, line: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        """Start a daemon by its command line; what it says goes to the end of a file."""
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(line, stdout=output, stderr=output, env=environment(), cwd=_ROOT)
        self.processes.append(process)
        return process

    def log(self, log: str = "serve.log") -> list[dict[str, Any]]:
        """Return a daemon's log lines; what is no JSON is kept as text."""
        path = self.folder / log
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line) if line.startswith(b"{") else {"text": line.decode()} for line in lines]

    def events(self, log: str = "serve.log") -> list[str]:
        """Return the names of a daemon's log lines."""
        return [line.get("event", "") for line in self.log(log)]

    def expected(self, contents: Iterable[bytes | None]) -> list[bytes]:
        """Return the answers of one uninterrupted run in memory, from the state as it was made."""
        return process_in_batches(new_shard(self.plan), deliveries_of(list(contents))).replies

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            process.kill()
            process.wait()
