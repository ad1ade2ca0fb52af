"""Which answer ends our connections: found by publishing alone what was under way when one ended.

A broker ends the connection over a message that it does not take, again at each new one, and says at best why, never
over which. So after an end that may be a message's doing, what was under way goes out again one by one, first of all.
An answer that was under way alone when a connection ended has that held against it, until the broker takes it: twice
in a row, and it is given up. A broker that ends a connection over a message lives on, and lets us in again at once. One
that was killed, or has lost its network, mostly does not, and one that is in trouble refuses many messages: then it
takes six times in a row.
"""

import math
from collections.abc import Sequence
from typing import Final

from connectors.mqtt.outbox import Publication
from connectors.mqtt.reasons import Ending

__all__ = ["Suspects"]

_PROOF: Final = 6
_STRONG: Final = 3
_WEAK: Final = 1
_STANDS: Final = 1.0
"""Seconds that a connection must stand before a suspect goes out again that has ended one without a word."""


class Suspects:
    """Decides what is published alone, and what is given up. It does nothing itself, and has no clock.

    Attributes:
        alone: How many of the first messages of the queue go out one by one.
    """

    def __init__(self) -> None:
        self.alone = 0
        self._before: Sequence[Publication] = ()
        self._accused: Publication | None = None
        self._against = 0
        self._ending = Ending.ELSEWHERE
        self._counted = True

    def ended(self, under_way: Sequence[Publication], ending: Ending, *, beside: bool = False) -> bool:
        """A connection has ended, with so much sent that the broker had not taken over; it goes first in the queue.

        Args:
            under_way: What was sent, in order.
            ending: How it ended.
            beside: Whether a message that is none of the queue was under way too.

        Returns:
            Whether the next connection may tell more, so that nobody need wait for it.
        """
        if ending is Ending.ELSEWHERE or not under_way:
            return False
        known = {id(parcel) for parcel in self._before}
        if ending is Ending.NAMED or len(under_way) == 1 or not known.isdisjoint(map(id, under_way)):
            self.alone = max(self.alone, len(under_way))
        self._before = under_way
        if len(under_way) == 1 and not beside:
            self._accuse(under_way[0])
            self._ending, self._counted = ending, False
        return self.alone > 0 and self._against < _PROOF

    def refused(self, parcel: Publication) -> None:
        """The broker refuses a message for a reason that may be its own trouble; it is to be sent again."""
        self._accuse(parcel)
        self._against += _WEAK
        self._ending, self._counted = Ending.NAMED, True

    def let_in(self, *, at_once: bool) -> None:
        """The broker answers the first try after that to connect, and lets us in (`at_once`); or it does not."""
        if not self._counted:
            self._against += _STRONG if at_once else _WEAK
            self._counted = True

    def guilty(self, parcel: Publication) -> bool:
        """Return whether the next message of the queue is to be given up."""
        return parcel is self._accused and self._against >= _PROOF

    def patience(self, parcel: Publication) -> float:
        """Return how many seconds the connection must have stood before the next message of the queue goes out.

        So that a broker which lives for moments only has ended before it goes out, rather than with it.
        """
        return _STANDS if parcel is self._accused and self._ending is Ending.SILENT else -math.inf

    def gone(self, parcel: Publication) -> None:
        """A message was taken over, or given up."""
        self.alone = max(self.alone - 1, 0)
        if parcel is self._accused:
            self._accused = None

    def _accuse(self, parcel: Publication) -> None:
        if self._accused is not parcel:
            self._accused, self._against = parcel, 0
