"""The outbox is a sink like any other: the abstract suite with crashes at every call; and what it publishes when."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.base import Committed
from connectors.journal.journal import Journal
from connectors.mqtt.messages import Outgoing
from connectors.mqtt.outbox import Outbox
from connectors.mqtt.settings import MqttSettings
from connectors.mqtt.sink import MqttSink
from oracle.errors import StorageError
from tests.connectors.suite import FileSinkSuite

_SETTINGS = MqttSettings(
    host="h", port=1, client_id="c", topic="q", answers="a", model="m", ledger="l", dead_letter="d"
)
_MESSAGES = [Outgoing("a", b"%d" % number, "t") for number in range(4)]


def _outbox(folder: Path, limit: int = 1 << 20) -> Outbox:
    return Outbox(Journal(folder / "outbox", bytes(32), "answers", limit=limit))


class TestOutboxAsSink(FileSinkSuite):
    """Everything durable, nothing published: what an inspection of the disk finds is what readers will."""

    least_calls = 2  # one record: a write and an fsync
    doubtful = False

    def make(self, folder):
        """Return a sink that publishes nothing."""
        return MqttSink(_SETTINGS, _outbox(folder), None)

    def content(self, folder):
        """Return all that would be published, topic by topic in order."""
        outbox = _outbox(folder)
        outbox.inspect()
        return {topic: [one.message for one in outbox.queue if one.message.topic == topic] for topic in "ald"}

    def settled(self, sink):
        """Tell whether the sink knows that the failed commit did not happen."""
        return not sink._outbox.journal._broken

    def release(self, sink):
        """Let go of the crashed sink's descriptors."""
        sink._outbox.close()


@contextlib.contextmanager
def _opened(folder: Path, limit: int = 1 << 20) -> Iterator[Outbox]:
    outbox = _outbox(folder, limit)
    outbox.open()
    yield outbox
    outbox.close()


def _queued(outbox: Outbox) -> list[Outgoing]:
    return [one.message for one in outbox.queue]


async def _taken(outbox: Outbox, count: int) -> None:
    for _ in range(count):
        outbox.published(outbox.queue.popleft())


async def test_what_was_taken_over_does_not_come_again_once_that_is_known(tmp_path):
    """The next commit says what had been published; what came later is queued again, the same messages in order."""
    with _opened(tmp_path) as outbox:
        await outbox.commit(_MESSAGES[:2], Committed(1, b""))
        await _taken(outbox, 2)
        await outbox.commit(_MESSAGES[2:], Committed(2, b"m"))
        await _taken(outbox, 1)
    with _opened(tmp_path) as again:
        assert again.last == Committed(2, b"m")
        assert _queued(again) == _MESSAGES[2:]


async def test_commit_of_which_a_part_is_out_comes_again_whole(tmp_path):
    """What is known is known by whole commits."""
    with _opened(tmp_path) as outbox:
        await outbox.commit(_MESSAGES[:2], Committed(1, b""))
        await _taken(outbox, 1)
        await outbox.commit(_MESSAGES[2:], Committed(2, b""))
    with _opened(tmp_path) as again:
        assert _queued(again) == _MESSAGES


async def test_saved_progress_makes_a_restart_quiet(tmp_path):
    """After `save_progress` nothing comes again, and the last commit is the same; it writes only if there is news."""
    with _opened(tmp_path) as outbox:
        await outbox.commit(_MESSAGES, Committed(9, b"m"))
        await outbox.save_progress()
        assert outbox.journal.end == 1
        await _taken(outbox, 4)
        for _ in range(3):
            await outbox.save_progress()
        assert outbox.journal.end == 2
    with _opened(tmp_path) as again:
        assert again.last == Committed(9, b"m")
        assert again.settled
        assert not again.queue


async def test_publishing_while_a_commit_is_written_does_not_pass_it_over(tmp_path):
    """What the broker takes over during a commit is counted for the commits before only."""
    for turns in range(6):
        folder = tmp_path / str(turns)
        folder.mkdir()
        with _opened(folder) as outbox:
            await outbox.commit(_MESSAGES[:1], Committed(1, b""))
            writing = asyncio.ensure_future(outbox.commit(_MESSAGES[1:], Committed(2, b"")))
            for _ in range(turns):
                await asyncio.sleep(0)
            outbox.published(outbox.queue.popleft())
            await writing
            await outbox.commit([], Committed(3, b""))
        with _opened(folder) as again:
            assert _queued(again) == _MESSAGES[1:]


async def test_full_outbox_waits_for_the_broker(tmp_path):
    """Above its limit a commit waits until all is published, and loses nothing; what is published is dropped."""
    with _opened(tmp_path) as outbox:
        large = Outgoing("a", bytes(700_000), "t")
        await outbox.commit([large], Committed(1, b""))
        await outbox.commit([large], Committed(2, b""))
        waiting = asyncio.ensure_future(outbox.commit(_MESSAGES, Committed(3, b"")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await _taken(outbox, 2)
        await waiting
        assert outbox.journal.size < 800_000
        assert _queued(outbox) == _MESSAGES


async def test_outbox_with_much_in_memory_waits_for_the_broker(tmp_path):
    """What is unpublished is held in memory too: more than 64 MiB wait for the broker, and for no more than that."""
    with _opened(tmp_path, 1 << 30) as outbox:
        large = [Outgoing("a", bytes(1 << 20), "t") for _ in range(65)]
        await outbox.commit(large, Committed(1, b""))
        waiting = asyncio.create_task(outbox.commit(_MESSAGES, Committed(2, b"")))
        assert not (await asyncio.wait({waiting}, timeout=0.5))[0]
        assert outbox.last == Committed(1, b"")
        await _taken(outbox, 2)
        await asyncio.wait_for(waiting, 30.0)
        assert outbox.last == Committed(2, b"")


async def test_requeued_messages_go_first(tmp_path):
    """What was sent and not taken over is sent again before all else, in its order."""
    with _opened(tmp_path) as outbox:
        await outbox.commit(_MESSAGES, Committed(1, b""))
        sent = [outbox.queue.popleft() for _ in range(3)]
        outbox.requeue(sent)
        assert _queued(outbox) == _MESSAGES


async def test_commit_needs_open(tmp_path):
    """A closed outbox takes nothing."""
    with pytest.raises(StorageError, match=r"opened \(again\)"):
        await _outbox(tmp_path).commit([], Committed(1, b""))
