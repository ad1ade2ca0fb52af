"""What every source and every sink must do; each connector's test class inherits it."""

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import METADATA_LIMIT, Commit, Committed, Delivery, Rejected, Replies, Reply, Sink, Source
from oracle.errors import InputError, SourceError, StorageError
from tests.faults import Faults, SimulatedCrash

LIMITS = st.lists(st.integers(1, 7), min_size=1, max_size=5)


async def drain(source: Source, limits: Sequence[int] = (1000,)) -> list[Delivery]:
    """Fetch until the source is exhausted, with the given limits in turn."""
    deliveries: list[Delivery] = []
    for limit in itertools.cycle(limits):
        if source.exhausted:
            return deliveries
        batch = await source.fetch(limit, 5.0)
        assert len(batch) <= limit
        deliveries += batch.rows()
    raise AssertionError


async def read(source: Source, position: int | None = None, limits: Sequence[int] = (1000,)) -> list[Delivery]:
    """Open, drain and close."""
    await source.open(position)
    deliveries = await drain(source, limits)
    await source.close()
    return deliveries


class SourceSuite(ABC):
    """A finite, replayable source's contract."""

    @abstractmethod
    def make(self) -> Source:
        """Return a new source over the same records, which do not change within a test; there are at least 5."""

    async def test_positions_strictly_increase(self):
        """There is one total order."""
        deliveries = await read(self.make())
        assert len(deliveries) >= 5
        positions = [delivery.position for delivery in deliveries]
        assert positions == sorted(set(positions))
        assert positions[0] > 0

    async def test_none_and_zero_are_the_beginning(self):
        """Both positions mean that nothing was read yet."""
        assert await read(self.make(), None) == await read(self.make(), 0)

    def test_reopened_anywhere_the_rest_is_the_same(self):
        """From any delivered position, with any fetch limits, the same deliveries follow."""
        everything = asyncio.run(read(self.make()))

        @settings(max_examples=40, deadline=None)
        @given(count=st.integers(0, len(everything)), limits=LIMITS)
        def check(count: int, limits: list[int]) -> None:
            position = everything[count - 1].position if count else None
            assert asyncio.run(read(self.make(), position, limits)) == everything[count:]

        check()

    async def test_position_that_is_gone_is_an_error(self):
        """A position behind the end, or before the beginning, is never silently reset."""
        end = (await read(self.make()))[-1].position
        for position in (end + 1, end + 1000, -1):
            source = self.make()
            with pytest.raises(SourceError, match=str(position)):
                await source.open(position)

    async def test_fetch_needs_open(self):
        """A fetch before open is an error, not an empty answer."""
        with pytest.raises(SourceError, match="before open"):
            await self.make().fetch(1, 0)

    async def test_exhausted_stays_exhausted(self):
        """At the end, fetch is empty at once."""
        source = self.make()
        await source.open(None)
        await drain(source)
        assert source.exhausted
        assert list((await source.fetch(10, 60.0)).rows()) == []
        await source.close()

    async def test_lag_is_honest(self):
        """At any time it is None or a number of deliveries at least as high as those that are still to be fetched."""
        source = self.make()
        assert source.lag() is None
        left = len(await read(self.make()))
        await source.open(None)
        while not source.exhausted:
            left -= len(await source.fetch(2, 5.0))
            lag = source.lag()
            assert lag is None or (lag.records >= left and (lag.seconds is None or lag.seconds >= 0))
        await source.close()
        assert source.lag() is None

    async def test_cancelled_fetches_lose_nothing(self):
        """Fetches that are cancelled after any number of turns of the loop leave the rest as it was."""
        everything = await read(self.make())
        source = self.make()
        await source.open(None)
        deliveries: list[Delivery] = []
        for turns in itertools.cycle(range(6)):
            if source.exhausted:
                break
            task = asyncio.ensure_future(source.fetch(2, 5.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            if not task.done():
                task.cancel()
            try:
                deliveries += (await task).rows()
            except asyncio.CancelledError:
                if turns == 0:
                    deliveries += (await source.fetch(1, 5.0)).rows()
        await source.close()
        assert deliveries == everything


def json_commits(count: int, *, first: int = 0) -> list[Commit]:
    """Return commits of JSON replies, rejections and ledger events."""
    return [
        Commit(
            replies=Replies.of(
                [
                    Reply(b'{"label":%d}' % number),
                    Reply(b'{"error":"oversized","n":%d}' % number, rejected=Rejected("oversized", number, b"")),
                    Reply(b'{"label":-%d}' % number),
                ]
            ),
            ledger=[b'{"round":%d}' % number] * (number % 3),
            position=3 * number + 3,
            metadata=b"tag %d" % number,
        )
        for number in range(first, first + count)
    ]


def regroup(commits: Sequence[Commit], cuts: Sequence[int]) -> list[Commit]:
    """Return the same replies and events with commits merged between the cuts."""
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(commits)}), len(commits)]
    return [
        Commit(
            replies=Replies.joined([commit.replies for commit in commits[start:end]]),
            ledger=[event for commit in commits[start:end] for event in commit.ledger],
            position=commits[end - 1].position,
            metadata=commits[end - 1].metadata,
        )
        for start, end in itertools.pairwise(bounds)
    ]


class SinkSuite(ABC):
    """An exactly-once sink's contract. `content` returns whatever readers find, as comparable data."""

    @abstractmethod
    def make(self, folder: Path) -> Sink:
        """Return a new sink object over what is in the folder."""

    @abstractmethod
    def content(self, folder: Path) -> Any:
        """Return what readers find."""

    def commits(self) -> list[Commit]:
        """Return commits that this sink can take."""
        return json_commits(4)

    @contextlib.asynccontextmanager
    async def opened(self, folder: Path) -> AsyncIterator[Sink]:
        """Lend a new sink, open; it is not closed after an error."""
        sink = self.make(folder)
        await sink.open()
        yield sink
        await sink.close()

    async def expected(self, folder, commits):
        """Return what readers find after these commits and nothing else."""
        folder.mkdir()
        async with self.opened(folder) as sink:
            for commit in commits:
                await sink.commit(commit)
        return self.content(folder)

    async def test_new_sink_has_no_commit(self, tmp_path):
        """Before the first commit, open says None, however often."""
        for _ in range(2):
            sink = self.make(tmp_path)
            assert await sink.open() is None
            await sink.close()

    async def test_last_commit_comes_back(self, tmp_path):
        """Position and metadata of the last commit are what the next open returns."""
        for commit in self.commits():
            async with self.opened(tmp_path) as sink:
                await sink.commit(commit)
            again = self.make(tmp_path)
            assert await again.open() == Committed(commit.position, commit.metadata)
            await again.close()
        assert self.content(tmp_path) == await self.expected(tmp_path / "plain", self.commits())

    @pytest.mark.parametrize("length", [0, 1, 255, METADATA_LIMIT])
    async def test_metadata_comes_back(self, tmp_path, length):
        """Any bytes up to the limit come back."""
        metadata = bytes(index % 256 for index in range(length))
        async with self.opened(tmp_path) as sink:
            await sink.commit(self.commits()[0]._replace(metadata=metadata))
        again = self.make(tmp_path)
        committed = await again.open()
        assert committed is not None
        assert committed.metadata == metadata
        await again.close()

    async def test_longer_metadata_is_refused(self, tmp_path):
        """One byte more is refused before anything is written."""
        async with self.opened(tmp_path) as sink:
            before = self.content(tmp_path)
            with pytest.raises(InputError, match="metadata"):
                await sink.commit(self.commits()[0]._replace(metadata=bytes(METADATA_LIMIT + 1)))
            assert self.content(tmp_path) == before
            await sink.commit(self.commits()[0])

    async def test_commit_needs_open(self, tmp_path):
        """A commit before open or after close is refused."""
        sink = self.make(tmp_path)
        with pytest.raises(StorageError, match="open"):
            await sink.commit(self.commits()[0])
        await sink.open()
        await sink.close()
        with pytest.raises(StorageError, match="open"):
            await sink.commit(self.commits()[0])

    async def test_empty_commit_moves_the_position(self, tmp_path):
        """A commit without replies is a commit."""
        async with self.opened(tmp_path) as sink:
            await sink.commit(Commit(Replies(), [], 17, b"m"))
        again = self.make(tmp_path)
        assert await again.open() == Committed(17, b"m")
        await again.close()

    def test_output_does_not_depend_on_the_grouping(self, tmp_path):
        """The same replies in any grouping into commits, with reopens in between, are the same bytes."""
        expected = asyncio.run(self.expected(tmp_path / "plain", self.commits()))
        number = itertools.count()

        async def run(cuts: list[int], reopens: set[int]) -> object:
            folder = tmp_path / str(next(number))
            folder.mkdir()
            sink = self.make(folder)
            await sink.open()
            for index, commit in enumerate(regroup(self.commits(), cuts)):
                await sink.commit(commit)
                if index in reopens:
                    await sink.close()
                    sink = self.make(folder)
                    await sink.open()
            await sink.close()
            return self.content(folder)

        @settings(max_examples=15, deadline=None)
        @given(cuts=st.lists(st.integers(1, 3)), reopens=st.sets(st.integers(0, 3)))
        def check(cuts: list[int], reopens: set[int]) -> None:
            assert asyncio.run(run(cuts, reopens)) == expected

        check()

    async def test_cancelled_commit_is_settled_by_open(self, tmp_path):
        """After a cancelled commit, open tells whether it happened, and the content agrees."""
        first, second = self.commits()[:2]
        for turns in range(4):
            folder = tmp_path / str(turns)
            folder.mkdir()
            async with self.opened(folder) as sink:
                await sink.commit(first)
                task = asyncio.ensure_future(sink.commit(second))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
            again = self.make(folder)
            committed = await again.open()
            assert committed is not None
            if committed.position != second.position:
                assert committed.position == first.position
                await again.commit(second)
            await again.close()
            assert self.content(folder) == await self.expected(tmp_path / f"plain-{turns}", [first, second])


class FileSinkSuite(SinkSuite):
    """What a sink on disk must do as well: crashes and failures at every system call.

    Attributes:
        least_calls: System calls that a commit makes at least.
        doubtful: Whether a commit one of whose calls has failed may stand after all.
    """

    least_calls = 5
    doubtful = True

    async def test_crash_at_every_call(self, tmp_path):
        """A crash at any system call of open or commit, then going on, gives exactly the uninterrupted content."""
        commits = self.commits()
        expected = await self.expected(tmp_path / "plain", commits)
        outcomes = set()
        for index in itertools.count():
            folder = tmp_path / str(index)
            folder.mkdir()
            position = None
            sink = self.make(folder)
            with Faults(crash_at=index) as faults:
                try:
                    await sink.open()
                    for commit in commits:
                        await sink.commit(commit)
                        position = commit.position
                except SimulatedCrash:
                    pass
            self.release(sink)
            if not faults.reached:
                await sink.close()
                break
            sink = self.make(folder)
            committed = await sink.open()
            resumed = committed.position if committed else None
            assert resumed in (position, commits[0].position if position is None else position + 3)
            outcomes.add(resumed == position)
            done = [commit for commit in commits if resumed is not None and commit.position <= resumed]
            assert self.content(folder) == await self.expected(tmp_path / f"done-{index}", done)
            for commit in commits[len(done) :]:
                await sink.commit(commit)
            await sink.close()
            assert self.content(folder) == expected
        assert outcomes == {True, False}

    async def test_failure_of_every_call(self, tmp_path):
        """Any system call of a commit may fail once: StorageError, and a retry, after open if asked for, is right."""
        commits = self.commits()
        before = await self.expected(tmp_path / "before", commits[:1])
        expected = await self.expected(tmp_path / "plain", commits[:2])
        for index in itertools.count():
            folder = tmp_path / str(index)
            folder.mkdir()
            async with self.opened(folder) as sink:
                await sink.commit(commits[0])
                failed = False
                with Faults(fail_at=index) as faults:
                    try:
                        await sink.commit(commits[1])
                    except StorageError:
                        failed = True
                if not faults.reached:
                    await sink.close()
                    break
                if failed:
                    if self.settled(sink):
                        assert self.content(folder) == before
                    await self.retry(sink, commits[1])
            assert self.content(folder) == expected
        assert index >= self.least_calls

    async def test_crash_after_failure_of_every_call(self, tmp_path):
        """A call of a commit fails, then the process dies: what the next open says and what is there agree."""
        commits = self.commits()[:2]
        expected = {
            commit.position: await self.expected(tmp_path / f"plain-{number}", commits[:number])
            for number, commit in enumerate(commits, 1)
        }
        positions = []
        for index in itertools.count():
            folder = tmp_path / str(index)
            folder.mkdir()
            sink = self.make(folder)
            await sink.open()
            await sink.commit(commits[0])
            with Faults(fail_at=index) as faults, contextlib.suppress(StorageError):
                await sink.commit(commits[1])
            self.release(sink)
            if not faults.reached:
                break
            again = self.make(folder)
            committed = await again.open()
            assert committed is not None
            await again.close()
            assert self.content(folder) == expected[committed.position]
            positions.append(committed.position)
        assert positions == sorted(positions)
        assert set(positions) == (set(expected) if self.doubtful else {commits[0].position})

    async def test_cancelled_commit_needs_open(self, tmp_path):
        """Nobody knows whether a cancelled commit happened, so committing again without open is refused."""
        first, second = self.commits()[:2]
        async with self.opened(tmp_path) as sink:
            task = asyncio.ensure_future(sink.commit(first))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for commit in (first, second):
                with pytest.raises(StorageError, match=r"opened \(again\)"):
                    await sink.commit(commit)

    def settled(self, sink: Sink) -> bool:
        """Tell whether the sink knows that the failed commit did not happen."""
        try:
            sink._files.check_ready()  # type: ignore[attr-defined]
        except StorageError:
            return False
        return True

    async def retry(self, sink: Sink, commit: Commit) -> None:
        """Commit again, as the shard would."""
        try:
            await sink.commit(commit)
        except StorageError as exc:
            assert "opened (again)" in str(exc)  # noqa: PT017  # both outcomes are right
            committed = await sink.open()
            assert committed is not None
            if committed.position != commit.position:
                await sink.commit(commit)

    def release(self, sink: Sink) -> None:
        """Let go of the crashed sink's descriptors, as the process's death would."""
        sink._files.close()  # type: ignore[attr-defined]
