"""The seam between an asker and any bus: questions leave, each once; answers come, known by correlation data."""

from collections.abc import Callable
from typing import Protocol

from oracle.errors import PerpetuaError

__all__ = ["Answered", "Asker", "Failed"]

Answered = Callable[[bytes, bytes | PerpetuaError], None]
"""Is told a question's correlation data, and the answer's body or why none will come. Others' and repeated ones are
told too."""

Failed = Callable[[PerpetuaError], None]
"""Is told why no answer will come any more."""


class Asker(Protocol):
    """Asks over one bus. Use from one event loop; its tests are those of `perpetua ask` and of the clients."""

    async def open(self, answered: Answered, failed: Failed) -> None:
        """Connect; whatever is answered from now on is told.

        Raises:
            RefusedError: The bus does not let us in, or a topic is not there.
            BusError: It does not answer.
            SourceError: A file cannot be used.
        """

    async def send(self, correlation: bytes, body: bytes) -> bool:
        """Send one JSON question, once, however long the bus is away; cancelling it leaves open whether it was sent.

        Nothing is ever sent again that may have arrived, unless the bus itself knows it as the same (Kafka's idempotent
        producer does): a question that arrives twice is two questions, and pays twice.

        Returns:
            True if the bus has it; False if that is not known, and will not be.

        Raises:
            PerpetuaError: It was not written, and will not be.
        """

    async def close(self) -> None:
        """Let go of the bus. What was not sent by then will not be."""
