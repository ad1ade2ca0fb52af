"""A state that `perpetua check` passes, and what it says of one that it does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from oracle.state.folder import FolderStore
from oracle.state.keys import create_key_file
from tests.predictors.plans import planned
from tests.support.folders import write_config
from tests.support.shards import first_snapshot

ALL = [
    "configuration",
    "state folder exists and is private",
    "state folder has room for the next snapshot",
    "plan verified by the accountant",
    "key file",
    "sink's folder is writable",
    "snapshot decrypts with this key and plan",
    "sink matches the state",
    "source can be read from the state's position",
]
"""What is looked at of a model on files, in this order."""


def make_ready(folder: Path) -> Path:
    """Make a state of a real plan, a log and a configuration; the accountant passes the plan."""
    plan = planned()
    snapshot = first_snapshot(plan)
    state = folder / "state"
    state.mkdir(mode=0o700)
    with FolderStore.open(state, create_key_file(state / "key")) as store:
        store.write_plan(plan.encode())
        store.save(snapshot)
    write_queries(folder / "q.jsonl", 20)
    write_config(folder)
    return folder


def write_queries(path: Path, count: int, seed: int = 1) -> None:
    """Write queries of the plan's one feature."""
    values = np.random.default_rng(seed).random(count)
    path.write_text("".join(f'{{"id":"q{number}","x":[{value:.6f}]}}\n' for number, value in enumerate(values)))


def tree(folder: Path) -> dict[Path, bytes | None]:
    """Return all that is in a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def problem_of(cli: Callable[..., Any], folder: Path, what: str) -> str:
    """Return what `check` finds wrong, which must be this alone, in words as with --json."""
    result = cli("check", folder / "c.toml", "--json")
    assert result.code == 1
    found = {finding["what"]: finding["problem"] for finding in msgspec.json.decode(result.out)}
    assert [name for name, problem in found.items() if problem] == [what]
    words = cli("check", folder / "c.toml")
    assert words.code == 1
    assert f"WRONG  {what}: {found[what]}" in words.out.splitlines()
    assert words.err == ""
    return str(found[what])
