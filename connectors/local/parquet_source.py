"""A Parquet or Arrow file as a source: many queries per message."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.base import ARROW_STREAM, Deliveries, Delivery, Lag
from connectors.local.arrowfiles import ROWS, arrow_reader, batches_from, check_suffix, split, stream_bytes, stream_of
from connectors.local.checks import check_at_least
from oracle import durable
from oracle.errors import SourceError

__all__ = ["ParquetSource", "empty_message"]


def empty_message(path: Path | str) -> bytes:
    """Return a message of no rows, with the columns that every message of a .parquet or .arrow file has.

    Raises:
        InputError: The path ends in neither.
        SourceError: The file cannot be read.
    """
    path = Path(path)
    check_suffix(path)
    try:
        if path.suffix == ".parquet":
            schema = pq.read_schema(path)
        else:
            with pa.OSFile(str(path)) as file:
                schema = arrow_reader(file).schema
        # not `empty_table`, nor columns of no chunk: these would import pandas where there is one
        nothing = pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
        return stream_of(pa.Table.from_batches([nothing]))
    except OSError as exc:
        raise SourceError(f"{path}: cannot be read: {exc.strerror or f'not a {path.suffix} file'}") from exc
    except pa.ArrowException as exc:
        raise SourceError(f"{path}: cannot be read as a {path.suffix} file") from exc


class ParquetSource:
    """Reads a .parquet file, or an Arrow file or stream (.arrow). Positions are numbers of rows.

    Each delivery is an Arrow IPC stream of `rows_per_message` rows (the last one may have fewer), cut at multiples of
    `rows_per_message` from the file's beginning, whatever its row groups are. Delivery guarantee: replayable, byte for
    byte with one version of pyarrow, as long as nobody changes the file and `rows_per_message` stays.

    Raises:
        InputError: `rows_per_message` is below 1, or the path ends in neither .parquet nor .arrow.
    """

    def __init__(self, path: Path | str, rows_per_message: int = ROWS) -> None:
        check_at_least("rows_per_message", rows_per_message, 1)
        self._path = Path(path)
        check_suffix(self._path)
        self._rows = rows_per_message
        self._messages: Iterator[Delivery] | None = None
        self._next: asyncio.Future[list[Delivery]] | None = None
        self._ready: list[Delivery] = []
        self._ended = False
        self._error: SourceError | None = None

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return self._ended and not self._ready

    async def open(self, position: int | None) -> None:
        """See `Source`; `position` must be where a delivery ends."""
        await self.close()
        start = position or 0
        try:
            os.close(durable.open_regular(self._path))  # Arrow would wait for a pipe's other end
            total = await asyncio.to_thread(self._count_rows)
        except (OSError, pa.ArrowException) as exc:
            raise SourceError(f"{self._path}: cannot be read as a {self._path.suffix} file") from exc
        if not 0 <= start <= total or (start % self._rows and start != total):
            where = f"{self._path}: position = {position}: "
            if start > total:
                raise SourceError(f"{where}the file is shorter ({total} rows) than what was answered; not the same log")
            raise SourceError(f"{where}no message of {self._rows} rows ends there")
        self._messages = self._read_from(start)
        self._ended = start == total

    async def fetch(self, limit: int, wait: float) -> Deliveries:  # noqa: ARG002  # a file never waits
        """See `Source`. One call returns about 65,536 rows at most, or one delivery."""
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
        return Deliveries.of(taken)

    def lag(self) -> Lag | None:
        """None: a file says of its rows neither when they came nor which were answered."""
        return None

    async def close(self) -> None:
        """See `Source`."""
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
        most = max(1, ROWS // self._rows)
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
            return pq.read_metadata(self._path).num_rows
        return sum(batch.num_rows for batch in batches_from(self._path, 0))

    def _read_from(self, start: int) -> Iterator[Delivery]:
        position, waiting, rows = start, [], 0
        for batch in batches_from(self._path, start):
            waiting.append(batch)
            rows += batch.num_rows
            while rows >= self._rows:
                head, waiting = split(waiting, self._rows)
                rows, position = rows - self._rows, position + self._rows
                yield Delivery(position, stream_bytes(head), ARROW_STREAM)
        if rows:
            yield Delivery(position + rows, stream_bytes(waiting), ARROW_STREAM)
