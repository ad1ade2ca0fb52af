"""A folder of Parquet parts, or one Arrow stream, as a sink."""

import contextlib
import re
from collections.abc import Mapping
from itertools import compress
from operator import not_
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.base import ARROW_STREAM, Commit, Committed
from connectors.local.arrowfiles import check_suffix, plain
from connectors.local.checks import check_metadata, check_private
from connectors.local.filegroup import FileGroup
from connectors.local.filesink import FileSink
from connectors.local.jsonl import join_lines
from oracle import durable
from oracle.errors import InputError, StorageError

__all__ = ["ParquetSink", "parquet_bytes"]

_PART = re.compile(r"part-(\d{8,})\.parquet")
_TEMPORARY = re.compile(r"\.part-\d{8,}\.parquet\.tmp")
_PUBLIC = frozenset({"round", "phase"})
"""Columns of replies whose numbers are public (with them, which rows were rejected), so a part's size may tell them."""


class ParquetSink(FileSink):
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
        check_suffix(path)
        self._path = path
        self._in_parts = path.suffix == ".parquet"
        paths = {
            "output": None if self._in_parts else path,
            "ledger": ledger_path,
            "dead_letter": dead_letter_path,
        }
        group = FileGroup(path.with_name(path.name + ".commit"), paths, ("parts",) if self._in_parts else ())
        super().__init__(group)
        self._schema: pa.Schema | None = None

    def paths(self) -> Mapping[str, Path]:
        """See `FileSink`."""
        return {"sink.path": self._path, **self._files.paths()}

    def inspect(self) -> Committed | None:
        """See `FileSink`."""
        try:
            if self._in_parts:
                self._refuse_foreign_parts()
                if self._path.exists():
                    check_private("sink.path", self._path, self._path.stat())
            committed = self._files.inspect()
            if self._in_parts:
                self._refuse_missing_parts(self._files.recorded("parts"))
            elif self._files.recorded("output"):
                _read_schema(self._path)
        except (OSError, pa.ArrowException) as exc:
            raise StorageError(f"{self._path}: cannot be opened") from exc
        return committed

    async def commit(self, commit: Commit) -> None:
        """See `Sink`.

        Raises:
            InputError: The metadata is too long, or a reply is not what its content type says.
        """
        check_metadata(commit.metadata)
        await self._files.run(lambda: self._commit(commit))

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
        bodies, is_arrow = commit.replies.bodies, [kind == ARROW_STREAM for kind in commit.replies.content_types]
        tables = list(map(_read_reply, compress(bodies, is_arrow)))
        letters = list(compress(bodies, map(not_, is_arrow)))
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
                raise InputError("reply.schema", "(not shown)", "must match that of the earlier replies")
            messages += [batch.serialize().to_pybytes() for batch in table.to_batches()]
        self._files.commit({**data, "output": b"".join(messages)}, commit.position, commit.metadata)
        self._schema = schema

    def _commit_parts(self, tables: list[pa.Table], data: dict[str, bytes], commit: Commit) -> None:
        first = self._files.counts["parts"]
        counts = {"parts": first + len(tables)}
        try:
            # 1.-3. Each part: temporary file, fsync, rename.
            for number, table in enumerate(tables, first):
                part = self._path / f"part-{number:08d}.parquet"
                durable.place(part, part.with_name(f".{part.name}.tmp"), parquet_bytes(table))
            # 4. fsync the folder: a record must never speak of parts that a crash could take away.
            if tables:
                durable.sync_folder(self._path)
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

    def _make_folder(self) -> None:
        try:
            durable.make_folder(self._path)
        except OSError as exc:
            raise StorageError(f"{self._path}: cannot be opened: {exc.strerror}") from exc

    def _refuse_foreign_parts(self) -> None:
        record = self._path.with_name(self._path.name + ".commit")
        if not record.exists() and self._path.exists() and self._parts():
            raise InputError(
                "sink.path",
                str(self._path),
                f"the folder has parts but {record} is missing, so nobody knows which of them were committed; "
                "choose a new path, or move the folder away",
            )

    def _refuse_missing_parts(self, count: int) -> None:
        if count and not (self._path.exists() and set(range(count)) <= self._parts().keys()):
            raise StorageError(f"{self._path}: a committed part is missing; it was deleted or moved: put it back")

    def _parts(self) -> dict[int, Path]:
        matches = ((_PART.fullmatch(path.name), path) for path in self._path.iterdir())
        return {int(match[1]): path for match, path in matches if match is not None}

    def _delete_parts(self, count: int) -> None:
        self._refuse_missing_parts(count)
        for number, path in self._parts().items():
            if number >= count:
                durable.remove(path)
        for path in self._path.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                durable.remove(path)

    def _drop_parts(self, count: int) -> None:
        with contextlib.suppress(OSError, StorageError):
            self._delete_parts(count)


def _read_reply(body: bytes) -> pa.Table:
    try:
        return plain(pa.ipc.open_stream(body).read_all(), described=True)
    except pa.ArrowException as exc:
        raise InputError("reply.body", "(not shown)", f"must be an Arrow stream, as {ARROW_STREAM} says") from exc


def _read_schema(path: Path) -> pa.Schema:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_stream(file).schema


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as one Parquet file."""
    sink = pa.BufferOutputStream()
    # Plain encoding: a file's size must not tell what the labels are. Rounds and phases may be as small as they can.
    encoding = {
        field.name: "DELTA_BINARY_PACKED"
        if field.name in _PUBLIC and pa.types.is_signed_integer(field.type)
        else "PLAIN"
        for field in table.schema
    }
    pq.write_table(
        table, sink, compression="NONE", use_dictionary=False, write_statistics=False, column_encoding=encoding
    )
    return bytes(sink.getvalue())
