"""How deep and how long topics may be on this broker, as far as it has shown; so that a flood of them holds nobody up.

An answer that ends connections is found by ending two or three, which nobody else is answered over. Of all that an
asker chooses only the topic is not looked at by the broker before it is a query, and brokers bound its levels and its
bytes, each as it likes. So where three answers were given up, one that names a topic as deep as theirs, or as long, is
given up untried, unless one like it was ever taken.
"""

import math
from collections import deque
from typing import Final

__all__ = ["Reach"]

_PROOF: Final = 3
_SECONDS: Final = 3600.0
"""For so long it counts that an answer was given up: a broker's limits may be raised."""


class Reach:
    """What is known of topics that askers have named."""

    def __init__(self) -> None:
        self._taken = [0, 0]
        self._ended: tuple[deque[int], ...] = (deque(maxlen=_PROOF), deque(maxlen=_PROOF))
        self._until = -math.inf

    def taken(self, topic: str) -> None:
        """The broker has taken an answer over."""
        self._taken = list(map(max, self._taken, _measures(topic)))

    def ended(self, topic: str, now: float) -> None:
        """An answer was given up, as it ends connections."""
        if now > self._until:
            for known in self._ended:
                known.clear()
        self._until = now + _SECONDS
        for measure, taken, ended in zip(_measures(topic), self._taken, self._ended, strict=True):
            if measure > taken:
                ended.append(measure)
                return

    def beyond(self, topic: str, now: float) -> bool:
        """Return whether an answer is to be given up untried."""
        return now <= self._until and any(
            len(ended) == _PROOF and measure >= max(ended) and measure > taken
            for measure, taken, ended in zip(_measures(topic), self._taken, self._ended, strict=True)
        )


def _measures(topic: str) -> tuple[int, int]:
    """Return a topic's levels and bytes."""
    return topic.count("/") + 1, len(topic.encode())
