import asyncio
import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.base import ARROW_STREAM, Commit, Committed, Delivery, Replies, Reply
from connectors.local.stdio import StdinSource, StdoutSink
from oracle.errors import InputError, SourceError, StorageError
from tests.connectors.suite import FileSinkSuite, SourceSuite, json_commits, read
from tests.faults import Faults
from tests.support.waiting import TIMEOUT

ROOT = Path(__file__).parents[3]
CONTENT = b'{"x":[1]}\nnull\n\n{"x":[2]}\n' + b'{"x":[3]}\n' * 5 + b'{"x":[4]}'


class TestStdinSource(SourceSuite):
    """A redirected file: the same stream from its beginning each time."""

    @pytest.fixture(autouse=True)
    def _make(self, tmp_path):
        (tmp_path / "in").write_bytes(CONTENT)
        with contextlib.ExitStack() as stack:
            self.new_stream = lambda: stack.enter_context((tmp_path / "in").open("rb"))
            yield

    def make(self):
        """Return a source over a new stream of the same content."""
        return StdinSource(self.new_stream())

    async def test_positions_are_line_numbers(self):
        """Each position is the number of lines up to it, tombstones and empty ones too."""
        deliveries = await read(self.make())
        assert [delivery.position for delivery in deliveries] == list(range(1, 11))
        assert [delivery.body for delivery in deliveries[:3]] == [b'{"x":[1]}', None, b""]

    async def test_streams_do_not_go_back(self):
        """A second open is refused."""
        source = self.make()
        await source.open(None)
        with pytest.raises(SourceError, match="twice"):
            await source.open(None)

    def test_body_limit_is_checked(self):
        """A bound below 1 is refused."""
        with pytest.raises(InputError, match="body_limit"):
            StdinSource(self.new_stream(), body_limit=0)


async def test_pipe_is_read_as_it_fills():
    """Lines come as they are written; waiting and cancelling lose none; closing the pipe is the end."""
    reader, writer = os.pipe()
    with open(reader, "rb") as stream:  # noqa: ASYNC230, PTH123  # a pipe's descriptor has no path, and does not block
        source = StdinSource(stream)
        await source.open(None)
        assert list((await source.fetch(5, 0)).rows()) == []
        assert list((await source.fetch(5, 0.05)).rows()) == []
        waiting = asyncio.ensure_future(source.fetch(5, 60))
        await asyncio.sleep(0.02)
        os.write(writer, b"a\nb")
        assert list((await waiting).rows()) == [Delivery(1, b"a")]
        cancelled = asyncio.ensure_future(source.fetch(5, 60))
        await asyncio.sleep(0.02)
        cancelled.cancel()
        os.write(writer, b"c\nd\n")
        await asyncio.wait({cancelled})
        assert cancelled.cancelled()
        assert list((await source.fetch(5, 60)).rows()) == [Delivery(2, b"bc"), Delivery(3, b"d")]
        assert not source.exhausted
        os.close(writer)
        assert list((await source.fetch(5, 60)).rows()) == []
        assert source.exhausted
        await source.close()


def test_waiting_on_an_idle_pipe_does_not_hold_up_the_end():
    """A process whose standard input stays open and silent ends soon after its fetch is cancelled."""
    code = (
        "import asyncio\n"
        "from connectors.local.stdio import StdinSource\n"
        "async def main():\n"
        "    source = StdinSource()\n"
        "    await source.open(None)\n"
        "    await asyncio.wait_for(source.fetch(1, 3600), 0.1)\n"
        "try:\n    asyncio.run(main())\n"
        "except TimeoutError:\n    print('ended', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ended\n"
        assert process.wait(TIMEOUT) == 0


class TestStdoutSinkFiles(FileSinkSuite):
    """Ledger, dead letters and record, which are exactly once."""

    def make(self, folder):
        """Return a sink whose stream is thrown away."""
        return StdoutSink(
            folder / "stdout.commit",
            stream=io.BytesIO(),
            ledger_path=folder / "ledger.jsonl",
            dead_letter_path=folder / "dead.jsonl",
        )

    def content(self, folder):
        """Return the files' bytes."""
        return [(folder / f"{name}.jsonl").read_bytes() for name in ("ledger", "dead")]


async def test_replies_are_lines_on_the_stream(tmp_path):
    """All replies, in order, flushed by each commit."""
    stream = io.BytesIO()
    sink = StdoutSink(tmp_path / "commit", stream=stream)
    assert await sink.open() is None
    for commit in json_commits(2):
        await sink.commit(commit)
        bodies = list(commit.replies.bodies)
        assert stream.getvalue().endswith(b"\n".join(bodies) + b"\n")
    await sink.close()
    assert stream.getvalue().count(b"\n") == 6
    assert await sink.open() is not None
    assert sink.in_doubt is None
    await sink.close()


async def test_what_leaves_is_in_doubt_from_its_first_byte(tmp_path):
    """The intent is durable before any line is out of our hands."""
    (commit,) = json_commits(1)
    intents = []

    class Stream(io.BytesIO):
        def write(self, data):
            intents.append((tmp_path / "commit.intent").read_bytes())
            return super().write(data)

    sink = StdoutSink(tmp_path / "commit", stream=Stream())
    await sink.open()
    await sink.commit(commit)
    await sink.close()
    assert [f'"position":{commit.position},' in intent.decode() for intent in intents] == [True]


async def test_a_crash_repeats_the_same_bytes(tmp_path):
    """At least once: a crash before the record makes the same lines come again, never others, and none is missing."""
    commits = json_commits(3)
    whole = [b"".join(reply.body + b"\n" for reply in commit.replies.rows()) for commit in commits]
    repeated = 0
    for index in range(30):
        stream = io.BytesIO()
        path = tmp_path / f"{index}.commit"
        sink = StdoutSink(path, stream=stream)
        await sink.open()
        await sink.commit(commits[0])
        with Faults(fail_at=index) as faults, contextlib.suppress(StorageError):
            await sink.commit(commits[1])
        await sink.close()
        again = StdoutSink(path, stream=stream)
        committed = await again.open()
        assert committed is not None
        for commit in commits:
            if commit.position > committed.position:
                await again.commit(commit)
        await again.close()
        once, twice = b"".join(whole), b"".join([whole[0], whole[1], whole[1], whole[2]])
        assert stream.getvalue() in (once, twice)
        repeated += stream.getvalue() == twice
        if not faults.reached:
            break
    assert repeated >= 3


async def test_closed_pipe_is_a_storage_error(tmp_path):
    """When nobody reads any more, the commit fails and its position is not recorded."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "wb")
    sink = StdoutSink(tmp_path / "commit", stream=stream)
    await sink.open()
    await sink.commit(Commit(Replies.of([Reply(b"1")]), [], 1, b""))
    os.close(reader)
    with pytest.raises(StorageError, match="standard output"):
        await sink.commit(Commit(Replies.of([Reply(b"2")]), [], 2, b""))
    await sink.close()
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    again = StdoutSink(tmp_path / "commit", stream=io.BytesIO())
    assert await again.open() == Committed(1, b"")
    await again.close()


async def test_other_types_are_refused(tmp_path):
    """Only JSON lines go to a stream of lines."""
    sink = StdoutSink(tmp_path / "commit", stream=io.BytesIO())
    await sink.open()
    with pytest.raises(InputError, match="content_type"):
        await sink.commit(Commit(Replies.of([Reply(b"", ARROW_STREAM)]), [], 1, b""))
    await sink.close()
