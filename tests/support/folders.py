"""A state folder on disk with its logs and configurations, and the `perpetua` command as a process of its own."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.planning.plan import Plan
from oracle.state.folder import FolderStore
from oracle.state.format import encode
from oracle.state.genesis import Genesis, write_genesis
from oracle.state.keys import create_key_file
from tests.predictors.examples import example
from tests.support.shards import SECRET, bodies, first_snapshot
from tests.support.waiting import TIMEOUT


@functools.cache
def long_plan(predictor: str = "rectangles") -> Plan:
    """Return a plan of 16 short phases, some 4,500 rounds."""
    return example(predictor, phases=16, rounds=60)


def make_state(folder: Path, plan: Plan, secret: bytes = SECRET) -> Path:
    """Make what `perpetua init --keep-genesis` makes, at `folder` and beside it; return the genesis file."""
    snapshot = first_snapshot(plan, secret)
    folder.mkdir(mode=0o700)
    key = create_key_file(folder / "key")
    with FolderStore.open(folder, key) as store:
        store.write_plan(plan.encode())
        store.save(snapshot)
    genesis = folder.with_name(folder.name + ".genesis")
    write_genesis(genesis, Genesis(key, encode(snapshot, key), plan.encode()))
    return genesis


def write_parquet(path: Path, contents: Sequence[bytes]) -> None:
    """Write JSON queries of the form that `bodies` returns as rows of a Parquet file."""
    queries = [msgspec.json.decode(body) for body in contents]
    features = np.array([query["x"] for query in queries])
    ids = [query["id"] for query in queries]
    pq.write_table(pa.table({"id": ids, "a": features[:, 0], "b": features[:, 1]}), path)


def write_config(folder: Path, *, name: str = "c.toml", **tables: Mapping[str, object]) -> Path:
    """Write a configuration over `state`, `q.jsonl`, `out.jsonl` and `ledger.jsonl` in `folder`.

    Args:
        folder: Where everything is.
        name: The file's name.
        tables: Settings by table, over the usual ones, if it has some; None takes a setting away.
    """
    usual: dict[str, dict[str, object]] = {
        "state": {"folder": str(folder / "state")},
        "source": {"kind": "jsonl", "path": str(folder / "q.jsonl")},
        "sink": {"kind": "jsonl", "path": str(folder / "out.jsonl"), "ledger": str(folder / "ledger.jsonl")},
        "service": {},
    }
    lines = []
    for table in dict.fromkeys((*usual, *tables)):
        merged = {**usual.get(table, {}), **tables.get(table, {})}
        lines.append(f"[{table}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in merged.items() if value is not None]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def write_log(folder: Path, count: int, seed: int = 1, plan: Plan | None = None) -> Path:
    """Write `q.jsonl` with queries, tombstones and rejects."""
    lines = bodies(count, seed, plan)
    lines[::9] = [b"null"] * len(lines[::9])
    lines[4::25] = [b'{"id":"bad","x":[1]}'] * len(lines[4::25])
    path = folder / "q.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of `perpetua` with these arguments."""
    return [sys.executable, "-c", "from oracle.cli.main import main; main()", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Return an environment without settings of Perpetua's own, and wide enough not to wrap lines."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERPETUA_")}
    return {**kept, "COLUMNS": "200", "NO_COLOR": "1"}


def perpetua(*arguments: str | Path, data: bytes | None = None, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run `perpetua` to its end in a process of its own."""
    return subprocess.run(
        command(*arguments),
        input=data,
        capture_output=True,
        check=False,
        timeout=TIMEOUT,
        env={**environment(), **variables},
    )
