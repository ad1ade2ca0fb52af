"""A state that goes from one place on Kafka to another: the file that says where it stood, and the record of its moves.

Each shard's folder keeps `moves.json`. It stays, so that a file of an export brings a state to one place, once.
"""

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from oracle.errors import NewerVersionError, StateError, newer_version
from oracle.state.files import read_versioned, replace_durably

__all__ = ["Export", "ExportedShard", "Move", "check_move", "open_export", "read_moves", "record_move", "sealed"]

_VERSION: Final = 1
_NAME: Final = "moves.json"
_DOMAIN: Final = b"perpetua/offsets/1\0"


class ExportedShard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one shard stood.

    Attributes:
        position: The offset of its next query.
        round: Rounds answered.
        mark: What was committed there, in hex: the round, and the tag of the queries.
        trail: Keyed digests of the last records before the position, the oldest first.
    """

    position: int
    round: int
    mark: str
    trail: tuple[str, ...]


class Export(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a state stood when it left a place. All of it is public; a seal tells whether a state's own key made it.

    Attributes:
        version: Of this format.
        move: The move's name, 16 bytes in hex.
        model: The model's name.
        cluster: The cluster's id.
        topic: The query topic.
        group: The consumer group.
        shards: From shard 0.
        seal: Over all the rest.
    """

    version: int = _VERSION
    move: str
    model: str
    cluster: str
    topic: str
    group: str
    shards: tuple[ExportedShard, ...]
    seal: str = ""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One move of a shard.

    Attributes:
        move: Its name.
        cluster: The id of the cluster that it went to.
        topic: The query topic there.
        group: The consumer group there.
        round: Rounds answered before it.
        left: The offset of the next query in the log that was left.
        position: The offset of the next query in the new one.
    """

    move: str
    cluster: str
    topic: str
    group: str
    round: int
    left: int
    position: int


class _Moves(msgspec.Struct, frozen=True, kw_only=True):
    version: int = _VERSION
    moves: tuple[Move, ...]


def sealed(export: Export, secret: bytes) -> Export:
    """Return the export with its seal.

    Args:
        export: Without one, or with any.
        secret: Known to those only who hold the state's key; one for each plan.
    """
    return msgspec.structs.replace(export, seal=_seal(export, secret))


def open_export(data: bytes, secret: bytes) -> Export:
    """Read an export.

    Raises:
        NewerVersionError: A newer Perpetua wrote it.
        StateError: It is none, or another state's, or was changed.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version > _VERSION:
            raise NewerVersionError(f"export: {newer_version(version, _VERSION)}")
        export = msgspec.json.decode(data, type=Export)
    except msgspec.MsgspecError as exc:
        raise StateError("export: is no file of `perpetua offsets export`, or damaged") from exc
    if not hmac.compare_digest(export.seal.encode(), _seal(export, secret).encode()):
        raise StateError("export: its seal is not this state's: it is another state's, or was changed")
    return export


class _Version(msgspec.Struct):
    version: int


def _seal(export: Export, secret: bytes) -> str:
    told = msgspec.json.encode(msgspec.structs.replace(export, seal=""))
    return hmac.digest(secret, _DOMAIN + told, "sha256").hex()


def read_moves(folder: Path) -> Sequence[Move]:
    """Return the moves of the shard in a folder, the oldest first.

    Raises:
        StateError: The record is damaged, or a newer Perpetua wrote it.
        StorageError: It cannot be read.
    """
    found = read_versioned(folder / _NAME, _Moves, _VERSION)
    return () if found is None else found.moves


def check_move(folder: Path, move: Move) -> None:
    """Refuse a move of whose name another one is recorded.

    Raises:
        StateError: It is.
    """
    for known in read_moves(folder):
        if known.move == move.move and known != move:
            raise StateError(
                f"{folder}: by this export the state went to topic {known.topic}, group {known.group}, offset "
                f"{known.position} (cluster {known.cluster}); to go on from there, export it there"
            )


def record_move(folder: Path, move: Move) -> None:
    """Record a move durably, before anything is committed in the new place; one that is recorded is let be.

    Raises:
        StateError: See `check_move` and `read_moves`.
        StorageError: It could not be written.
    """
    check_move(folder, move)
    moves = read_moves(folder)
    if move not in moves:
        replace_durably(folder / _NAME, msgspec.json.encode(_Moves(moves=(*moves, move))))
