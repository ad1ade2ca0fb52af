"""Which messages are redeliveries of what the journal holds already: only what the broker itself marks as such."""

from collections import deque
from typing import Final

from connectors.journal.journal import Journal
from connectors.mqtt.messages import Incoming, Query, unpack
from connectors.mqtt.settings import RECEIVE_MAXIMUM_LIMIT

__all__ = ["KEPT_RECORDS", "Redeliveries"]

KEPT_RECORDS: Final = RECEIVE_MAXIMUM_LIMIT + 1
"""So many of the newest records the journal must keep for this, the beginning of a session counted."""


class Redeliveries:
    """Remembers what may not have been acknowledged when the last connection ended.

    A broker sends at most `receive_maximum` messages ahead of acknowledgements, in order, and we acknowledge in order;
    so whatever it has no acknowledgement of is among the newest `RECEIVE_MAXIMUM_LIMIT` that were journalled.

    A message is a redelivery exactly if the broker marks it DUP, the session is the one before, and the newest record
    with its packet id from an earlier connection, among these, has its digest. Within a connection no MQTT 5 broker
    redelivers, so what this connection has brought is not looked at. QoS 1 cannot tell one case: the broker has got
    our acknowledgement, uses the packet id at once for another message of the very same content, loses the connection
    before we see it, and sends it again. Brokers that count packet ids up, as Mosquitto does, never get there.
    """

    def __init__(self) -> None:
        self._newest: deque[tuple[int, bytes]] = deque(maxlen=RECEIVE_MAXIMUM_LIMIT)
        self._earlier: dict[int, bytes] = {}

    def restore(self, journal: Journal) -> None:
        """Read the journal's newest records."""
        self.forget()
        reader = journal.reader(max(journal.first, journal.end - KEPT_RECORDS))
        while found := reader.read(KEPT_RECORDS):
            for record in found:
                message = unpack(record.body)
                if isinstance(message, Query):
                    self._newest.append((message.mid, message.digest))
                else:
                    self._newest.clear()

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
