"""Commands, run in this process: models of few rows, what is printed, and what trainers and forks are given."""

import hashlib
import json
import os
import re
import runpy
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.predictors.base import Trainer
from oracle.runtime.shard import Outcome, Shard

__all__ = [
    "MODELS",
    "OF_TABLES",
    "Given",
    "answering",
    "command",
    "given_to_trainers",
    "in_batches",
    "init_of",
    "plan_once",
    "write",
]

_TOGETHER: Final = 2_003
"""Rows of a file that commands read at once here: as if it were a large one."""

_FEATURE: Final = '[[model.features]]\nname = "%s"\nbounds = [0.0, 1.0]\n'

_CELLS: Final = '[[model.attributes]]\nname = "a"\ntype = "number"\nbounds = [0.0, 1.0]\nbins = 5\n'

OF_TABLES: Final = "epsilon = 3.0\ndelta = 1e-6\nalpha = 0.23\nrounds = 700\npaid = 2\nexamples = 1000\nfeatures = []\n"

MODELS: Final = {
    "rectangles": "epsilon = 8.0\nalpha = 0.4\nexamples = 6000\nfirst_share = 0.5\n",
    "stumps": "epsilon = 7.0\nalpha = 0.41\nexamples = 2600\nfirst_share = 0.55\n",
    "classical": "epsilon = 3.0\nalpha = 0.31\nexamples = 4000\n",
    "bisection": "epsilon = 3.0\nalpha = 0.21\nrounds = 7000\nexamples = 2000\n",
    "statistics": OF_TABLES,
    "sparse-vector": OF_TABLES,
    "distribution": "epsilon = 3.0\ndelta = 1e-6\nalpha = 0.21\nrounds = 700\nexamples = 700\n",
    "ensemble": (
        'learner = "sklearn.tree.DecisionTreeClassifier"\nparameters = { max_depth = 2 }\nteacher_rows = 11\n'
        'contested = 0.03\nclasses = ["0", "inside"]\nepsilon = 7.0\nalpha = 0.21\nexamples = 2000\n'
    ),
}
"""By predictor, a model of few rows."""

_MESSAGES: Final = 40

_SERVE: Final = (
    '[state]\nfolder = "state"\nkey_file = "key"\nsnapshot_rounds = 10\n[source]\nkind = "jsonl"\n'
    'path = "queries.jsonl"\n[sink]\nkind = "jsonl"\npath = "answers.jsonl"\nledger = "ledger.jsonl"\n'
)

_CHANGING: Final = re.compile(rb'\d{4}-\d\d-\d\dT[\d:.+Z]+|(?<=seconds=)\S+|(?<="snapshot_age_seconds":)[^,]*')
"""What is printed of time."""

_PROGRESS: Final = re.compile(rb"(planning|reading|fitting|replaying|evaluating): ")


class Given(NamedTuple):
    """What trainers were given.

    Attributes:
        keys: Genesis keys, one for each trainer.
        rows: Of each, the first numbers of its rows.
        made: Random bytes that were drawn.
        forks: How many forks were recorded when one first answered, for each.
    """

    keys: list[bytes]
    rows: list[list[float]]
    made: set[bytes]
    forks: list[int]


def _model(predictor: str, shards: int = 1) -> str:
    said = MODELS[predictor]
    if shards > 1:
        said = re.sub(r"examples = (\d+)", lambda found: f"examples = {shards * int(found[1])}", said)
    names = ("a",) if predictor in {"distribution", "rectangles"} else ("a", "b")
    parts = _CELLS if said == OF_TABLES else "".join(_FEATURE % name for name in names)
    if predictor in {"distribution", "ensemble"}:
        parts = parts.replace("bounds = [0.0, 1.0]\n", "")
    return f'[model]\nname = "model"\npredictor = "{predictor}"\ndata = "people"\n{said}{parts}'


def write(folder: Path, predictor: str, rows: Any, persons: Sequence[str] | None = None, shards: int = 1) -> None:  # noqa: ANN401 -- float64[n, 2]
    """Make a folder with a model, rows, queries and a configuration, and go there."""
    folder.mkdir()
    os.chdir(folder)
    (folder / "model.toml").write_text(_model(predictor, shards))
    words = ("0", "inside" if predictor == "ensemble" else "1")
    inside = [words[one] for one in ((rows > 0.1) & (rows < 0.9)).all(axis=1).tolist()]  # noqa: PLR2004 -- a box
    whose = persons or [""] * len(rows)
    lines = [f"{a!r},{b!r},{label},{name}" for (a, b), label, name in zip(rows.tolist(), inside, whose, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["a,b,label,p", *lines]))
    (folder / "serve.toml").write_text(_SERVE)
    queries = [_query(predictor, number) for number in range(_MESSAGES)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))


def _query(predictor: str, number: int) -> dict[str, object]:
    at, name = (0.137 * (number + 1)) % 1.0, f"q{number}"
    if predictor == "distribution":
        return {"id": name, "at": at}
    if MODELS[predictor] == OF_TABLES:
        above = {} if predictor == "statistics" else {"above": 0.02 * (number % 20)}
        return {"id": name, "where": {"a": [0.2 * (number % 4), 0.2 * (1 + number % 4)]}, **above}
    return {"id": name, "a": at} if predictor == "rectangles" else {"id": name, "a": at, "b": (7 * at) % 1.0}


def init_of(predictor: str) -> tuple[str, ...]:
    """Return the arguments of `init` for a model."""
    label = () if MODELS[predictor] == OF_TABLES or predictor == "distribution" else ("--label", "label")
    return ("init", "model.toml", "--data", "rows.csv", "--state", "state", "--key", "key", *label)


def plan_once() -> None:
    """Have `init` plan a model once only, which takes longest."""
    names, known = vars(import_module("oracle.cli.init.command")), dict[tuple[bytes, int], Plan]()
    real = names["plan_shards"]

    def plan_shards(model: Model, shards: int, *rest: Any) -> Plan:  # noqa: ANN401 -- as `plan_shards`
        key = msgspec.json.encode(model), shards
        if key not in known:
            known[key] = real(model, shards, *rest)
        return known[key]

    names["plan_shards"] = plan_shards


def in_batches() -> None:
    """Have commands read files of rows in several batches, as they read larger ones."""
    file = import_module("oracle.cli.table_files").TableFile
    real = file.batches

    def batches(self: Any) -> Iterator[Any]:  # noqa: ANN401 -- a file
        for whole in real(self):
            yield from (whole.slice(start, _TOGETHER) for start in range(0, len(whole), _TOGETHER))

    file.batches = batches


def command(arguments: Sequence[str]) -> bytes:
    """Run a command in this process; return how it ends and what it prints, but for times."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with tempfile.TemporaryFile() as printed:
        kept = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(printed.fileno(), number)
        sys.argv, code = ["perpetua", *arguments], 0
        try:
            runpy.run_module("oracle.cli", run_name="__main__")
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 1
        finally:
            for number, descriptor in zip((1, 2), kept, strict=True):
                (sys.stdout, sys.stderr)[number - 1].flush()
                os.dup2(descriptor, number)
                os.close(descriptor)
        printed.seek(0)
        lines = [one for one in printed.read().splitlines() if not _PROGRESS.match(one)]
    return b"%d\n" % code + _CHANGING.sub(b"0", b"\n".join(lines))


@contextmanager
def given_to_trainers() -> Iterator[Given]:
    """Listen to trainers for a while, and let the same random bytes come again."""
    given, number = Given([], [], set(), []), iter(range(1 << 30))
    begin, add = Trainer.__init__, Trainer.add
    known = dict[int, int]()

    def heard_begin(self: Any, plan: Plan, secret: bytes) -> None:  # noqa: ANN401 -- a trainer
        begin(self, plan, secret)
        known[id(self)] = len(given.keys)
        given.keys.append(secret)
        given.rows.append([])

    def heard_add(self: Any, features: Any, labels: Any) -> None:  # noqa: ANN401 -- a trainer
        given.rows[known[id(self)]] += features[: self.missing, 0].tolist()
        add(self, features, labels)

    def token(count: int) -> bytes:
        made = hashlib.shake_256(b"random %d" % next(number)).digest(count)
        given.made.add(made)
        return made

    real = secrets.token_bytes, secrets.token_hex
    Trainer.__init__, Trainer.add = heard_begin, heard_add  # type: ignore[method-assign]
    secrets.token_bytes = partial(_some, token)
    secrets.token_hex = lambda nbytes=None: _some(token, nbytes).hex()
    try:
        yield given
    finally:
        Trainer.__init__, Trainer.add = begin, add  # type: ignore[method-assign]
        secrets.token_bytes, secrets.token_hex = real


@contextmanager
def answering(forks: list[int], forking: bool) -> Iterator[None]:  # noqa: FBT001 -- whether a fork is made
    """Note how many forks are recorded when a shard answers first."""
    real, ledger, seen = Shard.process, Path("state.forks.jsonl"), list[int]()

    def process(self: Shard, batch: Any) -> Outcome:  # noqa: ANN401 -- as `process`
        seen.append(ledger.read_bytes().count(b"\n") if ledger.exists() else 0)
        return real(self, batch)

    Shard.process = process  # type: ignore[method-assign]
    try:
        yield
    finally:
        Shard.process = real  # type: ignore[method-assign]
    if forking:
        forks += seen[:1]


def _some(token: Any, count: int | None = None) -> bytes:  # noqa: ANN401 -- a function
    made: bytes = token(32 if count is None else count)
    return made
