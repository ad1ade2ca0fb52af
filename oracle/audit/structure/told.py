"""What a daemon tells everybody: the same, byte for byte, whatever is private.

Two daemons serve the same queries from states of different rows, and mechanisms answer them otherwise: another side
decides, another label is given. What is public is the same in both: when a query came, which messages were none, when a
side was armed again, when a phase ended. So logs, metrics, status, ledger, sizes of files and answers but for their
labels must be the same. A third daemon fails inside, with texts that nobody may see.
"""

import asyncio
import io
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn
from unittest.mock import patch

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries
from connectors.local.jsonl import JsonlSink, JsonlSource
from oracle.audit.randomness import Randomness
from oracle.audit.recording.neighbours import worlds_of
from oracle.audit.recording.replays import World
from oracle.audit.recording.work import Work, worked_on
from oracle.codec.batches import BatchCodec
from oracle.codec.decoded import DecodedBatch
from oracle.codec.questions import QuestionCodec
from oracle.errors import PerpetuaError
from oracle.mechanisms.thresholds.paid import HIGH, LOW, Answers, BetweenThresholds, PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.predictors.kinds import new_trainer
from oracle.predictors.phased import PhasedPredictor
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.runtime.shard import Outcome, Shard
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file, read_key_file
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Format, Metrics, encode
from oracle.telemetry.records import BOUNDS, Timing
from oracle.telemetry.records import Work as Timed
from oracle.telemetry.registry import Registry
from oracle.telemetry.trends import Trends
from oracle.web.status import status_json

__all__ = ["tells_public", "two_questions"]

Seen = tuple[bool, str]
Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

_TURNS: Final = (0, 4, 10, 18, 40, 150)
"""Messages that are there when each daemon starts; in the end all of them."""

_SELDOM: Final = 12
"""One in so many answers is not low in the second turn: so less is kept than in the first."""

_TICK: Final = 0.0013
"""Seconds between two looks at the clock by which answers are timed; any other one stands."""

_REARMED: Final = 61
"""One in so many words has a Stopper halt."""

_SECRET: Final = "7318524176"  # noqa: S105 -- no password
"""Digits in messages that are none, and in errors: nobody may be told of them."""

_MOMENTS: Final = re.compile(rb'.*snapshot_(timestamp|age)_seconds.*|"(timestamp|snapshot_at)":[^,}]*,?')
_LABEL: Final = re.compile(rb'"(label|value)":("[^"]*"|[^",}]+)')


class Told(NamedTuple):
    """All that daemons told of a run.

    Attributes:
        public: By name: what everybody may see.
        answers: Replies, without their labels.
        work: What was done for each batch that was timed.
        odd: What was timed that should not be, if anything.
    """

    public: dict[str, bytes]
    answers: list[bytes]
    work: list[Work | None]
    odd: str | None


def tells_public(plan: Plan, randomness: Randomness) -> Seen:
    """What daemons tell follows from what is public: no label, row, value or error's text shows in any of it.

    Nor does the time of what takes longer for a private reason: batches in which a side is armed again are not timed.
    """
    world = next(iter(worlds_of(plan, randomness)))
    with tempfile.TemporaryDirectory(prefix="perpetua-audit-") as name:
        folder = Path(name)
        told = [_served(folder / str(turn), _other(world, turn), turn) for turn in (0, 1)]
        odd = told[0].odd or told[1].odd
        for what, mine in told[0].public.items():
            if mine != told[1].public[what]:
                odd = odd or f"{what} follows from what is private"
        if told[0].answers != told[1].answers:
            odd = odd or "an answer tells more than its label"
        for work, other in zip(told[0].work, told[1].work, strict=True):
            place = work.unlike(other) if work is not None and other is not None else None
            odd = odd or (place and f"{place}: what is done for an answer follows from what is private")
        shown = b"".join(one for turn in told for one in turn.public.values())
        shown += b"".join(_failing(folder / broken.__name__, world, broken) for broken in (_decoding, _answering))
        if _SECRET.encode() in shown:
            odd = odd or "a text of what failed inside, or of a message that is none, is told"
    return (
        odd is None,
        odd or f"{len(told[0].answers)} messages answered in two ways: all else that is told is the same",
    )


def _other(world: World, turn: int) -> World:
    """Return the world, or one of other rows."""
    if not turn or (isinstance(world.plan, StatisticsPlan) and world.plan.start):
        return world  # of other rows other marginals would be released, and all would follow from these
    labels = world.labels.copy()
    if isinstance(world.plan, ClassicalPlan):
        labels[:] = False  # so that another box, or stump, is learned
    elif isinstance(world.plan, BoxPlan):
        labels[: len(labels) // 3] = False
    return world._replace(rows=world.rows[::-1].copy(), labels=labels)


def _bodies(world: World, turn: int) -> list[bytes]:
    """Return queries, and messages that are none, for the same reason and with other values in each turn."""
    found = [b'{"id":"%d","x":[0.%d%b,true]}' % (number, 1 + turn, _SECRET.encode()) for number in range(3)]
    return [*found[:1], *_questions(world), *found[1:]]


def _questions(world: World) -> Iterator[bytes]:
    """Yield what asks for the queries of a world, by position; of a table two questions again and again."""
    said = two_questions(world.plan)
    for number, row in enumerate(world.queries.tolist()):
        asked = said[number % 2] if isinstance(world.plan, TablePlan) else b'"x":%b' % msgspec.json.encode(row)
        yield b'{"id":"%d",%b}' % (number, asked)


def two_questions(plan: Plan) -> list[bytes]:
    """Return what two messages say, but for their ids."""
    if isinstance(plan, DistributionPlan):
        return [b'"at":0.25', b'"at":0.26']
    if not isinstance(plan, TablePlan):
        return [b'"x":[0.25]', b'"x":[0.26]']
    above = b"" if isinstance(plan, StatisticsPlan) else b',"above":0.9'
    return [b'"where":{"a":["%d"]}%b' % (cell, above) for cell in (0, 1)]


def _served(folder: Path, world: World, turn: int) -> Told:
    """Have all messages answered by daemons, one after the other, with outcomes of this turn."""
    plan, timed, expected = world.plan, list[Timing](), list[Work | None]()
    log, public = io.StringIO(), dict[str, bytes]()
    _make(folder, world)
    metrics = status = b""
    bodies = _bodies(world, turn)
    with _forced(plan, turn), _counted(expected):
        for start, stop in zip(_TURNS, (*_TURNS[1:], len(bodies)), strict=True):
            _feed(folder, bodies[start:stop])
            metrics, status = _run(folder, plan, log, timed)
    public["the log"] = _without(log.getvalue().encode())
    public["the metrics"], public["the status"] = metrics, status
    public["the ledger"] = (folder / "ledger.jsonl").read_bytes()
    public["sizes of files"] = b",".join(
        b"%b %d" % (one.name.encode(), one.stat().st_size) for one in sorted((folder / "state").iterdir())
    )
    answered = sum(one.work is Timed.ANSWER for one in timed)
    most = len(expected) - expected.count(None)
    odd = None if answered == most else f"{answered} batches were timed, and {most} may be"
    if any(one.seconds not in BOUNDS[one.work] for one in timed):
        odd = "how long work took is told to more than its range"
    long = plan.answers == "value"  # a number is as long as it is
    return Told(
        public, [_LABEL.sub(b"", one) + b" %d" % (0 if long else len(one)) for one in _answers(folder)], expected, odd
    )


def _without(text: bytes) -> bytes:
    return _MOMENTS.sub(b"", text)


def _make(folder: Path, world: World) -> None:
    """Make a state of a world's rows."""
    trainer = new_trainer(world.plan, world.secret)
    trainer.add(world.rows, world.labels)
    (folder / "state").mkdir(mode=0o700, parents=True)
    with FolderStore.open(folder / "state", create_key_file(folder / "state" / "key")) as store:
        store.write_plan(world.plan.encode())
        store.save(Snapshot.first(world.plan.digest, trainer.finish().export()))


def _feed(folder: Path, bodies: Sequence[bytes]) -> None:
    with (folder / "q.jsonl").open("ab") as file:
        file.write(b"".join(body + b"\n" for body in bodies))


def _answers(folder: Path) -> list[bytes]:
    out = folder / "out.jsonl"
    return out.read_bytes().splitlines() if out.exists() else []


def _run(folder: Path, plan: Plan, log: io.StringIO, timed: list[Timing]) -> tuple[bytes, bytes]:
    """Serve what is there, by a clock that stands, and return metrics and status."""
    public = PublicLog(log, "json", plan.name)
    registry = Registry(plan, public, version="audited", now=float)
    registry.listen(timed.append)
    metrics = Metrics(registry, unready=frozenset, now=float)
    with FolderStore.open(folder / "state", read_key_file(folder / "state" / "key")) as store:
        daemon = Daemon(
            plan=plan,
            store=store,
            source=JsonlSource(folder / "q.jsonl"),
            sink=JsonlSink(folder / "out.jsonl", ledger_path=folder / "ledger.jsonl"),
            reporter=registry.shard(0),
            settings=DaemonSettings(snapshot_rounds=30),
            clock=float,
        )
        ticks = count()
        with patch.object(time, "perf_counter", lambda: _TICK * next(ticks)):
            asyncio.run(daemon.run())
    told = encode(metrics.collector(), Format.TEXT), status_json(registry.telemetry, (), Trends(), 0.0)
    return _without(told[0]), _without(told[1])


@contextmanager
def _forced(plan: Plan, turn: int) -> Iterator[None]:
    """Have mechanisms answer by words, another way in each turn, where that is private; and halt by words, alike."""
    private = turn if isinstance(plan, BoxPlan | EnsemblePlan) else 0

    def drawn(words: Words, outcomes: int) -> NDArray[np.int8]:
        mixed = words[:, 1] >> np.uint64(8 + private)
        seldom = mixed % np.uint64(_SELDOM) < np.uint64(1 if private else _SELDOM)
        return np.where(seldom, (mixed >> np.uint64(20)) % np.uint64(outcomes), np.uint64(LOW)).astype(np.int8)

    def depths(_self: BetweenThresholds, _depths: object, words: Words) -> NDArray[np.int8]:
        return drawn(words, 3)

    def halts(_self: Stopper, counts: NDArray[np.int64], _level: int, words: Words) -> NDArray[np.bool_]:
        return np.asarray(words[: len(counts), 0] % np.uint64(_REARMED) == 0)

    def questions(
        _self: PaidQuestions,
        counts: Counts,
        _lows: Counts,
        words: Words,
        *,
        spent: int,
        highs: Counts | None = None,
        **_rest: int,
    ) -> Answers:
        told = np.full(len(counts), LOW, dtype=np.int8)
        told = told if highs is None else drawn(words, 2) * np.int8(HIGH)
        return Answers(told, np.zeros(len(counts), dtype=np.int64), spent)

    with ExitStack() as stack:
        for owner, name, new in (
            (BetweenThresholds, "answers", depths),
            (Stopper, "halts", halts),
            (PaidQuestions, "ask", questions),
        ):
            stack.enter_context(patch.object(owner, name, new))
        yield


@contextmanager
def _counted(timed: list[Work | None]) -> Iterator[None]:
    """Note what is done for each batch whose time may be told: no side was armed in it, and no phase ended."""
    real = Shard.process

    def process(self: Shard, batch: DecodedBatch) -> Outcome:
        before, work = self.facts(), Work()
        with worked_on(work):
            found = real(self, batch)
        after = self.facts()
        told = (before.rearms, before.phase) == (after.rearms, after.phase) and not found.phase_ended
        timed.append(work if told else None)
        return found

    with patch.object(Shard, "process", process):
        yield


@contextmanager
def _decoding() -> Iterator[None]:
    """Fail where messages are decoded."""
    real = BatchCodec.decode

    def fails(self: BatchCodec, deliveries: Deliveries) -> DecodedBatch:
        return _raising() if deliveries else real(self, deliveries)  # of none, which a rejection is made of

    with patch.object(BatchCodec, "decode", fails), patch.object(QuestionCodec, "decode", fails):
        yield


@contextmanager
def _answering() -> Iterator[None]:
    """Fail where queries are answered."""
    with patch.object(PhasedPredictor, "answer", _raising):
        yield


def _raising(*_arguments: object) -> NoReturn:
    raise KeyError(_SECRET)


def _failing(folder: Path, world: World, broken: Callable[[], Any]) -> bytes:
    """Return all that a daemon tells that fails."""
    log = io.StringIO()
    _make(folder, world)
    _feed(folder, _bodies(world, 0)[1:3])
    said = ""
    with broken():
        try:
            _run(folder, world.plan, log, [])
        except PerpetuaError as exc:
            said = str(exc)
    return b"\n".join([log.getvalue().encode(), said.encode(), *_answers(folder)])
