"""A link between a broker that does what the test says and real journals."""

import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.journal.journal import Journal
from connectors.mqtt.link import Link
from connectors.mqtt.messages import Outgoing, Query, unpack
from connectors.mqtt.outbox import Outbox
from connectors.mqtt.settings import MqttSettings
from oracle.errors import BusError, RefusedError
from tests.support.mqtt_script import ScriptedBroker
from tests.support.waiting import TIMEOUT, until

SETTINGS = MqttSettings(
    host="127.0.0.1", port=0, client_id="c", topic="q", answers="a", model="m", request_seconds=60.0
)
WHILE = 0.4
"""Seconds in which nothing may happen; where a daemon is broken on purpose, that may take longer to show."""


class _Observer:
    def __init__(self) -> None:
        self.connections = 0
        self.errors: list[str] = []
        self.words: list[str] = []
        self.lost_answers: list[str] = []
        self.refusals: list[str] = []

    def connected(self) -> None:
        self.connections += 1

    def lost(self, error: BusError) -> None:
        self.errors.append(str(error))

    def refused(self, error: RefusedError) -> None:
        self.refusals.append(str(error))

    def given_up(self, reason: str) -> None:
        self.lost_answers.append(reason)

    def noted(self, reason: str) -> None:
        self.words.append(reason)


class LinkBench:
    """A link between a scripted broker and real journals."""

    def __init__(self, folder: Path, broker: ScriptedBroker, **settings: Any) -> None:
        self.folder, self.broker, self.observer = folder, broker, _Observer()
        self.journal = Journal(folder / "queries", bytes(32), "queries", limit=1 << 20)
        self.outbox = Outbox(Journal(folder / "answers", bytes(32), "answers", limit=1 << 20))
        self.link = Link(replace(SETTINGS, port=broker.port, **settings), self.journal, self.outbox, self.observer)

    async def begin(self) -> None:
        """Open the journals, and let the link begin."""
        self.journal.open()
        self.outbox.open()
        self.link.begin(lambda: None)

    async def connected(self, times: int = 1) -> None:
        """Wait until it has connected so often."""
        await until(lambda: self.observer.connections >= times, lambda: self.observer.errors)

    async def end(self) -> None:
        """End the link, and close the journals."""
        await self.link.end()
        self.journal.close()
        self.outbox.close()

    def queries(self) -> list[bytes]:
        """Return the bodies of all queries that are durable."""
        return [message.body for message in self.records() if isinstance(message, Query)]

    def records(self) -> list[Any]:
        """Return all that is durable in the journal of queries."""
        return [unpack(found.body) for found in self.journal.reader(self.journal.first).read(100_000)]

    def left_after_a_crash(self) -> list[bytes]:
        """Return what a process that starts now would publish, from a copy of the disk."""
        image = self.folder / "image"
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(self.folder / "answers", image)
        image.chmod(0o700)
        outbox = Outbox(Journal(image, bytes(32), "answers", limit=1 << 20))
        outbox.inspect()
        return [one.message.body for one in outbox.queue]


@contextlib.asynccontextmanager
async def link_bench(folder: Path, **settings: Any) -> AsyncIterator[LinkBench]:
    """Lend a bench whose link has begun."""
    async with ScriptedBroker() as broker:
        bench = LinkBench(folder, broker, **settings)
        await bench.begin()
        try:
            yield bench
        finally:
            await bench.end()


async def seen(what: Callable[[], Any], seconds: float = WHILE) -> bool:
    """Return whether something is seen that may not be, looking for so long."""
    with contextlib.suppress(AssertionError):
        await until(what, seconds=seconds)
    return bool(what())


def hold(journal: Journal) -> threading.Event:
    """Make a journal's appends wait for an event."""
    gate = threading.Event()

    def append(bodies: Any) -> int:
        assert gate.wait(TIMEOUT)
        return Journal.append(journal, bodies)

    setattr(journal, "append", append)  # noqa: B010 -- to mypy, a method
    return gate


def an_answer(number: int) -> Outgoing:
    """Return an answer."""
    return Outgoing("a", b"answer %d" % number, "t")
