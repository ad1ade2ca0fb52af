"""Who is told what the broker says."""

from typing import Final, Protocol

from connectors.mqtt.messages import Incoming

__all__ = ["STRAY", "UNREADABLE", "Receiver"]

UNREADABLE: Final = "unreadable message"
"""It cannot be parsed, or has more user properties than are read."""

STRAY: Final = "message of an old subscription"
"""Our session at the broker holds a subscription that the settings no longer name."""


class Receiver(Protocol):
    """Who is told what the broker says. Calls come from the event loop and must not raise."""

    def received(self, message: Incoming) -> None:
        """A message came; it is acknowledged by `Connection.acknowledge` only."""
        ...

    def passed_over(self, reason: str) -> None:
        """A message came that is none for us, `UNREADABLE` or `STRAY`; it was acknowledged."""
        ...

    def published(self, mid: int, reason: int) -> None:
        """The broker has taken a message over (a reason below 128), or refuses it."""
        ...
