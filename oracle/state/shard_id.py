"""Which shard a state folder belongs to, by its name and the mark of the state around it.

    plan.json, key             one plan for each shard, one key for all
    shard-0000, shard-0001     a folder as `FolderStore` keeps it, each
    shards.json                how many there are; renamed from unfinished.json once all are written

The state of a model with one shard is that shard's folder itself, without a mark.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from oracle.errors import StateError
from oracle.state.files import read_versioned

__all__ = ["MARK", "SHARD", "UNFINISHED", "Mark", "ShardId", "read_mark", "shard_id_of", "shard_name"]

VERSION: Final = 1
MARK: Final = "shards.json"
UNFINISHED: Final = "unfinished.json"
SHARD: Final = re.compile(r"shard-(\d+)")


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the mark: how many shards there are."""

    version: int = VERSION
    shards: int


class ShardId(NamedTuple):
    """One shard of a model.

    Attributes:
        shard: Its number, from 0.
        shards: How many the model has.
    """

    shard: int
    shards: int

    def __str__(self) -> str:
        return f"shard {self.shard} of {self.shards}"


def shard_name(number: int) -> str:
    """Return the name of a shard's folder."""
    return f"shard-{number:04d}"


def shard_id_of(folder: Path) -> ShardId:
    """Return which shard a folder belongs to, with links resolved.

    Raises:
        StateError: The mark beside it is damaged.
        StorageError: The mark cannot be read.
    """
    whole = folder.resolve()
    number = SHARD.fullmatch(whole.name)
    mark = number and (read_mark(whole.parent / MARK) or read_mark(whole.parent / UNFINISHED))
    return ShardId(int(number[1]), mark.shards) if number and mark else ShardId(0, 1)


def read_mark(path: Path) -> Mark | None:
    """Read a mark; None if there is none.

    Raises:
        NewerVersionError: A newer Perpetua wrote it.
        StateError: It is damaged.
        StorageError: It cannot be read.
    """
    mark = read_versioned(path, Mark, VERSION)
    if mark is not None and (mark.version < 1 or mark.shards < 2):  # noqa: PLR2004 -- one shard has no mark
        raise StateError(f"{path}: the file is damaged")
    return mark
