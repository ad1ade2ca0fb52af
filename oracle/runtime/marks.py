"""What is committed with every position: how far the state had come, over which queries, and what took no round."""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from oracle.errors import LogDivergedError, StateError

__all__ = ["CommitMark", "Passed"]

_MARK: Final = struct.Struct("<4sQ16s")
_COUNTS: Final = struct.Struct("<BB")
_BARE: Final = b"PER1"
_LISTED: Final = b"PER2"
_LAST: Final = b"LAST"
_MOVED: Final = struct.Struct("<4s16s")
_LEFT: Final = b"MOVE"

_MOST_SKIPPED: Final = 32
_MOST_INTERNAL: Final = 24
"""Both lists fit into the 512 bytes that a commit's metadata may have."""


class Passed(NamedTuple):
    """Messages that took no round though nothing is wrong with them that the plan's limits say.

    Attributes:
        skipped: Positions of those that an operator passed over (`perpetua skip`), all there ever were; ascending.
        internal: Positions of the last ones that were rejected as `internal`; ascending.
    """

    skipped: tuple[int, ...] = ()
    internal: tuple[int, ...] = ()

    def and_skipped(self, position: int) -> "Passed":
        """Return it with one more message that an operator passes over.

        Raises:
            StateError: There are as many as a commit can name.
        """
        skipped = tuple(sorted({*self.skipped, position}))
        if len(skipped) > _MOST_SKIPPED:
            raise StateError(
                f"position {position}: {_MOST_SKIPPED} messages of this shard were passed over already, and a commit "
                "can name no more; use a Perpetua that answers the message, or make a new state"
            )
        return self._replace(skipped=skipped)

    def and_internal(self, positions: Iterable[int]) -> "Passed":
        """Return it with more messages that were rejected as `internal`; the oldest are forgotten."""
        return self._replace(internal=tuple(sorted({*self.internal, *positions})[-_MOST_INTERNAL:]))


class CommitMark(NamedTuple):
    """What is committed with every position.

    Attributes:
        tag: The running tag, an XOR-MAC over (round, keyed hash of the query) of all of them; 16 bytes.
        passed: What took no round, at the position, before it or behind it: re-execution is bound to it.
    """

    round: int
    tag: bytes
    passed: Passed = Passed()

    def pack(self) -> bytes:
        """Return it as commit metadata: 28 bytes, and 8 for each passed message and 2 if there are any."""
        skipped, internal = self.passed
        if not (skipped or internal):
            return _MARK.pack(_BARE, self.round, self.tag)
        lists = struct.pack(f"<{len(skipped) + len(internal)}Q", *skipped, *internal)
        return _MARK.pack(_LISTED, self.round, self.tag) + _COUNTS.pack(len(skipped), len(internal)) + lists

    def pack_last(self) -> bytes:
        """Return it as the metadata of the last commit there will be: no copy of the state answers behind it."""
        return _LAST + self.pack()

    @staticmethod
    def is_last(metadata: bytes) -> bool:
        """Return whether commit metadata is that of `pack_last`: the model was retired."""
        return metadata.startswith(_LAST)

    def pack_left(self, move: bytes) -> bytes:
        """Return it as the metadata of the last commit in a place that the model leaves for another; `move` names it.

        Args:
            move: 16 bytes; no copy of the state answers behind the commit until what has this name is brought back.
        """
        return _MOVED.pack(_LEFT, move) + self.pack()

    @staticmethod
    def left_by(metadata: bytes) -> bytes | None:
        """Return the name of the move, if commit metadata is that of `pack_left`; else None."""
        return metadata[len(_LEFT) : _MOVED.size] if metadata.startswith(_LEFT) else None

    @classmethod
    def unpack(cls, metadata: bytes) -> "CommitMark":
        """Read commit metadata, the last too.

        Raises:
            LogDivergedError: It was not written by a shard.
        """
        metadata = metadata[_MOVED.size :] if metadata.startswith(_LEFT) else metadata.removeprefix(_LAST)
        try:
            magic, rounds, tag = _MARK.unpack_from(metadata)
            if magic == _BARE and len(metadata) == _MARK.size:
                return cls(rounds, tag)
            if magic == _LISTED:
                skipped, internal = _COUNTS.unpack_from(metadata, _MARK.size)
                found = struct.unpack(f"<{skipped + internal}Q", metadata[_MARK.size + _COUNTS.size :])
                return cls(rounds, tag, Passed(found[:skipped], found[skipped:]))
        except struct.error:
            pass
        raise LogDivergedError(
            "commit metadata: not written by Perpetua, or by a newer one; the sink belongs to something else"
        )
