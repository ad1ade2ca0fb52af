"""All methods on one table, at one epsilon and seed after another; what is known already is not run again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.experiments.peers import ours, pate, released
from tests.experiments.peers.sets import SETS, Task

EPSILONS: Final = (1.0, 2.0, 4.0)

_NEVER: Final = 0.0
"""The epsilon of methods that protect nothing."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one method, once.

    Attributes:
        method: Which.
        epsilon: Of a training row; 0 where nothing is protected.
        seed: Of the run.
        rows: Trained on.
        asked: Queries.
        wrong: Part of the answers that is wrong; None where there is none.
        wanted: Rows that a planner asks for; 0 where there is no planner.
        answered: Queries that PATE or an ensemble answers; 0 of others, which answer all.
        plainly: How many PATE answers by the privacy loss that does not depend on the data.
        note: Why there is no answer.
    """

    method: str
    epsilon: float
    seed: int
    rows: int
    asked: int
    wrong: float | None
    wanted: int = 0
    answered: int = 0
    plainly: int = 0
    note: str = ""


def read(name: str, folder: Path) -> list[Found]:
    """Return what is known of a table."""
    path = folder / f"{name}.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Found) for line in lines]


def run(name: str, seeds: int, folder: Path, tell: Callable[[str], None], methods: Sequence[str] = ()) -> None:
    """Run what is not known of a table yet, and write each result as it comes.

    Args:
        name: Of the table.
        seeds: Runs of each method that draws.
        folder: Where the results lie.
        tell: Called with each method's name.
        methods: That are run; all, if none is named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = {(one.method, one.epsilon, one.seed) for one in read(name, folder)}
    task: Task | None = None
    for method, epsilon, seed in _cells(seeds):
        if (method, epsilon, seed) in known or (methods and method not in methods):
            continue
        task = task or SETS[name]()
        tell(f"{name}: {method}, {epsilon:g}")
        with (folder / f"{name}.jsonl").open("ab") as file:
            file.writelines(msgspec.json.encode(one) + b"\n" for one in _found(task, method, epsilon, seed))


def _cells(seeds: int) -> Iterator[tuple[str, float, int]]:
    """Yield what is to be run; the slow ensemble of linear learners comes last, and has one seed."""
    yield from ((method, _NEVER, 0) for method in ("majority", *(f"open {name}" for name in released.OPEN)))
    for epsilon in EPSILONS:
        for seed in range(seeds):
            yield from ((name, epsilon, seed) for name in released.PRIVATE)
            yield from ((f"our {name}", epsilon, seed) for name in ("classical", "box", "stump"))
            yield "ensemble tree", epsilon, seed
    yield from (("ensemble logistic", epsilon, 0) for epsilon in EPSILONS)


def _found(task: Task, method: str, epsilon: float, seed: int) -> Iterator[Found]:
    """Yield what comes of a method; the trees' teachers then answer as PATE, too."""
    base = Found(method=method, epsilon=epsilon, seed=seed, rows=len(task.rows), asked=len(task.truth), wrong=None)
    kind, _, name = method.partition(" ")
    if kind == "majority":
        yield msgspec.structs.replace(base, wrong=released.majority(task))
    elif kind == "open":
        yield msgspec.structs.replace(base, wrong=released.open_error(task, name))
    elif not name:
        yield msgspec.structs.replace(base, wrong=released.private_error(task, method, epsilon, seed))
    elif kind == "our":
        came = {"box": ours.box, "stump": ours.stump, "classical": ours.classical}[name](task, epsilon, seed)
        yield msgspec.structs.replace(base, wrong=came.wrong, wanted=came.wanted, note=came.note)
    else:
        came = ours.ensemble(task, name, epsilon, seed, votes=name == "tree")
        yield msgspec.structs.replace(base, wrong=came.wrong, wanted=came.wanted, answered=came.answered)
        if came.votes is not None:
            yield from _pate(task, base, came)


def _pate(task: Task, base: Found, came: ours.Asked) -> Iterator[Found]:
    assert came.votes is not None
    spent = pate.answer(came.votes, base.epsilon, came.delta, base.seed)
    count = len(spent.answers)
    if not count:
        return
    wrong = float((spent.answers != task.truth[:count]).mean())
    told = msgspec.structs.replace(base, method="pate", wrong=wrong, answered=count, plainly=spent.plainly)
    yield told
    student = released.student_error(task, spent.answers)
    yield msgspec.structs.replace(told, method="pate student", wrong=student)
