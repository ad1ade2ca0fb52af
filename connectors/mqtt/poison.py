"""Which answer ends our connections: found by publishing alone what was in flight when one ended.

A broker ends the connection over a message that it does not take, again at each new one, and says at best why, never
over which. So after an end that a message may have caused, what was in flight goes out again one by one, first of all.
An answer that was in flight alone when a connection ended is suspected until the broker accepts it: twice in a row, and
it is given up. A broker that ends a connection over a message lives on, and lets us in again at once. One that was
killed, or has lost its network, mostly does not, and one that is in trouble refuses many messages: then it takes six
times in a row.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from connectors.mqtt.outbox import Publication
from connectors.mqtt.reasons import Ending

__all__ = ["PoisonDetector", "TopicLimits"]

_PROOF: Final = 6
_STRONG: Final = 3
_WEAK: Final = 1
_UPTIME: Final = 1.0
"""Seconds that a connection must stand before a suspect goes out again that has ended one without a word."""

_EXAMPLES: Final = 3
_EXAMPLE_SECONDS: Final = 3600.0
"""For so long it counts that an answer was given up: a broker's limits may be raised."""


class TopicLimits:
    """How deep and how long topics may be on this broker, as far as it has shown; so that a flood holds nobody up.

    It takes two or three connections to find an answer that ends them. Of all that an asker chooses, only the topic
    reaches the broker unchecked, and brokers limit its levels and its bytes, each as it likes. So where three answers
    were given up, one whose topic is as deep as theirs, or as long, is given up untried, unless one like it was ever
    accepted.
    """

    def __init__(self) -> None:
        self._accepted = [0, 0]
        self._rejected: tuple[deque[int], ...] = (deque(maxlen=_EXAMPLES), deque(maxlen=_EXAMPLES))
        self._until = -math.inf

    def accepted(self, topic: str) -> None:
        """The broker has accepted an answer."""
        self._accepted = list(map(max, self._accepted, _measures(topic)))

    def rejected(self, topic: str, now: float) -> None:
        """An answer was given up, as it ends connections."""
        if now > self._until:
            for examples in self._rejected:
                examples.clear()
        self._until = now + _EXAMPLE_SECONDS
        for measure, accepted, examples in zip(_measures(topic), self._accepted, self._rejected, strict=True):
            if measure > accepted:
                examples.append(measure)
                return

    def exceeded(self, topic: str, now: float) -> bool:
        """Return whether an answer is to be given up untried."""
        return now <= self._until and any(
            len(examples) == _EXAMPLES and measure >= max(examples) and measure > accepted
            for measure, accepted, examples in zip(_measures(topic), self._accepted, self._rejected, strict=True)
        )


class PoisonDetector:
    """Decides what is published alone, and what is given up. It does nothing itself, and has no clock.

    Attributes:
        one_by_one: How many of the first messages of the queue go out one by one.
    """

    def __init__(self) -> None:
        self.one_by_one = 0
        self._limits = TopicLimits()
        self._in_flight_before: Sequence[Publication] = ()
        self._suspect: Publication | None = None
        self._evidence = 0
        self._ending = Ending.ELSEWHERE
        self._counted = True

    def connection_ended(self, in_flight: Sequence[Publication], ending: Ending, *, status_too: bool = False) -> bool:
        """A connection has ended; what was in flight goes first in the queue.

        Returns:
            Whether the next connection may tell more, so that nobody need wait for it.
        """
        if ending is Ending.ELSEWHERE or not in_flight:
            return False
        again = {id(one) for one in self._in_flight_before} & set(map(id, in_flight))
        if ending is Ending.NAMED or len(in_flight) == 1 or again:
            self.one_by_one = max(self.one_by_one, len(in_flight))
        self._in_flight_before = in_flight
        if len(in_flight) == 1 and not status_too:
            self._accuse(in_flight[0])
            self._ending, self._counted = ending, False
        return self.one_by_one > 0 and self._evidence < _PROOF

    def refused(self, publication: Publication) -> None:
        """The broker refuses a message for a reason that may be its own trouble; it is to be sent again."""
        self._accuse(publication)
        self._evidence += _WEAK
        self._ending, self._counted = Ending.NAMED, True

    def connection_tried(self, *, let_in: bool) -> None:
        """The first try after that to connect: the broker answers at once and lets us in, or it does not."""
        if not self._counted:
            self._evidence += _STRONG if let_in else _WEAK
            self._counted = True

    def verdict(self, publication: Publication, now: float) -> str | None:
        """Return why the next message of the queue is to be given up at a time (seconds); None if it is not."""
        message = publication.message
        if not message.ours and self._limits.exceeded(message.topic, now):
            return "answer given up: topics so deep or long end the connection"
        if publication is not self._suspect or self._evidence < _PROOF:
            return None
        if not message.ours:
            self._limits.rejected(message.topic, now)
        return "answer given up: its publication ends the connection"

    def uptime_for(self, publication: Publication) -> float:
        """Return how many seconds the connection must have stood before the next message of the queue goes out.

        So that a broker which lives for moments only has ended before it goes out, rather than with it.
        """
        return _UPTIME if publication is self._suspect and self._ending is Ending.SILENT else -math.inf

    def accepted(self, publication: Publication) -> None:
        """The broker has accepted a message."""
        self.removed(publication)
        if not publication.message.ours:
            self._limits.accepted(publication.message.topic)

    def removed(self, publication: Publication) -> None:
        """A message was accepted, or given up."""
        self.one_by_one = max(self.one_by_one - 1, 0)
        if publication is self._suspect:
            self._suspect = None

    def _accuse(self, publication: Publication) -> None:
        if self._suspect is not publication:
            self._suspect, self._evidence = publication, 0


def _measures(topic: str) -> tuple[int, int]:
    return topic.count("/") + 1, len(topic.encode())
