"""The clear header of a snapshot: fixed size, checksummed, public facts only.

All integers are little-endian. The first 16 bytes (`magic`, `version`, `length`, their CRC) mean the same in every
version there will ever be, so that a newer snapshot is told apart from a damaged one before anything else is read.
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from oracle.errors import CorruptSnapshotError, InputError, NewerVersionError, TruncatedSnapshotError, newer_version
from oracle.state.shard_id import ShardId

__all__ = ["HEADER_BYTES", "KEY_ID_BYTES", "NONCE_BYTES", "PLAN_DIGEST_BYTES", "VERSION", "Origin", "PublicHeader"]

MAGIC = b"PERPSNAP"
VERSION = 4
"""The highest format version, of snapshots with rests; version 3 has none, 2 no paid answers, and 1 no origin."""

PLAN_DIGEST_BYTES = 32
KEY_ID_BYTES = 16
NONCE_BYTES = 12
GENESIS_BYTES = 32

_PREFIX = struct.Struct("<8sHH")
_CRC = struct.Struct("<I")
_FIELDS = struct.Struct(f"<{PLAN_DIGEST_BYTES}s5Q{KEY_ID_BYTES}s{NONCE_BYTES}sQ")
_ORIGIN = struct.Struct(f"<II{GENESIS_BYTES}s")
_PAID = struct.Struct("<Q")
_RESTS = struct.Struct("<QQ")
_UNBOUND = (0, 0, bytes(GENESIS_BYTES))
_PREFIX_BYTES = _PREFIX.size + _CRC.size
_CHECKSUM_BYTES = 32
_PAID_AT = _PREFIX_BYTES + _FIELDS.size + _ORIGIN.size

_UNBOUND_BYTES = _PREFIX_BYTES + _FIELDS.size + _CHECKSUM_BYTES
_BOUND_BYTES = _UNBOUND_BYTES + _ORIGIN.size
_LENGTHS = {
    1: _UNBOUND_BYTES,
    2: _BOUND_BYTES,
    3: _BOUND_BYTES + _PAID.size,
    4: _BOUND_BYTES + _PAID.size + _RESTS.size,
}

HEADER_BYTES = max(_LENGTHS.values())
"""Length of the longest header."""

_WORD = 1 << 64
_WORDS = ("generation", "phase", "round", "position", "rearms", "payload_bytes", "paid", "rested", "rest_left")
_SHARDS = 1 << 32


class Origin(NamedTuple):
    """The shard whose noise a snapshot continues.

    Attributes:
        shard_id: The shard.
        genesis: Commitment to the key that the shard began with, 32 bytes; of a snapshot of version 1, to the key of
            the phase in which it was first bound. Two states have the same noise if they have the same one.
    """

    shard_id: ShardId
    genesis: bytes


@dataclass(frozen=True, slots=True)
class PublicHeader:
    """The public facts of a snapshot. Not authenticated until the snapshot is decoded.

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
        origin: The shard that it is bound to; None in version 1, and in later ones than 2 where there are 0 shards.
        paid: Answers that the data paid for up to it; where there are none, versions 1 and 2 are written, or 4.
        rested: Rounds that rested up to it; where there are none, and none will, versions up to 3 are written.
        rest_left: Rounds that will rest behind it.
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
    origin: Origin | None = None
    paid: int = 0
    rested: int = 0
    rest_left: int = 0

    def __post_init__(self) -> None:
        """Check the widths.

        Raises:
            InputError: A field does not fit its place in the header.
        """
        widths = {"plan_digest": PLAN_DIGEST_BYTES, "key_id": KEY_ID_BYTES, "nonce": NONCE_BYTES}
        for name, width in widths.items():
            if len(getattr(self, name)) != width:
                raise InputError(f"snapshot.{name}", len(getattr(self, name)), f"must be {width} bytes long")
        for name in _WORDS:
            if not 0 <= getattr(self, name) < _WORD:
                raise InputError(f"snapshot.{name}", getattr(self, name), "must be at least 0 and below 2**64")
        if self.origin is not None and not 0 <= self.origin.shard_id.shard < self.origin.shard_id.shards < _SHARDS:
            raise InputError("snapshot.origin", str(self.origin.shard_id), "must be a shard below their number")

    @property
    def version(self) -> int:
        """The lowest version that has all its fields."""
        if self.rested or self.rest_left:
            return 4
        return 3 if self.paid else 1 if self.origin is None else 2

    @property
    def header_bytes(self) -> int:
        """Length of the header."""
        return _LENGTHS[self.version]

    @property
    def total_bytes(self) -> int:
        """Length of the whole snapshot."""
        return self.header_bytes + self.payload_bytes

    def pack(self) -> bytes:
        """Return the header's bytes."""
        version = self.version
        prefix = _PREFIX.pack(MAGIC, version, self.header_bytes)
        shard = _UNBOUND if self.origin is None else (*self.origin.shard_id, self.origin.genesis)
        origin = _ORIGIN.pack(*shard) if version > 1 else b""
        paid = _PAID.pack(self.paid) if version > 2 else b""  # noqa: PLR2004 -- as `VERSION` tells
        rests = _RESTS.pack(self.rested, self.rest_left) if version > 3 else b""  # noqa: PLR2004
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
        body = prefix + _CRC.pack(zlib.crc32(prefix)) + fields + origin + paid + rests
        return body + hashlib.sha256(body).digest()

    @classmethod
    def unpack(cls, data: bytes) -> "PublicHeader":
        """Read the header at the beginning of `data`.

        Raises:
            NewerVersionError: A newer Perpetua wrote it.
            TruncatedSnapshotError: It ends within the header.
            CorruptSnapshotError: It is damaged, or not a snapshot at all.
        """
        version = _check_prefix(data)
        length = _LENGTHS[version]
        if len(data) < length:
            raise TruncatedSnapshotError("snapshot: truncated within its header")
        body, checksum = data[: length - _CHECKSUM_BYTES], data[length - _CHECKSUM_BYTES : length]
        if hashlib.sha256(body).digest() != checksum:
            raise CorruptSnapshotError("snapshot: the header's checksum does not match")
        digest, generation, phase, rounds, position, rearms, key_id, nonce, payload_bytes = _FIELDS.unpack_from(
            body, _PREFIX_BYTES
        )
        return cls(
            digest,
            generation,
            phase,
            rounds,
            position,
            rearms,
            key_id,
            nonce,
            payload_bytes,
            _origin(body) if version > 1 else None,
            _PAID.unpack_from(body, _PAID_AT)[0] if version > 2 else 0,  # noqa: PLR2004
            *(_RESTS.unpack_from(body, _PAID_AT + _PAID.size) if version > 3 else ()),  # noqa: PLR2004
        )


def _origin(body: bytes) -> Origin | None:
    """Return the shard of a header of version 2 or later."""
    shard, shards, genesis = fields = _ORIGIN.unpack_from(body, _PREFIX_BYTES + _FIELDS.size)
    return None if fields == _UNBOUND else Origin(ShardId(shard, shards), genesis)


def _check_prefix(data: bytes) -> int:
    """Return the version."""
    if not data.startswith(MAGIC[: len(data)]):
        raise CorruptSnapshotError("snapshot: not a Perpetua snapshot")
    if len(data) < _PREFIX_BYTES:
        raise TruncatedSnapshotError("snapshot: truncated within its header")
    _magic, version, length = _PREFIX.unpack_from(data)
    if _CRC.unpack_from(data, _PREFIX.size)[0] != zlib.crc32(data[: _PREFIX.size]):
        raise CorruptSnapshotError("snapshot: the version's checksum does not match")
    if version > VERSION:
        raise NewerVersionError(f"snapshot: {newer_version(version, VERSION)}")
    if version < 1 or length != _LENGTHS[version]:
        raise CorruptSnapshotError("snapshot: the header does not fit its version")
    return int(version)
