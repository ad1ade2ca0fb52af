"""A journal is a source like any other: the abstract suite, and what a live one does."""

import asyncio

import pytest

from connectors.base import Delivery
from connectors.journal.source import JournalSource
from oracle.errors import SourceError, StorageError
from tests.connectors.journal.conftest import opened
from tests.connectors.suite import SourceSuite
from tests.support.waiting import TIMEOUT


def _decode(found):
    return None if found.body == b"skip" else Delivery(found.position, found.body)


class TestJournalSource(SourceSuite):
    """A journal of several segments, some of whose records are no deliveries."""

    @pytest.fixture(autouse=True)
    def _records(self, tmp_path):
        for part in range(3):
            self.journal = opened(tmp_path / "j")
            self.journal.append([b"%d" % number if number % 4 else b"skip" for number in range(part * 7, part * 7 + 7)])
            self.journal.append([b"last"])
            if part < 2:
                self.journal.close()
        yield
        self.journal.close()

    def make(self):
        """Return a source over the same journal."""
        return JournalSource(self.journal, _decode, live=False)


async def test_live_source_waits_for_what_comes(tmp_path):
    """At the end a live source waits, is never exhausted, and hands over what is appended."""
    journal = opened(tmp_path / "j")
    source = JournalSource(journal, _decode, live=True)
    await source.open(None)
    assert not source.exhausted
    assert list((await source.fetch(5, 0.01)).rows()) == []
    waiting = asyncio.ensure_future(source.fetch(5, 60))
    await asyncio.sleep(0)
    journal.append([b"skip", b"one"])
    source.notify()
    assert list((await waiting).rows()) == [Delivery(2, b"one")]
    await source.close()
    journal.close()


async def test_what_ends_a_live_source_ends_a_wait(tmp_path):
    """What `check` raises comes out of a `fetch` that waits, once it is notified, and out of each later one."""
    journal = opened(tmp_path / "j")
    failures: list[str] = []

    def check() -> None:
        if failures:
            raise StorageError(failures[0])

    source = JournalSource(journal, _decode, live=True, check=check)
    await source.open(None)
    waiting = asyncio.ensure_future(source.fetch(5, TIMEOUT))
    await asyncio.sleep(0)
    failures.append("disk")
    source.notify()
    for fetch in (asyncio.wait_for(waiting, TIMEOUT / 2), source.fetch(5, 0.0)):
        with pytest.raises(StorageError, match="disk"):
            await fetch
    await source.close()
    journal.close()


async def test_dropped_records_are_an_error(tmp_path):
    """A position before what the journal has kept, the beginning too, is told."""
    journal = opened(tmp_path / "j")
    for _ in range(8):
        journal.append([bytes(50_000)])
    journal.forget(6)
    assert journal.first > 0
    for position in (None, 0, journal.first - 1):
        with pytest.raises(SourceError, match="the journal holds"):
            await JournalSource(journal, _decode, live=True).open(position)
    journal.close()
