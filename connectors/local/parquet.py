"""Parquet and Arrow files: many queries per message. The only file of the connectors that imports pyarrow."""

import asyncio
import contextlib
import os
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.base import ARROW_STREAM, Commit, Committed, Delivery, Reply
from connectors.local.checks import check_at_least, check_metadata
from connectors.local.commitfile import sync_folder, write_all
from connectors.local.filegroup import FileGroup
from connectors.local.jsonl import join_lines
from oracle.errors import InputError, SourceError, StorageError

__all__ = ["ParquetSink", "ParquetSource", "empty_message"]

_ROWS = 65_536
_FILE_MAGIC = b"ARROW1"
_PART = re.compile(r"part-(\d{8,})\.parquet")
_PUBLIC = frozenset({"round", "phase"})
"""Columns of replies whose numbers are public (with them, which rows were rejected), so a part's size may tell them."""

_TEMPORARY = re.compile(r"\.part-\d{8,}\.parquet\.tmp")


def empty_message(path: Path | str) -> bytes:
    """Return a message of no rows, with the columns that every message of a .parquet or .arrow file has.

    Raises:
        InputError: The path ends in neither.
        SourceError: The file cannot be read.
    """
    path = Path(path)
    _check_suffix(path)
    try:
        if path.suffix == ".parquet":
            schema = pq.read_schema(path)
        else:
            with pa.OSFile(str(path)) as file:
                schema = _arrow_reader(file).schema
        return _stream_of(schema.empty_table())
    except OSError as exc:
        raise SourceError(f"{path}: cannot be read: {exc.strerror or 'not a file of its kind'}") from exc
    except pa.ArrowException as exc:
        raise SourceError(f"{path}: cannot be read as what its name says") from exc


class ParquetSource:
    """Reads a .parquet file, or an Arrow file or stream (.arrow). Positions are numbers of rows.

    Each delivery is an Arrow IPC stream of `rows_per_message` rows (the last one may have fewer), cut at multiples of
    `rows_per_message` from the file's beginning, whatever its row groups are. Delivery guarantee: replayable, byte for
    byte with one version of pyarrow, as long as nobody changes the file and `rows_per_message` stays.

    Args:
        path: The file.
        rows_per_message: Rows of a delivery.

    Raises:
        InputError: `rows_per_message` is below 1, or the path ends in neither .parquet nor .arrow.
    """

    def __init__(self, path: Path | str, rows_per_message: int = _ROWS) -> None:
        check_at_least("rows_per_message", rows_per_message, 1)
        self._path = Path(path)
        _check_suffix(self._path)
        self._rows = rows_per_message
        self._messages: Iterator[Delivery] | None = None
        self._next: asyncio.Future[list[Delivery]] | None = None
        self._ready: list[Delivery] = []
        self._ended = False
        self._error: SourceError | None = None

    @property
    def exhausted(self) -> bool:
        """See `connectors.base.Source.exhausted`."""
        return self._ended and not self._ready

    async def open(self, position: int | None) -> None:
        """See `connectors.base.Source.open`; `position` must be where a delivery ends."""
        await self.close()
        start = position or 0
        try:
            total = await asyncio.to_thread(self._count_rows)
        except (OSError, pa.ArrowException) as exc:
            raise SourceError(f"{self._path}: cannot be read as what its name says") from exc
        if not 0 <= start <= total or (start % self._rows and start != total):
            where = f"{self._path}: position = {position}: "
            if start > total:
                raise SourceError(f"{where}the file is shorter ({total} rows) than what was answered; not the same log")
            raise SourceError(f"{where}no message of {self._rows} rows ends there")
        self._messages = self._read_from(start)
        self._ended = start == total

    async def fetch(self, limit: int, wait: float) -> Sequence[Delivery]:  # noqa: ARG002  # a file never waits
        """See `connectors.base.Source.fetch`. One call returns about 65,536 rows at most, or one delivery.

        Raises:
            SourceError: The source is not open, or the file cannot be read.
        """
        if self._messages is None:
            raise SourceError(f"{self._path}: fetch before open")
        if not self._ready and not self._ended:
            if self._next is None:
                self._next = self._begin(self._messages)
            await asyncio.wait({self._next})  # if cancelled, the next call finds what this one would have
            done, self._next = self._next, None
            self._ready = done.result()
            self._ended = not self._ready
            if not self._ended:  # read on while these are answered
                self._next = self._begin(self._messages)
        taken, self._ready = self._ready[:limit], self._ready[limit:]
        return taken

    async def close(self) -> None:
        """See `connectors.base.Source.close`."""
        if self._next is not None:
            await asyncio.wait({self._next})
            self._next.exception()  # what it met, nobody asks any more
        self._messages, self._next, self._ready, self._ended, self._error = None, None, [], False, None

    def _begin(self, messages: Iterator[Delivery]) -> "asyncio.Future[list[Delivery]]":
        """Start to read at once, also if the caller goes on to compute without letting the loop run."""
        return asyncio.get_running_loop().run_in_executor(None, self._take, messages)

    def _take(self, messages: Iterator[Delivery]) -> list[Delivery]:
        if self._error is not None:  # what was cut short must not be taken for the end
            raise self._error
        taken: list[Delivery] = []
        most = max(1, _ROWS // self._rows)
        try:
            while len(taken) < most:
                taken.append(next(messages))
        except StopIteration:
            pass
        except (OSError, pa.ArrowException) as exc:
            self._error = SourceError(f"{self._path}: cannot be read")
            raise self._error from exc
        return taken

    def _count_rows(self) -> int:
        if self._path.suffix == ".parquet":
            return int(pq.read_metadata(self._path).num_rows)
        return sum(batch.num_rows for batch in _batches_from(self._path, 0))

    def _read_from(self, start: int) -> Iterator[Delivery]:
        position, waiting, rows = start, [], 0
        for batch in _batches_from(self._path, start):
            waiting.append(batch)
            rows += batch.num_rows
            while rows >= self._rows:
                head, waiting = _split(waiting, self._rows)
                rows, position = rows - self._rows, position + self._rows
                yield Delivery(position, _stream_bytes(head), ARROW_STREAM)
        if rows:
            yield Delivery(position + rows, _stream_bytes(waiting), ARROW_STREAM)


class ParquetSink:
    """Writes Arrow replies to a folder of Parquet parts, or to one Arrow stream file. Exactly once.

    `NAME.parquet` is a folder with one `part-NNNNNNNN.parquet` for each Arrow reply; `NAME.arrow` is one Arrow IPC
    stream. Either way the bytes depend on the replies only, not on how they were grouped into commits. The commit
    record is `<path>.commit`. Readers may see parts of a commit that is under way; after a crash `open` deletes them,
    and the oracle writes the same bytes again. Replies that are not Arrow (a message that was rejected as a whole)
    go to the dead letter file.

    Args:
        path: Where Arrow replies go.
        ledger_path: Where ledger events go, one a line; without it they are dropped.
        dead_letter_path: Where replies that are not Arrow go, one a line; without it they are dropped.

    Raises:
        InputError: The path ends in neither .parquet nor .arrow, or two paths are the same.
    """

    def __init__(
        self,
        path: Path | str,
        ledger_path: Path | str | None = None,
        dead_letter_path: Path | str | None = None,
    ) -> None:
        path = Path(path)
        _check_suffix(path)
        self._path = path
        self._in_parts = path.suffix == ".parquet"
        paths = {
            "output": None if self._in_parts else path,
            "ledger": None if ledger_path is None else Path(ledger_path),
            "dead_letter": None if dead_letter_path is None else Path(dead_letter_path),
        }
        self._files = FileGroup(path.with_name(path.name + ".commit"), paths, ("parts",) if self._in_parts else ())
        self._schema: pa.Schema | None = None

    @property
    def in_doubt(self) -> Committed | None:
        """None: what is not durable is cut off."""
        return None

    def paths(self) -> Mapping[str, Path]:
        """Return every file or folder that may be written or cut, by what it is called where the user sets it."""
        return {"sink.path": self._path, **self._files.paths()}

    def inspect(self) -> Committed | None:
        """Do the checks of `open`, raise and return what it would, but cut, hold and make nothing."""
        try:
            if self._in_parts:
                self._refuse_foreign_parts()
            committed = self._files.inspect()
            if self._in_parts:
                self._refuse_missing_parts(self._files.recorded("parts"))
            elif self._files.recorded("output"):
                _read_schema(self._path)
        except (OSError, pa.ArrowException) as exc:
            raise StorageError(f"{self._path}: cannot be opened") from exc
        return committed

    async def open(self) -> Committed | None:
        """See `connectors.base.Sink.open`.

        Raises:
            InputError: There is output that no commit record speaks of.
            StorageError: Committed output is missing, held by another sink, or cannot be opened.
        """
        return await asyncio.to_thread(self._open)

    async def commit(self, commit: Commit) -> None:
        """See `connectors.base.Sink.commit`.

        Raises:
            InputError: The metadata is too long, or a reply is not what its content type says.
            StorageError: It could not be written.
        """
        check_metadata(commit.metadata)
        await self._files.run(lambda: self._commit(commit))

    async def close(self) -> None:
        """See `connectors.base.Sink.close`."""
        await asyncio.to_thread(self._files.close)

    def _open(self) -> Committed | None:
        self.inspect()  # what cannot be opened leaves no new file behind
        if self._in_parts:
            self._make_folder()
        committed = self._files.open()
        try:
            if self._in_parts:
                self._delete_parts(self._files.counts["parts"])
            else:
                self._schema = _read_schema(self._path) if self._files.length("output") else None
        except (OSError, pa.ArrowException) as exc:
            self._files.close()
            raise StorageError(f"{self._path}: cannot be opened") from exc
        except BaseException:
            self._files.close()
            raise
        return committed

    def _commit(self, commit: Commit) -> None:
        self._files.check_ready()
        tables = [_read_reply(reply) for reply in commit.replies if reply.content_type == ARROW_STREAM]
        letters = [reply.body for reply in commit.replies if reply.content_type != ARROW_STREAM]
        data = {"ledger": join_lines("ledger event", commit.ledger), "dead_letter": join_lines("reply", letters)}
        if self._in_parts:
            self._commit_parts(tables, data, commit)
        else:
            self._commit_stream(tables, data, commit)

    def _commit_stream(self, tables: list[pa.Table], data: dict[str, bytes], commit: Commit) -> None:
        schema, messages = self._schema, []
        for table in tables:
            if schema is None:
                schema = table.schema
                messages.append(schema.serialize().to_pybytes())
            if not table.schema.equals(schema):
                raise InputError("reply.schema", "(not shown)", "must be that of the replies before")
            messages += [batch.serialize().to_pybytes() for batch in table.to_batches()]
        self._files.commit({**data, "output": b"".join(messages)}, commit.position, commit.metadata)
        self._schema = schema

    def _commit_parts(self, tables: list[pa.Table], data: dict[str, bytes], commit: Commit) -> None:
        first = self._files.counts["parts"]
        counts = {"parts": first + len(tables)}
        try:
            # 1.-3. Each part: temporary file, fsync, rename.
            for number, table in enumerate(tables, first):
                self._write_part(number, _parquet_bytes(table))
            # 4. fsync the folder: a record must never speak of parts that a crash could take away.
            if tables:
                sync_folder(self._path)
        except OSError as exc:
            self._drop_parts(first)
            raise StorageError(f"{self._path}: cannot commit: {exc.strerror}") from exc
        try:
            # 5. The other files and the record (`FileGroup.commit`).
            self._files.commit(data, commit.position, commit.metadata, counts)
        except StorageError:
            with contextlib.suppress(StorageError):
                self._files.check_ready()  # else it is not known whether the record speaks of the parts
                self._drop_parts(first)
            raise

    def _write_part(self, number: int, data: bytes) -> None:
        name = f"part-{number:08d}.parquet"
        temporary = self._path / f".{name}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(self._path / name)

    def _make_folder(self) -> None:
        try:
            with contextlib.suppress(FileExistsError):
                self._path.mkdir(mode=0o700)
                sync_folder(self._path.parent)
        except OSError as exc:
            raise StorageError(f"{self._path}: cannot be opened: {exc.strerror}") from exc

    def _refuse_foreign_parts(self) -> None:
        record = self._path.with_name(self._path.name + ".commit")
        if not record.exists() and self._path.exists() and self._parts():
            raise InputError(
                "sink.path",
                str(self._path),
                f"the folder has parts but {record} is missing, so nobody knows which of them count; "
                "give a new path, or move the folder away",
            )

    def _refuse_missing_parts(self, count: int) -> None:
        if count and not (self._path.exists() and set(range(count)) <= self._parts().keys()):
            raise StorageError(f"{self._path}: a committed part is missing; it was deleted or moved")

    def _parts(self) -> dict[int, Path]:
        matches = ((_PART.fullmatch(path.name), path) for path in self._path.iterdir())
        return {int(match[1]): path for match, path in matches if match is not None}

    def _delete_parts(self, count: int) -> None:
        self._refuse_missing_parts(count)
        for number, path in self._parts().items():
            if number >= count:
                path.unlink()
        for path in self._path.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()
        sync_folder(self._path)

    def _drop_parts(self, count: int) -> None:
        with contextlib.suppress(OSError, StorageError):
            self._delete_parts(count)


def _check_suffix(path: Path) -> None:
    if path.suffix not in {".parquet", ".arrow"}:
        raise InputError("path", str(path), "must end in .parquet or .arrow")


def _batches_from(path: Path, start: int) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows behind the first `start`, as record batches of any size."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            groups = list(range(file.num_row_groups))
            while groups and start >= (rows := file.metadata.row_group(groups[0]).num_rows):
                groups, start = groups[1:], start - rows
            yield from _drop(file.iter_batches(batch_size=_ROWS, row_groups=groups), start)
    else:
        with pa.OSFile(str(path)) as file:
            yield from _drop(_arrow_batches(file), start)


def _arrow_reader(file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _arrow_batches(file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    reader = _arrow_reader(file)
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from (reader.get_batch(index) for index in range(reader.num_record_batches))
    else:
        yield from reader


def _drop(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)


def _split(batches: list[pa.RecordBatch], rows: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the first `rows` rows, which end within the last batch, and the rest."""
    *head, last = batches
    within = rows - sum(batch.num_rows for batch in head)
    rest = [last.slice(within)] if within < last.num_rows else []
    return [*head, last.slice(0, within)], rest


def _stream_bytes(batches: list[pa.RecordBatch]) -> bytes:
    """Return the rows as an Arrow stream of one batch, the same bytes however the rows came in batches."""
    return _stream_of(pa.Table.from_batches(batches))


def _stream_of(table: pa.Table) -> bytes:
    table = _plain(table)
    # `take` copies: offsets, and whatever stands in the slots of nulls, become the same for the same rows.
    every = _every(table.num_rows)
    columns = [column.combine_chunks().take(every) for column in table.columns]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=table.schema))
    return bytes(sink.getvalue())


@lru_cache(maxsize=2)
def _every(rows: int) -> pa.Array:
    """Return 0, 1, ..., rows - 1; all messages of a file but the last have as many rows."""
    numbers = pa.py_buffer(array("q", range(rows)))  # `pa.array(range(rows))` would import pandas where there is one
    return pa.Array.from_buffers(pa.int64(), rows, [None, numbers])


def _plain(table: pa.Table) -> pa.Table:
    """Drop the metadata and decode dictionaries: neither is part of the rows, and both depend on who wrote them."""
    fields = [pa.field(field.name, _plain_type(field.type), field.nullable) for field in table.schema]
    return table.cast(pa.schema(fields))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _read_reply(reply: Reply) -> pa.Table:
    try:
        return _plain(pa.ipc.open_stream(reply.body).read_all())
    except pa.ArrowException as exc:
        raise InputError("reply.body", "(not shown)", f"must be an Arrow stream, as {ARROW_STREAM} says") from exc


def _read_schema(path: Path) -> pa.Schema:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_stream(file).schema


def _parquet_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # Plain encoding: a file's size must not tell what the labels are. Rounds and phases may be as small as they can.
    encoding = {
        field.name: "DELTA_BINARY_PACKED" if field.name in _PUBLIC and field.type == pa.int64() else "PLAIN"
        for field in table.schema
    }
    pq.write_table(
        table, sink, compression="NONE", use_dictionary=False, write_statistics=False, column_encoding=encoding
    )
    return bytes(sink.getvalue())
