"""What is committed with an offset: the oracle's mark, and the time of the last record it covers."""

import base64
import binascii
from typing import NamedTuple

from oracle.errors import StateError

__all__ = ["Witness"]

_VERSION = "perpetua1"


class Witness(NamedTuple):
    """The metadata of an offset commit: text of some 80 characters; brokers keep up to 4,096.

    Attributes:
        mark: The oracle's bytes, opaque here.
        timestamp: The time (ms) of the last record before the offset, as the log has it; -1 if there is none. A topic
            that was made anew has other records there.
        looked: The offset up to which the log was seen to hold no delivery behind the committed one: only markers of
            transactions, and records of aborted ones. They may be deleted without loss. 0 if nothing was seen.
    """

    mark: bytes
    timestamp: int
    looked: int = 0

    def pack(self) -> str:
        """Return it as text.

        >>> Witness(b"mark", 17).pack()
        'perpetua1 17 bWFyaw=='
        >>> Witness(b"mark", 17, 6).pack()
        'perpetua1 17 bWFyaw== 6'
        """
        looked = f" {self.looked}" if self.looked else ""
        return f"{_VERSION} {self.timestamp} {base64.b64encode(self.mark).decode()}{looked}"

    @classmethod
    def unpack(cls, text: str) -> "Witness":
        """Read it.

        Raises:
            StateError: Somebody else committed this offset.
        """
        version, _, rest = text.partition(" ")
        timestamp, _, rest = rest.partition(" ")
        mark, _, looked = rest.partition(" ")
        try:
            if version == _VERSION:
                return cls(base64.b64decode(mark, validate=True), int(timestamp), int(looked or 0))
        except (ValueError, binascii.Error):
            pass
        raise StateError(
            "kafka: the group's committed offset was not written by Perpetua, or by a newer one; use a group of its own"
        )
