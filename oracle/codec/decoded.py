"""What deliveries become on their way to a predictor, whatever they ask; and what codecs share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from typing import Final, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from connectors.base import JSON, Deliveries, Rejected, Replies
from oracle.codec.arrow.messages import ArrowQueries
from oracle.codec.json.bodies import Identifier
from oracle.codec.json.public import Several
from oracle.codec.rejections import Reason, Rejection

__all__ = ["Block", "DecodedBatch", "Part", "Run", "decode_in_runs", "joined"]

Part = Identifier | ArrowQueries | Several | Rejection
Block = tuple[NDArray[np.float64], NDArray[np.bool_]]

_LONG_RUN: Final = 1024
_RUN: Final = 256
"""So many deliveries are decoded together; where one of many is no query, fewer are; of these, one by one."""

_SHORTEST_RUN: Final = 32


@dataclass(slots=True)
class DecodedBatch:
    """Some deliveries as one batch.

    Attributes:
        features: float64[n, D]; zero where there is no query.
        present: bool[n].
        parts: For each delivery: the id of its one row, the rows of an Arrow message, that a public question asks
            for several things, or a rejection.
        ends: For each delivery: how many rows there are up to and with it.
        plain: Whether each delivery is known to be one row of JSON.
    """

    features: NDArray[np.float64]
    present: NDArray[np.bool_]
    deliveries: Deliveries
    parts: list[Part] = field(repr=False)
    ends: list[int] = field(repr=False)
    plain: bool

    @property
    def identifiers(self) -> list[Identifier]:
        """The ids of a plain batch."""
        return cast("list[Identifier]", self.parts)

    @property
    def rejections(self) -> list[Reason]:
        """Why each wholly rejected delivery was rejected."""
        if self.plain:
            return []
        return [part.reason for part in self.parts if isinstance(part, Rejection)]

    def replies(self, bodies: Sequence[bytes], content_types: Sequence[str]) -> Replies:
        """Return one reply for each delivery."""
        given = self.deliveries
        rejected: Sequence[Rejected | None] = [None] * len(given)
        if not self.plain:
            found = zip(self.parts, given.positions, given.bodies, strict=True)
            rejected = [
                Rejected(part.reason, position, body or b"") if isinstance(part, Rejection) else None
                for part, position, body in found
            ]
        return Replies(bodies, content_types, given.headers, given.keys, rejected)


def joined(blocks: Sequence[Block], width: int) -> Block:
    """Return all blocks as one, of rows of `width` numbers."""
    if not blocks:
        return np.empty((0, width)), np.empty(0, dtype=np.bool_)
    if len(blocks) == 1:
        return blocks[0]
    return np.concatenate([block for block, _ in blocks]), np.concatenate([there for _, there in blocks])


class Run(NamedTuple):
    """Some deliveries that were decoded.

    Attributes:
        parts: See `DecodedBatch`.
        sizes: How many rows each has.
    """

    parts: Sequence[Part]
    blocks: Sequence[Block]
    sizes: Iterable[int]


class _RunReader(Protocol):
    """What reads many bodies at once."""

    def decode_run(self, bodies: Sequence[bytes]) -> tuple[list[Identifier], NDArray[np.float64]] | None:
        """Return ids and rows, the same as one by one; None where it takes a look at each."""


def decode_in_runs(
    deliveries: Deliveries, width: int, reader: _RunReader, decode_others: Callable[[Deliveries], Run]
) -> DecodedBatch:
    """Decode deliveries in order, many together where they are all JSON queries of one row or tombstones."""
    parts: list[Part] = []
    sizes: list[int] = []
    blocks: list[Block] = []
    plain = True
    for some, found in _runs(reader, width, deliveries, _LONG_RUN):
        if found is None:
            plain = False
        run = found or decode_others(some)
        parts += run.parts
        blocks += run.blocks
        sizes += run.sizes
    features, present = joined(blocks, width)
    return DecodedBatch(features, present, deliveries, parts, list(accumulate(sizes)), plain)


def _runs(
    reader: _RunReader, width: int, deliveries: Deliveries, longest: int
) -> Iterator[tuple[Deliveries, Run | None]]:
    """Yield deliveries, at most `_RUN`, or so many as were decoded together, and what came of them; None if not all."""
    for start in range(0, len(deliveries), longest):
        some = deliveries.part(start, start + longest)
        run = _decode_together(reader, width, some)
        if run is None and len(some) > _RUN:
            yield from _runs(reader, width, some, _RUN)
        else:
            yield some, run


def _decode_together(reader: _RunReader, width: int, deliveries: Deliveries) -> Run | None:
    bodies, ones = deliveries.bodies, repeat(1, len(deliveries))
    asked = [body for body in bodies if body is not None]
    if len(asked) < _SHORTEST_RUN or deliveries.content_types.count(JSON) < len(bodies):
        return None
    run = reader.decode_run(asked)
    if run is None:
        return None
    identifiers, block = run
    if len(asked) == len(bodies):
        return Run(identifiers, [(block, np.ones(len(bodies), dtype=np.bool_))], ones)
    present = np.array([body is not None for body in bodies])
    features = np.zeros((len(bodies), width))
    features[present] = block
    given = iter(identifiers)
    return Run([None if body is None else next(given) for body in bodies], [(features, present)], ones)
