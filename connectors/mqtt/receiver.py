"""Who is told what the broker says."""

from typing import Protocol

from connectors.mqtt.messages import Incoming

__all__ = ["Receiver"]


class Receiver(Protocol):
    """Who is told what the broker says. Calls come from the event loop and must not raise."""

    def received(self, message: Incoming) -> None:
        """A message came; it is acknowledged by `Connection.acknowledge` only."""
        ...

    def unreadable(self) -> None:
        """A message came that cannot be parsed; it was acknowledged, as it would only come again."""
        ...

    def published(self, mid: int, reason: int) -> None:
        """The broker has taken a message over (a reason below 128), or refuses it."""
        ...
