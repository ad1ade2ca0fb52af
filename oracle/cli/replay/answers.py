"""Recorded answers, read back in order to be compared."""

from base64 import b64encode
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from connectors.base import ARROW_STREAM, Reply
from oracle.errors import InputError, SourceError

__all__ = ["AnswerFile", "answered_rows", "line_of", "open_answers"]


def line_of(body: bytes) -> bytes:
    """Return a reply as a line: JSON as a sink writes it, all else in base64, without the id of a registered schema.

    A registry may have given the same schema another id since.
    """
    if body.startswith(b"{") and b"\n" not in body:
        return body + b"\n"
    return b64encode(body[:1] + body[5:] if body.startswith(b"\0") else body) + b"\n"


class _Lines:
    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")

    def skip(self, count: int) -> None:
        for _ in range(count):
            self._file.readline()

    def matches(self, reply: Reply) -> bool:
        return self._file.readline() == line_of(reply.body)

    def ended(self) -> bool:
        return not self._file.readline()

    def close(self) -> None:
        self._file.close()


class _Batches:
    """One record batch an answered message; messages that were rejected as a whole left none."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches
        self._next = 0

    def skip(self, count: int) -> None:
        self._next += count

    def matches(self, reply: Reply) -> bool:
        if reply.content_type != ARROW_STREAM:
            return True
        if self._next >= len(self._batches):
            return False
        with pa.ipc.open_stream(reply.body) as reader:
            expected = reader.read_next_batch()
        recorded = self._batches[self._next]
        self._next += 1
        return recorded.equals(expected)

    def ended(self) -> bool:
        return self._next >= len(self._batches)

    def close(self) -> None:
        self._batches = []


AnswerFile = _Lines | _Batches
"""Answers in the order they were given: `skip` passes over the first ones, `matches` compares the next one with a
reply, and `ended` says whether all were compared."""


def open_answers(path: Path) -> AnswerFile:
    """Open what a sink has written.

    Raises:
        InputError: The name says neither .jsonl, .parquet nor .arrow.
        SourceError: It cannot be read.
    """
    try:
        if path.suffix == ".jsonl":
            return _Lines(path)
        if path.suffix == ".arrow":
            with pa.ipc.open_stream(path.read_bytes()) as reader:
                return _Batches([*reader])
        if path.suffix == ".parquet" and path.is_dir():
            parts = sorted(path.glob("part-*.parquet"))
            tables = [pyarrow.parquet.read_table(part, partitioning=None) for part in parts]
            return _Batches([_one(table) for table in tables])
    except (OSError, pa.ArrowException) as exc:
        raise SourceError(f"{path}: cannot be read") from exc
    raise InputError(
        "--answers", str(path), "must be a .jsonl or .arrow file, or a .parquet folder, as a sink writes it"
    )


def answered_rows(path: Path) -> int | None:
    """Return the rows of the first answered message: how many were served as one, if the log has as many.

    Returns:
        None for lines, and where no message was answered.
    """
    if path.suffix == ".arrow":
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            return next((batch.num_rows for batch in reader), None)
    if path.suffix == ".parquet":
        first = next(iter(sorted(path.glob("part-*.parquet"))), None)
        return None if first is None else pyarrow.parquet.read_metadata(first).num_rows
    return None


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)
