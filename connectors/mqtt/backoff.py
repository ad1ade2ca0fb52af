"""How long to wait before a lost connection is made again."""

import secrets
from typing import Final

__all__ = ["Backoff"]

FIRST: Final = 0.25
LONGEST: Final = 15.0


class Backoff:
    """Pauses that double up to a bound, and begin anew after a connection that has lasted longer than that.

    Each is between half of it and the whole, by chance, so that clients of a broker that was away do not come together.
    """

    def __init__(self) -> None:
        self._pause = FIRST

    def begin_anew(self) -> None:
        """Wait a short time only the next time."""
        self._pause = FIRST

    def after(self, lasted: float) -> float:
        """Return the seconds to wait after a try that took, or a connection that lasted, so many seconds."""
        self._pause = FIRST if lasted > LONGEST else min(2 * self._pause, LONGEST)
        return self._pause * (0.5 + secrets.randbelow(1000) / 2000)
