"""Segments' headers and records as bytes: every record is encrypted and bound to its place.

Layout, version 1 (all numbers little-endian):

    segment: magic and version 8 | salt 32 | base 8 | length of the segment before 8 | key check 16 | CRC 4 | records
    record:  magic 4 | position 8 | synced 8 | length 4 | CRC of these 4 | ciphertext and its GCM tag

Each segment has a key of its own, HKDF of the journal's key with the segment's random salt; the nonce is the record's
position, which no segment has twice. The record's header is the associated data, so no record can be moved.
`synced` is the length of the segment that was known to be durable when the record was written: it tells a tail that a
crash has torn from damage to what was durable.
"""

import struct
import zlib
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from oracle.errors import InputError, WrongKeyError

__all__ = [
    "HEADER_BYTES",
    "RECORD_HEADER_BYTES",
    "RECORD_MAGIC",
    "SALT_BYTES",
    "RecordHeader",
    "SegmentCipher",
    "SegmentHeader",
]

_KEY_BYTES: Final = 32
SALT_BYTES: Final = 32
RECORD_MAGIC: Final = b"PJr\xa7"
_RECORD_LIMIT: Final = 1 << 30
"""Most bytes of one record."""

_SEGMENT_MAGIC: Final = b"PERJRNL\x01"
_SEGMENT: Final = struct.Struct(f"<8s{SALT_BYTES}sQQ16s")
_RECORD: Final = struct.Struct("<4sQQI")
_CRC: Final = struct.Struct("<I")
_GCM_TAG: Final = 16
_PURPOSE: Final = b"perpetua/journal/1/"

HEADER_BYTES: Final = _SEGMENT.size + _CRC.size
"""Length of a segment's header."""

RECORD_HEADER_BYTES: Final = _RECORD.size + _CRC.size


class SegmentHeader(NamedTuple):
    """The header at a segment's beginning.

    Attributes:
        salt: Random, of this segment only.
        base: Position before its first record.
        before: Bytes of the segment before it; 0 if there was none.
        key_check: Tells the journal's key from another.
    """

    salt: bytes
    base: int
    before: int
    key_check: bytes

    def pack(self) -> bytes:
        """Return its bytes."""
        return _pack(_SEGMENT, _SEGMENT_MAGIC, *self)

    @classmethod
    def unpack(cls, data: bytes) -> "SegmentHeader | None":
        """Read a header; None if it is damaged, or of another version."""
        fields = _unpack(_SEGMENT, _SEGMENT_MAGIC, data)
        return cls(*fields) if fields else None


class RecordHeader(NamedTuple):
    """The header before a record's ciphertext.

    Attributes:
        position: The record's number, from 1.
        synced: Bytes of its segment that were durable when it was written.
        length: Of the ciphertext with its tag, bytes.
    """

    position: int
    synced: int
    length: int

    def pack(self) -> bytes:
        """Return its bytes."""
        return _pack(_RECORD, RECORD_MAGIC, *self)

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> "RecordHeader | None":
        """Read a header at an offset; None if there is no whole one."""
        fields = _unpack(_RECORD, RECORD_MAGIC, data, offset)
        return cls(*fields) if fields else None


def _pack(layout: struct.Struct, *fields: bytes | int) -> bytes:
    clear = layout.pack(*fields)
    return clear + _CRC.pack(zlib.crc32(clear))


def _unpack(layout: struct.Struct, magic: bytes, data: bytes, offset: int = 0) -> list[Any] | None:
    end = offset + layout.size
    clear = data[offset:end]
    if data[end : end + _CRC.size] != _CRC.pack(zlib.crc32(clear)):
        return None
    found, *fields = layout.unpack(clear)
    return fields if found == magic else None


class SegmentCipher:
    """Encrypts and decrypts one segment's records.

    Formal guarantees:
        No nonce is used twice under one key if every segment has a new salt and no position is sealed twice in it.

    Args:
        key: The journal's key, 32 bytes.
        purpose: What the journal is for; journals of one key differ in it.

    Raises:
        InputError: The key does not have 32 bytes.
    """

    def __init__(self, key: bytes, purpose: str, salt: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise InputError("journal.key", len(key), f"must have {_KEY_BYTES} bytes")
        expand = HKDF(algorithm=SHA256(), length=48, salt=salt, info=_PURPOSE + purpose.encode())
        material = expand.derive(key)
        self.key_check = material[32:]
        self._cipher = AESGCM(material[:32])

    def check(self, header: SegmentHeader, where: str) -> None:
        """Refuse a segment of another key.

        Raises:
            WrongKeyError: It is one.
        """
        if header.key_check != self.key_check:
            raise WrongKeyError(f"{where}: encrypted with another key than the state's, or for another purpose")

    def seal(self, position: int, synced: int, body: bytes) -> bytes:
        """Return a record's bytes.

        Raises:
            InputError: The body is longer than a record may be.
        """
        if len(body) > _RECORD_LIMIT:
            raise InputError("journal record", len(body), f"must have at most {_RECORD_LIMIT} bytes")
        header = RecordHeader(position, synced, len(body) + _GCM_TAG).pack()
        return header + self._cipher.encrypt(_nonce(position), body, header)

    def open(self, header: RecordHeader, sealed: bytes) -> bytes | None:
        """Return the body of a record's ciphertext; None if it is not the one that was written."""
        try:
            return self._cipher.decrypt(_nonce(header.position), sealed, header.pack())
        except InvalidTag:
            return None


def _nonce(position: int) -> bytes:
    return position.to_bytes(12, "big")
