"""What is committed with an offset: the oracle's mark, the time of the last record it covers, and a seal."""

import base64
import binascii
import hmac
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oracle.errors import StateError

__all__ = ["OffsetMetadata", "Seal"]

_VERSION: Final = "perpetua1"
_NAMING: Final = "perpetua2"
"""Begins metadata that names a writer: who cannot fence one, as earlier versions cannot, must not read it."""

_SEALED: Final = "hmac:"
"""Begins the last word of metadata that is sealed."""

_SEAL_BYTES: Final = 16
_WORDS: Final = {_VERSION: (3, 4, 5), _NAMING: (6,)}
"""How many there are without a seal."""

_NOWHERE: Final = "-"


class OffsetMetadata(NamedTuple):
    """The metadata of an offset commit: text of some 100 characters; brokers keep up to 4,096.

    Attributes:
        mark: The oracle's bytes, opaque here.
        timestamp: The time (ms) of the last record before the offset, as the log has it; -1 if there is none. A topic
            that was made anew has other records there.
        looked: The offset up to which the log was seen to hold no delivery behind the committed one: only markers of
            transactions, and records of aborted ones. They may be deleted without loss. 0 if nothing was seen.
        begun: The offset that the state began at, where that was found out once (`first_offset = "latest"`); else None.
        writer: Who may commit for the partition from here on, beside the holder of its own transactional id; None if
            nobody may. See `Writer`.
    """

    mark: bytes
    timestamp: int
    looked: int = 0
    begun: int | None = None
    writer: str | None = None

    def pack(self) -> str:
        """Return it as text, not sealed.

        >>> OffsetMetadata(b"mark", 17).pack()
        'perpetua1 17 bWFyaw=='
        >>> OffsetMetadata(b"mark", 17, 6).pack()
        'perpetua1 17 bWFyaw== 6'
        >>> OffsetMetadata(b"mark", 17, begun=5).pack()
        'perpetua1 17 bWFyaw== 0 5'
        >>> OffsetMetadata(b"mark", 17, writer="c0ffee").pack()
        'perpetua2 17 bWFyaw== 0 - c0ffee'
        """
        if self.writer is not None:
            begun = _NOWHERE if self.begun is None else str(self.begun)
            return f"{_NAMING} {self._beginning()} {self.looked} {begun} {self.writer}"
        looked = f" {self.looked}" if self.looked or self.begun is not None else ""
        begun = "" if self.begun is None else f" {self.begun}"
        return f"{_VERSION} {self._beginning()}{looked}{begun}"

    def _beginning(self) -> str:
        return f"{self.timestamp} {base64.b64encode(self.mark).decode()}"

    @classmethod
    def unpack(cls, text: str) -> "OffsetMetadata":
        """Read it; whether a seal is good is not looked at.

        Raises:
            StateError: Somebody else committed this offset.
        """
        words = _unsealed(text)[0].split(" ")
        try:
            if len(words) in _WORDS.get(words[0], ()):
                version, timestamp, mark, *later = words
                writer = later.pop() if version == _NAMING else None
                begun = int(later[1]) if len(later) > 1 and (writer is None or later[1] != _NOWHERE) else None
                looked = int(later[0]) if later else 0
                return cls(base64.b64decode(mark, validate=True), int(timestamp), looked, begun, writer)
        except (ValueError, binascii.Error):
            pass
        raise StateError("the offset's metadata was not written by Perpetua, or by a newer version")


def _unsealed(text: str) -> tuple[str, str | None]:
    """Return metadata without its seal, and that; without the NUL that clients of librdkafka end metadata with."""
    plain, _, last = text.removesuffix("\0").rpartition(" ")
    return (plain, last.removeprefix(_SEALED)) if last.startswith(_SEALED) else (text.removesuffix("\0"), None)


@dataclass(frozen=True, slots=True)
class Seal:
    """Binds what is committed to its place: nobody else's metadata, and none of another place, is taken for ours.

    Attributes:
        secret: Known to those only who hold the state's key; one for each plan.
    """

    secret: bytes = field(repr=False)
    group: str
    topic: str
    partition: int

    def sealed(self, position: int, text: str) -> str:
        """Return an offset's metadata with its seal."""
        return f"{text} {_SEALED}{self.of('offset', position, text)}"

    def is_good(self, position: int, text: str) -> bool | None:
        """Return whether metadata has our seal for this offset; None where it has none at all."""
        plain, seal = _unsealed(text)
        return None if seal is None else hmac.compare_digest(seal.encode(), self.of("offset", position, plain).encode())

    def of(self, use: str, position: int, *words: str | int) -> str:
        """Return the seal of some words, in base64."""
        bound = (use, self.group, self.topic, self.partition, position, *words)
        told = "\0".join(map(str, bound)).encode(errors="surrogatepass")
        return base64.b64encode(hmac.digest(self.secret, told, "sha256")[:_SEAL_BYTES]).decode()
