"""Plain deliveries and replies column by column, where an object for each would take as long as all else about it.

They are sequences of the same `Delivery` and `Reply` objects, made when somebody looks at one. Who knows the columns
(the codec, a sink) takes these.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Final, TypeVar, overload

from connectors.base import JSON, Commit, Delivery, Reply

__all__ = ["Deliveries", "Replies", "joined_commit", "joined_replies"]

_Key = bytes | None
_Item = TypeVar("_Item")
_NO_HEADERS: Final[tuple[tuple[str, bytes], ...]] = ()


class Deliveries(Sequence[Delivery]):
    """Deliveries of JSON without headers.

    Attributes:
        positions: The position behind each.
        bodies: The body of each.
        keys: The key of each.
    """

    __slots__ = ("bodies", "keys", "positions")

    def __init__(self, positions: Sequence[int], bodies: Sequence[bytes | None], keys: Sequence[_Key]) -> None:
        self.positions = positions
        self.bodies = bodies
        self.keys = keys

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[Delivery]:
        return map(Delivery, self.positions, self.bodies, repeat(JSON), repeat(_NO_HEADERS), self.keys)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> "Deliveries": ...
    def __getitem__(self, index: int | slice) -> "Delivery | Deliveries":
        if isinstance(index, slice):
            return Deliveries(self.positions[index], self.bodies[index], self.keys[index])
        return Delivery(self.positions[index], self.bodies[index], JSON, _NO_HEADERS, self.keys[index])


class Replies(Sequence[Reply]):
    """Replies of JSON without headers, to deliveries none of which was rejected.

    Attributes:
        bodies: The body of each.
        keys: The key of each.
    """

    __slots__ = ("bodies", "keys")

    def __init__(self, bodies: Sequence[bytes], keys: Sequence[_Key]) -> None:
        self.bodies = bodies
        self.keys = keys

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[Reply]:
        return map(Reply, self.bodies, repeat(JSON), repeat(_NO_HEADERS), self.keys)

    @overload
    def __getitem__(self, index: int) -> Reply: ...
    @overload
    def __getitem__(self, index: slice) -> "Replies": ...
    def __getitem__(self, index: int | slice) -> "Reply | Replies":
        if isinstance(index, slice):
            return Replies(self.bodies[index], self.keys[index])
        return Reply(self.bodies[index], JSON, _NO_HEADERS, self.keys[index])


def joined_replies(parts: Sequence[Sequence[Reply]]) -> Sequence[Reply]:
    """Return all replies as one sequence; in columns if all are."""
    columns = [part for part in parts if isinstance(part, Replies)]
    if len(columns) < len(parts):
        return _chained(parts)
    return Replies(_chained([part.bodies for part in columns]), _chained([part.keys for part in columns]))


def _chained(parts: Sequence[Sequence[_Item]]) -> Sequence[_Item]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def joined_commit(commits: Sequence[Commit]) -> Commit:
    """Return what makes all of some commits durable together; at least one."""
    if len(commits) == 1:
        return commits[0]
    last = commits[-1]
    ledger = list(chain.from_iterable(commit.ledger for commit in commits))
    return Commit(joined_replies([commit.replies for commit in commits]), ledger, last.position, last.metadata)
