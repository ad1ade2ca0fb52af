"""What deliveries become on their way to a predictor, whatever they ask; and what codecs share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from connectors.base import JSON, Delivery, Reply
from connectors.columns import Deliveries, Replies
from oracle.codec.arrow.messages import ArrowQueries
from oracle.codec.json.bodies import Identifier
from oracle.codec.json.questions import Breakdown
from oracle.codec.rejections import Reason, Rejection

__all__ = ["RUN", "Block", "DecodedBatch", "Part", "decode_run", "joined", "plain_replies"]

Part = Identifier | ArrowQueries | Breakdown | Rejection
Block = tuple[NDArray[np.float64], NDArray[np.bool_]]

RUN: Final = 256
"""So many deliveries are decoded together; where one of them is no query, all of them are decoded one by one."""

_SHORTEST_RUN: Final = 32
_reply = partial(tuple.__new__, Reply)
"""`Reply._make` without its check of the length."""


@dataclass(slots=True)
class DecodedBatch:
    """Some deliveries as one batch.

    Attributes:
        features: float64[n, D]; zero where there is no query.
        present: bool[n].
        deliveries: The deliveries.
        parts: For each delivery: the id of its one row, the rows of an Arrow message, what a question about a table is
            broken down by, or a rejection.
        ends: For each delivery: how many rows there are up to and with it.
        plain: Whether each delivery is known to be one row of JSON.
    """

    features: NDArray[np.float64]
    present: NDArray[np.bool_]
    deliveries: Sequence[Delivery]
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


def joined(blocks: Sequence[Block], width: int) -> Block:
    """Return all blocks as one, of rows of `width` numbers."""
    if not blocks:
        return np.empty((0, width)), np.empty(0, dtype=np.bool_)
    if len(blocks) == 1:
        return blocks[0]
    return np.concatenate([block for block, _ in blocks]), np.concatenate([there for _, there in blocks])


class _RunReader(Protocol):
    """What reads many bodies at once."""

    def decode_run(self, bodies: Sequence[bytes]) -> tuple[list[Identifier], NDArray[np.float64]] | None:
        """Return ids and rows, the same as one by one; None where it takes a look at each."""
        ...


def decode_run(reader: _RunReader, width: int, deliveries: Sequence[Delivery]) -> tuple[Sequence[Part], Block] | None:
    """Decode deliveries that are all JSON queries or tombstones, many of them together; else return None.

    Args:
        reader: Reads the bodies.
        width: Numbers of a row.
        deliveries: At least one.
    """
    if isinstance(deliveries, Deliveries):
        bodies, kinds = deliveries.bodies, {JSON}
    else:
        bodies, kinds = [delivery[1] for delivery in deliveries], {delivery[2] for delivery in deliveries}
    asked = [body for body in bodies if body is not None]
    if len(kinds) > 1:
        kinds = {delivery[2] for delivery in deliveries if delivery[1] is not None}
    if len(asked) < _SHORTEST_RUN or kinds != {JSON}:
        return None
    run = reader.decode_run(asked)
    if run is None:
        return None
    identifiers, block = run
    if len(asked) == len(bodies):
        return identifiers, (block, np.ones(len(bodies), dtype=np.bool_))
    present = np.array([body is not None for body in bodies])
    features = np.zeros((len(bodies), width))
    features[present] = block
    given = iter(identifiers)
    return [None if body is None else next(given) for body in bodies], (features, present)


def plain_replies(deliveries: Sequence[Delivery], bodies: Sequence[bytes]) -> Sequence[Reply]:
    """Return one JSON reply for each delivery."""
    if isinstance(deliveries, Deliveries):
        return Replies(bodies, deliveries.keys)
    headers = [delivery[3] for delivery in deliveries]
    keys = [delivery[4] for delivery in deliveries]
    return list(map(_reply, zip(bodies, repeat(JSON), headers, keys, repeat(None), strict=False)))
