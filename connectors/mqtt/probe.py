"""Whether a broker would let us in, and can do what is needed, found out without disturbing anybody."""

from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming
from connectors.mqtt.settings import MqttSettings

__all__ = ["probe"]


class _Nobody:
    """Takes nothing, as nothing is subscribed to and nothing published."""

    def received(self, message: Incoming) -> None:
        """See `Receiver.received`."""

    def passed_over(self, reason: str) -> None:
        """See `Receiver.passed_over`."""

    def published(self, mid: int, reason: int) -> None:
        """See `Receiver.published`."""


async def probe(settings: MqttSettings) -> None:
    """Connect under a name of our own with no session, look at what the broker says of itself, and leave.

    Raises:
        RefusedError: It does not let us in, or lacks what is needed.
        BusError: It does not answer.
    """
    connection = Connection(settings, _Nobody(), probe=True)
    await connection.enter()
    await connection.leave()
