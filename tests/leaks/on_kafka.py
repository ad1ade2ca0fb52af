"""A run on a real broker: what stands in the topics, and what the process that serves them says meanwhile."""

import json
import re
import shutil
from pathlib import Path
from typing import Final

import httpx

from tests.leaks.outside import init_in, line_of, see_pages, serving_in
from tests.leaks.sightings import Sightings, masked
from tests.leaks.subjects import leak_plan
from tests.leaks.worlds import CHUNK, Pair, rounds_of
from tests.support.broker import Broker
from tests.support.kafka import KafkaModelUnderTest, wait_until
from tests.support.many_models import OneOfMany
from tests.support.waiting import TIMEOUT

_CLIENT: Final = "bus.client"
"""Log lines of this event say that the Kafka client had something to say, which depends on when the broker answers."""

_TIME: Final = re.compile(rb"(?<=/)[0-9]+(?=-[0-9]+$)")
"""Where a ledger event's key has the time of the last record before it."""


def sight(  # noqa: PLR0913 -- which world, where, and what beside it
    pair: Pair, which: int, folder: Path, broker: Broker, name: str, *, beside: bool = False
) -> Sightings:
    """Run one of two worlds over topics of its own, and return all that was in sight.

    Args:
        pair: The worlds.
        which: Which of them.
        folder: A place for the state.
        broker: Running.
        name: Begins the topics' names.
        beside: Whether the process serves another model beside it, whose queries are the same in both worlds.
    """
    folder.mkdir()
    model = KafkaModelUnderTest(broker, name, folder, plan=leak_plan(pair.worlds[which].subject)).create()
    shutil.rmtree(folder / "state")
    other = None
    if beside:
        other = OneOfMany(broker, f"{name}.other", folder, label="other", group_name=model.group, first_key=9).create()
    run = _Run(pair, which, model, other)
    run.serve()
    return run.seen


class _Run:
    """One world's topics and folder, and what else the process serves."""

    def __init__(self, pair: Pair, which: int, model: KafkaModelUnderTest, other: OneOfMany | None) -> None:
        self._other = other
        self._world, self._left_out, self._model = pair.worlds[which], pair.left_out, model
        self._folder = model.folder
        self.seen = Sightings()

    def serve(self) -> None:
        """Make the state, serve the stream chunk by chunk, take a look behind each, stop, and see what is left."""
        init_in(self._folder, self._world)
        config = self._model.config(state="state", extra="[web]\nport = 0\n")
        text = (
            config.read_text().replace(f"{self._folder}/", "").replace("snapshot_rounds = 500", "snapshot_rounds = 1")
        )
        config.write_text(text if self._other is None else self._of_two(text, self._other))
        with serving_in(self._folder, config.name, self._world, self.seen):
            self._stream()
        lines = self._err.read_text().splitlines()
        lines.sort(key=lambda line: '"model": "other"' in line)  # whose comes first, of two who start at once
        self.seen.log("\n".join(line for line in lines if f'"event": "{_CLIENT}"' not in line))
        self._see_topics()

    def _of_two(self, text: str, other: OneOfMany) -> str:
        """Return the configuration of two models: that of one, and another behind it."""
        own = {
            "state.folder": "state",
            "source.topic": self._model.queries,
            "sink.topic": self._model.answers,
            "sink.ledger": f"{self._model.name}.ledger",
            "sink.dead_letter": f"{self._model.name}.dead",
        }
        for key, value in own.items():
            text = text.replace(f'{key.partition(".")[2]} = "{value}"\n', "", 1)
        others = {f"{table}.{key}": value for table, keys in other.tables.items() for key, value in keys.items()}
        for name, settings in (("tiny", own), ("other", others)):
            text += f'[[models]]\nname = "{name}"\n'
            text += "".join(f'{key} = "{value}"\n' for key, value in settings.items())
        return text

    @property
    def _err(self) -> Path:
        return self._folder / "serve.err"

    def _said(self, event: str, **fields: object) -> dict[str, object] | None:
        """Return a line of the log, if it is there."""
        for text in self._err.read_text().splitlines() if self._err.exists() else []:
            line = json.loads(text) if text.startswith("{") and text.endswith("}") else {}
            if line.get("event") == event and line.items() >= fields.items():
                return dict(line)
        return None

    def _stream(self) -> None:
        """Ask a chunk at a time, each in one transaction: the daemon sees all of it at once, or nothing."""
        wait_until(lambda: self._said("daemon.serving"))
        port = (self._said("web.listening") or {})["port"]
        lines = [line_of(self._world, number).rstrip() for number in range(len(self._world.messages))]
        for start in range(0, len(lines), CHUNK):
            chunk = [None if line == b"null" else line for line in lines[start : start + CHUNK]]
            self._model.ask(chunk, transaction=f"{self._model.name}.asker")
            if self._other is not None:
                self._other.ask(self._other.contents(CHUNK, seed=start), transaction=f"{self._other.name}.asker")
                wait_until(lambda end=start + CHUNK: self._said("snapshot.written", model="other", round=end))
            wait_until(lambda end=start + CHUNK: self._said("snapshot.written", round=rounds_of(self._world, end)))
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=TIMEOUT) as client:
                wait_until(lambda: client.get("/status").json()["shards"][0]["lag_records"] == 0)
            see_pages(self.seen, f"http://127.0.0.1:{port}")
            self.seen.files(self._folder / "state")
            self.seen.snapshots(self._folder / "state")

    def _see_topics(self) -> None:
        """See every record of the topics that the daemon writes, with its place."""
        for number, record in enumerate(self._model.read()):
            value = masked(record.value) if number in self._left_out else record.value
            self.seen.add("answers", f"{record.offset} {record.key!r} {record.headers} {value!r}")
        for channel in ("ledger", "dead"):
            for record in self._model.read(f"{self._model.name}.{channel}"):
                value = record.value.replace(self._model.name.encode(), b"the model")
                key = _TIME.sub(b"(a time)", record.key or b"").replace(self._model.name.encode(), b"the model")
                self.seen.add(channel, f"{record.offset} {key!r} {record.headers} {value!r}")
