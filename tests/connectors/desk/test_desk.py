"""The desk: its sink passes the suite of all sinks; what is taken in is answered once, and kept for a while."""

import asyncio
import contextlib
import errno
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from connectors.base import Commit, Deliveries, Delivery, Replies, Reply
from connectors.desk.desk import Desk, DeskBusyError, ReusedIdError
from connectors.desk.records import Answers, delivery, digest_of
from connectors.desk.sink import DeskSink, _decoder
from connectors.desk.source import DeskSource
from connectors.journal.journal import Journal
from connectors.journal.source import JournalSource
from oracle import durable
from oracle.errors import StorageError
from tests.connectors.suite import FileSinkSuite, SourceSuite, json_commits
from tests.faults import Faults
from tests.support.waiting import until

_KEPT = 1 << 20


def _journal(folder: Path, kind: str = "answers") -> Journal:
    return Journal(folder / kind, bytes(32), kind, limit=1 << 20)


def _asked_for(number: int, reply: Reply) -> Reply:
    return reply._replace(headers=(("id", b"%d" % number), ("digest", digest_of(b""))), rejected=None)


class TestDeskSink(FileSinkSuite):
    """Answers and ledger agree after a crash at any call."""

    least_calls = 2  # one record: a write and an fsync; two more where there are events

    def make(self, folder):
        """Return a sink of a folder."""
        return DeskSink(_journal(folder), Desk(_journal(folder, "queries"), _KEPT), folder / "ledger.jsonl")

    def commits(self):
        """Return commits of replies to questions with ids."""
        return [
            commit._replace(
                replies=Replies.of(
                    [_asked_for(3 * count + one, reply) for one, reply in enumerate(commit.replies.rows())]
                )
            )
            for count, commit in enumerate(json_commits(4))
        ]

    def content(self, folder):
        """Return all answers in their order, and the ledger."""
        journal = _journal(folder)
        journal.inspect()
        records: list[Answers] = [_decoder.decode(found.body) for found in journal.reader(0).read(1000)]
        ledger = folder / "ledger.jsonl"
        return [one for record in records for one in record.replies], ledger.exists() and ledger.read_bytes()

    def settled(self, sink):
        """Tell whether the sink knows that the failed commit did not happen."""
        return sink._ready and not sink._journal._broken

    def release(self, sink):
        """Let go of the crashed sink's descriptors."""
        sink._close()


class TestDeskSource(SourceSuite):
    """What is journalled is read again, as of any journal."""

    @pytest.fixture(autouse=True)
    def _records(self, tmp_path):
        async def fill() -> None:
            async with _opened(tmp_path) as counter:
                for number in range(12):
                    await counter.desk.ask(b"%d" % number, b'{"x":%d}' % number)

        asyncio.run(fill())
        self.journal = _journal(tmp_path, "queries")
        self.journal.open()
        yield
        self.journal.close()

    def make(self):
        """Return a source over the same journal."""
        return JournalSource(self.journal, delivery, live=False)


class _Counter:
    """A desk between its source and its sink, whose daemon is the test."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.desk = Desk(_journal(folder, "queries"), most_bytes)
        self.sink = DeskSink(_journal(folder), self.desk, folder / "ledger.jsonl")
        self.source = DeskSource(self.desk, self.sink)

    async def open(self) -> None:
        committed = await self.sink.open()
        await self.source.open(0 if committed is None else committed.position)

    async def close(self) -> None:
        await self.source.close()
        await self.sink.close()

    async def answer_all(self) -> list[bytes]:
        """Answer what waits, in one commit, and return the questions."""
        found: Deliveries = await self.source.fetch(1000, 5.0)
        if len(found):
            await self.sink.commit(_answers(list(found.rows())))
        return [body or b"" for body in found.bodies]


def _answers(rows: list[Delivery]) -> Commit:
    replies = Replies.of([Reply(b'{"to":%b}' % (one.body or b""), headers=one.headers) for one in rows])
    return Commit(replies, [], rows[-1].position, b"")


@contextlib.asynccontextmanager
async def _opened(folder: Path, most_bytes: int = _KEPT) -> AsyncIterator[_Counter]:
    counter = _Counter(folder, most_bytes)
    await counter.open()
    yield counter
    await counter.close()


async def test_many_hand_in_and_each_is_answered_once(tmp_path: Path):
    """Some at the same time under one id too; behind a restart the answers are the same, and no question is new."""
    async with _opened(tmp_path) as counter:
        ids = [b"%d" % number for number in range(300)]
        await asyncio.gather(*(counter.desk.ask(one, b"[%b]" % one) for one in [*ids, *ids]))
        waiting = asyncio.create_task(counter.desk.answer(b"7", 60.0))
        asked = [await counter.answer_all()]
        while sum(map(len, asked)) < 300:
            asked.append(await counter.answer_all())
        assert sorted(itertools.chain(*asked)) == sorted(b"[%b]" % one for one in ids)
        assert await waiting == b'{"to":[7]}'
        await counter.desk.ask(b"unanswered", b"[]")
    async with _opened(tmp_path) as counter:
        await counter.desk.ask(b"7", b"[7]")
        assert await counter.desk.answer(b"7", 0.0) == b'{"to":[7]}'
        assert await counter.desk.answer(b"unanswered", 0.0) is None
        await counter.desk.ask(b"unanswered", b"[]")
        assert await counter.answer_all() == [b"[]"]
        assert await counter.desk.answer(b"unanswered", 60.0) == b'{"to":[]}'
        assert not counter.desk.knows(b"301")


async def test_one_id_is_one_question(tmp_path: Path):
    """Another body under it is refused, whether the first has an answer or not."""
    async with _opened(tmp_path) as counter:
        await counter.desk.ask(b"a", b"[1]")
        with pytest.raises(ReusedIdError):
            await counter.desk.ask(b"a", b"[2]")
        await counter.answer_all()
        with pytest.raises(ReusedIdError):
            await counter.desk.ask(b"a", b"[2]")


async def test_closed_and_opened_again(tmp_path: Path):
    """Who waits hears that there is no answer yet; nothing is taken in meanwhile; then the same one is answered."""
    async with _opened(tmp_path) as counter:
        await counter.desk.ask(b"a", b"[1]")
        waiting = asyncio.create_task(counter.desk.answer(b"a", 60.0))
        await asyncio.sleep(0)
        await counter.close()
        assert await waiting is None
        with pytest.raises(DeskBusyError, match="starting or stopping"):
            await counter.desk.ask(b"b", b"[2]")
        await counter.desk.ask(b"a", b"[1]")  # it is there already
        await counter.open()
        assert await counter.answer_all() == [b"[1]"]
        assert await counter.desk.answer(b"a", 60.0) == b'{"to":[1]}'


async def test_what_cannot_be_written_is_not_taken_in(tmp_path: Path):
    """Its asker is told, and may ask again."""
    async with _opened(tmp_path) as counter:
        with Faults(fail_at=0), pytest.raises(StorageError):
            await counter.desk.ask(b"a", b"[1]")
        assert not counter.desk.knows(b"a")
        await counter.desk.ask(b"a", b"[1]")
        assert await counter.answer_all() == [b"[1]"]


async def test_journal_that_cannot_be_mended_ends_the_daemon(tmp_path: Path):
    """What was half written could not be cut off: the source says so, until it is opened again."""
    async with _opened(tmp_path) as counter:
        await counter.desk.ask(b"a", b"[1]")
        await counter.answer_all()
        waiting = asyncio.create_task(counter.source.fetch(1, 60.0))
        await asyncio.sleep(0)
        with _no_disk(), pytest.raises(StorageError):
            await counter.desk.ask(b"b", b"[2]")
        with pytest.raises(StorageError, match=r"opened \(again\)"):
            await waiting
        await counter.close()
        await counter.open()
        await counter.desk.ask(b"b", b"[2]")
        assert await counter.answer_all() == [b"[2]"]


@contextlib.contextmanager
def _no_disk() -> Iterator[None]:
    """Let every write and cut fail."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("write_all", "cut", "sync"):
            patched.setattr(durable, name, _fail)
        yield


def _fail(*_: object) -> None:
    raise OSError(errno.EIO, "no disk")


async def test_asker_that_goes_away_leaves_its_question(tmp_path: Path):
    """It is written all the same: nobody can tell whether its asker was told."""
    async with _opened(tmp_path) as counter:
        asking = asyncio.create_task(counter.desk.ask(b"a", b"[1]"))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: counter.desk.questions.end == 1)
        assert await counter.answer_all() == [b"[1]"]


async def test_too_much_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """While too many wait, or the journal is full, none is taken in; what is known already is."""
    monkeypatch.setattr("connectors.desk.desk._MOST_WAITING", 2)
    async with _opened(tmp_path) as counter:
        for name in (b"a", b"b"):
            await counter.desk.ask(name, b"[1]")
        with pytest.raises(DeskBusyError, match="too many questions"):
            await counter.desk.ask(b"c", b"[1]")
        await counter.desk.ask(b"b", b"[1]")
        await counter.answer_all()
        await counter.desk.ask(b"c", bytes(1 << 20))
        await counter.answer_all()
        assert counter.source.pressed
        with pytest.raises(DeskBusyError, match="too many questions"):
            await counter.desk.ask(b"d", b"[1]")
        await counter.source.forget(3)
        with pytest.raises(DeskBusyError, match="too many questions"):  # the newest segment stays
            await counter.desk.ask(b"d", b"[1]")


async def test_newest_answers_are_kept(tmp_path: Path):
    """In memory and on the disk, also behind a restart; older ones are forgotten, and their ids with them."""
    body = b"[" + b"1" * 5000 + b"]"
    async with _opened(tmp_path, most_bytes=100_000) as counter:
        for number in range(100):
            await counter.desk.ask(b"%d" % number, body)
            await counter.answer_all()
            await counter.source.forget(number)
        kept = [number for number in range(100) if counter.desk.knows(b"%d" % number)]
        assert kept == list(range(100 - len(kept), 100))
        assert 10 <= len(kept) <= 20
        assert counter.sink._journal.size < 300_000
    async with _opened(tmp_path, most_bytes=100_000) as counter:
        assert [number for number in range(100) if counter.desk.knows(b"%d" % number)] == kept
        assert await counter.desk.answer(b"99", 0.0) == b'{"to":%b}' % body
