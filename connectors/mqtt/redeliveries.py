"""Which messages are redeliveries of what the journal holds already: only what the broker itself marks as such."""

from collections import deque
from typing import Final

from connectors.journal.journal import Journal
from connectors.mqtt.messages import DIGEST_BYTES, Incoming, Query, Recent, unpack

__all__ = ["REMEMBERED", "Redeliveries"]

REMEMBERED: Final = 32_768
"""So many of the newest queries are remembered: half of the packet ids there are."""

_READ: Final = 1024


class Redeliveries:
    """Remembers what may not have been acknowledged when the last connection ended.

    We acknowledge in order. A broker keeps to our receive maximum or, as Mosquitto 2.0.11, sends as many again for each
    acknowledgement; either way, what it has no acknowledgement of is among the newest `REMEMBERED` of the journal.

    A message is a redelivery exactly if the broker marks it DUP, the session is the one before, and the newest record
    with its packet id from an earlier connection, among these, has its digest. Within a connection no MQTT 5 broker
    redelivers, so what this connection has brought is not looked at. QoS 1 cannot tell one case: the broker has got
    our acknowledgement, uses the packet id for another message of the very same content, loses the connection before
    we see it, and sends it again. Brokers that count packet ids up to 65,535, as Mosquitto does, never get there.

    Attributes:
        newest: Position of the newest query in the journal, 0 if it holds none.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._newest: deque[tuple[int, bytes]] = deque(maxlen=REMEMBERED)
        self._earlier: dict[int, bytes] = {}

    def restore(self, journal: Journal) -> None:
        """Read what the journal holds.

        Raises:
            StorageError: It is damaged.
        """
        self.forget()
        reader = journal.reader(journal.first)
        while found := reader.read(_READ):
            for record in found:
                message = unpack(record.body)
                if isinstance(message, Query):
                    self.add(message)
                    self.newest = record.position
                    continue
                self._newest.clear()
                if isinstance(message, Recent):
                    given = message.digests
                    parts = [given[at : at + DIGEST_BYTES] for at in range(0, len(given), DIGEST_BYTES)]
                    self._newest.extend(zip(message.mids, parts, strict=True))

    def recent(self) -> Recent:
        """Return what is remembered, for the journal to keep when it drops the records themselves."""
        return Recent([mid for mid, _ in self._newest], b"".join(digest for _, digest in self._newest))

    def forget(self) -> None:
        """The broker has no session of ours: what it sends now was never sent before."""
        self._newest.clear()
        self._earlier.clear()

    def connected(self) -> None:
        """A connection begins: what was journalled before it may come again."""
        self._earlier = {mid: digest for mid, digest in self._newest if mid}

    def add(self, message: Query) -> None:
        """Remember what was journalled."""
        self._newest.append((message.mid, message.digest))

    def holds(self, message: Incoming) -> bool:
        """Return whether a message is in the journal already."""
        return message.dup and message.qos > 0 and self._earlier.get(message.mid) == message.digest
