"""The demonstration over MQTT: the queries wait at the broker, and a reader of its own collects the answers."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from connectors.mqtt.traffic import hold_session, read, send
from oracle.config.daemon import load_config
from oracle.errors import PerpetuaError
from oracle.hosting.mqtt import mqtt_settings
from oracle.planning.kinds import decode_plan
from oracle.state.folder import read_plan

__all__ = ["MqttBus"]

_CONFIG: Final = """\
[state]
folder = "{folder}/state"
snapshot_rounds = 20000

[mqtt]
server = "{server}"

[source]
kind = "mqtt"
topic = "flights/queries"

[sink]
kind = "mqtt"
topic = "flights/answers"
ledger = "flights/ledger"
dead_letter = "flights/dead-letters"
status = "flights/status"
"""

_ROUND: Final = re.compile(rb'"round":(\d+)')
_TIMEOUT: Final = 60.0


class MqttBus:
    """Topics of a broker that keeps sessions and as many messages as the demonstration has queries.

    Args:
        server: The broker, "host:port".
    """

    ends = False
    timeout_seconds = 1800.0

    def __init__(self, server: str, folder: Path) -> None:
        self._server = server
        self._file = folder / "answers.jsonl"
        self._answers: dict[int, bytes] = {}
        self._expected = 0

    def config(self, folder: Path) -> str:
        """See `Bus.config`."""
        return _CONFIG.format(folder=folder, server=self._server)

    def prepare(self, config: Path, queries: Path, say: Callable[[str], None]) -> None:
        """See `Bus.prepare`. The sessions come first: a broker keeps nothing for a client that it has never seen."""
        loaded = load_config(config)
        data = read_plan(loaded.state.folder)
        if data is None:
            raise PerpetuaError(f"{loaded.state.folder}: holds no plan")
        settings = mqtt_settings(loaded, decode_plan(data))
        reader = replace(settings, client_id="perpetua-demo-reader", topic=settings.answers, receive_maximum=1000)
        asyncio.run(hold_session(settings))
        asyncio.run(hold_session(reader))
        threading.Thread(target=lambda: asyncio.run(read(reader, self._take)), daemon=True).start()
        bodies = queries.read_bytes().splitlines()
        self._expected = len(bodies)
        asyncio.run(send(replace(settings, client_id="perpetua-demo-asker"), bodies))
        say(f"published the queries to {settings.topic}")

    def answered(self) -> int:
        """See `Bus.answered`: repetitions are not counted."""
        return len(self._answers)

    def collect(self) -> Path:
        """See `Bus.collect`.

        Raises:
            PerpetuaError: Not all answers came, or a repetition was not identical.
        """
        deadline = time.monotonic() + _TIMEOUT
        while len(self._answers) < self._expected and time.monotonic() < deadline:
            time.sleep(0.05)
        if sorted(self._answers) != list(range(self._expected)):
            raise PerpetuaError(
                f"demo: {len(self._answers):,} of {self._expected:,} answers came, or one of them changed"
            )
        self._file.write_bytes(b"".join(self._answers[number] + b"\n" for number in range(self._expected)))
        return self._file

    def _take(self, body: bytes) -> None:
        """Keep an answer; one that comes again must be the same bytes, or the demonstration fails."""
        found = _ROUND.search(body)
        number = int(found[1]) if found else -1
        if self._answers.setdefault(number, body) != body:
            self._answers[-1] = body
