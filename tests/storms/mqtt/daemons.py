"""The daemon under faults: `perpetua serve` over MQTT in a process of its own, or one that is broken on purpose."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from connectors.journal.journal import Journal
from connectors.mqtt import link
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming, Outgoing
from connectors.mqtt.outbox import Outbox, Publication
from connectors.mqtt.redeliveries import Redeliveries
from oracle.cli.serve import single as serve_single  # noqa: F401  # imported once, in the server that forks the daemons
from tests.storms.kafka import daemons
from tests.storms.kafka.daemons import Slot

_WINDOW_SECONDS: Final = 0.3


def _acknowledge_first() -> None:
    """Break durability: queries are acknowledged as they come, and journalled a while later."""
    received, append = link.Link.received, Journal.append

    def receive(self: link.Link, message: Incoming) -> None:
        if message.qos and self._connection is not None:
            self._connection.acknowledge(message.mid)
        received(self, message)

    def append_late(self: Journal, bodies: Any) -> int:
        if self.folder.name == "queries":
            time.sleep(_WINDOW_SECONDS)
        return append(self, bodies)

    setattr(link.Link, "received", receive)  # noqa: B010 -- to mypy, a method is nothing to assign to
    setattr(Journal, "append", append_late)  # noqa: B010 -- as above


def _know_no_redelivery() -> None:
    """Break the matching: what the broker sends again is a query of its own."""
    setattr(Redeliveries, "holds", lambda _self, _message: False)  # noqa: B010 -- as above


def _forget_what_is_out() -> None:
    """Break the outbox: what was sent counts as taken over by the broker."""
    send = Connection.send

    def send_and_forget(self: Connection, message: Outgoing) -> int:
        mid = send(self, message)
        asyncio.get_running_loop().call_soon(self._receiver.published, mid, 0)
        return mid

    setattr(Connection, "send", send_and_forget)  # noqa: B010 -- as above


def _publish_first() -> None:
    """Break atomicity: answers leave before their commit is durable."""
    append = Outbox._append

    async def publish_first(self: Outbox, messages: Any, committed: Any) -> None:
        number = self.journal.end + 1
        self._left[number] = len(messages)
        self.queue.extend(Publication(number, message) for message in messages)
        self.wake()
        await asyncio.sleep(_WINDOW_SECONDS)
        await append(self, [], committed)

    setattr(Outbox, "_append", publish_first)  # noqa: B010 -- as above


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "drawn noise": daemons.MUTANTS["drawn noise"],
    "acknowledge first": _acknowledge_first,
    "no redeliveries": _know_no_redelivery,
    "forgetful outbox": _forget_what_is_out,
    "publish first": _publish_first,
}


def _serve(config: str, log: str, mutant: str | None) -> None:
    if mutant:
        MUTANTS[mutant]()
    daemons._serve(config, log, None)


class MqttSlot(Slot):
    """A place for one daemon at a time; see `Slot`."""

    def start(self) -> None:
        """Start a daemon."""
        self._context.set_forkserver_preload([__name__])
        self._before = self._log.stat().st_size
        arguments = (str(self._config), str(self._log), self._mutant)
        self._process = self._context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        self._started = time.monotonic()
