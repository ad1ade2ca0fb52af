"""The clear header of a snapshot: fixed size, checksummed, public facts only.

All integers are little-endian. The first 16 bytes (`magic`, `version`, `length`, their CRC) mean the same in every
version there will ever be, so that a newer snapshot is told apart from a damaged one before anything else is read.
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass

from oracle.errors import CorruptSnapshotError, InputError, NewerVersionError, TruncatedSnapshotError, beyond_us

__all__ = ["HEADER_BYTES", "KEY_ID_BYTES", "NONCE_BYTES", "PLAN_DIGEST_BYTES", "VERSION", "PublicHeader"]

MAGIC = b"PERPSNAP"
VERSION = 1
"""Format version that this code writes, and the highest it reads."""

PLAN_DIGEST_BYTES = 32
KEY_ID_BYTES = 16
NONCE_BYTES = 12

_PREFIX = struct.Struct("<8sHH")
_CRC = struct.Struct("<I")
_FIELDS = struct.Struct(f"<{PLAN_DIGEST_BYTES}s5Q{KEY_ID_BYTES}s{NONCE_BYTES}sQ")
_PREFIX_BYTES = _PREFIX.size + _CRC.size
_CHECKSUM_BYTES = 32

HEADER_BYTES = _PREFIX_BYTES + _FIELDS.size + _CHECKSUM_BYTES
"""Length of the whole header."""

_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class PublicHeader:
    """What a snapshot says about itself without its key. Not authenticated until the snapshot is decoded.

    Attributes:
        plan_digest: SHA-256 of the plan's canonical JSON, 32 bytes.
        generation: Number of the snapshot in its folder.
        phase: Phase it was taken in.
        round: Rounds answered up to it.
        position: Source position up to which its rounds go.
        rearms: Times that any side was armed afresh up to it.
        key_id: Check value of the key, 16 bytes.
        nonce: AES-GCM nonce, 12 bytes.
        payload_bytes: Length of the encrypted part.
    """

    plan_digest: bytes
    generation: int
    phase: int
    round: int
    position: int
    rearms: int
    key_id: bytes
    nonce: bytes
    payload_bytes: int

    def __post_init__(self) -> None:
        """Check the widths.

        Raises:
            InputError: A field does not fit its place in the header.
        """
        widths = {"plan_digest": PLAN_DIGEST_BYTES, "key_id": KEY_ID_BYTES, "nonce": NONCE_BYTES}
        for name, width in widths.items():
            if len(getattr(self, name)) != width:
                raise InputError(f"snapshot.{name}", len(getattr(self, name)), f"must be {width} bytes long")
        for name in ("generation", "phase", "round", "position", "rearms", "payload_bytes"):
            if not 0 <= getattr(self, name) < _WORD:
                raise InputError(f"snapshot.{name}", getattr(self, name), "must be at least 0 and below 2**64")

    @property
    def total_bytes(self) -> int:
        """Length of the whole snapshot."""
        return HEADER_BYTES + self.payload_bytes

    def pack(self) -> bytes:
        """Return the header's bytes."""
        prefix = _PREFIX.pack(MAGIC, VERSION, HEADER_BYTES)
        fields = _FIELDS.pack(
            self.plan_digest,
            self.generation,
            self.phase,
            self.round,
            self.position,
            self.rearms,
            self.key_id,
            self.nonce,
            self.payload_bytes,
        )
        body = prefix + _CRC.pack(zlib.crc32(prefix)) + fields
        return body + hashlib.sha256(body).digest()

    @classmethod
    def unpack(cls, data: bytes) -> "PublicHeader":
        """Read the header at the beginning of `data`.

        Raises:
            NewerVersionError: A newer Perpetua wrote it.
            TruncatedSnapshotError: It ends within the header.
            CorruptSnapshotError: It is damaged, or not a snapshot at all.
        """
        _check_prefix(data)
        if len(data) < HEADER_BYTES:
            raise TruncatedSnapshotError("snapshot: ends within its header")
        body, checksum = data[: HEADER_BYTES - _CHECKSUM_BYTES], data[HEADER_BYTES - _CHECKSUM_BYTES : HEADER_BYTES]
        if hashlib.sha256(body).digest() != checksum:
            raise CorruptSnapshotError("snapshot: the header's checksum does not match")
        digest, generation, phase, rounds, position, rearms, key_id, nonce, payload_bytes = _FIELDS.unpack_from(
            body, _PREFIX_BYTES
        )
        return cls(digest, generation, phase, rounds, position, rearms, key_id, nonce, payload_bytes)


def _check_prefix(data: bytes) -> None:
    if not data.startswith(MAGIC[: len(data)]):
        raise CorruptSnapshotError("snapshot: this is not a snapshot of Perpetua")
    if len(data) < _PREFIX_BYTES:
        raise TruncatedSnapshotError("snapshot: ends within its header")
    _magic, version, length = _PREFIX.unpack_from(data)
    if _CRC.unpack_from(data, _PREFIX.size)[0] != zlib.crc32(data[: _PREFIX.size]):
        raise CorruptSnapshotError("snapshot: the version's checksum does not match")
    if version > VERSION:
        raise NewerVersionError(f"snapshot: {beyond_us(version, VERSION)}")
    if version < 1 or length != HEADER_BYTES:
        raise CorruptSnapshotError("snapshot: no version has such a header")
