"""Commits are made in order, one at a time, and take in what was answered meanwhile."""

import asyncio
from collections.abc import Sequence

import pytest

from connectors.base import Commit, Committed, Reply
from oracle.errors import StorageError
from oracle.predictors.base import PublicFacts
from oracle.runtime.commit_queue import CommitQueue, Done
from oracle.runtime.shard import Outcome


class SlowSink:
    """A sink whose commits end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Commit] = []
        self.gates: asyncio.Queue[Exception | None] = asyncio.Queue()

    in_doubt = None

    async def open(self) -> Committed | None:
        """Nothing was committed."""
        return None

    async def commit(self, commit: Commit) -> None:
        """Begin, and end as told."""
        self.begun.append(commit)
        error = await self.gates.get()
        if error is not None:
            raise error

    async def close(self) -> None:
        """Nothing is held."""


def _outcome(number: int, rounds: int = 1) -> Outcome:
    commit = Commit([Reply(b"answer %d" % number)], [b"event %d" % number], number, b"mark %d" % number)
    return Outcome(commit, rounds, (), phase_ended=False)


async def _add(commits: CommitQueue, number: int) -> Sequence[Done]:
    return await commits.add(_outcome(number), PublicFacts(number, 1, number, 100, 0))


def _positions(done: Sequence[Done]) -> list[int]:
    return [one.outcome.commit.position for one in done]


async def test_what_is_answered_meanwhile_is_committed_together() -> None:
    """The first batch begins at once; the next three go into one commit, in order, with the last one's mark."""
    sink = SlowSink()
    commits = CommitQueue(sink)
    for number in (1, 2, 3, 4):
        assert await _add(commits, number) == []
        await asyncio.sleep(0)
    assert [commit.position for commit in sink.begun] == [1]
    sink.gates.put_nowait(None)
    sink.gates.put_nowait(None)
    assert _positions(await commits.finish()) == [1, 2, 3, 4]
    assert sink.begun[1:] == [
        Commit([Reply(b"answer %d" % n) for n in (2, 3, 4)], [b"event %d" % n for n in (2, 3, 4)], 4, b"mark 4")
    ]
    assert await commits.finish() == []


async def test_at_most_three_batches_wait() -> None:
    """A fifth batch is not taken before the first one is durable; then it is told of."""
    sink = SlowSink()
    commits = CommitQueue(sink)
    for number in (1, 2, 3, 4):
        await _add(commits, number)
        await asyncio.sleep(0)
    fifth = asyncio.ensure_future(_add(commits, 5))
    await asyncio.sleep(0.01)
    assert not fifth.done()
    sink.gates.put_nowait(None)
    assert _positions(await fifth) == [1]
    sink.gates.put_nowait(None)
    sink.gates.put_nowait(None)
    assert _positions(await commits.finish()) == [2, 3, 4, 5]
    assert [commit.position for commit in sink.begun] == [1, 4, 5]


@pytest.mark.parametrize(("rounds", "taken"), [(1 << 17, 2), ((1 << 17) + 1, 1), (1 << 20, 1)])
async def test_large_batches_wait_in_smaller_numbers(rounds: int, taken: int) -> None:
    """What waits has at most 262,144 rounds, unless it is one batch."""
    sink = SlowSink()
    commits = CommitQueue(sink)
    await _add(commits, 1)
    await asyncio.sleep(0)
    for number in range(2, 2 + taken):
        await commits.add(_outcome(number, rounds), PublicFacts(number, 1, number, 100, 0))
    more = asyncio.ensure_future(commits.add(_outcome(9, rounds), PublicFacts(9, 1, 9, 100, 0)))
    await asyncio.sleep(0.01)
    assert not more.done()
    sink.gates.put_nowait(None)
    assert _positions(await more) == [1]
    sink.gates.put_nowait(None)
    sink.gates.put_nowait(None)
    await commits.finish()
    assert [commit.position for commit in sink.begun] == [1, 1 + taken, 9]


async def test_cancelled_while_waiting_for_room() -> None:
    """Nothing is left behind but the commit under way, which `close` cancels too."""
    sink = SlowSink()
    commits = CommitQueue(sink)

    async def serve() -> None:
        try:
            for number in range(1, 6):
                await _add(commits, number)
                await asyncio.sleep(0)
        finally:
            await commits.close()

    serving = asyncio.ensure_future(serve())
    for _ in range(20):
        await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [commit.position for commit in sink.begun] == [1]


@pytest.mark.parametrize("waiting", [0, 1, 4])
async def test_a_failed_commit_is_raised_and_nothing_follows_it(waiting: int) -> None:
    """Whoever adds or waits next is told, also one that waits for room, and no later batch is committed."""
    sink = SlowSink()
    commits = CommitQueue(sink)
    await _add(commits, 1)
    await asyncio.sleep(0)
    for number in range(2, 2 + min(waiting, 3)):
        await _add(commits, number)
    more = asyncio.ensure_future(_add(commits, 9) if waiting > 1 else commits.finish())
    await asyncio.sleep(0)
    sink.gates.put_nowait(StorageError("the disk is full"))
    with pytest.raises(StorageError, match="full"):
        await more
    await commits.close()
    assert [commit.position for commit in sink.begun] == [1]


async def test_closing_lets_the_commit_under_way_end_and_begins_no_other() -> None:
    """What waits is dropped: the next run answers it again."""
    sink = SlowSink()
    commits = CommitQueue(sink)
    await _add(commits, 1)
    await asyncio.sleep(0)
    await _add(commits, 2)
    asyncio.get_running_loop().call_later(0.01, sink.gates.put_nowait, None)
    await commits.close()
    assert [commit.position for commit in sink.begun] == [1]
    assert sink.gates.empty()
