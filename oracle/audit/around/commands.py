"""What `init`, `serve`, `fork` and `status` leave on disk and say, run for real in a process of their own.

A run is played, and again with rows that differ, the same keys and messages, and the outputs of all mechanisms frozen:
so all that anyone may see must be the same, byte for byte: ledgers, headers and lengths of snapshots, answers, log
lines and what is printed. Beside that, trainers are listened to: which rows they are given, and which keys.
"""

import json
import multiprocessing
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from oracle.accounting.budget import charges, total
from oracle.accounting.ledger import PhaseStarted, StartChecked
from oracle.audit.around.acting import (
    Given,
    answering,
    command,
    given_to_trainers,
    in_batches,
    init_of,
    plan_once,
    write,
)
from oracle.audit.around.rows import drawn
from oracle.audit.due.books import person_due
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.listening import listening
from oracle.audit.recording.tape import Tape
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.state.event_lines import read_events
from oracle.state.forks import read_forks
from oracle.state.format import peek

__all__ = ["commanded"]

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_PATIENCE: Final = 900.0
"""Seconds after which commands are stuck."""

_SHARDS, _DELTA = 3, 1e-3
_FORKS: Final = 2
_MOST: Final = 2
"""Rows of a person that are used."""

_EACH: Final = 2 * _MOST
"""Rows of a person: of half of the persons one behind the other, of the others as far apart as can be."""

_ROWS: Final = 20_000
_FEW: Final = 60
_OTHERS: Final = 0.4
"""Part of the rows that are others in the second run."""


class _Shown(NamedTuple):
    """What anyone may see of a run, by name, and what nobody may."""

    public: dict[str, bytes]
    words: list[set[tuple[int, int]]]
    given: Given


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
    plan_once()
    in_batches()
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
    wrong = _unpaid(shown, folder / "first") or _lengths_wrong(predictor, shown.public["file answers.jsonl"])
    wrong = wrong or _restart_wrong(predictor, folder / "restart", rows)
    if wrong is None and predictor == "rectangles":
        wrong = (
            _shards_wrong(folder / "together", rows)
            or _shards_wrong(folder / "shards", rows, 1)
            or _persons_wrong(folder / "persons", rows)
        )
        return wrong or _refusal_wrong(folder / "refused", rows)
    return wrong


def _unpaid(shown: _Shown, folder: Path) -> str | None:
    """Return where keys are not fresh, or forks not told in time, or not added up, if anywhere."""
    given = shown.given
    if len(set(given.keys)) < len(given.keys) or not given.keys or not set(given.keys) <= given.made:
        return "a genesis key is no fresh one"
    if given.forks != sorted({*given.forks}) or len(given.forks) != _FORKS or 0 in given.forks:
        return "a fork answers before it is recorded"
    told = json.loads(shown.public["what status with forks prints"][2:])
    events = read_events(folder / "people.budget.jsonl", (PhaseStarted, StartChecked), "state")
    paid = [event for event in read_forks(folder / "state") if event.epsilon > 0.0]
    epsilon = told["epsilon"] + sum(event.epsilon for event in paid)
    if told["forks"] != _FORKS or told["epsilon_with_forks"] < epsilon * (1.0 - 1e-9):
        return "status does not add up forks"
    found = total(charges(events)).epsilon if events else 0
    return None if float(found) >= epsilon * (1.0 - 1e-9) else "the data's ledger does not add up forks"


def _lengths_wrong(predictor: str, answers: bytes) -> str | None:
    """Return that replies with labels differ in length, if they do."""
    plain = [re.sub(rb'"id":"q\d+"|"round":\d+', b"", line) for line in answers.splitlines() if b'"label"' in line]
    return f"replies of {predictor} are not of one length" if len(set(map(len, plain))) > 1 else None


def _run(predictor: str, folder: Path, rows: Any) -> _Shown:  # noqa: ANN401 -- float64[n, 2]
    """Run commands on rows; return what they show."""
    write(folder, predictor, rows)
    fork = ("fork", "queries.jsonl", "--from", "state", "--key", "key", "--accept-cost", "--out")
    public, words = dict[str, bytes](), list[set[tuple[int, int]]]()
    with given_to_trainers() as given:
        for name, arguments in (
            ("init", init_of(predictor)),
            ("serve", ("serve", "serve.toml")),
            ("status", ("status", "state", "--json")),
            ("fork", (*fork, "fork.jsonl", "--data-ledger", "people.budget.jsonl")),
            ("another fork", (*fork, "other.jsonl", "--data-ledger", "people.budget.jsonl")),
            ("status with forks", ("status", "state", "--json")),
            ("budget", ("budget", "people.budget.jsonl")),
        ):
            with drawn() as found, answering(given.forks, "fork" in name):
                public[f"what {name} prints"] = command(arguments)
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
    write(folder, predictor, rows)
    command(init_of(predictor))
    shutil.copytree("state", "older")
    command(("serve", "serve.toml"))
    answers, queries = (folder / "answers.jsonl").read_bytes(), (folder / "queries.jsonl").read_bytes()
    lines = queries.splitlines(keepends=True)
    for first, log in ((lines[1], [*lines[1:], lines[0]]), (lines[0], lines)):
        shutil.rmtree("state")
        shutil.copytree("older", "state")
        (folder / "queries.jsonl").write_bytes(b"".join(log))
        refused = not command(("serve", "serve.toml")).startswith(b"0\n")
        if (folder / "answers.jsonl").read_bytes() != answers or refused != (first != lines[0]):
            return "serve goes on behind an older snapshot with another log, or not with its own"
    return None


def _shards_wrong(folder: Path, rows: Any, together: int = 1 << 40) -> str | None:  # noqa: ANN401 -- float64[n, 2]
    """Make a state of several shards, so many bytes of them in one reading; return what these share, if anything."""
    write(folder, "rectangles", rows, shards=_SHARDS)
    vars(sys.modules["oracle.cli.init.shards"])["_TOGETHER_BYTES"] = together
    with given_to_trainers() as given:
        said = command(
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
    if not set(given.keys) <= given.made:
        return "a shard's genesis key is no fresh one"
    return None if len(set(given.keys)) == len(origins) == _SHARDS else "two shards have one key"


def _persons_wrong(folder: Path, rows: Any) -> str | None:  # noqa: ANN401 -- float64[n, 2]
    """Make a state with few rows of each person; return what is not as it is said, if anything."""
    beside, apart = range(_ROWS // 2), range(_ROWS // 2, _ROWS)
    numbers = [*(number // _EACH for number in beside), *(_ROWS + number % (_ROWS // 2 // _EACH) for number in apart)]
    persons = [str(number * 7919 % 1_000_003) for number in numbers]
    write(folder, "rectangles", rows, persons)
    with given_to_trainers() as given:
        said = command(
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


def _refusal_wrong(folder: Path, rows: Any) -> str | None:  # noqa: ANN401 -- float64[n, 2]
    """Give too few rows labelled 1; return that what they pay for being told so stands nowhere, if it does not."""
    write(folder, "rectangles", np.concatenate([rows[:_FEW], rows[_FEW:] / 10.0]))
    if command(init_of("rectangles")).startswith(b"0\n"):
        return "init makes a state of too few rows"
    for name in ("state.starts.jsonl", "people.budget.jsonl"):
        events = read_events(folder / name, (PhaseStarted, StartChecked), "start")
        if not any(isinstance(event, StartChecked) and not event.passed and event.epsilon > 0.0 for event in events):
            return f"what rows have paid for a start that was refused does not stand in {name}"
    return None
