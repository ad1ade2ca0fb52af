"""What the demonstration serves over: files, or a Kafka broker. The rest of it is the same."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from oracle.errors import BusError, PerpetuaError

if TYPE_CHECKING:
    from connectors.kafka.settings import KafkaSettings
    from oracle.hosting.kafka import KafkaModel

__all__ = ["Bus", "FileBus", "KafkaBus"]

_STATE: Final = """\
[state]
folder = "{folder}/state"
snapshot_rounds = 20000
"""

_FILES: Final = """
[source]
kind = "jsonl"
path = "{folder}/queries.jsonl"

[sink]
kind = "jsonl"
path = "{folder}/answers.jsonl"
ledger = "{folder}/ledger.jsonl"

[service]
batch_rows = 1024
"""

_KAFKA: Final = """
[kafka]
servers = ["{servers}"]

[source]
kind = "kafka"
topic = "flights.queries"
session_seconds = 6  # after a crash the group waits so long

[sink]
kind = "kafka"
topic = "flights.answers"
ledger = "flights.ledger"
dead_letter = "flights.dead-letters"

[service]
batch_rows = 1024
"""

_QUIET: Final = 2.0


class Bus(Protocol):
    """Where the queries come from and the answers go."""

    ends: bool
    """True if the daemon ends by itself when all is answered; else it is stopped."""

    timeout_seconds: float
    """Seconds that the daemon may take to get where it is wanted."""

    def config(self, folder: Path) -> str:
        """Return the configuration of `perpetua serve`."""

    def prepare(self, config: Path, queries: Path, say: Callable[[str], None]) -> None:
        """Bring the query log to the bus."""

    def answered(self) -> int:
        """Return how many answers there are."""

    def collect(self) -> Path:
        """Return a file of all answers, one a line, in order."""


class FileBus:
    """JSONL files."""

    ends = True
    timeout_seconds = 120.0

    def __init__(self, folder: Path) -> None:
        self._answers = folder / "answers.jsonl"

    def config(self, folder: Path) -> str:
        """See `Bus.config`."""
        return (_STATE + _FILES).format(folder=folder)

    def prepare(self, config: Path, queries: Path, say: Callable[[str], None]) -> None:
        """See `Bus.prepare`: they are there already."""

    def answered(self) -> int:
        """See `Bus.answered`."""
        if not self._answers.exists():
            return 0
        with self._answers.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))

    def collect(self) -> Path:
        """See `Bus.collect`."""
        return self._answers


class KafkaBus:
    """Topics of a broker.

    Args:
        servers: The broker, "host:port".
    """

    ends = False
    timeout_seconds = 120.0

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers = servers
        self._answers = folder / "answers.jsonl"
        self._settings: KafkaSettings | None = None

    def config(self, folder: Path) -> str:
        """See `Bus.config`."""
        return (_STATE + _KAFKA).format(folder=folder, servers=self._servers)

    def prepare(self, config: Path, queries: Path, say: Callable[[str], None]) -> None:
        """See `Bus.prepare`.

        Raises:
            PerpetuaError: The topics have been used already.
        """
        from connectors.kafka.traffic import send
        from oracle.config.daemon import load_config
        from oracle.hosting.kafka import open_model

        model = open_model(load_config(config))
        self._settings = model.settings
        for name in asyncio.run(_make_topics(model)):
            say(f"made the topic {name}")
        asyncio.run(send(model.settings, queries.read_bytes().splitlines()))
        say(f"sent the queries to {model.settings.topic}")

    def answered(self) -> int:
        """See `Bus.answered`: as many as queries were committed."""
        from connectors.kafka.committed_offset import committed_offset

        try:
            found = asyncio.run(committed_offset(self._prepared(), 0))
        except BusError:  # a new broker has no group coordinator yet
            return 0
        return found[0] if found else 0

    def collect(self) -> Path:
        """See `Bus.collect`."""
        settings = self._prepared()
        with self._answers.open("wb") as file:
            asyncio.run(_collect(settings, file.write))
        return self._answers

    def _prepared(self) -> "KafkaSettings":
        if self._settings is None:
            raise PerpetuaError("demo: the bus was not prepared")
        return self._settings


async def _make_topics(model: "KafkaModel") -> list[str]:
    from connectors.kafka.topics import DEFAULT_MESSAGE_BYTES, describe, make_missing
    from oracle.hosting.kafka_settings import largest_reply

    facts = await describe(model.settings)
    if model.settings.topic in facts:
        raise PerpetuaError(f"topic {model.settings.topic}: is there already; the demo wants a broker without it")
    return await make_missing(model.settings, facts, model.shards, largest_reply(model.plan, DEFAULT_MESSAGE_BYTES), 1)


async def _collect(settings: "KafkaSettings", write: Callable[[bytes], object]) -> None:
    from connectors.kafka.traffic import committed_values

    async for values in committed_values(settings, settings.answers, seconds=_QUIET):
        for value in values:
            write(value + b"\n")
