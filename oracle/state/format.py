"""Snapshots as bytes: a clear public header, then AES-256-GCM over the private arrays.

Layout, version 4 (`header.py`, `blobs.py`); version 3 has no rested and rest left, version 2 no paid either, version 1
no shard, shards and genesis:

    magic, version, header length, CRC of these | plan digest, generation, phase, round, position, rearms |
    key id, nonce, payload length | shard, shards, genesis | paid | rested, rest left | SHA-256 of all before |
    ciphertext and its GCM tag

The header is the associated data of the encryption, so none of it can be exchanged. Nonces are random; NIST
SP 800-38D allows 2**32 snapshots under one key for them, and each plan has a key of its own.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from oracle.errors import (
    CorruptSnapshotError,
    ForeignPlanError,
    ForeignShardError,
    InputError,
    KeyFileError,
    TruncatedSnapshotError,
    WrongKeyError,
)
from oracle.mechanisms.keys import PhaseKey
from oracle.predictors.base import StateArrays
from oracle.state.blobs import TAG_BYTES, decode_payload, encode_payload
from oracle.state.header import KEY_ID_BYTES, NONCE_BYTES, Origin, PublicHeader
from oracle.state.shard_id import ShardId

__all__ = [
    "KEY",
    "MASTER_KEY_BYTES",
    "PublicHeader",
    "Snapshot",
    "check_shard_id",
    "decode",
    "derive_key",
    "encode",
    "peek",
    "phase_key",
]

KEY: Final = "key"
"""Name of the phase key among a predictor's arrays; all other keys are derived from it."""

MASTER_KEY_BYTES = 32
"""Length of the master key."""

_GCM_TAG_BYTES = 16
_PAYLOAD_LIMIT = (1 << 31) - 1 - _GCM_TAG_BYTES
_KEY_PURPOSE = b"perpetua/snapshot/1/encrypt/"
_KEY_ID_PURPOSE = b"perpetua/snapshot/1/key-id/"


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Everything a shard needs to go on.

    Attributes:
        plan_digest: `Plan.digest` of the plan it belongs to, 32 bytes.
        generation: Its number in its store (>= 0).
        position: Source position up to which its rounds go (>= 0).
        round: Rounds answered (>= 0).
        phase: Current phase (>= 0).
        rearms: Times that any side was armed afresh (>= 0).
        tag: The shard's running tag, 16 bytes: a keyed MAC, which the sink's commits carry too.
        arrays: The predictor's state. Private, and so encrypted.
        origin: The shard that it is bound to (`bound`); None if it is not yet.
        paid: Answers that the data paid for (>= 0).
        rested: Rounds that rested (>= 0).
        rest_left: Rounds that will rest from here on (>= 0).
    """

    plan_digest: bytes
    generation: int
    position: int
    round: int
    phase: int
    rearms: int
    tag: bytes
    arrays: StateArrays
    origin: Origin | None = None
    paid: int = 0
    rested: int = 0
    rest_left: int = 0

    @classmethod
    def first(cls, plan_digest: bytes, arrays: StateArrays) -> Self:
        """Return the snapshot of a predictor that has answered nothing yet.

        Args:
            plan_digest: `Plan.digest` of its plan, 32 bytes.
            arrays: Its state.
        """
        return cls(
            plan_digest=plan_digest,
            generation=1,
            position=0,
            round=0,
            phase=1,
            rearms=0,
            tag=bytes(TAG_BYTES),
            arrays=arrays,
        )

    def bound(self, shard_id: ShardId) -> Self:
        """Return the snapshot bound to this shard and no other; the binding is authenticated by the encryption.

        Raises:
            ForeignShardError: It is bound to another one.
            CorruptSnapshotError: It has no phase key.
        """
        if self.origin is None:
            commitment = phase_key(self.arrays).subkey(b"genesis commitment")
            return replace(self, origin=Origin(shard_id, commitment))
        check_shard_id(self.origin, shard_id)
        return self


def check_shard_id(origin: Origin | None, shard_id: ShardId) -> None:
    """Refuse a snapshot that is bound to another shard.

    Raises:
        ForeignShardError: It is bound to another one.
    """
    if origin is not None and origin.shard_id != shard_id:
        raise ForeignShardError(
            f"snapshot: belongs to {origin.shard_id}, but this is {shard_id}; put each shard's own snapshot back"
        )


def phase_key(arrays: StateArrays) -> PhaseKey:
    """Return the key that a predictor's state holds.

    Raises:
        CorruptSnapshotError: It holds none.
    """
    if KEY not in arrays:
        raise CorruptSnapshotError("snapshot: has no phase key")
    return PhaseKey(arrays[KEY].tobytes())


def encode(snapshot: Snapshot, master_key: bytes) -> bytes:
    """Encrypt a snapshot.

    Formal guarantees:
        The length depends on the arrays' names, types and shapes and on whether anything was paid for, or rested, never
        on what they hold.

    Args:
        snapshot: What to write.
        master_key: The key file's 32 bytes.

    Raises:
        InputError: A field does not fit the format.
        KeyFileError: The key does not have 32 bytes.
    """
    payload = encode_payload(snapshot.tag, snapshot.arrays)
    if len(payload) > _PAYLOAD_LIMIT:
        raise InputError("snapshot.arrays", len(payload), f"must have at most {_PAYLOAD_LIMIT} bytes together")
    header = PublicHeader(
        plan_digest=snapshot.plan_digest,
        generation=snapshot.generation,
        phase=snapshot.phase,
        round=snapshot.round,
        position=snapshot.position,
        rearms=snapshot.rearms,
        key_id=derive_key(master_key, _KEY_ID_PURPOSE, snapshot.plan_digest, KEY_ID_BYTES),
        nonce=secrets.token_bytes(NONCE_BYTES),
        payload_bytes=len(payload) + _GCM_TAG_BYTES,
        origin=snapshot.origin,
        paid=snapshot.paid,
        rested=snapshot.rested,
        rest_left=snapshot.rest_left,
    )
    clear = header.pack()
    return clear + _cipher(master_key, snapshot.plan_digest).encrypt(header.nonce, payload, clear)


def decode(data: bytes, master_key: bytes, plan_digest: bytes) -> Snapshot:
    """Check and decrypt a snapshot.

    Args:
        data: The whole snapshot and nothing else.
        master_key: The key file's 32 bytes.
        plan_digest: `Plan.digest` of the plan at hand.

    Raises:
        NewerVersionError: A newer Perpetua wrote it (found before anything that a version may change).
        TruncatedSnapshotError: It ends early.
        CorruptSnapshotError: Its bytes are not the ones that were written.
        ForeignPlanError: It belongs to another plan.
        WrongKeyError: It was encrypted with another key.
        KeyFileError: The key does not have 32 bytes.
    """
    header = peek(data)
    if len(data) < header.total_bytes:
        raise TruncatedSnapshotError("snapshot: shorter than its header declares")
    if len(data) > header.total_bytes:
        raise CorruptSnapshotError("snapshot: longer than its header declares")
    if header.plan_digest != plan_digest:
        raise ForeignPlanError("snapshot: belongs to another plan")
    if header.key_id != derive_key(master_key, _KEY_ID_PURPOSE, plan_digest, KEY_ID_BYTES):
        raise WrongKeyError("snapshot: encrypted with another key")
    try:
        payload = _cipher(master_key, plan_digest).decrypt(
            header.nonce, memoryview(data)[header.header_bytes :], data[: header.header_bytes]
        )
    except InvalidTag as exc:
        raise CorruptSnapshotError("snapshot: the encrypted part is damaged") from exc
    tag, arrays = decode_payload(payload)
    return Snapshot(
        plan_digest=header.plan_digest,
        generation=header.generation,
        position=header.position,
        round=header.round,
        phase=header.phase,
        rearms=header.rearms,
        tag=tag,
        arrays=arrays,
        origin=header.origin,
        paid=header.paid,
        rested=header.rested,
        rest_left=header.rest_left,
    )


def peek(data: bytes) -> PublicHeader:
    """Read the public header without the key, unauthenticated; `data` may end after it.

    Raises:
        NewerVersionError: A newer Perpetua wrote it.
        TruncatedSnapshotError: It ends within the header.
        CorruptSnapshotError: The header is damaged, or this is not a snapshot.
    """
    return PublicHeader.unpack(data)


def _cipher(master_key: bytes, plan_digest: bytes) -> AESGCM:
    return AESGCM(derive_key(master_key, _KEY_PURPOSE, plan_digest))


def derive_key(master_key: bytes, purpose: bytes, plan_digest: bytes, length: int = 32) -> bytes:
    """Return a key of so many bytes for one purpose and one plan only: HKDF of the master key.

    Raises:
        KeyFileError: The master key does not have 32 bytes.
    """
    if len(master_key) != MASTER_KEY_BYTES:
        raise KeyFileError(f"key: must have {MASTER_KEY_BYTES} bytes")
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose + plan_digest).derive(master_key)
