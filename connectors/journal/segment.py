"""One file of a journal: written by one process only, read by any, cut where a crash has torn its end."""

import itertools
import os
import secrets
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from connectors.journal.sealing import (
    HEADER_BYTES,
    RECORD_HEADER_BYTES,
    RECORD_MAGIC,
    SALT_BYTES,
    RecordHeader,
    SegmentCipher,
    SegmentHeader,
)
from oracle import durable
from oracle.errors import StorageError

__all__ = ["Found", "Segment", "SegmentWriter", "find_end", "path_of", "read_header", "read_records"]

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment whose extent is known.

    Attributes:
        length: Durable bytes.
        end: Position of its last record.
    """

    path: Path
    header: SegmentHeader
    length: int
    end: int

    @property
    def empty(self) -> bool:
        """Whether it holds no record."""
        return self.end == self.header.base


class Found(NamedTuple):
    """One record, read.

    Attributes:
        body: Decrypted.
        after: Offset behind it in its file.
    """

    position: int
    body: bytes
    after: int


class SegmentWriter:
    """A new segment, made and held by one process; nobody ever writes to it again.

    Attributes:
        extent: The segment as far as it is durable.

    Args:
        base: Position before its first record.
        before: Bytes of the segment before it.

    Raises:
        OSError: It could not be made.
    """

    def __init__(self, folder: Path, key: bytes, purpose: str, base: int, before: int) -> None:
        salt = secrets.token_bytes(SALT_BYTES)
        self._cipher = SegmentCipher(key, purpose, salt)
        header = SegmentHeader(salt, base, before, self._cipher.key_check)
        path = path_of(folder, base)
        self.extent = Segment(path, header, HEADER_BYTES, base)
        self._descriptor = durable.open_new(path, os.O_APPEND)
        try:
            # The header is durable before the first record, so that records without a header are damage.
            durable.write_all(self._descriptor, header.pack())
            durable.sync(self._descriptor)
            durable.sync_folder(folder)
        except OSError:
            self.close()
            raise

    def append(self, bodies: list[bytes]) -> Segment:
        """Write records, sync them, and return the segment as it is now.

        Raises:
            OSError: They could not be written; `cut_back` and write no more to it.
        """
        extent = self.extent
        data = b"".join(self._cipher.seal(extent.end + n, extent.length, body) for n, body in enumerate(bodies, 1))
        durable.write_all(self._descriptor, data)
        durable.sync(self._descriptor)
        self.extent = replace(extent, length=extent.length + len(data), end=extent.end + len(bodies))
        return self.extent

    def cut_back(self) -> None:
        """Take away what a failed `append` has left.

        Raises:
            OSError: It could not be taken away.
        """
        durable.cut(self._descriptor, self.extent.length)
        durable.sync(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def path_of(folder: Path, base: int) -> Path:
    """Return where the segment behind a position is; sorted, names are in the order of positions."""
    return folder / f"{base:020d}.journal"


def read_header(path: Path) -> SegmentHeader | None:
    """Read a segment's header; None if a crash came before it was durable, so that there never was a record.

    Raises:
        StorageError: It is damaged.
        OSError: It cannot be read.
    """
    with os.fdopen(durable.open_regular(path), "rb") as file:
        header = SegmentHeader.unpack(file.read(HEADER_BYTES))
        size = os.fstat(file.fileno()).st_size
    if header is None and size > HEADER_BYTES:
        raise StorageError(f"{path}: its header is damaged, or of a newer version")
    return header


def read_records(segment: Segment, cipher: SegmentCipher, offset: int, position: int) -> Generator[Found]:
    """Yield the records behind an offset, where `position` ends, up to the segment's end.

    Raises:
        StorageError: The file is damaged, or cannot be read.
    """
    try:
        for found in itertools.islice(_whole_records(segment.path, cipher, offset, position), segment.end - position):
            offset, position = found.after, found.position
            yield found
    except OSError as exc:
        raise StorageError(f"{segment.path}: cannot be read: {exc.strerror}") from exc
    if position != segment.end:
        raise _damaged(segment.path, offset)


def find_end(path: Path, header: SegmentHeader, cipher: SegmentCipher) -> Segment:
    """Find how much of a journal's last segment counts: all up to where a crash has torn it, if one has.

    Raises:
        StorageError: It is damaged before what was known to be durable; nothing is ever cut then.
        OSError: It cannot be read.
    """
    length, end = HEADER_BYTES, header.base
    for found in _whole_records(path, cipher, length, end):
        length, end = found.after, found.position
    _refuse_damage(path, length, cipher)
    return Segment(path, header, length, end)


def _whole_records(path: Path, cipher: SegmentCipher, offset: int, position: int) -> Generator[Found]:
    """Yield records in order, up to the first that is not whole, or not the next."""
    with os.fdopen(durable.open_regular(path), "rb", buffering=_CHUNK) as file:
        file.seek(offset)
        while (header := RecordHeader.unpack(file.read(RECORD_HEADER_BYTES))) and header.position == position + 1:
            body = cipher.open(header, file.read(header.length))
            if body is None:
                return
            position += 1
            offset += RECORD_HEADER_BYTES + header.length
            yield Found(position, body, offset)


def _refuse_damage(path: Path, offset: int, cipher: SegmentCipher) -> None:
    """Refuse a damaged record that a later one knows to have been durable: no crash does that.

    A crash tears only what was written since the last sync; all of that was written when `synced` was at most where
    it began, and none of it was acknowledged.
    """
    with os.fdopen(durable.open_regular(path), "rb") as file:
        file.seek(offset)
        data = file.read()
    start = data.find(RECORD_MAGIC, 1)
    while start >= 0:
        header = RecordHeader.unpack(data, start)
        if header is not None and header.synced > offset:
            begin = start + RECORD_HEADER_BYTES
            if cipher.open(header, data[begin : begin + header.length]) is not None:
                raise _damaged(path, offset)
        start = data.find(RECORD_MAGIC, start + 1)


def _damaged(path: Path, offset: int) -> StorageError:
    return StorageError(f"{path}: damaged at byte {offset}: a durable record has been changed; restore the file")
