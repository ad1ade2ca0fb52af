"""Where one model's answers go, as a `Sink`: durable in the outbox, published from there."""

import asyncio

from connectors.base import Commit, Committed, Sink
from connectors.local.checks import check_metadata
from connectors.mqtt.link import Link
from connectors.mqtt.outbox import Outbox
from connectors.mqtt.replies import outgoing
from connectors.mqtt.settings import MqttSettings

__all__ = ["MqttSink"]


class MqttSink(Sink):
    """Commits to the outbox. Delivery guarantee: at least once, and repeats are byte-identical.

    A commit is durable before anything of it is published, at QoS 1, in order; what the broker has not acknowledged
    when a connection ends, and what was not known to be acknowledged when the process ended, is published again.
    Open it before the source: the source begins the connection.

    Args:
        link: Publishes them; None to publish nothing.
    """

    def __init__(self, settings: MqttSettings, outbox: Outbox, link: Link | None) -> None:
        self._settings = settings
        self._outbox = outbox
        self._link = link

    async def open(self) -> Committed | None:
        """See `Sink.open`, and `Outbox.open` for its errors."""
        return await asyncio.to_thread(self._outbox.open)

    async def commit(self, commit: Commit) -> None:
        """See `Sink.commit`. While the outbox is full it waits for the broker.

        Raises:
            RefusedError: The broker does not let us in, or refuses what we publish on a topic of our own.
        """
        check_metadata(commit.metadata)
        committed = Committed(commit.position, commit.metadata)
        check = (lambda: None) if self._link is None else self._link.check
        await self._outbox.commit(outgoing(commit, self._settings), committed, check)

    async def close(self) -> None:
        """See `Sink.close`."""
        await asyncio.to_thread(self._outbox.close)
