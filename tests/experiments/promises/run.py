"""`perpetua evaluate` on every recipe, under several keys: what it promised, and what was seen."""

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from oracle.evaluation.report import Report
from tests.experiments.promises.recipes import Recipe
from tests.support.folders import command, environment

ROUNDS: Final = 3_000_000
"""Queries of an everlasting predictor, drawn from the test rows: for most plans into their third phase."""

_FOUND: Final = frozenset({0, 1})
"""Exit codes of an evaluation: the promise was kept, or not."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe and what came of it.

    Attributes:
        name: The recipe's.
        source: Where the data are from.
        question: What the label answers.
        note: What a reader has to know.
        real: Rows to train on that the data have.
        examples: Rows that the model declares and is trained on.
        asked: Test rows.
        rounds: Queries under each key; as many as test rows where it is not everlasting.
        refused: What `evaluate` said where it refused the model or the rows; else "".
        reports: Its reports, one a key.
    """

    name: str
    source: str
    question: str
    note: str
    real: int
    examples: int
    asked: int
    rounds: int
    refused: str
    reports: tuple[Report, ...]


def evaluate_all(recipes: Sequence[Recipe], keys: int, workers: int, tell: Callable[[str], None]) -> list[Outcome]:
    """Run every recipe under so many keys.

    Args:
        recipes: What to run.
        keys: Runs of each; every run of `evaluate` draws a key of its own.
        workers: Processes at a time.
        tell: Called with a recipe's name when it is done.
    """

    def run(recipe: Recipe) -> Outcome:
        outcome = _evaluate(recipe, keys)
        tell(recipe.name)
        return outcome

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, recipes))


def _evaluate(recipe: Recipe, keys: int) -> Outcome:
    rows = recipe.rows()
    rounds = len(rows.test) if recipe.settings["predictor"] == "classical" else max(ROUNDS, len(rows.test))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "model.toml").write_text(recipe.model, encoding="utf-8")
        rows.train.to_parquet(folder / "train.parquet", index=False)
        rows.test.to_parquet(folder / "test.parquet", index=False)
        found = [_once(folder, rounds) for _ in range(keys)]
    return Outcome(
        name=recipe.name,
        source=recipe.source,
        question=recipe.question,
        note=recipe.note,
        real=rows.real,
        examples=int(recipe.settings["examples"]),
        asked=len(rows.test),
        rounds=rounds,
        refused=next((one for one in found if isinstance(one, str)), ""),
        reports=tuple(one for one in found if isinstance(one, Report)),
    )


def _once(folder: Path, rounds: int) -> Report | str:
    """Return the report, or why there is none."""
    options = ("--train", "train.parquet", "--test", "test.parquet", "--rounds", str(rounds), "--json")
    done = subprocess.run(
        command("evaluate", "model.toml", *options),
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        env=environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode not in _FOUND:
        return done.stderr.strip().splitlines()[-1]
    return msgspec.json.decode(done.stdout, type=Report)
