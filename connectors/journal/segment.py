"""One file of a journal: written by one process only, read by any, cut where a crash has torn its end."""

import os
import secrets
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from connectors.journal.folder import path_of
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

__all__ = ["Found", "Segment", "SegmentWriter", "read_header", "records", "survey"]

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment whose extent is known.

    Attributes:
        path: Its file.
        header: What stands at its beginning.
        length: Bytes of it that count.
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
        position: Its number.
        body: Decrypted.
        after: Offset behind it in its file.
    """

    position: int
    body: bytes
    after: int


class SegmentWriter:
    """A new segment, made and held by one process; nobody ever writes to it again.

    Attributes:
        extent: The segment as far as it is durable; replaced at once, for readers in other threads.

    Args:
        folder: Where to make it.
        key: The journal's.
        purpose: The journal's.
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

    def append(self, bodies: list[bytes]) -> None:
        """Write records and fsync them.

        Raises:
            OSError: They could not be written; `cut_back` and write no more to it.
        """
        extent = self.extent
        first = extent.end + 1
        data = b"".join(self._cipher.seal(first + index, extent.length, body) for index, body in enumerate(bodies))
        durable.write_all(self._descriptor, data)
        durable.sync(self._descriptor)
        self.extent = replace(extent, length=extent.length + len(data), end=extent.end + len(bodies))

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


def read_header(path: Path) -> SegmentHeader | None:
    """Read a segment's header; None if a crash came before it was durable, so that there never was a record.

    Raises:
        StorageError: It cannot be read, or is damaged.
    """
    try:
        with os.fdopen(durable.open_regular(path), "rb") as file:
            data = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    header = SegmentHeader.unpack(data)
    if header is None and size > HEADER_BYTES:
        raise StorageError(f"{path}: its header is damaged, or of a newer version")
    return header


def records(segment: Segment, cipher: SegmentCipher, offset: int, position: int) -> Generator[Found]:
    """Yield the records behind an offset, where `position` ends, up to the segment's length.

    Raises:
        StorageError: The file is damaged, or cannot be read.
    """
    try:
        with os.fdopen(durable.open_regular(segment.path), "rb", buffering=_CHUNK) as file:
            file.seek(offset)
            while offset < segment.length:
                head = file.read(RECORD_HEADER_BYTES)
                header = RecordHeader.unpack(head)
                sealed = b"" if header is None else file.read(header.length)
                body = None if header is None or header.position != position + 1 else cipher.open(header, sealed)
                if body is None:
                    raise _damaged(segment.path, offset)
                position += 1
                offset += len(head) + len(sealed)
                yield Found(position, body, offset)
    except OSError as exc:
        raise StorageError(f"{segment.path}: cannot be read: {exc.strerror}") from exc
    if position != segment.end:
        raise _damaged(segment.path, offset)


def survey(path: Path, header: SegmentHeader, cipher: SegmentCipher) -> Segment:
    """Find how much of a journal's last segment counts: all up to where a crash has torn it, if one has.

    Raises:
        StorageError: It is damaged before what was known to be durable; nothing is ever cut then.
    """
    try:
        data = memoryview(durable.read(path))
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    offset, position = HEADER_BYTES, header.base
    while offset < len(data):
        after = _whole(data, offset, cipher, position + 1)
        if after is None:
            _refuse_damage(path, data, offset, cipher)
            break
        offset, position = after, position + 1
    return Segment(path, header, offset, position)


def _whole(data: memoryview, offset: int, cipher: SegmentCipher, position: int | None) -> int | None:
    """Return the offset behind a whole record that begins here (any, if no position is given); None if none does."""
    header = RecordHeader.unpack(data, offset)
    if header is None or (position is not None and header.position != position):
        return None
    start = offset + RECORD_HEADER_BYTES
    sealed = data[start : start + header.length]
    if len(sealed) < header.length or cipher.open(header, sealed) is None:
        return None
    return start + header.length


def _refuse_damage(path: Path, data: memoryview, offset: int, cipher: SegmentCipher) -> None:
    """Refuse a damaged record that a later one knows to have been durable: no crash does that.

    A crash tears only what was written since the last fsync; all of that was written when `synced` was at most where
    it began, and none of it was acknowledged.
    """
    rest = bytes(data[offset:])
    start = rest.find(RECORD_MAGIC, 1)
    while start >= 0:
        header = RecordHeader.unpack(rest, start)
        whole = header is not None and _whole(data, offset + start, cipher, None) is not None
        if header is not None and whole and header.synced > offset:
            raise _damaged(path, offset)
        start = rest.find(RECORD_MAGIC, start + 1)


def _damaged(path: Path, offset: int) -> StorageError:
    return StorageError(
        f"{path}: damaged at byte {offset}: a record that was durable is not the one that was written; restore the file"
    )
