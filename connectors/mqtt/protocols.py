"""Who is told what the broker says, and how the link fares. Calls come from the event loop and must not raise."""

from typing import Final, Protocol

from connectors.mqtt.messages import Incoming
from oracle.errors import BusError, RefusedError

__all__ = ["STRAY", "UNREADABLE", "Observer", "Receiver"]

UNREADABLE: Final = "unreadable message"
"""It cannot be parsed, or has more user properties than are read."""

STRAY: Final = "message of an old subscription"
"""Our session at the broker holds a subscription that the settings no longer name."""


class Receiver:
    """Is told what comes over a connection, and ignores it; to be overridden."""

    def received(self, message: Incoming) -> None:
        """A message came; it is acknowledged by `Connection.acknowledge` only."""

    def passed_over(self, reason: str) -> None:
        """A message came that is not for us, `UNREADABLE` or `STRAY`; it was acknowledged."""

    def published(self, mid: int, reason: int) -> None:
        """The broker has accepted a message (a reason below 128), or refuses it."""


class Observer(Protocol):
    """Observes the link: public facts only. A `reason` is one of a few fixed texts, or a reason code's name."""

    def connected(self) -> None:
        """The link is connected."""

    def lost(self, error: BusError) -> None:
        """There is no connection; the link tries again."""

    def refused(self, error: RefusedError) -> None:
        """The broker lets us in no more, or no longer supports what is needed; the link tries again."""

    def given_up(self, reason: str) -> None:
        """An answer will never reach its asker."""

    def noted(self, reason: str) -> None:
        """Something that an operator should know."""
