"""Who is told how the link fares."""

from typing import Protocol

from oracle.errors import BusError

__all__ = ["Observer"]


class Observer(Protocol):
    """Who is told how the link fares: public facts only."""

    def connected(self) -> None:
        """A connection stands."""
        ...

    def lost(self, error: BusError) -> None:
        """There is no connection; it is tried again."""
        ...

    def noted(self, reason: str) -> None:
        """Something that an operator should know: one of a few fixed words, or a reason code's."""
        ...
