import asyncio
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.base import ARROW_STREAM, Commit, Rejected, Replies, Reply
from connectors.local.parquet_sink import ParquetSink, parquet_bytes
from connectors.local.parquet_source import ParquetSource
from oracle.errors import InputError, SourceError, StorageError
from tests.connectors.suite import FileSinkSuite, SourceSuite, drain, read
from tests.faults import full_disk
from tests.support.shards import arrow_body

ROOT = Path(__file__).parents[3]
ROWS = 53
PER_MESSAGE = 8


def make_table(rows=ROWS):
    """Return rows with nulls, strings, lists, booleans, a dictionary column and one of an extension type."""
    numbers = np.arange(rows, dtype=np.float64) * 0.5
    nulls = np.arange(rows) % 5 == 3
    return pa.table(
        {
            "id": pa.array([None if number % 7 == 2 else f"query {number}" for number in range(rows)]),
            "x": pa.array(numbers, mask=nulls),
            "flag": pa.array(np.arange(rows) % 3 == 0, mask=nulls),
            "list": pa.array([[float(number)] * (number % 3) for number in range(rows)]),
            "kind": pa.array([f"kind {number % 4}" for number in range(rows)]).dictionary_encode(),
            "code": pa.array([bytes([number]) * 16 for number in range(rows)], pa.binary(16)).cast(pa.uuid()),
        }
    ).replace_schema_metadata({"written by": "a test"})


def rows_of(table):
    """Return rows as messages have them: the extension type's values as they are stored."""
    return [{**row, "code": row["code"].bytes} for row in table.to_pylist()]


def write_source(path, kind, rows_per_group=10):
    """Write the table in one of the formats."""
    table = make_table()
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=rows_per_group)
        return
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_per_group)


def read_body(body):
    """Read one message."""
    return pa.ipc.open_stream(body).read_all()


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
class TestParquetSource(SourceSuite):
    """All three formats."""

    @pytest.fixture(autouse=True)
    def _make(self, tmp_path, kind):
        self.path = tmp_path / ("queries.parquet" if kind == "parquet" else "queries.arrow")
        self.kind = kind
        write_source(self.path, kind)

    def make(self):
        """Return a source over the file."""
        return ParquetSource(self.path, PER_MESSAGE)

    async def test_messages_are_the_rows(self):
        """Messages of the asked size, in order, hold all rows, with plain columns and no metadata."""
        deliveries = await read(self.make())
        assert [delivery.position for delivery in deliveries] == [8, 16, 24, 32, 40, 48, 53]
        assert {delivery.content_type for delivery in deliveries} == {ARROW_STREAM}
        tables = [read_body(delivery.body) for delivery in deliveries]
        assert pa.concat_tables(tables).to_pylist() == rows_of(make_table())
        assert all(table.schema.metadata is None for table in tables)
        assert not any(pa.types.is_dictionary(field.type) for table in tables for field in table.schema)

    async def test_bytes_do_not_depend_on_the_file_layout(self):
        """Other row groups, Arrow file or Arrow stream: same bytes."""
        expected = await read(self.make())
        kinds = ("parquet",) if self.kind == "parquet" else ("file", "stream")
        for kind, rows in itertools.product(kinds, (1, 3, 8, 1000)):
            path = self.path.with_name(f"other-{kind}-{rows}" + (".parquet" if kind == "parquet" else ".arrow"))
            write_source(path, kind, rows)
            assert await read(ParquetSource(path, PER_MESSAGE)) == expected, (kind, rows)

    async def test_position_off_the_grid_is_an_error(self):
        """Only ends of messages can be opened; the end of the last, shorter one is one too."""
        for position in (1, 7, 9, 52):
            with pytest.raises(SourceError, match="no message of 8 rows ends there"):
                await self.make().open(position)
        source = self.make()
        await source.open(ROWS)
        assert source.exhausted

    async def test_one_large_message(self):
        """More rows asked than there are: one message."""
        (delivery,) = await read(ParquetSource(self.path))
        assert delivery.position == ROWS
        assert read_body(delivery.body).num_rows == ROWS

    async def test_garbage_is_named(self):
        """A file that is not what its name says is a SourceError, and so is a missing one."""
        self.path.write_bytes(b"garbage " * 100)
        with pytest.raises(SourceError, match="cannot be read"):
            await self.make().open(None)
        self.path.unlink()
        with pytest.raises(SourceError, match="cannot be read"):
            await self.make().open(None)

    async def test_close_and_open_again(self):
        """One object can be opened anew after it was closed in the middle."""
        source = self.make()
        await source.open(8)
        first = await source.fetch(1, 0)
        await source.close()
        await source.open(8)
        assert await source.fetch(1, 0) == first
        await source.close()


async def test_large_file_in_several_fetches(tmp_path):
    """A file of several read-aheads comes whole."""
    table = pa.table({"x": np.arange(300_000, dtype=np.float64)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70_001)
    source = ParquetSource(tmp_path / "a.parquet", 1000)
    await source.open(100_000)
    rows = [read_body(delivery.body)["x"].to_numpy() for delivery in await drain(source, (7, 64))]
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(100_000, 300_000))
    await source.close()


async def test_empty_file_is_exhausted(tmp_path):
    """No rows, no messages."""
    pq.write_table(make_table(0), tmp_path / "a.parquet")
    assert await read(ParquetSource(tmp_path / "a.parquet")) == []


def test_settings_are_checked(tmp_path):
    """Names and sizes outside the bounds are refused."""
    with pytest.raises(InputError, match="rows_per_message"):
        ParquetSource(tmp_path / "a.parquet", 0)
    for make in (ParquetSource, ParquetSink):
        with pytest.raises(InputError, match="must end in"):
            make(tmp_path / "a.csv")


def arrow_reply(first, rows=6):
    """Return labels as an Arrow stream, in two batches."""
    table = pa.table({"id": [f"query {first + row}" for row in range(rows)], "label": pa.array([1] * rows, pa.int8())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return Reply(bytes(sink.getvalue()), ARROW_STREAM)


def arrow_commits():
    """Return commits with Arrow replies and whole messages that were rejected."""
    return [
        Commit(
            replies=Replies.of(
                [
                    arrow_reply(100 * number),
                    Reply(b'{"error":%d}' % number, rejected=Rejected("malformed", number, b"")),
                    arrow_reply(50),
                ]
            ),
            ledger=[b'{"round":%d}' % number] * (number % 3),
            position=3 * number + 3,
            metadata=b"tag %d" % number,
        )
        for number in range(4)
    ]


class ArrowSinkSuite(FileSinkSuite):
    """What both forms have in common."""

    name = ""

    def make(self, folder):
        """Return a sink with a ledger and dead letters."""
        return ParquetSink(folder / self.name, folder / "ledger.jsonl", folder / "dead.jsonl")

    def commits(self):
        """Return Arrow commits."""
        return arrow_commits()

    async def test_damaged_reply_is_refused(self, tmp_path):
        """A reply that is not what its type says is refused, and nothing of its commit is written."""
        async with self.opened(tmp_path) as sink:
            await sink.commit(arrow_commits()[0])
            before = self.content(tmp_path)
            with pytest.raises(InputError, match="Arrow stream"):
                await sink.commit(Commit(Replies.of([arrow_reply(0), Reply(b"damaged", ARROW_STREAM)]), [], 9, b""))
            assert self.content(tmp_path) == before
            await sink.commit(arrow_commits()[1])

    @pytest.mark.parametrize("mount", [True, False])
    async def test_full_disk(self, tmp_path, mount):
        """A full disk is a StorageError, nothing of the commit stays, and the retry is right."""
        commits = arrow_commits()
        with full_disk(tmp_path / "disk", mount=mount) as (folder, fill):
            (folder / "a").mkdir()
            async with self.opened(folder / "a") as sink:
                await sink.commit(commits[0])
                before = self.content(folder / "a")
                with fill(), pytest.raises(StorageError, match=r"No space left|File too large"):
                    await sink.commit(commits[1]._replace(replies=Replies.of([arrow_reply(0, 9000)])))
                assert self.content(folder / "a") == before
                await sink.commit(commits[1])
                after = self.content(folder / "a")
        assert after == await self.expected(tmp_path / "plain", commits[:2])


class TestParquetParts(ArrowSinkSuite):
    """A folder of parts."""

    name = "answers.parquet"

    def content(self, folder):
        """Return every part's bytes, and the other files'."""
        parts = {path.name: path.read_bytes() for path in (folder / self.name).iterdir()}
        return parts, [(folder / f"{name}.jsonl").read_bytes() for name in ("ledger", "dead")]

    async def test_parts_are_a_data_set(self, tmp_path):
        """One part for each Arrow reply; the folder reads as one table; rejections are dead letters."""
        parts, (_ledger, dead) = await self.expected(tmp_path / "a", arrow_commits())
        assert sorted(parts) == [f"part-{number:08d}.parquet" for number in range(8)]
        table = pq.read_table(tmp_path / "a" / self.name)
        assert table.num_rows == 48
        assert table.column_names == ["id", "label"]
        assert dead == b'{"error":0}\n{"error":1}\n{"error":2}\n{"error":3}\n'

    async def test_missing_part_is_an_error(self, tmp_path):
        """A committed part that is gone is not silently passed over."""
        await self.expected(tmp_path / "a", arrow_commits())
        (tmp_path / "a" / self.name / "part-00000003.parquet").unlink()
        with pytest.raises(StorageError, match="part is missing"):
            await self.make(tmp_path / "a").open()

    async def test_parts_of_others_are_not_deleted(self, tmp_path):
        """Parts without a record are refused and untouched; other files in the folder are let be."""
        folder = tmp_path / self.name
        folder.mkdir(mode=0o700)
        (folder / "part-00000000.parquet").write_bytes(b"precious")
        with pytest.raises(InputError, match="move the folder away"):
            await self.make(tmp_path).open()
        assert (folder / "part-00000000.parquet").read_bytes() == b"precious"
        (folder / "part-00000000.parquet").rename(folder / "other.parquet")
        sink = self.make(tmp_path)
        await sink.open()
        await sink.close()
        assert (folder / "other.parquet").read_bytes() == b"precious"


class TestArrowStream(ArrowSinkSuite):
    """One stream file."""

    name = "answers.arrow"

    def content(self, folder):
        """Return the three files' bytes."""
        return [(folder / name).read_bytes() for name in (self.name, "ledger.jsonl", "dead.jsonl")]

    async def test_file_is_a_stream(self, tmp_path):
        """The file reads as one Arrow stream after each commit, across reopens."""
        for number, commit in enumerate(arrow_commits(), 1):
            async with self.opened(tmp_path) as sink:
                await sink.commit(commit)
            with pa.OSFile(str(tmp_path / self.name)) as file:
                assert pa.ipc.open_stream(file).read_all().num_rows == 12 * number

    async def test_other_schema_is_refused(self, tmp_path):
        """A stream has one schema, also across reopens."""
        table = pa.table({"other": [1]})
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
        other = Commit(Replies.of([Reply(bytes(buffer.getvalue()), ARROW_STREAM)]), [], 9, b"")
        async with self.opened(tmp_path) as sink:
            await sink.commit(arrow_commits()[0])
            with pytest.raises(InputError, match="schema"):
                await sink.commit(other)
        async with self.opened(tmp_path) as sink:
            with pytest.raises(InputError, match="schema"):
                await sink.commit(other)


async def test_source_to_sink(tmp_path):
    """Messages of a source, written as replies, give the rows back."""
    write_source(tmp_path / "in.parquet", "parquet")
    sink = ParquetSink(tmp_path / "out.parquet")
    await sink.open()
    for delivery in await read(ParquetSource(tmp_path / "in.parquet", PER_MESSAGE)):
        assert delivery.body is not None
        await sink.commit(Commit(Replies.of([Reply(delivery.body, ARROW_STREAM)]), [], delivery.position, b""))
    await sink.close()
    assert (await asyncio.to_thread(pq.read_table, tmp_path / "out.parquet")).to_pylist() == rows_of(make_table())


def test_other_connectors_do_not_import_pyarrow():
    """Importing the line connectors is quick."""
    code = (
        "import sys, connectors.local.jsonl, connectors.local.stdio\n"
        "assert not {'pyarrow', 'numpy', 'oracle.predictors', 'oracle.planning'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_parts_size_does_not_tell_the_values() -> None:
    """Columns of numbers take the same bytes whatever the numbers are."""
    columns = [np.zeros(5000, np.int8), np.ones(5000, np.int8), np.arange(5000).astype(np.int8) % 2]
    sizes = {len(parquet_bytes(pa.table({"label": column}))) for column in columns}
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
async def test_what_is_said_of_a_field_of_answers_is_kept(tmp_path, name):
    """It says what labels stand for."""
    field = pa.field("label", pa.int8(), metadata={"classes": '["no","yes"]'})
    table = pa.table([pa.array([1, 0], pa.int8())], schema=pa.schema([field]))
    sink = ParquetSink(tmp_path / name)
    await sink.open()
    for position in (1, 2):
        await sink.commit(Commit(Replies.of([Reply(arrow_body(table), ARROW_STREAM)]), [], position, b""))
    await sink.close()
    path = tmp_path / name
    found = pq.read_table(path) if name.endswith("parquet") else pa.ipc.open_stream(path.read_bytes()).read_all()
    assert found.schema.field("label").metadata == {b"classes": b'["no","yes"]'}
    assert found.column("label").to_pylist() == [1, 0, 1, 0]
