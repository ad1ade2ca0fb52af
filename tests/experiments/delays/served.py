"""The oracle over files, through its own commands: planned, trained, killed on the way, and read."""

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.errors import PerpetuaError
from oracle.planning.plan import Plan
from oracle.predictors.kinds import new_trainer
from tests.experiments.delays.data import FEATURES, Delays
from tests.support.folders import command, environment, write_config
from tests.support.waiting import TIMEOUT

"""Seconds that the daemon may take to get to where it is killed."""

_TEXT: Final = """\
[model]
name = "delays"
predictor = "stumps"
epsilon = {epsilon:g}
alpha = {alpha:g}      # beyond the error of the best stump
examples = {examples}  # declared, never counted from the data
"""


_SAID: Final = 2000
"""Characters of a failed command's output that are shown: its last ones."""


def model_text(epsilon: float, alpha: float, examples: int, features: Sequence[str] = tuple(FEATURES)) -> str:
    """Return the model file."""
    head = _TEXT.format(epsilon=epsilon, alpha=alpha, examples=examples)
    return head + "".join(f'[[model.features]]\nname = "{name}"\n' for name in features)


def write_rows(task: Delays, folder: Path, features: Sequence[str] = tuple(FEATURES)) -> None:
    """Write the labelled rows and the query log."""
    table = {name: task.rows[:, column] for column, name in enumerate(features)}
    pyarrow.parquet.write_table(pa.table({**table, "label": task.labels}), folder / "train.parquet")
    lines = [msgspec.json.encode({"id": str(row), "x": query}) for row, query in enumerate(task.queries.tolist())]
    (folder / "q.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def _perpetua(*arguments: str | Path) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, check=False, text=True, env=environment())
    if done.returncode:
        said = "; ".join(filter(None, (done.stdout.strip()[-_SAID:], done.stderr.strip()[-_SAID:])))
        raise PerpetuaError(f"perpetua {arguments[0]}: ended with {done.returncode}: {said}")


def serve_killed(folder: Path, model: str, kill_at: int) -> NDArray[np.bool_]:
    """Make a state of the rows that `write_rows` wrote, serve the queries, and return the answers.

    Args:
        folder: Where they are; a state of an earlier call is left beside, under another name.
        model: The model file's text.
        kill_at: Answers after which the daemon is killed and started again.
    """
    (folder / "model.toml").write_text(model)
    state = folder / f"state-{len(list(folder.glob('state-*')))}"
    answers = folder / f"{state.name}.jsonl"
    _perpetua("init", folder / "model.toml", "--data", folder / "train.parquet", "--state", state)
    config = write_config(
        folder,
        state={"folder": str(state), "snapshot_rounds": 20_000},
        sink={"path": str(answers), "ledger": None},
        service={"batch_rows": 1024},
    )
    with (folder / "serve.log").open("ab") as log:
        daemon = subprocess.Popen(command("serve", config), stderr=log, stdin=subprocess.DEVNULL, env=environment())
        deadline = time.monotonic() + TIMEOUT
        while _lines(answers) < kill_at and daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
    if _lines(answers) < kill_at:
        msg = f"perpetua serve: did not give {kill_at:,} answers; see {log.name}"
        raise PerpetuaError(msg)
    _perpetua("serve", config)
    given = [json.loads(line) for line in answers.read_bytes().splitlines()]
    if [answer["round"] for answer in given] != list(range(len(given))):
        msg = f"{answers}: not one answer to each query, in order"
        raise PerpetuaError(msg)
    return np.array([answer["label"] == 1 for answer in given])


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def predicted(task: Delays, plan: Plan, secret: bytes) -> NDArray[np.bool_]:
    """Return the answers under one plan and a known secret, without the daemon."""
    trainer = new_trainer(plan, secret)
    trainer.add(task.rows, task.labels)
    answers = trainer.finish().answer(task.queries, np.ones(len(task.queries), dtype=np.bool_))
    return np.asarray(answers.labels == 1)
