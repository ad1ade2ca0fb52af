"""Who is told how the link fares."""

from typing import Protocol

from oracle.errors import BusError, RefusedError

__all__ = ["Observer"]


class Observer(Protocol):
    """Who is told how the link fares: public facts only."""

    def connected(self) -> None:
        """A connection stands."""
        ...

    def lost(self, error: BusError) -> None:
        """There is no connection; it is tried again."""
        ...

    def refused(self, error: RefusedError) -> None:
        """The broker does not let us in any more, or has changed so that it will not do; it is tried again."""
        ...

    def given_up(self, reason: str) -> None:
        """An answer will never reach its asker: why, in a few fixed words, or a reason code's."""
        ...

    def noted(self, reason: str) -> None:
        """Something that an operator should know: one of a few fixed words, or a reason code's."""
        ...
