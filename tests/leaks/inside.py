"""A run in this process, on a clock that only we move: the daemon, its store on disk, its metrics and its pages.

Nothing is left out here for being a time. The bus is the one in memory, so that replies are compared byte by byte.
"""

import asyncio
import io
import json
import secrets
import time
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Literal

import httpx
import pyarrow as pa
import pytest
import structlog
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from connectors.base import ARROW_STREAM, JSON
from oracle.planning.questions import QuestionPlan
from oracle.runtime import pipeline
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.observers import Observers
from oracle.telemetry.otlp.metrics import metrics_data
from oracle.telemetry.otlp.spans import Channel, Spans
from oracle.telemetry.registry import Registry
from oracle.web.app import make_app
from tests.leaks.coupling import couple
from tests.leaks.mutants import MUTANTS
from tests.leaks.questions import question_of
from tests.leaks.sightings import PATHS, Sightings, masked, masked_rows
from tests.leaks.spelling import as_values
from tests.leaks.subjects import Message, leak_plan
from tests.leaks.tokens import Tokens
from tests.leaks.worlds import CHUNK, Pair, rounds_of, table_of, trained
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.shards import arrow_body
from tests.support.waiting import TIMEOUT

Form = Literal["json", "arrow"]

_ROWS: Final = 4
"""Rows of an Arrow message: fewer than what Arrow pads to."""


_RESOURCE: Final = Resource({"service.name": "perpetua"})
_TRACED: Final = (("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)
"""The header of every message: its asker samples it."""


class _Ids(IdGenerator):
    """Ids of spans and traces, in the order in which they are made."""

    def __init__(self) -> None:
        self._ids = count(1)

    def generate_span_id(self) -> int:
        return next(self._ids)

    def generate_trace_id(self) -> int:
        return next(self._ids)


def sight(pair: Pair, which: int, folder: Path, *, form: Form = "json", mutant: str | None = None) -> Sightings:
    """Run one of two worlds in a new folder, and return all that was in sight.

    Args:
        pair: The worlds.
        which: Which of them.
        folder: A place for the state.
        form: What the queries are written in.
        mutant: How the daemon is broken.
    """
    clock = _Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", Tokens().token_bytes)
        patch.setattr(structlog.processors, "TimeStamper", lambda **_: clock.stamp)
        patch.setattr(pipeline, "time", SimpleNamespace(perf_counter=clock, time=clock))
        world = pair.worlds[which]
        plan = leak_plan(world.subject)
        if world.apart is not None and isinstance(plan, QuestionPlan):
            couple(patch, plan, world.apart)
        if mutant is not None:
            MUTANTS[mutant].break_it(patch)
        run = _Run(pair, which, folder, form, clock)
        asyncio.run(run.serve())
    return run.seen


class _Clock:
    """Seconds, whatever is asked for; they pass when we say so."""

    def __init__(self) -> None:
        self._now = 1_800_000_000.0

    def __call__(self) -> float:
        return self._now

    def tick(self) -> None:
        """Let a second pass."""
        self._now += 1.0

    def stamp(self, _logger: object, _name: str, line: dict[str, Any]) -> dict[str, Any]:
        """Give a log line its time."""
        return {**line, "timestamp": self._now}


class _Store(FolderStore):
    """A folder in which files are as old as our clock says."""

    clock: _Clock

    def written(self) -> float | None:
        return self.clock()


class _Run:
    """One world, its daemon, and who looks at it."""

    def __init__(self, pair: Pair, which: int, folder: Path, form: Form, clock: _Clock) -> None:
        self._world, self._pair, self._form, self._clock = pair.worlds[which], pair, form, clock
        self._plan = leak_plan(self._world.subject)
        if isinstance(self._plan, QuestionPlan):
            self._form = "json"  # they are asked in nothing else
        self._folder, self._state = folder, folder / "state"
        self._bus = MemoryLog(live=True)
        self._output = io.StringIO()
        self._spans = InMemorySpanExporter()
        self.seen = Sightings(timeless=False)
        self._state.mkdir(parents=True, mode=0o700)
        self._store = _Store.open(self._state, create_key_file(self._state / "key"))
        self._store.clock = clock
        self._store.save(Snapshot.first(self._plan.digest, trained(self._world).export()))

    async def serve(self) -> None:
        """Serve the stream chunk by chunk, take a look behind each, and see what is left."""
        registry = Registry(self._plan, PublicLog(self._output, "json", "tiny"), version="1.2", now=self._clock)
        models = Models.only(registry, lambda _shard: self._state, PublicLog(self._output, "json", "tiny"))
        observers = Observers(models, 60.0, clock=self._clock, now=self._clock)
        app = make_app(observers, token=None, host="leaks", clock=count().__next__)  # nothing is kept
        self._trace(registry)
        serving = asyncio.create_task(self._daemon(registry).run())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://leaks") as client:
            for start in range(0, len(self._world.messages), CHUNK):
                self._send(self._world.messages[start : start + CHUNK])
                await self._until_saved(serving, start + CHUNK)
                self._clock.tick()
                observers.look()
                await self._look(client)
                self._see_export(observers)
            self._bus.finish()
            await serving
            await self._look(client)
            self._see_export(observers)
        self._store.close()
        self._see_bus()

    def _trace(self, registry: Registry) -> None:
        """Have spans of every batch, and of every query, as each asker traces theirs."""
        provider = TracerProvider(resource=_RESOURCE, shutdown_on_exit=False, id_generator=_Ids())
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        registry.follow(Spans(provider, "tiny", Channel("kafka", "queries"), 1.0).take)

    def _see_export(self, observers: Observers) -> None:
        """See what is sent by OTLP: the metrics, and the spans since the last look."""
        now = self._clock()
        self.seen.add("metrics", metrics_data(observers.collector().collect(), _RESOURCE, now, now).to_json())
        for span in self._spans.get_finished_spans():
            self.seen.add("spans", span.to_json())
        self._spans.clear()

    def _daemon(self, registry: Registry) -> Daemon:
        return Daemon(
            plan=self._plan,
            store=self._store,
            source=MemorySource(self._bus, age=0.2),
            sink=MemorySink(self._bus),
            reporter=registry.shard(0),
            settings=DaemonSettings(batch_rows=CHUNK, snapshot_rounds=1),
            clock=self._clock,
            announce=partial(shard_event, "1.2"),
        )

    def _send(self, messages: tuple[Message, ...]) -> None:
        """Send all at once: the daemon waits, and takes them as one batch."""
        if self._form == "json":
            for message in messages:
                self._bus.append(None if message is None else self._body(message), JSON, _TRACED)
            return
        for start in range(0, len(messages), _ROWS):
            table = table_of(self._world.subject, messages[start : start + _ROWS])
            self._bus.append(arrow_body(table), ARROW_STREAM, _TRACED)

    def _body(self, message: Message) -> bytes:
        """Return a query or a question as JSON, or what is neither."""
        if isinstance(self._plan, QuestionPlan) and isinstance(message, tuple):
            return question_of(self._plan, message)
        return json.dumps(
            {"x": as_values(self._plan.features, message) if isinstance(message, tuple) else [0.5]}
        ).encode()

    async def _until_saved(self, serving: "asyncio.Task[int]", count: int) -> None:
        """Wait until the snapshot behind so many messages is told of in the log."""
        rounds = rounds_of(self._world, count)
        deadline = time.monotonic() + TIMEOUT
        while not any(
            (line["event"], line.get("round")) == ("snapshot.written", rounds)
            for line in map(json.loads, self._output.getvalue().splitlines())
        ):
            assert not serving.done(), serving.exception()
            assert time.monotonic() < deadline, self._output.getvalue()
            await asyncio.sleep(0.001)

    async def _look(self, client: httpx.AsyncClient) -> None:
        for path, headers in PATHS:
            answer = await client.get(path, headers=headers)
            self.seen.page(path, answer.status_code, answer.headers.multi_items(), answer.content)
        self.seen.files(self._folder)
        self.seen.snapshots(self._state)

    def _see_bus(self) -> None:
        """See the log, and what was committed."""
        self.seen.log(self._output.getvalue())
        rows = 1 if self._form == "json" else _ROWS
        for number, reply in enumerate(self._bus.replies):
            self.seen.add("answers", self._reply(reply.body, number * rows))
        for note in self._bus.dead_letters:
            self.seen.add("dead letters", repr(note))
        for event in self._bus.ledger:
            self.seen.add("ledger", event)
        for commit in self._bus.commits:
            tag = "a tag" if self._pair.tag_differs else commit.metadata.hex()
            self.seen.add("commits", f"{commit.position} {len(commit.replies)} {len(commit.metadata)} {tag}")

    def _reply(self, body: bytes, first: int) -> bytes | str:
        """Return a reply to message number `first` and those that came with it, without what is left out."""
        left_out = self._pair.left_out
        if self._form == "json":
            return masked(body) if first in left_out else body
        if not any(number in left_out for number in range(first, first + _ROWS)):
            return body
        with pa.ipc.open_stream(body) as reader:
            rows = reader.read_all().to_pylist()
        return masked_rows(len(body), rows, first, left_out)
