import asyncio
import itertools
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, Commit, Committed, Delivery, Replies, Reply
from connectors.local.jsonl import JsonlSink, JsonlSource
from connectors.local.lines import LineBuffer
from oracle.errors import InputError, SourceError, StorageError
from tests.connectors.suite import FileSinkSuite, SourceSuite, drain, json_commits, read
from tests.faults import Faults, full_disk

ROOT = Path(__file__).parents[3]


class TestJsonlSource(SourceSuite):
    """A finished file."""

    @pytest.fixture(autouse=True)
    def _make(self, tmp_path):
        self.path = tmp_path / "queries.jsonl"
        self.path.write_bytes(b'{"x":[1]}\nnull\n\n{"x":[2]}\n' + b'{"x":[3]}\n' * 5 + b'{"x":[4]}')

    def make(self):
        """Return a source over the file."""
        return JsonlSource(self.path)

    async def test_positions_are_byte_offsets(self):
        """Each position is the offset behind the line; the last line counts without a newline, as if it had one."""
        self.path.write_bytes(b"ab\nnull\n\nnullx\nc")
        assert await read(self.make()) == [
            Delivery(3, b"ab"),
            Delivery(8, None),
            Delivery(9, b""),
            Delivery(15, b"nullx"),
            Delivery(17, b"c"),
        ]

    @pytest.mark.parametrize("content", [b"", b"\n", b"a", b"null"])
    async def test_smallest_files(self, content):
        """An empty file has no line, a newline alone is one."""
        self.path.write_bytes(content)
        bodies = [delivery.body for delivery in await read(self.make())]
        assert bodies == {b"": [], b"\n": [b""], b"a": [b"a"], b"null": [None]}[content]

    async def test_position_within_a_line_is_an_error(self):
        """Only where a line ends can be opened."""
        for position in (1, 9, 11):
            with pytest.raises(SourceError, match="no line ends there"):
                await self.make().open(position)

    async def test_last_line_may_get_its_newline_later(self):
        """It keeps its position, and the lines behind it follow, opened before or after the file grew."""
        first = await read(self.make())
        end = first[-1].position
        assert await read(self.make(), end) == []
        source = self.make()
        await source.open(end)
        with self.path.open("ab") as file:
            file.write(b"\nmore\n")
        more = [Delivery(end + 5, b"more")]
        assert await drain(source) == more
        await source.close()
        assert await read(self.make(), end) == more
        assert await read(self.make()) == first + more

    @pytest.mark.parametrize("more", [b"5", b"5\n", b"55\n", b" \n\n"])
    async def test_end_of_an_unfinished_line_is_gone_if_the_line_goes_on(self, more):
        """The position behind a last line without a newline is refused when the line turns out longer."""
        end = (await read(self.make()))[-1].position
        source = self.make()
        await source.open(end)
        with self.path.open("ab") as file:
            file.write(more)
        with pytest.raises(SourceError, match="must begin with that newline"):
            await source.fetch(1, 0)
        await source.close()
        with pytest.raises(SourceError, match="must begin with that newline"):
            await self.make().open(end)

    async def test_shorter_file_is_told_with_its_size(self):
        """A log that was cut is not taken for one without its last newline."""
        end = (await read(self.make()))[-1].position
        os.truncate(self.path, 10)
        with pytest.raises(SourceError, match=r"shorter \(10 bytes\) than what was answered; not the same log"):
            await self.make().open(end)
        for position in (11, 12):
            with pytest.raises(SourceError, match="shorter"):
                await self.make().open(position)

    async def test_missing_file_and_pipes_are_named(self, tmp_path):
        """What cannot be read again is refused."""
        with pytest.raises(SourceError, match="No such file"):
            await JsonlSource(tmp_path / "nowhere").open(None)
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(SourceError, match="not a regular file"):
            await JsonlSource(tmp_path / "pipe").open(None)

    def test_body_limit_is_checked(self):
        """A bound below 1 is refused."""
        with pytest.raises(InputError, match="body_limit"):
            JsonlSource(self.path, body_limit=0)

    async def test_long_lines_are_cut_and_positions_stay_right(self):
        """Lines of many chunks, with and without a newline, come cut at the bound + 1, in bounded memory."""
        size = 40 << 20
        with self.path.open("wb") as file:
            file.write(b"a\n" + b"b" * size + b"\nc\n" + b"d" * size + b"\n" + b"e" * 11 + b"\n" + b"f" * size)
        tracemalloc.start()
        try:
            deliveries = await read(JsonlSource(self.path, body_limit=10))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert [delivery.body for delivery in deliveries] == [b"a", b"b" * 11, b"c", b"d" * 11, b"e" * 11, b"f" * 11]
        assert deliveries[-1].position == self.path.stat().st_size + 1
        assert await read(JsonlSource(self.path, body_limit=10), deliveries[1].position) == deliveries[2:]
        assert peak < 10 << 20

    async def test_many_lines_over_chunk_borders(self):
        """Lines that straddle the chunks come whole."""
        lines = [b'{"x":[%d]}' % number for number in range(300_000)]
        self.path.write_bytes(b"\n".join(lines) + b"\n")
        deliveries = await read(self.make(), None, (1, 4096, 70_000))
        assert [delivery.body for delivery in deliveries] == lines
        half = len(lines) // 2
        assert await read(self.make(), deliveries[half].position, (9999,)) == deliveries[half + 1 :]


@settings(max_examples=300)
@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 60), max_size=5), limit=st.integers(1, 8))
def test_line_buffer_agrees_with_split(data, cuts, limit):
    """However the bytes come in chunks, the lines and positions are those of splitting the whole."""
    data = data.replace(b"\x01", b"\n").replace(b"\x02", b"null\n")
    buffer = LineBuffer(limit, 0, in_bytes=True)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found: list[Delivery] = []
    for start, end in itertools.pairwise(bounds):
        buffer.feed(data[start:end])
        found += buffer.take(3).rows()
    buffer.finish()
    while buffer:
        found += buffer.take(2).rows()
    expected, position = [], 0
    lines = data.split(b"\n")
    for index, line in enumerate(lines):
        last = index == len(lines) - 1
        position += len(line) + 1
        if line or not last:
            cut = line[: limit + 1]
            expected.append(Delivery(position, None if cut == b"null" else cut))
    assert [(delivery.position, delivery.body) for delivery in found] == [(d.position, d.body) for d in expected]


async def test_follow_waits_for_whole_lines(tmp_path):
    """Following, a line counts once its newline is there, and the stream never ends."""
    path = tmp_path / "live.jsonl"
    path.write_bytes(b"a\nb")
    source = JsonlSource(path, follow=True)
    await source.open(None)
    assert list((await source.fetch(10, 0.2)).rows()) == [Delivery(2, b"a")]
    assert list((await source.fetch(10, 0)).rows()) == []
    task = asyncio.ensure_future(source.fetch(10, 60))
    with path.open("ab") as file:
        file.write(b"c\nd\n")
    assert list((await task).rows()) == [Delivery(5, b"bc"), Delivery(7, b"d")]
    assert not source.exhausted
    os.truncate(path, 2)
    with pytest.raises(SourceError, match="was truncated"):
        await source.fetch(10, 60)
    await source.close()
    path.write_bytes(b"a\nbc")
    with pytest.raises(SourceError, match="no line ends"):
        await source.open(3)
    await source.open(5)
    assert list((await source.fetch(10, 0.1)).rows()) == []
    with path.open("ab") as file:
        file.write(b"\nd\n")
    assert list((await source.fetch(10, 60)).rows()) == [Delivery(7, b"d")]
    await source.close()


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from([b"", b"a", b"null", b"bcd"]), min_size=1, max_size=6),
    pieces=st.lists(st.integers(0, 6), max_size=4),
    crashes=st.lists(st.integers(0, 20), max_size=4),
)
def test_file_that_grows_without_its_last_newline(tmp_path_factory, lines, pieces, crashes):
    """Grown line by line, its newline before or after a run, read on from older positions: the same deliveries."""
    path = tmp_path_factory.getbasetemp() / "growing.jsonl"
    whole = asyncio.run(_read_all(path, b"\n".join(lines) + b"\n"))
    ends = [index for index in sorted(pieces) if index <= len(lines)]
    found: list[Delivery] = []
    for count, without in [(end, bare) for end in [*ends, len(lines)] for bare in (True, False)]:
        content = b"".join(line + b"\n" for line in lines[:count])
        if without and count and lines[count - 1]:
            content = content[:-1]
        path.write_bytes(content)
        back = crashes.pop() if crashes else 0
        kept = found[: max(0, len(found) - back)]  # an older snapshot: what is behind it is read again
        again = asyncio.run(read(JsonlSource(path), kept[-1].position if kept else None))
        assert again[: len(found) - len(kept)] == found[len(kept) :]
        found = kept + again
    assert found == whole


async def _read_all(path, content):
    path.write_bytes(content)
    return await read(JsonlSource(path))


async def test_cancelled_follow_loses_nothing(tmp_path):
    """A fetch that is cancelled while it waits leaves the next lines to the next one."""
    path = tmp_path / "live.jsonl"
    path.write_bytes(b"")
    source = JsonlSource(path, follow=True)
    await source.open(None)
    got: list[Delivery] = []
    for number in range(20):
        with path.open("ab") as file:
            file.write(b"%d\n" % number)
        try:
            async with asyncio.timeout(0.001 * (number % 4)):
                got += (await source.fetch(3, 60)).rows()
        except TimeoutError:
            pass
    while len(got) < 20:
        got += (await source.fetch(3, 60)).rows()
    await source.close()
    assert [delivery.body for delivery in got] == [b"%d" % number for number in range(20)]


class TestJsonlSink(FileSinkSuite):
    """All three files and the record."""

    def make(self, folder):
        """Return a sink with a ledger and dead letters."""
        return JsonlSink(folder / "answers.jsonl", folder / "ledger.jsonl", folder / "dead.jsonl")

    def content(self, folder):
        """Return the three files' bytes."""
        return [(folder / f"{name}.jsonl").read_bytes() for name in ("answers", "ledger", "dead")]

    async def test_lines_go_where_they_belong(self, tmp_path):
        """All replies in the output, rejections in the dead letters too, events in the ledger; nobody else reads."""
        old = os.umask(0)
        try:
            answers, ledger, dead = await self.expected(tmp_path / "a", json_commits(2))
        finally:
            os.umask(old)
        assert answers.split(b"\n")[:3] == [b'{"label":0}', b'{"error":"oversized","n":0}', b'{"label":-0}']
        assert dead == b'{"error":"oversized","n":0}\n{"error":"oversized","n":1}\n'
        assert ledger == b'{"round":1}\n'
        for path in (tmp_path / "a").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name

    async def test_files_of_others_are_not_cut(self, tmp_path):
        """A file with content and no record is refused and untouched, whichever of the three it is."""
        for name in ("answers", "ledger", "dead"):
            folder = tmp_path / name
            folder.mkdir()
            (folder / f"{name}.jsonl").write_bytes(b"precious\n")
            with pytest.raises(InputError, match="move the file away"):
                await self.make(folder).open()
            assert (folder / f"{name}.jsonl").read_bytes() == b"precious\n"

    async def test_new_role_with_content_is_refused(self, tmp_path):
        """A ledger file that the record does not know is not cut; an empty or missing one joins in."""
        bare = JsonlSink(tmp_path / "answers.jsonl")
        await bare.open()
        await bare.commit(json_commits(1)[0])
        await bare.close()
        (tmp_path / "ledger.jsonl").write_bytes(b"precious\n")
        with pytest.raises(InputError, match="does not account for"):
            await self.make(tmp_path).open()
        (tmp_path / "ledger.jsonl").unlink()
        sink = self.make(tmp_path)
        assert await sink.open() == Committed(3, b"tag 0")
        await sink.commit(json_commits(1, first=1)[0])
        await sink.close()
        assert (tmp_path / "ledger.jsonl").read_bytes() == b'{"round":1}\n'
        with pytest.raises(InputError, match="give its path again"):
            await JsonlSink(tmp_path / "answers.jsonl").open()

    async def test_shortened_file_is_an_error(self, tmp_path):
        """A file shorter than what was committed is damage, not a reason to start anew; the message has two ways on."""
        await self.expected(tmp_path / "a", json_commits(2))
        path = tmp_path / "a" / "answers.jsonl"
        length = path.stat().st_size
        os.truncate(path, 5)
        with pytest.raises(
            StorageError, match=rf"{path}: {length} bytes of it .* committed, but it has 5; put it back"
        ):
            await self.make(tmp_path / "a").open()
        path.unlink()
        with pytest.raises(StorageError, match=rf"but it is gone; put it back.* truncate -s {length} {path}"):
            await self.make(tmp_path / "a").open()
        path.touch(0o600)
        os.truncate(path, length)
        async with self.opened(tmp_path / "a") as sink:
            await sink.commit(json_commits(3)[2])
        assert path.stat().st_size > length

    async def test_damaged_record_is_an_error(self, tmp_path):
        """Every flipped bit of the record that changes what it says is found."""
        await self.expected(tmp_path / "a", json_commits(2))
        path = tmp_path / "a" / "answers.jsonl.commit"
        data = path.read_bytes()
        for index in range(len(data) - 1):
            path.write_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])
            with pytest.raises(StorageError, match="damaged"):
                await self.make(tmp_path / "a").open()
        path.write_bytes(data)
        sink = self.make(tmp_path / "a")
        assert await sink.open() is not None
        await sink.close()

    async def test_second_sink_is_refused(self, tmp_path):
        """Two sinks on one file would cut each other's lines."""
        async with self.opened(tmp_path):
            with pytest.raises(StorageError, match="another process"):
                await self.make(tmp_path).open()

    async def test_line_breaks_and_other_types_are_refused(self, tmp_path):
        """A reply that is not one JSON line would shift every line behind it."""
        async with self.opened(tmp_path) as sink:
            before = self.content(tmp_path)
            for reply in (Reply(b"1\n2"), Reply(b"\n"), Reply(b"arrow", ARROW_STREAM)):
                with pytest.raises(InputError) as caught:
                    await sink.commit(Commit(Replies.of([reply]), [], 1, b""))
                assert "1\\n2" not in str(caught.value)
            with pytest.raises(InputError):
                await sink.commit(Commit(Replies(), [b"1\n2"], 1, b""))
            assert self.content(tmp_path) == before

    def test_paths_must_differ(self, tmp_path):
        """One file cannot be output and ledger at once."""
        with pytest.raises(InputError, match="path of its own"):
            JsonlSink(tmp_path / "a", tmp_path / "a")

    @pytest.mark.parametrize("mount", [True, False])
    async def test_full_disk(self, tmp_path, mount):
        """A full disk is a StorageError; the files are cut back, and the retry is right."""
        commits = json_commits(2)
        big = commits[1]._replace(replies=Replies.of([Reply(b"1" * 100)] * 5000))
        with full_disk(tmp_path / "disk", mount=mount) as (folder, fill):
            (folder / "a").mkdir()
            async with self.opened(folder / "a") as sink:
                await sink.commit(commits[0])
                before = self.content(folder / "a")
                with fill(), pytest.raises(StorageError, match=r"No space left|File too large"):
                    await sink.commit(big)
                assert self.content(folder / "a") == before
                await sink.commit(commits[1])
                after = self.content(folder / "a")
        assert after == await self.expected(tmp_path / "plain", commits)

    async def settle(self, folder):
        """Open, which cuts, and close."""
        sink = self.make(folder)
        committed = await sink.open()
        await sink.close()
        return committed

    async def test_order_of_the_steps(self, tmp_path):
        """Data is synced before the record is written, and the record before and after it gets its name."""
        async with self.opened(tmp_path) as sink:
            with Faults() as faults:
                await sink.commit(json_commits(1, first=1)[0])
        assert faults.calls == ["write"] * 3 + ["fsync"] * 3 + ["open", "write", "fsync", "replace", "fsync"]
