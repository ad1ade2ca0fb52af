"""What is taken for a redelivery: what the broker marks as one and the journal holds, and nothing else."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.journal.journal import Journal
from connectors.mqtt.messages import Incoming, SessionBegan, pack, pack_pairs, stored
from connectors.mqtt.redeliveries import REMEMBERED, Redeliveries
from tests.support.mqtt_link import SETTINGS

_MESSAGE = Incoming(
    body=b"x", content_type="t", response_topic="r", correlation=b"c", user=pack_pairs([("u", "v")]), mid=7
)


def _again(message: Incoming, **changes: object) -> Incoming:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Incoming(**{**fields, "dup": True, **changes})


def _known(*messages: Incoming) -> Redeliveries:
    """Return what a connection knows after an earlier one has journalled these."""
    redeliveries = Redeliveries()
    for message in messages:
        redeliveries.add(stored(message, SETTINGS))
    redeliveries.connected()
    return redeliveries


def test_marked_message_of_an_earlier_connection_is_one():
    """Same packet id, same content, DUP: it is in the journal. The expiry, which runs down, does not matter."""
    assert _known(_MESSAGE).holds(_again(_MESSAGE, expiry=3))


@pytest.mark.parametrize(
    "changes",
    [
        {"dup": False},
        {"mid": 8},
        {"qos": 0},
        {"body": b"y"},
        {"content_type": "s"},
        {"response_topic": "s"},
        {"correlation": b"d"},
        {"correlation": None},
        {"user": (("u", "w"),)},
        {"user": ()},
        {"retained": True},
    ],
)
def test_anything_else_is_a_query_of_its_own(changes):
    """Not marked, another packet id, or another byte of its content: it is a new query."""
    assert not _known(_MESSAGE).holds(_again(_MESSAGE, **changes))


def test_what_this_connection_brought_is_not_looked_at():
    """Within a connection no broker redelivers; the packet id was used again."""
    redeliveries = Redeliveries()
    redeliveries.connected()
    redeliveries.add(stored(_MESSAGE, SETTINGS))
    assert not redeliveries.holds(_again(_MESSAGE))
    redeliveries.connected()
    assert redeliveries.holds(_again(_MESSAGE))


def test_packet_id_used_again_means_its_newest_message():
    """Of two messages with one packet id only the later one can be unacknowledged."""
    redeliveries = _known(_MESSAGE, _again(_MESSAGE, body=b"newer", dup=False))
    assert not redeliveries.holds(_again(_MESSAGE))
    assert redeliveries.holds(_again(_MESSAGE, body=b"newer"))


def test_what_must_have_been_acknowledged_is_forgotten():
    """Behind so many later messages as can be under way at most, the old one was acknowledged."""
    later = [Incoming(body=b"z", mid=mid) for mid in range(100, 100 + REMEMBERED)]
    assert _known(_MESSAGE, *later[:-1]).holds(_again(_MESSAGE))
    assert not _known(_MESSAGE, *later).holds(_again(_MESSAGE))


def test_a_restart_knows_the_same(tmp_path):
    """Read from the journal it is what the process before knew, sessions and all."""
    journal = Journal(tmp_path / "j", bytes(32), "queries", limit=1 << 20)
    journal.open()
    old = Incoming(body=b"old", mid=3)
    for message in (old, None, _MESSAGE):
        journal.append([pack(SessionBegan() if message is None else stored(message, SETTINGS))])
    redeliveries = Redeliveries()
    redeliveries.restore(journal)
    redeliveries.connected()
    assert redeliveries.holds(_again(_MESSAGE))
    assert not redeliveries.holds(_again(old))
    journal.close()


def test_what_was_dropped_from_the_journal_is_still_known(tmp_path):
    """A record of what the newest queries were stands in for them."""
    journal = Journal(tmp_path / "j", bytes(32), "queries", limit=1 << 20)
    journal.open()
    known = _known(Incoming(body=b"first", mid=3), _MESSAGE)
    journal.append([pack(known.recent()), pack(stored(Incoming(body=b"later", mid=9), SETTINGS))])
    redeliveries = Redeliveries()
    redeliveries.restore(journal)
    redeliveries.connected()
    for message in (Incoming(body=b"first", mid=3), _MESSAGE, Incoming(body=b"later", mid=9)):
        assert redeliveries.holds(_again(message))
    assert redeliveries.recent().mids == [3, 7, 9]
    journal.close()


class _Broker:
    """QoS 1 as MQTT 5 has it: packet ids counted up, at most `window` under way, DUP when a connection begins."""

    def __init__(self, window: int) -> None:
        self._window, self._ids = window, itertools.cycle(range(1, 65_536))
        self.under_way: dict[int, tuple[int, bytes]] = {}

    def send(self, waiting: list[tuple[int, bytes]]) -> list[tuple[int, Incoming]]:
        """Send what the window lets."""
        sent = []
        while waiting and len(self.under_way) < self._window:
            mid = next(mid for mid in self._ids if mid not in self.under_way)
            self.under_way[mid] = waiting.pop(0)
            sent.append((self.under_way[mid][0], Incoming(body=self.under_way[mid][1], mid=mid)))
        return sent

    def resend(self) -> list[tuple[int, Incoming]]:
        """Send again what was not acknowledged."""
        return [(number, Incoming(body=body, mid=mid, dup=True)) for mid, (number, body) in self.under_way.items()]


@settings(max_examples=100, deadline=None)
@given(
    window=st.integers(1, 6),
    count=st.integers(1, 30),
    cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=8),
)
def test_nothing_is_lost_or_doubled_through_any_losses(window, count, cuts):
    """Whatever of messages and acknowledgements is lost when connections end, each query is journalled once, in order.

    Each cut is how many messages of a connection arrive, and how many acknowledgements. Most bodies are alike.
    """
    broker = _Broker(window)
    waiting = [(number, b"alike" if number % 3 else b"%d" % number) for number in range(count)]
    redeliveries = Redeliveries()
    journalled: list[int] = []
    for arriving, acknowledged in [*cuts, (2 * count, 2 * count)]:
        redeliveries.connected()
        wire = broker.resend()
        for position in range(arriving):
            wire += broker.send(waiting)
            if not wire:
                break
            number, message = wire.pop(0)
            if not redeliveries.holds(message):
                redeliveries.add(stored(message, SETTINGS))
                journalled.append(number)
            if position < acknowledged:
                del broker.under_way[message.mid]
    assert journalled == list(range(count))
