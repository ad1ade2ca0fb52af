"""What the daemon and an engine in a process of its own say to each other. Both are of the same code: see `Hello`."""

from collections.abc import Sequence
from typing import Final

import msgspec

from oracle.predictors.base import PublicFacts

__all__ = [
    "Answered",
    "Ask",
    "Begin",
    "Export",
    "Failed",
    "Hello",
    "Order",
    "Ready",
    "Settled",
    "State",
    "Word",
    "read_order",
    "read_word",
]


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Restore a predictor; the first order.

    Attributes:
        plan: The plan's canonical JSON.
        state: The predictor's arrays, as `oracle.state.blobs` writes them.
    """

    plan: bytes
    state: bytes


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Answer the rows that stand in the shared memory.

    Attributes:
        rows: How many.
        room: Rows that the memory has room for.
    """

    rows: int
    room: int


class Export(msgspec.Struct, frozen=True, tag=True):
    """Return the whole state."""


Order = Begin | Ask | Export


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The engine is up; the first word.

    Attributes:
        build: The code that it is of.
    """

    build: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The predictor is there.

    Attributes:
        facts: What is public of it.
    """

    facts: PublicFacts


class Answered(msgspec.Struct, frozen=True, tag=True):
    """The answers stand in the shared memory, but for what is said here.

    Attributes:
        first_round: Of the first row.
        phases: Phase and number of rows of each run of rows of one phase.
        tag: The tag's 16 bytes.
        events: Ledger events, encoded.
        facts: What is public behind the last row.
    """

    first_round: int
    phases: Sequence[tuple[int, int]]
    tag: bytes
    events: Sequence[bytes]
    facts: PublicFacts


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The bookkeeping of the last answers is done."""


class State(msgspec.Struct, frozen=True, tag=True):
    """The whole state.

    Attributes:
        state: As in `Begin`.
    """

    state: bytes


class Failed(msgspec.Struct, frozen=True, tag=True):
    """An order could not be carried out, and the engine ends.

    Attributes:
        kind: Class of the error, one of `oracle.errors`; empty for any other, whose text may be private.
        text: The error's text.
    """

    kind: str = ""
    text: str = ""


Word = Hello | Ready | Answered | Settled | State | Failed

read_order: Final = msgspec.msgpack.Decoder(Order).decode
read_word: Final = msgspec.msgpack.Decoder(Word).decode
