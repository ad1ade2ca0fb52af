"""What `init`, `serve`, `fork` and `status` leave on disk and say, run for real in a process of their own.

A run is played, and again with rows that differ, the same keys and messages, and the outputs of all mechanisms frozen:
so all that anyone may see must be the same, byte for byte: ledgers, headers and lengths of snapshots, answers, log
lines and what is printed. Beside that, trainers are listened to: which rows they are given, and which keys.
"""

import hashlib
import json
import multiprocessing
import os
import re
import runpy
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from oracle.audit.around.rows import drawn
from oracle.audit.due.books import person_due
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.listening import listening
from oracle.audit.recording.tape import Tape
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.predictors.base import Trainer
from oracle.state.format import peek

__all__ = ["commanded"]

Seen = tuple[bool, str]

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_PATIENCE: Final = 900.0
"""Seconds after which commands are stuck."""

_FEATURE: Final = '[[model.features]]\nname = "%s"\nbounds = [0.0, 1.0]\n'
_CELLS: Final = '[[model.attributes]]\nname = "a"\ntype = "number"\nbounds = [0.0, 1.0]\nbins = 5\n'
_OF_TABLES: Final = (
    "epsilon = 3.0\ndelta = 1e-6\nalpha = 0.23\nrounds = 700\npaid = 2\nexamples = 1000\nfeatures = []\n"
)
_MODELS: Final = {
    "rectangles": "epsilon = 8.0\nalpha = 0.4\nexamples = 6000\nfirst_share = 0.5\n",
    "stumps": "epsilon = 7.0\nalpha = 0.41\nexamples = 2600\nfirst_share = 0.55\n",
    "classical": "epsilon = 3.0\nalpha = 0.31\nexamples = 4000\n",
    "bisection": "epsilon = 3.0\nalpha = 0.21\nrounds = 7000\nexamples = 2000\n",
    "statistics": _OF_TABLES,
    "sparse-vector": _OF_TABLES,
    "distribution": "epsilon = 3.0\ndelta = 1e-6\nalpha = 0.21\nrounds = 700\nexamples = 700\n",
    "ensemble": (
        'learner = "sklearn.tree.DecisionTreeClassifier"\nparameters = { max_depth = 2 }\nteacher_rows = 11\n'
        'contested = 0.03\nclasses = ["0", "1"]\nepsilon = 7.0\nalpha = 0.21\nexamples = 2000\n'
    ),
}
"""By predictor, a model of few rows."""

_SHARDS, _DELTA = 3, 1e-3
_MOST: Final = 2
"""Rows of a person that are used."""

_ROWS: Final = 20_000
_MESSAGES: Final = 40
_OTHERS: Final = 0.4
"""Part of the rows that are others in the second run."""

_SERVE: Final = (
    '[state]\nfolder = "state"\nkey_file = "key"\nsnapshot_rounds = 10\n[source]\nkind = "jsonl"\n'
    'path = "queries.jsonl"\n[sink]\nkind = "jsonl"\npath = "answers.jsonl"\nledger = "ledger.jsonl"\n'
)
_CHANGING: Final = re.compile(rb'\d{4}-\d\d-\d\dT[\d:.+Z]+|(?<=seconds=)\S+|(?<="snapshot_age_seconds":)[^,]*')
"""What is printed of time."""

_PROGRESS: Final = re.compile(rb"(planning|reading|fitting|replaying|evaluating): ")


class _Given(NamedTuple):
    """What trainers were given.

    Attributes:
        keys: Genesis keys, one for each trainer.
        rows: Of each, the first numbers of its rows.
    """

    keys: list[bytes]
    rows: list[list[float]]


class _Shown(NamedTuple):
    """What anyone may see of a run, by name, and what nobody may."""

    public: dict[str, bytes]
    words: list[set[tuple[int, int]]]
    given: _Given


def commanded(plan: Plan, randomness: Randomness, before: Callable[[], object] = str) -> Seen:
    """Commands leave, print and log nothing that follows from rows but by noise; no row or person counts twice.

    They run for real. Else a length, a line or a number tells of records, beside all that is charged for.

    Args:
        plan: Whose predictor it is about.
        randomness: Rows are drawn.
        before: Called first in the process that they run in.
    """
    parent, child = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_child, args=(plan.predictor, randomness.secret(0), child, before))
    process.start()
    child.close()
    try:
        wrong = str(parent.recv()) if parent.poll(_PATIENCE) else "commands are stuck"
    except EOFError:
        wrong = "a command ended the process"
    process.kill()
    process.join()
    return not wrong, wrong or "runs on other rows show the same, byte for byte; forks, shards and persons are apart"


def _child(predictor: str, seed: bytes, told: Any, before: Callable[[], object]) -> None:  # noqa: ANN401 -- a pipe's end
    before()
    with tempfile.TemporaryDirectory(prefix="perpetua-audit-") as folder:
        told.send(_wrong(predictor, Path(folder), Draws(Randomness(seed[:16], "commands"), 0)) or "")


def _wrong(predictor: str, folder: Path, draws: Draws) -> str | None:
    """Return what is wrong with commands, if anything."""
    rows = np.round(draws.uniform(2 * _ROWS).reshape(_ROWS, 2), 6)
    rows[:, 0] += np.arange(_ROWS) * 1e-12  # each its own
    others = np.where((draws.uniform(_ROWS) < _OTHERS)[:, None], np.roll(rows, 1, axis=0) ** 0.5, rows)
    others[:8] = rows[:8]
    with listening() as listener:
        listener.tape = first = Tape()
        shown = _run(predictor, folder / "first", rows)
        listener.tape = Tape(first)
        again = _run(predictor, folder / "second", others)
        listener.tape = None
    failed = [name for name, said in shown.public.items() if name.startswith("what ") and not said.startswith(b"0\n")]
    if failed:
        return f"{failed[0]}: {shown.public[failed[0]].decode(errors='replace')}"
    for name in sorted(shown.public.keys() | again.public.keys()):
        if shown.public.get(name) != again.public.get(name):
            return f"{name} follows from the rows: it is another one where these are others"
    for number, words in enumerate(shown.words):
        if any(words & other for other in shown.words[:number]):
            return "a fork draws noise that its run, or another fork, has drawn"
    if predictor == "rectangles":
        told = json.loads(shown.public["what status with forks prints"][2:])
        if told["epsilon_with_forks"] < 3.0 * told["epsilon"] or told["forks"] != 2:  # noqa: PLR2004 -- so many were made
            return "status does not add up two forks"
    wrong = _restart_wrong(predictor, folder / "restart", rows)
    if wrong is None and predictor == "rectangles":
        return _shards_wrong(folder / "shards", rows) or _persons_wrong(folder / "persons", rows)
    return wrong


def _model(predictor: str, shards: int = 1) -> str:
    said = _MODELS[predictor]
    if shards > 1:
        said = re.sub(r"examples = (\d+)", lambda found: f"examples = {shards * int(found[1])}", said)
    names = ("a",) if predictor in {"distribution", "rectangles"} else ("a", "b")
    parts = _CELLS if said == _OF_TABLES else "".join(_FEATURE % name for name in names)
    if predictor in {"distribution", "ensemble"}:
        parts = parts.replace("bounds = [0.0, 1.0]\n", "")
    return f'[model]\nname = "model"\npredictor = "{predictor}"\ndata = "people"\n{said}{parts}'


def _write(folder: Path, predictor: str, rows: Any, persons: Sequence[str] | None = None, shards: int = 1) -> None:  # noqa: ANN401 -- float64[n, 2]
    """Make a folder with a model, rows, queries and a configuration, and go there."""
    folder.mkdir()
    os.chdir(folder)
    (folder / "model.toml").write_text(_model(predictor, shards))
    inside = ((rows > 0.1) & (rows < 0.9)).all(axis=1).astype(int).tolist()  # noqa: PLR2004 -- a box
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
    if _MODELS[predictor] == _OF_TABLES:
        above = {} if predictor == "statistics" else {"above": 0.02 * (number % 20)}
        return {"id": name, "where": {"a": [0.2 * (number % 4), 0.2 * (1 + number % 4)]}, **above}
    return {"id": name, "a": at} if predictor == "rectangles" else {"id": name, "a": at, "b": (7 * at) % 1.0}


def _run(predictor: str, folder: Path, rows: Any) -> _Shown:  # noqa: ANN401 -- float64[n, 2]
    """Run commands on rows; return what they show."""
    _write(folder, predictor, rows)
    fork = ("fork", "queries.jsonl", "--from", "state", "--key", "key", "--accept-cost", "--out")
    public, words = dict[str, bytes](), list[set[tuple[int, int]]]()
    with _given() as given:
        for name, arguments in (
            ("init", _init(predictor)),
            ("serve", ("serve", "serve.toml")),
            ("status", ("status", "state", "--json")),
            ("fork", (*fork, "fork.jsonl", "--data-ledger", "people.budget.jsonl")),
            ("another fork", (*fork, "other.jsonl", "--data-ledger", "people.budget.jsonl")),
            ("status with forks", ("status", "state", "--json")),
            ("budget", ("budget", "people.budget.jsonl")),
        ):
            with drawn() as found:
                public[f"what {name} prints"] = _command(arguments)
            if name in {"serve", "fork", "another fork"}:
                words.append(set().union(*(bits for _, bits in found)) if found else set())
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in {"rows.csv", "serve.toml"}:
            data = path.read_bytes()
            clear = data[: peek(data).header_bytes] if path.suffix == ".perp" else b"" if path.name == "key" else data
            public[f"file {path.relative_to(folder)}"] = clear + b" %d bytes" % len(data)
    return _Shown(public, words, given)


def _restart_wrong(predictor: str, folder: Path, rows: Any) -> str | None:  # noqa: ANN401 -- float64[n, 2]
    """Put an older state in place, behind which the log is another one, and then the one that was answered."""
    _write(folder, predictor, rows)
    _command(_init(predictor))
    shutil.copytree("state", "older")
    _command(("serve", "serve.toml"))
    answers, queries = (folder / "answers.jsonl").read_bytes(), (folder / "queries.jsonl").read_bytes()
    lines = queries.splitlines(keepends=True)
    for first, log in ((lines[1], [*lines[1:], lines[0]]), (lines[0], lines)):
        shutil.rmtree("state")
        shutil.copytree("older", "state")
        (folder / "queries.jsonl").write_bytes(b"".join(log))
        refused = not _command(("serve", "serve.toml")).startswith(b"0\n")
        if (folder / "answers.jsonl").read_bytes() != answers or refused != (first != lines[0]):
            return "serve goes on behind an older snapshot with another log, or not with its own"
    return None


def _init(predictor: str) -> tuple[str, ...]:
    label = () if _MODELS[predictor] == _OF_TABLES or predictor == "distribution" else ("--label", "label")
    return ("init", "model.toml", "--data", "rows.csv", "--state", "state", "--key", "key", *label)


def _command(arguments: Sequence[str]) -> bytes:
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
def _given() -> Iterator[_Given]:
    """Listen to trainers for a while, and let the same random bytes come again."""
    given, number = _Given([], []), iter(range(1 << 30))
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
        return hashlib.shake_256(b"random %d" % next(number)).digest(count)

    real = secrets.token_bytes, secrets.token_hex
    Trainer.__init__, Trainer.add = heard_begin, heard_add  # type: ignore[method-assign]
    secrets.token_bytes = partial(_some, token)
    secrets.token_hex = lambda nbytes=None: _some(token, nbytes).hex()
    try:
        yield given
    finally:
        Trainer.__init__, Trainer.add = begin, add  # type: ignore[method-assign]
        secrets.token_bytes, secrets.token_hex = real


def _some(token: Any, count: int | None = None) -> bytes:  # noqa: ANN401 -- a function
    made: bytes = token(32 if count is None else count)
    return made


def _shards_wrong(folder: Path, rows: Any) -> str | None:  # noqa: ANN401 -- float64[n, 2]
    """Make a state of several shards in several readings; return what these share, if anything."""
    _write(folder, "rectangles", rows, shards=_SHARDS)
    vars(sys.modules["oracle.cli.init.shards"])["_TOGETHER_BYTES"] = 1
    with _given() as given:
        said = _command(
            ("init", "model.toml", "--data", "rows.csv", "--state", "state", "--key", "key", "--shards", str(_SHARDS))
        )
    if not said.startswith(b"0\n"):
        return "init --shards fails"
    held = [set(one) for one in given.rows]
    if len(held) != _SHARDS or sum(map(len, given.rows)) != len(set().union(*held)):
        return "a row is in two shards, or twice in one"
    plan = json.loads((folder / "state" / "plan.json").read_bytes())
    if any(len(one) != plan["declared"] for one in held) or _SHARDS * plan["delta"] > _DELTA:
        return "shards have other rows than the plan says, or together more than the model's delta"
    headers = [peek(path.read_bytes()) for path in folder.rglob("*.perp")]
    origins = {header.origin.genesis for header in headers if header.origin is not None}
    return None if len(set(given.keys)) == len(origins) == _SHARDS else "two shards have one key"


def _persons_wrong(folder: Path, rows: Any) -> str | None:  # noqa: ANN401 -- float64[n, 2]
    """Make a state with few rows of each person; return what is not as it is said, if anything."""
    persons = [str(number * 7919 % (_ROWS // 3)) for number in range(_ROWS)]
    _write(folder, "rectangles", rows, persons)
    with _given() as given:
        said = _command(
            ("init", "model.toml", "--data", "rows.csv", "--state", "state", "--person", "p", "--at-most", str(_MOST))
        )
    if not said.startswith(b"0\n"):
        return "init --person fails"
    whose = dict(zip(rows[:, 0].tolist(), persons, strict=True))
    used = [whose[one] for one in given.rows[0]]
    if len(given.rows) != 1 or max(Counter(used).values()) > _MOST:
        return f"of a person more than {_MOST} rows are used"
    plan = decode_plan((folder / "state" / "plan.json").read_bytes())
    dues = list(person_due(plan))
    told = plan.at_most == _MOST and dues and all(due.holds for due in dues)
    return None if told else f"of {_MOST} rows of a person another guarantee is told"
