"""Makes golden folders: the files that a daemon leaves when it is killed, and all that it would have answered.

    queries.jsonl          the log
    state/                 plan.json, key, and the newest snapshot: of the first part of the log
    genesis                the genesis file
    answers.jsonl.commit   the sink's record as of the kill, some rounds behind the snapshot
    answers.jsonl          the answers to the whole log; as of the kill there was as much as the record says
    ledger.jsonl           the events of the whole log, likewise

Secrets and nonces are fixed, so whoever runs it gets the same bytes. The plans are plans in form only.
"""

import asyncio
import io
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import msgspec
import numpy as np
from msgspec.structs import replace

from connectors.local.jsonl import JsonlSink, JsonlSource
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.state.folder import FolderStore
from oracle.state.format import encode
from oracle.state.genesis import Genesis, write_genesis
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter
from tests.predictors.examples import example
from tests.predictors.plans import feature, tiny_distribution_plan, tiny_plan
from tests.predictors.tables import drawn_messages
from tests.predictors.test_paper import toy_plan
from tests.predictors.texts import as_value, text
from tests.support.shards import MASTER_KEY, first_snapshot
from tests.support.tables import paying_plan, questions

COMMIT: Final = "answers.jsonl.commit"
_SNAPSHOT_LINES: Final = 240
_COMMIT_LINES: Final = 300
_LINES: Final = 560
_PHASE_ROUNDS: Final = 180
_ORDERED: Final = (
    text("s"),
    Feature(name="d", type="date"),
    Feature(name="p", type="decimal", places=2),
)


def version_folder(version: int) -> Path:
    """Return where the golden folders of a format version are."""
    return Path(__file__).parent / f"version-{version}"


def plans() -> Mapping[str, Plan]:
    """Return a plan for each golden folder, by its name: several phases, re-arms in between."""
    return {
        "rectangles-tight": _eventful(example("rectangles"), 2),
        "rectangles-paper": _eventful(toy_plan((feature("a"), feature("b")), 100.0), 6),
        "rectangles-ordered": _eventful(
            tiny_plan(_ORDERED, slicing="sequential", points=(12, 10, 11, 12), rearmed=9), 5
        ),
        "stumps": _eventful(example("stumps"), 2),
        "bisection": example("bisection", rounds=_PHASE_ROUNDS),
        "classical": example("classical", rounds=_PHASE_ROUNDS),
        "statistics": paying_plan("statistics"),
        "sparse-vector": paying_plan("sparse-vector"),
        "distribution": tiny_distribution_plan(_LINES),
        "ensemble": _eventful(example("ensemble"), 6),
    }


def _eventful(plan: Plan, mediums: int) -> Plan:
    """Return a plan with short phases, whose sides are armed afresh after a few mediums."""
    phases = [
        replace(part, rounds=_PHASE_ROUNDS, stopper=replace(part.stopper, threshold=mediums))
        for part in msgspec.structs.asdict(plan)["phases"]
    ]
    return replace(plan, phases=tuple(phases))


def make_golden(folder: Path, plan: Plan) -> None:
    """Make a golden folder."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        work.mkdir()
        lines = _log(plan)
        _init(work, plan)
        for end in (_SNAPSHOT_LINES, _COMMIT_LINES, _LINES):
            (work / "queries.jsonl").write_bytes(b"".join(lines[:end]))
            serve(work, plan)
            if end == _SNAPSHOT_LINES:
                shutil.copytree(work / "state", work / "kept")
            if end == _COMMIT_LINES:
                shutil.copy(work / COMMIT, work / "kept.commit")
        shutil.rmtree(work / "state")
        (work / "kept").rename(work / "state")
        (work / "kept.commit").rename(work / COMMIT)
        for lock in (work / "state" / "lock", work / f"{COMMIT}.lock"):
            lock.unlink()
        shutil.copytree(work, folder)


def serve(folder: Path, plan: Plan) -> None:
    """Answer a golden folder's log to its end, from where state and answers are, and take a snapshot."""
    sink = JsonlSink(folder / "answers.jsonl", folder / "ledger.jsonl")
    with nonces(), FolderStore.open(folder / "state", MASTER_KEY) as store:
        daemon = Daemon(
            plan=plan,
            store=store,
            source=JsonlSource(folder / "queries.jsonl"),
            sink=sink,
            reporter=Reporter(plan, PublicLog(io.StringIO(), "json", plan.name)),
            settings=DaemonSettings(batch_rows=64, snapshot_rounds=10**9, snapshot_seconds=1e9),
            clock=time.monotonic,
        )
        asyncio.run(daemon.run())


@contextmanager
def nonces(first: int = 1) -> Iterator[None]:
    """Let snapshots have the nonces `first`, `first` + 1, ... as long as it lasts. For public test data only.

    What an ensemble's teachers are fitted with is left out: it differs from machine to machine.
    """
    numbers = itertools.count(first)
    named = patch("oracle.predictors.ensemble.fitting.libraries", return_value={})
    with named, patch("oracle.state.format.secrets") as secrets:
        secrets.token_bytes = lambda size: next(numbers).to_bytes(size, "little")
        yield


def _init(work: Path, plan: Plan) -> None:
    with nonces():
        snapshot = first_snapshot(plan)
    with nonces(), FolderStore.open(work / "state", MASTER_KEY) as store:
        store.write_plan(plan.encode())
        store.save(snapshot)
        genesis = encode(store.bound(snapshot), MASTER_KEY)
        write_genesis(work / "genesis", Genesis(MASTER_KEY, genesis, plan.encode()))
    (work / "state" / "key").write_text(f"perpetua-key 1\n{MASTER_KEY.hex()}\n")


def _log(plan: Plan) -> list[bytes]:
    """Return lines with queries, about a quarter of them near some side, rounds without a query, and rejects."""
    if isinstance(plan, TablePlan):
        return _with_others(questions(plan.predictor, _LINES))
    if isinstance(plan, DistributionPlan):
        return _with_others(drawn_messages(plan, _LINES, seed=7))
    rows = np.random.default_rng(7).uniform(-0.1, 1.1, (_LINES, len(plan.features))).round(4)
    if any(feature.kind != "number" for feature in plan.features):
        rows = rows.clip(0.0, 0.9999)
    values = [[as_value(*pair) for pair in zip(plan.features, row, strict=True)] for row in rows.tolist()]
    return _with_others([json.dumps({"id": f"q{number}", "x": row}).encode() for number, row in enumerate(values)])


def _with_others(lines: list[bytes]) -> list[bytes]:
    lines[::9] = [b"null"] * len(lines[::9])
    lines[4::25] = [b'{"id":"bad","x":[1]}'] * len(lines[4::25])
    return [line + b"\n" for line in lines]
