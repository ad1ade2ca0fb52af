"""The real daemon on real files: `perpetua serve` as a process of its own, from its first log line to its last."""

import contextlib
import io
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.cli.init import command as init
from oracle.planning.plan import Plan
from tests.benchmarks.states import inside, queries
from tests.support.folders import command, environment, write_config

Kind = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class Served:
    """What one run of the daemon took.

    Attributes:
        seconds: From the first log line, with the interpreter up and the state folder held, to the last one, with the
            last snapshot written and every file closed.
        serving_seconds: From being ready for the first query to the last answer's being durable.
        recovered_rounds: Rounds re-executed before it served.
        recovered_seconds: From the first log line to being where the sink had been.
    """

    seconds: float
    serving_seconds: float
    recovered_rounds: int
    recovered_seconds: float


class Bench:
    """A state made by `perpetua init`, a file of queries, and as many runs of the daemon as are wanted.

    Args:
        folder: An empty folder.
        plan: What `init` makes again of a model file with its promises.
        kind: Of source and sink.
        rows: How many queries there are.
        web_port: Where runs that are monitored have their web server.
        settings: Lines of the model file that only this kind of predictor knows.
    """

    def __init__(  # noqa: PLR0913 -- what is to be varied
        self, folder: Path, plan: Plan, kind: Kind, rows: int, *, web_port: int = 0, settings: str = ""
    ) -> None:
        self._folder, self._kind, self.rows, self.plan = folder, kind, rows, plan
        self._init(settings)
        features = queries(rows, len(plan.features), seed=4)
        self._queries = folder / f"queries.{kind}"
        if kind == "jsonl":
            lines = (b'{"id":"q%d","x":%b}\n' % (n, msgspec.json.encode(x)) for n, x in enumerate(features.tolist()))
            self._queries.write_bytes(b"".join(lines))
        else:
            pq.write_table(_table(features), self._queries)
        source = {"kind": kind, "path": str(self._queries)}
        sink = {"kind": kind, "path": str(self._output), "ledger": str(folder / "ledger.jsonl")}
        log = {"log": "json"}
        self._config = write_config(folder, source=source, sink=sink, service=log)
        web = {"port": web_port}
        self._monitored = write_config(folder, name="monitored.toml", source=source, sink=sink, service=log, web=web)

    @property
    def _output(self) -> Path:
        return self._folder / f"answers.{self._kind}"

    def lines(self) -> list[bytes]:
        """Return the queries of a JSONL file."""
        return self._queries.read_bytes().splitlines()

    def _init(self, settings: str) -> None:
        plan, names = self.plan, [feature.name for feature in self.plan.features]
        features = queries(plan.declared, len(names), seed=5)
        pq.write_table(
            _table(features).append_column("label", pa.array(inside(features))), self._folder / "rows.parquet"
        )
        tables = [f"[model]\nname = {json.dumps(plan.name)}\npredictor = {json.dumps(plan.predictor)}"]
        tables.append(f"epsilon = {plan.epsilon}\nalpha = {plan.alpha}\nexamples = {plan.declared}\n{settings}")
        tables += [f"[[model.features]]\nname = {json.dumps(name)}\nbounds = [0.0, 1.0]" for name in names]
        (self._folder / "model.toml").write_text("\n".join(tables) + "\n")
        with contextlib.redirect_stdout(io.StringIO()):
            init.run(self._folder / "model.toml", self._folder / "rows.parquet", self._fresh)

    @property
    def _fresh(self) -> Path:
        return self._folder / "fresh"

    def serve(self, *, again: bool = False, monitored: bool = False) -> Served:
        """Answer the whole file, or, as if every snapshot but the first were lost, re-execute all that was answered.

        Args:
            again: Keep the answers of the run before: the daemon recovers from the first snapshot up to them.
            monitored: Have a web server.
        """
        shutil.rmtree(self._folder / "state", ignore_errors=True)
        shutil.copytree(self._fresh, self._folder / "state")
        if not again:
            self._clear()
        events = _events(self._monitored if monitored else self._config)
        recovered, serving = _first(events, "daemon.recovered"), _first(events, "daemon.serving")
        starting, stopped = events[0], events[-1]
        assert (starting["event"], stopped["event"]) == ("daemon.starting", "daemon.stopped")
        assert stopped["round"] == self.rows
        assert recovered["rounds"] == (self.rows if again else 0)
        return Served(
            seconds=_between(starting, stopped),
            serving_seconds=_between(serving, _first(events, "source.ended")),
            recovered_rounds=recovered["rounds"],
            recovered_seconds=_between(starting, recovered),  # the daemon's own figure is a bound
        )

    def _clear(self) -> None:
        for path in (
            self._output,
            self._output.with_name(self._output.name + ".commit"),
            self._folder / "ledger.jsonl",
        ):
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)


def _events(config: Path) -> list[dict[str, Any]]:
    """Serve, and return the log's lines, each with when it came (seconds, monotone): it tells whole seconds itself."""
    with subprocess.Popen(
        command("serve", config), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    ) as daemon:
        assert daemon.stderr is not None
        lines = [(time.monotonic(), line) for line in daemon.stderr]
    assert daemon.returncode == 0, b"".join(line for _, line in lines).decode()
    return [{**json.loads(line), "came": came} for came, line in lines if line.startswith(b"{")]


def _first(events: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(event for event in events if event["event"] == name)


def _between(first: dict[str, Any], last: dict[str, Any]) -> float:
    """Return the seconds between two log lines."""
    seconds: float = last["came"] - first["came"]
    return seconds


def _table(features: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pa.Table:
    return pa.table({f"x{index}": column for index, column in enumerate(features.T)})
