"""The link, step by step, to a broker that does what the test says; and that each broken daemon fails its step.

What storms of kills find by luck (`tests.storms.mqtt`), these find every time.
"""

import asyncio
import errno
import itertools
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from connectors import retry
from connectors.base import Commit, Committed, Replies, Reply
from connectors.journal.journal import Journal
from connectors.mqtt import link as link_module
from connectors.mqtt.client import Connection
from connectors.mqtt.link import Link
from connectors.mqtt.messages import Recent
from connectors.mqtt.outbox import Outbox
from connectors.mqtt.redeliveries import Redeliveries
from connectors.mqtt.sink import MqttSink
from oracle.errors import RefusedError, StorageError
from tests.storms.mqtt.daemons import MUTANTS
from tests.support.mqtt_link import SETTINGS, WHILE, LinkBench, an_answer, hold, link_bench, seen
from tests.support.mqtt_script import ScriptedBroker
from tests.support.waiting import TIMEOUT, until


async def _acknowledges_after_the_journal(folder: Path, seconds: float) -> None:
    async with link_bench(folder) as bench:
        await bench.connected()
        gate = hold(bench.journal)
        try:
            bench.broker.send(b"one", 1)
            early = await seen(lambda: bench.broker.acked, seconds)
        finally:
            gate.set()
        await until(lambda: bench.broker.acked)
        assert not early
        assert bench.queries() == [b"one"]


async def _knows_what_is_repeated(folder: Path, _seconds: float) -> None:
    async with link_bench(folder) as bench:
        await bench.connected()
        bench.broker.send(b"one", 1)
        bench.broker.send(b"one", 2)
        await until(lambda: bench.broker.acked == [1, 2])
        bench.broker.drop()  # it has not seen our acknowledgements
        await bench.connected(2)
        bench.broker.send(b"one", 1, dup=True)
        bench.broker.send(b"one", 2, dup=True)
        bench.broker.send(b"one", 3)
        await until(lambda: bench.broker.acked == [1, 2, 1, 2, 3])
        assert bench.queries() == [b"one"] * 3


async def _keeps_what_nobody_has_taken(folder: Path, _seconds: float) -> None:
    async with link_bench(folder) as bench:
        await bench.connected()
        bench.broker.takes = [None, None, None]
        await bench.outbox.commit([an_answer(1)], Committed(1, b""))
        await until(lambda: len(bench.broker.published) == 1)
        await asyncio.sleep(0.05)
        await bench.outbox.commit([an_answer(2)], Committed(2, b""))
        await until(lambda: len(bench.broker.published) == 2)
        await asyncio.sleep(0.05)
        await bench.outbox.commit([an_answer(3)], Committed(3, b""))
        assert bench.left_after_a_crash() == [b"answer 1", b"answer 2", b"answer 3"]
        await until(lambda: len(bench.broker.published) == 3)
        for _, _, mid in bench.broker.published:
            bench.broker.take(mid)


async def _publishes_what_is_durable(folder: Path, seconds: float) -> None:
    async with link_bench(folder) as bench:
        await bench.connected()
        gate = hold(bench.outbox.journal)
        committing = asyncio.ensure_future(bench.outbox.commit([an_answer(1)], Committed(1, b"")))
        try:
            early = await seen(lambda: bench.broker.published, seconds)
        finally:
            gate.set()
        await committing
        await until(lambda: bench.broker.published)
        assert not early


_STEPS: dict[str, Callable[[Path, float], Awaitable[None]]] = {
    "acknowledge first": _acknowledges_after_the_journal,
    "no redeliveries": _knows_what_is_repeated,
    "forgetful outbox": _keeps_what_nobody_has_taken,
    "publish first": _publishes_what_is_durable,
}


@pytest.mark.parametrize("step", _STEPS)
async def test_steps_are_in_their_order(tmp_path, step):
    """Journalled, then acknowledged; a redelivery known; committed, then published; out only when taken over."""
    await _STEPS[step](tmp_path, WHILE)


@pytest.mark.parametrize("mutant", _STEPS)
async def test_every_broken_daemon_fails_its_step(tmp_path, monkeypatch, mutant):
    """The daemons that the storms break on purpose fail these steps each time, not by luck."""
    for owner, name in (
        (Link, "received"),
        (Journal, "append"),
        (Redeliveries, "holds"),
        (Connection, "send"),
        (Outbox, "_append"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that it is set back afterwards
    MUTANTS[mutant]()
    with pytest.raises(AssertionError, match=r"^(?!not within)"):
        await _STEPS[mutant](tmp_path, TIMEOUT)


async def test_a_moment_after_the_last_answer_a_crash_repeats_nothing(tmp_path, monkeypatch):
    """What the broker has taken over is made known without a further commit; then nobody wakes up any more."""
    waits, wait = [], Outbox.wait

    async def count(outbox: Outbox) -> None:
        waits.append(outbox)
        await wait(outbox)

    monkeypatch.setattr(Outbox, "wait", count)
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        await bench.outbox.commit([an_answer(1), an_answer(2)], Committed(1, b""))
        assert bench.left_after_a_crash() == [b"answer 1", b"answer 2"]
        await until(lambda: not bench.left_after_a_crash())
        assert len(bench.broker.published) == 2

        def done() -> tuple[int, int]:
            return bench.outbox.journal.end, len(waits)

        before, rests = done(), False
        while not rests:
            await asyncio.sleep(WHILE)
            rests, before = done() == before, done()
        assert before[0] == 2


async def test_packet_ids_of_a_lost_session_mean_nothing(tmp_path):
    """Where the broker has no session of ours, even a marked message with a known packet id is a query of its own."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        bench.broker.send(b"one", 1)
        await until(lambda: bench.broker.acked == [1])
        bench.broker.session = False
        bench.broker.drop()
        await bench.connected(2)
        bench.broker.send(b"one", 1, dup=True)
        await until(lambda: bench.broker.acked == [1, 1])
        assert bench.queries() == [b"one", b"one"]
        assert bench.observer.words == ["the broker had no session of ours"]


async def test_full_journal_takes_nothing_until_there_is_room(tmp_path):
    """Near its limit no query is acknowledged or journalled any more; dropped segments let it go on, in order."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        bodies = [b"%d " % number + bytes(60_000) for number in range(40)]
        for number, body in enumerate(bodies, 1):
            bench.broker.send(body, number)
        await until(lambda: bench.journal.full)
        await asyncio.sleep(WHILE)
        taken = len(bench.broker.acked)
        assert taken < 30
        assert bench.journal.size < bench.journal.limit + bench.journal.segment_bytes + 61_000
        bench.journal.forget(bench.journal.end)
        bench.link.wake()
        await until(lambda: len(bench.broker.acked) > taken)
        assert bench.broker.acked == sorted(bench.broker.acked)
        assert bench.observer.words[0] == "journal full, taking nothing until a snapshot is past it"


async def test_disk_that_is_full_ends_the_link_with_nothing_acknowledged(tmp_path, monkeypatch):
    """What cannot be journalled stays the broker's; the daemon is told why it must end."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", _no_space)
            bench.broker.send(b"one", 1)
            with pytest.raises(StorageError, match="the journal cannot be written: No space left"):
                await until(bench.link.check)
        assert not bench.broker.acked
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        assert not bench.queries()


def _no_space(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_refused_for_its_quota_is_published_again(tmp_path):
    """A broker that has no room just now gets the very same answer again, over another connection."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        bench.broker.takes = [0x97]
        await bench.outbox.commit([an_answer(1)], Committed(1, b""))
        await until(lambda: bench.outbox.settled, lambda: bench.observer.errors)
        assert [body for _, body, _ in bench.broker.published] == [b"answer 1"] * 2
        assert bench.observer.errors == ["broker: quota exceeded (0x97)"]


async def test_refused_on_our_own_topic_ends_the_link(tmp_path):
    """An answer topic that is closed to us is for the operator; the answer stays in the outbox."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        bench.broker.takes = [0x87]
        await bench.outbox.commit([an_answer(1)], Committed(1, b""))
        with pytest.raises(RefusedError, match="topic a"):
            await until(bench.link.check)
        assert bench.left_after_a_crash() == [b"answer 1"]


async def test_commit_that_waits_for_room_ends_with_the_link(tmp_path):
    """Else a daemon whose outbox is full would wait for ever for a link that has ended for good."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        bench.broker.takes = [None]
        sink = MqttSink(SETTINGS, bench.outbox, bench.link)
        large = Reply(bytes(1 << 20))
        await sink.commit(Commit(Replies.of([large]), [], 1, b""))
        await until(lambda: bench.broker.published)
        waiting = asyncio.create_task(sink.commit(Commit(Replies.of([large]), [], 2, b"")))
        assert not await seen(waiting.done)
        bench.broker.take(bench.broker.published[0][2], 0x87)
        await until(waiting.done)
        with pytest.raises(RefusedError, match="topic a"):
            waiting.result()


async def test_link_backs_off_while_nobody_answers(tmp_path, monkeypatch):
    """Tries to connect come after the pauses of the backoff (`tests/connectors/test_retry.py`), and no earlier."""
    monkeypatch.setattr(retry, "FIRST", 0.02)
    pauses, pause = [], retry.Backoff.pause

    def note(backoff: retry.Backoff, lasted: float) -> float:
        pauses.append((asyncio.get_running_loop().time(), pause(backoff, lasted)))
        return pauses[-1][1]

    monkeypatch.setattr(retry.Backoff, "pause", note)
    async with ScriptedBroker() as broker:
        broker.refuses = True
        bench = LinkBench(tmp_path, broker)
        await bench.begin()
        await until(lambda: len(pauses) >= 5)
        for (tried, seconds), (tried_again, _) in itertools.pairwise(pauses):
            assert tried_again - tried >= seconds - 0.001
        assert pauses[4][1] >= 0.16
        broker.refuses = False
        await bench.connected()
        await bench.end()


async def test_connections_that_do_not_last_say_what_it_may_be(tmp_path):
    """Two clients of one id throw each other out, of which some brokers say nothing: the log names the setting."""
    async with link_bench(tmp_path) as bench:
        for time in range(1, 5):
            await bench.connected(time)
            bench.broker.drop()
            await until(lambda time=time: len(bench.observer.errors) == time)
        assert not any("client_id" in text for text in bench.observer.errors[:3])
        assert "4 times in a row" in bench.observer.errors[3]
        assert "no other client uses mqtt.client_id = 'c'" in bench.observer.errors[3]


async def test_unexpected_error_of_the_client_is_tried_again(tmp_path, monkeypatch):
    """What the client's library was never said to raise is told by its name alone, and ends no link in silence."""
    enter, failures = Connection.enter, [OverflowError("secret"), KeyError("secret")]

    async def fail(connection: Connection) -> None:
        if failures:
            raise failures.pop()
        await enter(connection)

    monkeypatch.setattr(Connection, "enter", fail)
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        assert bench.observer.errors == [
            "broker: the client failed: KeyError",
            "broker: the client failed: OverflowError",
        ]


async def test_what_is_remembered_is_whole(tmp_path, monkeypatch):
    """A snapshot during a start does not journal a part of what is remembered in place of the whole."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        for number in range(1, 6):
            bench.broker.send(b"%d" % number, number)
        await until(lambda: len(bench.broker.acked) == 5)
    gate, restore = threading.Event(), Redeliveries.restore

    def restore_late(redeliveries: Redeliveries, journal: Journal) -> None:
        assert gate.wait(TIMEOUT)
        restore(redeliveries, journal)

    monkeypatch.setattr(Redeliveries, "restore", restore_late)
    async with link_bench(tmp_path) as bench:
        await asyncio.sleep(0)
        remembering = asyncio.ensure_future(bench.link.remember())
        await asyncio.sleep(0.1)
        assert not remembering.done()
        gate.set()
        await remembering
        (recent,) = [record for record in bench.records() if isinstance(record, Recent)]
        assert recent.mids == [1, 2, 3, 4, 5]


async def test_large_properties_count_as_what_waits(tmp_path, monkeypatch):
    """Messages of nothing but properties cannot pile up without bound: reading pauses for them as for bodies."""
    monkeypatch.setattr(link_module, "_MOST_BYTES", 1 << 20)
    correlation = b"\x09" + (60_000).to_bytes(2, "big") + bytes(60_000)
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        gate = hold(bench.journal)
        for mid in range(1, 101):
            bench.broker.send(b"", mid, properties=correlation)
        await asyncio.sleep(WHILE)
        assert len(bench.link._incoming) < 30
        gate.set()
        await until(lambda: bench.broker.acked, lambda: bench.observer.errors)
