"""Leaks planted on purpose in questions about a distribution: of the rows, or of the noise, that nobody paid for."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import typer

from oracle.cli.init import command as init
from oracle.codec.decoded import DecodedBatch
from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.predictors.base import Answers
from oracle.predictors.distribution.base import SortedRows
from oracle.predictors.distribution.predictor import Distribution
from oracle.predictors.distribution.trainer import DistributionTrainer
from oracle.runtime.shard import Shard
from tests.leaks.levers import Mutant, Patch, after, in_channels, in_status, log_reason, of_state, on_answers, padded
from tests.leaks.mutants_of_tables import count_in_ledger, metric_of_distances

_MIDDLE: Final = 0.7
"""So that the row that differs lies below it in one world only."""


def _counts(patch: Patch) -> Callable[[], int]:
    """Return what tells the sum of all counts of rows so far."""
    real, sums = SortedRows._count, [0]

    def count(self: SortedRows, key: Any) -> int:
        found = real(self, key)
        sums.append(sums.pop() + found)
        return found

    patch.setattr(SortedRows, "_count", count)
    return lambda: sums[-1]


def _logged_count(patch: Patch) -> None:
    log_reason(patch, _counts(patch))


def _noise_logged(patch: Patch) -> None:
    """What was drawn tells the count that it was added to."""
    real, drawn = PaidQuestions.ask, [0]

    def ask(self: PaidQuestions, counts: Any, lows: Any, words: Any, **rest: Any) -> Any:
        drawn.append(int(np.bitwise_xor.reduce(words, axis=None)) ^ drawn[-1])
        return real(self, counts, lows, words, **rest)

    patch.setattr(PaidQuestions, "ask", ask)
    log_reason(patch, lambda: drawn[-1])


def _below(state: Any) -> int:
    return int((state["rows"] <= _MIDDLE).sum())


def _rows_in_status(patch: Patch) -> None:
    in_status(patch, "rows", of_state(patch, _below))


def _last_digits(patch: Patch) -> None:
    """A share's last digits are the rows'."""

    def told(shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        assert answers.values is not None
        return dataclasses.replace(answers, values=answers.values + 1e-12 * _below(shard._predictor.export()))

    on_answers(patch, told)


def _quantiles_of_rows(patch: Patch) -> None:
    """A quantile is the mean of the rows up to the one next to it."""

    def told(shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        rows = np.asarray(shard._predictor.export()["rows"], dtype=np.float64)
        assert answers.found is not None
        places = np.searchsorted(rows, answers.found[:, 0]).clip(max=len(rows) - 1)
        return dataclasses.replace(answers, found=(np.cumsum(rows) / np.arange(1, len(rows) + 1))[places][:, None])

    on_answers(patch, told)


def _verified_by_rows(patch: Patch) -> None:
    """One answer in seven says that it is not verified; which ones, the rows say."""

    def told(shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        assert answers.verified is not None
        told_so = np.arange(len(answers.verified)) % 7 != _below(shard._predictor.export()) % 7
        return dataclasses.replace(answers, verified=answers.verified & told_so)

    on_answers(patch, told)


def _rows_printed(patch: Patch) -> None:
    """`init` says how many rows are small."""
    found: list[int] = []
    after(patch, DistributionTrainer, "add", lambda _, rows, _labels: found.append(int((rows <= _MIDDLE).sum())))
    after(patch, init, "_say_what_was_made", lambda *_: typer.echo(f"{sum(found)} small rows"))


def _planted(break_it: Callable[[Patch], None], *channels: str, subject: str = "distribution") -> Mutant:
    return Mutant(break_it, "training row", in_channels(*channels), subject=subject)


MUTANTS_OF_DISTRIBUTIONS: Final[dict[str, Mutant]] = {
    "distribution: counts, logged": _planted(_logged_count, "log"),
    "distribution: noise, logged": _planted(_noise_logged, "log"),
    "distribution: how far counts are from thresholds": _planted(metric_of_distances, "metrics"),
    "distribution: rows in /status": _planted(_rows_in_status, "status"),
    "distribution: a state's size by the rows": _planted(
        partial(padded, Distribution, _below), "files", "metrics", "snapshot headers", "status"
    ),
    "distribution: a count in the ledger": _planted(partial(count_in_ledger, _counts), "ledger"),
    "distribution: a share's last digits": _planted(_last_digits, "answers"),
    "distribution: quantiles made of rows": _planted(_quantiles_of_rows, "answers"),
    "distribution: verified by the rows, when all is settled": _planted(
        _verified_by_rows, "answers", subject="distribution, settled"
    ),
    "distribution: rows printed by `init`": Mutant(
        _rows_printed, "training row", in_channels("init"), subject="distribution", files="jsonl once"
    ),
}
"""Every leak by what it is."""
