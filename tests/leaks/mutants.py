"""Leaks planted on purpose, in boxes and in what all predictors share.

The leak test must find each of them, and in the right place.
"""

import dataclasses
import zlib
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import typer

from oracle.accounting.ledger import PhaseEnded
from oracle.cli.init import command as init
from oracle.codec.arrow.messages import ArrowCodec
from oracle.codec.decoded import DecodedBatch
from oracle.codec.json import messages as json_messages
from oracle.codec.json.messages import JsonCodec
from oracle.codec.rejections import Rejection
from oracle.errors import LogDivergedError
from oracle.predictors.base import Answers
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from oracle.runtime import courses, pipeline
from oracle.runtime.shard import Shard
from oracle.state.folder import FolderStore
from oracle.telemetry.health import Health
from oracle.telemetry.records import BatchTelemetry, Work
from oracle.telemetry.reporter import Reporter
from oracle.web import guard
from tests.leaks.levers import (
    Mutant,
    Patch,
    after,
    asked,
    fill,
    gauge,
    in_channels,
    in_status,
    log_reason,
    on_answers,
    on_commit,
    ones,
    padded,
)
from tests.leaks.mutants_of_distributions import MUTANTS_OF_DISTRIBUTIONS
from tests.leaks.mutants_of_others import MUTANTS_OF_OTHERS, metric_by_label
from tests.leaks.mutants_of_tables import MUTANTS_OF_TABLES
from tests.support.shards import arrow_body

# The leaks


def _metric_of_mediums(patch: Patch) -> None:
    gauge(patch, "perpetua_mediums", fill(patch))


def _logged_feature(patch: Patch) -> None:
    log_reason(patch, asked(patch))


def _log_line_by_label(patch: Patch) -> None:
    count = ones(patch)

    def committed(reporter: Reporter) -> None:
        for _one in range(count() % 7):
            reporter._log.info("queries.rejected")

    on_commit(patch, committed)


def _logged_rearm(patch: Patch) -> None:
    real, counts = RectanglesPERP._rearm, [0]

    def rearm(self: RectanglesPERP, side: int, *args: Any, **kwargs: Any) -> None:
        counts.append(sum(window.export()[2] for window in self._bank.collected))
        real(self, side, *args, **kwargs)

    patch.setattr(RectanglesPERP, "_rearm", rearm)
    on_commit(patch, lambda reporter: reporter._log.info("phase.started", count=sum(counts)))


def _timing_by_label(patch: Patch) -> None:
    count = ones(patch)
    on_commit(patch, lambda reporter: count() % 2 and reporter.took(Work.COMMIT, 0.0))


def _span_by_label(patch: Patch) -> None:
    count, real = ones(patch), courses.told

    def told(*course: Any) -> BatchTelemetry:
        batch = real(*course)
        return dataclasses.replace(batch, rounds=count())

    patch.setattr(pipeline, "told", told)


def _span_by_query(patch: Patch) -> None:
    """How many queries have spans follows from what they ask."""
    count, real = asked(patch), courses.told

    def told(*course: Any) -> BatchTelemetry:
        batch = real(*course)
        return dataclasses.replace(batch, asked=batch.asked[: int(count() * 1e6) % 7])

    patch.setattr(pipeline, "told", told)


def _early_exit(patch: Patch) -> None:
    """Where the answer is 0, something is left out: here a batch's timing."""
    told, real = ones(patch), Reporter.took

    def took(self: Reporter, work: Work, seconds: float, count: int = 1) -> None:
        if work is not Work.ANSWER or told() % 2:
            real(self, work, seconds, count)

    patch.setattr(Reporter, "took", took)


def _uncounted_batch(patch: Patch) -> None:
    count, real = ones(patch), Reporter._set

    def set_fields(self: Reporter, **fields: Any) -> None:
        if count() % 2:
            fields.pop("batches", None)
        real(self, **fields)

    patch.setattr(Reporter, "_set", set_fields)


def _text_of_depth(patch: Patch) -> None:
    depths: list[int] = []
    probes = np.linspace(-1.0, 1.0, 2001)

    def remember(shard: Shard, *_: Any) -> None:
        sides = shard._predictor.export()["points"]
        depths.extend(int(np.searchsorted(points, probes).sum()) for points in sides)

    def check(self: Shard, mark: Any) -> None:
        try:
            real(self, mark)
        except LogDivergedError as exc:
            msg = f"{exc} (depths {depths})"
            raise LogDivergedError(msg) from exc

    real = Shard.check
    after(patch, Shard, "__init__", remember)
    patch.setattr(Shard, "check", check)


def _text_of_query(patch: Patch) -> None:
    count, real = asked(patch), JsonCodec.encode_rejection

    def encode_rejection(self: JsonCodec, body: bytes | None, rejection: Rejection) -> bytes:
        bound = f"{rejection.bound}, unlike {count()}"
        return real(self, body, dataclasses.replace(rejection, bound=bound))

    patch.setattr(JsonCodec, "encode_rejection", encode_rejection)


def _size_by_set(patch: Patch) -> None:
    padded(RectanglesPERP, lambda state: int(state["collected_counts"].sum()), patch)


def _name_by_query(patch: Patch) -> None:
    count = asked(patch)

    def saved(store: FolderStore, _snapshot: object) -> None:
        (store._folder / f"trace-{zlib.crc32(str(count()).encode())}").touch()

    after(patch, FolderStore, "save", saved)


def _mode_by_label(patch: Patch) -> None:
    count = ones(patch)

    def saved(store: FolderStore, _snapshot: object) -> None:
        max(store._folder.glob("*.perp")).chmod(0o600 if count() % 2 else 0o400)

    after(patch, FolderStore, "save", saved)


def _ledger_of_set(patch: Patch) -> None:
    count = ones(patch)

    def told(_shard: Shard, _batch: DecodedBatch, answers: Answers) -> Answers:
        events = [
            msgspec.structs.replace(event, rearms=count()) if isinstance(event, PhaseEnded) else event
            for event in answers.events
        ]
        return dataclasses.replace(answers, events=events)

    on_answers(patch, told)


def _status_of_window(patch: Patch) -> None:
    in_status(patch, "window", fill(patch))


def _ready_by_window(patch: Patch) -> None:
    count, real = fill(patch), Health.summary
    patch.setattr(Health, "summary", lambda health: f"{real(health)}, {count():04} collected")


def _header_by_label(patch: Patch) -> None:
    count, real = ones(patch), guard.Guard._answering

    def answering(self: guard.Guard, scope: Any) -> Any:
        patch.setitem(guard.HEADERS, "X-Served", str(count()))
        return real(self, scope)

    patch.setattr(guard.Guard, "_answering", answering)


def _length_by_label(patch: Patch) -> None:
    real = json_messages._padded
    patch.setattr(json_messages, "_padded", lambda labels: real(labels) | {0: b"0"})


def _padding(patch: Patch) -> None:
    """Slices of Arrow's are padded with what stands behind them: the answers to somebody else."""
    real = ArrowCodec.encode

    def encode(self: ArrowCodec, queries: Any, labels: Any, *args: Any) -> bytes:
        body, whole = real(self, queries, labels, *args), labels.base
        if whole is None or len(labels) != len(queries.rejected):
            return body
        first = labels.ctypes.data - whole.ctypes.data
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        return arrow_body(table.set_column(1, table.schema.field(1), pa.array(whole).slice(first, len(labels))))

    patch.setattr(ArrowCodec, "encode", encode)


def _printed_label(patch: Patch) -> None:
    count = ones(patch)
    after(patch, Reporter, "stopped", lambda _reporter: typer.echo(f"{count()} answers were 1"))


def _printed_set(patch: Patch) -> None:
    counts: list[int] = []
    real = RectanglesTrainer.finish

    def finish(self: RectanglesTrainer) -> RectanglesPERP:
        counts.append(int(sum(window.ordered()[0].sum() for window in self._harvest.windows) * 1e6))
        return real(self)

    patch.setattr(RectanglesTrainer, "finish", finish)
    after(patch, init, "_say_what_was_made", lambda *_: typer.echo(f"{counts} in all"))


MUTANTS: Final[dict[str, Mutant]] = {
    "a metric by label": Mutant(metric_by_label, "label", in_channels("metrics")),
    "a gauge of mediums": Mutant(_metric_of_mediums, "query", in_channels("metrics")),
    "a logged feature": Mutant(_logged_feature, "query", in_channels("log")),
    "log lines by label": Mutant(_log_line_by_label, "label", in_channels("log")),
    "a re-arm logged with its count": Mutant(_logged_rearm, "query", in_channels("log")),
    "a timing for one label only": Mutant(_timing_by_label, "label", in_channels("metrics")),
    "a span's attribute by labels": Mutant(_span_by_label, "label", in_channels("spans")),
    "spans of queries by what they ask": Mutant(_span_by_query, "query", in_channels("spans")),
    "an early exit without a timing": Mutant(_early_exit, "label", in_channels("metrics")),
    "an early exit without a batch": Mutant(_uncounted_batch, "label", in_channels("metrics", "status")),
    "depths in an exception": Mutant(_text_of_depth, "training row", in_channels("log"), files="jsonl"),
    "a query in an error text": Mutant(_text_of_query, "query", in_channels("answers", "dead letters")),
    "a snapshot's size by a set": Mutant(
        _size_by_set, "query", in_channels("files", "metrics", "snapshot headers", "status")
    ),
    "a file's name by a query": Mutant(_name_by_query, "query", in_channels("files")),
    "a file's mode by label": Mutant(_mode_by_label, "label", in_channels("files")),
    "a set's size in the ledger": Mutant(_ledger_of_set, "label", in_channels("ledger")),
    "a window's fill in /status": Mutant(_status_of_window, "query", in_channels("status")),
    "a window's fill in /readyz": Mutant(_ready_by_window, "query", in_channels("readyz")),
    "a header by label": Mutant(_header_by_label, "label", in_channels("headers")),
    "an answer's length by label": Mutant(_length_by_label, "label", in_channels("answers")),
    "an answer in another's padding": Mutant(_padding, "label", in_channels("answers"), "arrow"),
    "labels on standard output": Mutant(_printed_label, "label", in_channels("stdout"), files="jsonl once"),
    "training rows on standard output": Mutant(_printed_set, "training row", in_channels("init"), files="jsonl once"),
    **MUTANTS_OF_OTHERS,
    **MUTANTS_OF_TABLES,
    **MUTANTS_OF_DISTRIBUTIONS,
}
"""Every leak by what it is."""
