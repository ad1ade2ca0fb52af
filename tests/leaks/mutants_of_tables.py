"""Leaks planted on purpose in questions about tables: of the rows, or of the noise, that nobody paid for."""

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import typer

from oracle.accounting.ledger import AnswerPaid, MarginalsReleased
from oracle.cli.hypothesis import command as hypothesis
from oracle.cli.init import command as init
from oracle.codec.decoded import DecodedBatch
from oracle.errors import LogDivergedError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.thresholds.paid import PAID, PaidQuestions
from oracle.predictors.base import Answers
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.statistics.sparse import SparseVector
from oracle.predictors.statistics.sums import Rows
from oracle.predictors.statistics.trainer import TableTrainer
from oracle.runtime.shard import Shard
from oracle.telemetry.records import Work
from oracle.telemetry.reporter import Reporter
from tests.leaks.levers import (
    Mutant,
    Patch,
    after,
    gauge,
    in_channels,
    in_status,
    log_reason,
    of_state,
    on_answers,
    on_commit,
    padded,
)


def _counts(patch: Patch) -> Callable[[], int]:
    """Return what tells the sum of all counts of rows so far."""
    real, sums = Rows.over, [0]

    def over(self: Rows, masks: Any) -> Any:
        counts = real(self, masks)
        sums.append(sums.pop() + int(counts.sum()))
        return counts

    patch.setattr(Rows, "over", over)
    return lambda: sums[-1]


def _logged_count(patch: Patch) -> None:
    log_reason(patch, _counts(patch))


def _lines_by_count(patch: Patch) -> None:
    count = _counts(patch)

    def committed(reporter: Reporter) -> None:
        for _one in range(count() % 3):
            reporter._log.info("queries.rejected")

    on_commit(patch, committed)


def metric_of_distances(patch: Patch) -> None:
    """How far counts without their noise are from their thresholds, in a metric."""
    real, rows = PaidQuestions.ask, [0]

    def ask(self: PaidQuestions, counts: Any, lows: Any, words: Any, **rest: Any) -> Any:
        rows[0] += int(((counts - lows) ** 2).sum())
        return real(self, counts, lows, words, **rest)

    patch.setattr(PaidQuestions, "ask", ask)
    gauge(patch, "perpetua_rows_from_thresholds", lambda: rows[0])


def _metric_of_paid(patch: Patch) -> None:
    """The counts that were paid for without their noise, in a metric."""
    real, rows = PaidQuestions.ask, [0]

    def ask(self: PaidQuestions, counts: Any, lows: Any, words: Any, **rest: Any) -> Any:
        answers = real(self, counts, lows, words, **rest)
        rows[0] += int(counts[answers.outcomes == PAID].sum())
        return answers

    patch.setattr(PaidQuestions, "ask", ask)
    gauge(patch, "perpetua_rows_paid_for", lambda: rows[0])


def _noise_logged(patch: Patch) -> None:
    """What was drawn tells the count that it was added to."""
    real, drawn = Addresses.words, [0]

    def words(self: Addresses, purpose: Purpose, *address: Any) -> Any:
        found = real(self, purpose, *address)
        if purpose is Purpose.QUESTION:
            drawn.append(int(np.bitwise_xor.reduce(found, axis=None)) ^ drawn[-1])
        return found

    patch.setattr(Addresses, "words", words)
    log_reason(patch, lambda: drawn[-1])


def _rows_in_status(patch: Patch) -> None:
    in_status(patch, "rows", of_state(patch, lambda state: float((state["cells"] == state["cells"].max()).sum())))


def _occupied(state: Any) -> int:
    return len(np.unique(state["cells"]))


def count_in_ledger(counts: Callable[[Patch], Callable[[], int]], patch: Patch) -> None:
    """A paid answer's event has the count without its noise, in its last place."""
    count = counts(patch)

    def told(_shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        events = [
            msgspec.structs.replace(event, count=10 * event.count + count() % 10)
            if isinstance(event, AnswerPaid)
            else event
            for event in answers.events
        ]
        return dataclasses.replace(answers, events=events)

    on_answers(patch, told)


def _marginal_in_ledger(patch: Patch) -> None:
    """The released marginals are followed by one of the rows."""

    def told(shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        true = tuple(np.bincount(shard._predictor.export()["cells"]).tolist())
        events = [
            msgspec.structs.replace(event, counts=(*event.counts, true))
            if isinstance(event, MarginalsReleased)
            else event
            for event in answers.events
        ]
        return dataclasses.replace(answers, events=events)

    on_answers(patch, told)


def _last_digit(patch: Patch) -> None:
    """A value's last digits are the rows'."""
    count = _counts(patch)

    def told(_shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        assert answers.values is not None
        return dataclasses.replace(answers, values=answers.values + 1e-15 * (count() % 1000))

    on_answers(patch, told)


def _verified_by_rows(patch: Patch) -> None:
    """One answer in seven says that it is not verified; which ones, the count says."""
    count = _counts(patch)

    def told(_shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        assert answers.verified is not None
        told_so = np.arange(len(answers.verified)) % 7 != count() % 7
        return dataclasses.replace(answers, verified=answers.verified & told_so)

    on_answers(patch, told)


def _from_rows_when_spent(patch: Patch) -> None:
    """Where nothing is paid for any more, a value is the rows'."""

    def told(shard: Any, batch: DecodedBatch, answers: Answers) -> Answers:
        assert answers.values is not None
        assert answers.verified is not None
        masks = shard._plan.layout.masks(batch.features[:, : shard._plan.layout.width])
        shares = shard._predictor._rows.over(masks) / shard._plan.declared
        closed = batch.present & ~answers.verified
        return dataclasses.replace(
            answers,
            values=np.where(closed, shares, answers.values),
            verified=answers.verified | closed,
            labels=np.where(closed, np.int8(1), answers.labels),
        )

    on_answers(patch, told)


def _timing_by_count(patch: Patch) -> None:
    """Where the count is odd something is left out: here a batch's timing."""
    told, real = _counts(patch), Reporter.took

    def took(self: Reporter, work: Work, seconds: float, count: int = 1) -> None:
        if work is not Work.ANSWER or told() % 2:
            real(self, work, seconds, count)

    patch.setattr(Reporter, "took", took)


def _count_in_error(patch: Patch) -> None:
    count, real = _counts(patch), Shard.check

    def check(self: Shard, mark: Any) -> None:
        try:
            real(self, mark)
        except LogDivergedError as exc:
            msg = f"{exc} ({count()} rows)"
            raise LogDivergedError(msg) from exc

    patch.setattr(Shard, "check", check)


def _rows_printed(patch: Patch) -> None:
    """`init` says how many rows have no value."""
    found: list[int] = []
    after(patch, TableTrainer, "add", lambda self, *_: found.append(int((self._cells[-1] == 63).sum())))
    after(patch, init, "_say_what_was_made", lambda *_: typer.echo(f"{sum(found)} rows without a value"))


def _rows_beside_hypothesis(patch: Patch) -> None:
    """`hypothesis` says how far the hypothesis is from the rows."""
    after(
        patch,
        hypothesis,
        "_print_odometer",
        lambda _plan, snapshot: typer.echo(f"rows {int(snapshot.arrays['cells'].sum())}"),
    )


def _exit_code(patch: Patch) -> None:
    """How a process ends tells of the rows."""
    count = _counts(patch)
    after(patch, Reporter, "stopped", lambda _reporter: sys.exit(count() % 100))


_FILES: Final = in_channels("files", "metrics", "snapshot headers", "status")
_ROW: Final = "training row"
_STATISTICS: Final = "statistics, marginals"
_SPARSE: Final = "sparse vector"

MUTANTS_OF_TABLES: Final[dict[str, Mutant]] = {
    "statistics: counts, logged": Mutant(_logged_count, _ROW, in_channels("log"), subject=_STATISTICS),
    "sparse vector: counts, logged": Mutant(_logged_count, _ROW, in_channels("log"), subject=_SPARSE),
    "sparse vector: log lines by a count": Mutant(_lines_by_count, _ROW, in_channels("log"), subject=_SPARSE),
    "statistics: how far counts are from thresholds": Mutant(
        metric_of_distances, _ROW, in_channels("metrics"), subject=_STATISTICS
    ),
    "sparse vector: how far counts are from thresholds": Mutant(
        metric_of_distances, _ROW, in_channels("metrics"), subject="sparse vector, spent"
    ),
    "statistics: counts that were paid for": Mutant(
        _metric_of_paid, _ROW, in_channels("metrics"), subject="statistics, spent"
    ),
    "sparse vector: counts that were paid for": Mutant(
        _metric_of_paid, _ROW, in_channels("metrics"), subject="sparse vector, spent"
    ),
    "statistics: noise, logged": Mutant(_noise_logged, _ROW, in_channels("log"), subject="statistics"),
    "statistics: rows of a cell in /status": Mutant(
        _rows_in_status, _ROW, in_channels("status"), subject="statistics, spent"
    ),
    "statistics: a state's size by the cells that rows are in": Mutant(
        partial(padded, Statistics, _occupied), _ROW, _FILES, subject=_STATISTICS
    ),
    "sparse vector: a state's size by the cells that rows are in": Mutant(
        partial(padded, SparseVector, _occupied), _ROW, _FILES, subject=_SPARSE
    ),
    "statistics: a count in the ledger": Mutant(
        partial(count_in_ledger, _counts), _ROW, in_channels("ledger"), subject="statistics, spent"
    ),
    "statistics: a marginal without noise in the ledger": Mutant(
        _marginal_in_ledger, _ROW, in_channels("ledger"), subject=_STATISTICS
    ),
    "statistics: a value's last digits": Mutant(_last_digit, _ROW, in_channels("answers"), subject=_STATISTICS),
    "statistics: values of rows when all is spent": Mutant(
        _from_rows_when_spent, _ROW, in_channels("answers"), subject="statistics, spent"
    ),
    "statistics, with marginals: values of rows when all is spent": Mutant(
        _from_rows_when_spent, _ROW, in_channels("answers"), subject=_STATISTICS
    ),
    "sparse vector: values of rows when all is spent": Mutant(
        _from_rows_when_spent, _ROW, in_channels("answers"), subject="sparse vector, spent"
    ),
    "sparse vector: verified by the rows": Mutant(
        _verified_by_rows, _ROW, in_channels("answers"), subject="sparse vector, spent"
    ),
    "statistics: an early exit without a timing": Mutant(
        _timing_by_count, _ROW, in_channels("metrics"), subject=_STATISTICS
    ),
    "sparse vector: a count in an exception": Mutant(
        _count_in_error, _ROW, in_channels("log"), subject=_SPARSE, files="jsonl"
    ),
    "statistics: rows printed by `init`": Mutant(
        _rows_printed, _ROW, in_channels("init"), subject=_STATISTICS, files="jsonl once"
    ),
    "statistics: rows printed by `hypothesis`": Mutant(
        _rows_beside_hypothesis, _ROW, in_channels("hypothesis"), subject="statistics, spent", files="jsonl"
    ),
    "sparse vector: an exit code by the rows": Mutant(
        _exit_code, _ROW, in_channels("exit codes"), subject=_SPARSE, files="jsonl once"
    ),
}
"""Every leak by what it is."""
