"""What planted leaks have in common: how they come by what is private, and where they can put it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from prometheus_client.core import GaugeMetricFamily

from oracle.codec.decoded import DecodedBatch
from oracle.predictors.base import Answers
from oracle.runtime.shard import Shard
from oracle.telemetry.collector import RecordCollector
from oracle.telemetry.reporter import Reporter
from oracle.web import app
from tests.leaks.subjects import Kind

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    """A leak.

    Attributes:
        break_it: Plants it in this process.
        kind: Neighbours between which it shows.
        channels: Where it shows, and nowhere else.
        form: What the queries are written in, in this process.
        files: What they are written in where processes are wanted to see it.
        subject: Which predictor it is planted in.
    """

    break_it: Callable[[Patch], None]
    kind: Kind
    channels: frozenset[str]
    form: Literal["json", "arrow"] = "json"
    files: Literal["jsonl", "jsonl once"] | None = None
    subject: str = "rectangles"


def in_channels(*channels: str) -> frozenset[str]:
    """Return where a leak shows."""
    return frozenset(channels)


def on_answers(patch: Patch, tell: Callable[[Shard, DecodedBatch, Answers], Answers | None]) -> None:
    """Have every batch's answers told, and changed if something is returned."""
    real = Shard._execute

    def execute(self: Shard, deliveries: Any) -> Any:
        batch, answers, before = real(self, deliveries)
        return batch, tell(self, batch, answers) or answers, before

    patch.setattr(Shard, "_execute", execute)


def ones(patch: Patch) -> Callable[[], int]:
    """Return what tells how often the answer was 1 so far."""
    labels: Counter[int] = Counter()
    on_answers(patch, lambda _shard, _batch, answers: labels.update(answers.labels.tolist()))
    return lambda: labels[1]


def fill(patch: Patch) -> Callable[[], int]:
    """Return what tells how many mediums the sides have collected now."""
    shards: list[Shard] = []
    on_answers(patch, lambda shard, _batch, _answers: shards.append(shard))
    return lambda: sum(map(_collected, shards[-1:]))


def _collected(shard: Shard) -> int:
    return int(shard._predictor.export()["collected_counts"].sum())


def asked(patch: Patch) -> Callable[[], float]:
    """Return what tells a number that follows from the last batch's queries."""
    sums = [0.0]
    on_answers(patch, lambda _shard, batch, _answers: sums.append(float(np.round(batch.features.sum(), 6))))
    return lambda: sums[-1]


def of_state(patch: Patch, read: Callable[[Any], float]) -> Callable[[], float]:
    """Return what tells a number that is read from the served predictor's state, as it is now."""
    shards: list[Shard] = []
    on_answers(patch, lambda shard, _batch, _answers: shards.append(shard))
    return lambda: float(np.round(sum(read(shard._predictor.export()) for shard in shards[-1:]), 9))


def after(patch: Patch, owner: Any, name: str, do: Callable[..., object]) -> None:
    """Have something done, with the same arguments, after each call of a method."""
    real = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        do(*args, **kwargs)
        return result

    patch.setattr(owner, name, call)


def gauge(patch: Patch, name: str, read: Callable[[], float]) -> None:
    """Add a gauge to the metrics."""
    real = RecordCollector.collect

    def collect(self: RecordCollector) -> Any:
        yield from real(self)
        yield GaugeMetricFamily(name, "A leak", read())

    patch.setattr(RecordCollector, "collect", collect)


def on_commit(patch: Patch, do: Callable[[Reporter], object]) -> None:
    """Have something done with a shard's reporter behind every commit."""
    after(patch, Reporter, "committed", lambda reporter, *_, **__: do(reporter))


def log_reason(patch: Patch, read: Callable[[], object]) -> None:
    """Log something behind every commit."""
    on_commit(patch, lambda reporter: reporter._log.info("queries.rejected", reason=f"{read()}"))


def in_status(patch: Patch, name: str, read: Callable[[], float]) -> None:
    """Add a field to /status."""
    real = app.__dict__["status_of"]

    def status_of(*args: Any) -> bytes:
        return msgspec.json.encode(msgspec.json.decode(real(*args)) | {name: read()})

    patch.setattr(app, "status_of", status_of)


def padded(owner: type[Any], count: Callable[[Any], int], patch: Patch) -> None:
    """Have a predictor's state be longer by what is counted in it."""
    real = owner.export

    def export(self: Any) -> Any:
        arrays = dict(real(self))
        return {**arrays, "spare": np.zeros(count(arrays), dtype=np.int8)}

    patch.setattr(owner, "export", export)
