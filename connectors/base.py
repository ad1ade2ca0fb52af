"""The seam between the oracle and any bus: a source that can be read again, a sink that commits atomically.

A connector implements `Source` and `Sink`; the simplest one is that of tests, `tests/support/memory_bus.py`. Bodies are
opaque bytes with a content type. A connector never looks into them, and knows nothing of predictors or privacy. Its
tests inherit `SourceSuite` and `SinkSuite` (`tests/connectors/suite.py`).

Messages go in columns, as `Deliveries` and `Replies`: an object for each would take as long as all else about it. What
a bus hands over one by one becomes columns by `Deliveries.of`, and a sink that writes one by one takes `rows`.

Formal guarantees every connector gives:
    * *Replayable*: after `Source.open(p)` the deliveries are, byte for byte, those that any earlier run read
      after position `p`; or `SourceError` is raised. There is no silent reset to the first or the latest record.
    * *Atomic*: after a crash, `Sink.open` returns the last `Commit` that is wholly durable, and what readers find
      in the sink is exactly what was committed up to it (each sink documents what it can promise).
    * *Ordered*: deliveries come in one total order; `Delivery.position` strictly increases.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from oracle.errors import InputError

__all__ = [
    "ARROW_STREAM",
    "AVRO",
    "JSON",
    "METADATA_LIMIT",
    "PROTOBUF",
    "REGISTERED",
    "RETAINED",
    "UNKNOWN_SCHEMA",
    "Commit",
    "Committed",
    "Deliveries",
    "Delivery",
    "Headers",
    "Lag",
    "LogReader",
    "Rejected",
    "Replies",
    "Reply",
    "Sink",
    "Source",
]

JSON = "application/json"
"""Content type of one JSON message per delivery."""

ARROW_STREAM = "application/vnd.apache.arrow.stream"
"""Content type of an Arrow IPC stream holding one or more record batches, many queries per delivery."""

AVRO = "application/avro"
"""Content type of one message in Avro's binary encoding, behind the id of its schema in a registry."""

PROTOBUF = "application/protobuf"
"""Content type of one message of Protobuf, behind the id of its schema in a registry."""

REGISTERED = "Registered"
"""In place of a content type: a message in Avro or Protobuf whose schema, if it names one, is known by now.

No message can say so of itself: what headers and envelopes say is read in lower case.
"""

UNKNOWN_SCHEMA = "unknown-schema"
"""In place of a content type: a message whose schema its registry did not have when it was first read."""

RETAINED = "retained"
"""In place of a content type: a message that its bus would hand over again to every new subscriber. It is no query."""

METADATA_LIMIT = 512
"""Most bytes of `Commit.metadata`; brokers keep it beside the committed position."""


Headers = tuple[tuple[str, bytes], ...]
"""Names and values, in order."""

_Row = TypeVar("_Row")


class Delivery(NamedTuple):
    """One message as the bus handed it over.

    Attributes:
        position: Position just *after* this message, in the source's own unit (record, byte or row); what to pass to
            `Source.open` to go on behind it.
        body: The bytes, or None for a tombstone (a round with "no query").
        content_type: `JSON`, `ARROW_STREAM`, or where there is a registry `REGISTERED`; `RETAINED`, `UNKNOWN_SCHEMA` or
            anything else is rejected.
        headers: Transport headers that a reply may need (correlation, reply address); empty on files.
        key: The record's key, which its reply keeps; None on files.
    """

    position: int
    body: bytes | None
    content_type: str = JSON
    headers: Headers = ()
    key: bytes | None = None


class Rejected(NamedTuple):
    """Why a whole delivery was rejected, and what it was: a sink may keep a note of it, or a copy, aside.

    Attributes:
        reason: One of a closed vocabulary.
        position: The delivery's position.
    """

    reason: str
    position: int
    body: bytes


class Reply(NamedTuple):
    """One message for the asker of one delivery.

    Attributes:
        body: The encoded answer or rejection.
        content_type: As of the delivery it answers.
        headers: The delivery's headers.
        key: The delivery's key.
        rejected: Set where the whole delivery was rejected.
    """

    body: bytes
    content_type: str = JSON
    headers: Headers = ()
    key: bytes | None = None
    rejected: Rejected | None = None


@dataclass(frozen=True, slots=True)
class _Columns(ABC, Generic[_Row]):
    """Rows of one kind, column by column."""

    _row: ClassVar[Any]

    @abstractmethod
    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return all columns, in order."""

    def __post_init__(self) -> None:
        lengths = list(map(len, self.columns()))
        if lengths.count(lengths[0]) < len(lengths):
            raise InputError(type(self).__name__, lengths, "must be columns of one length")

    def __len__(self) -> int:
        return len(self.columns()[0])

    def rows(self) -> Iterator[_Row]:
        """Yield each row as an object of its own."""
        return map(self._row, *self.columns())

    def part(self, start: int, stop: int | None = None) -> Self:
        """Return the rows from `start` up to `stop` (None: to the end)."""
        return type(self)(*(column[start:stop] for column in self.columns()))

    @classmethod
    def of(cls, rows: Iterable[_Row]) -> Self:
        """Return rows as columns."""
        return cls(*zip(*rows, strict=True))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        whole: list[list[Any]] = [[] for _ in cls().columns()]
        for part in parts:
            for column, more in zip(whole, part.columns(), strict=True):
                column.extend(more)
        return cls(*whole)


@dataclass(frozen=True, slots=True)
class Deliveries(_Columns[Delivery]):
    """Messages in the order of their positions, column by column: see `Delivery`.

    Raises:
        InputError: The columns differ in length.
    """

    _row = Delivery

    positions: Sequence[int] = ()
    bodies: Sequence[bytes | None] = ()
    content_types: Sequence[str] = ()
    headers: Sequence[Headers] = ()
    keys: Sequence[bytes | None] = ()

    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return all columns, in order."""
        return self.positions, self.bodies, self.content_types, self.headers, self.keys

    def split(self, position: int) -> tuple[Self, Self]:
        """Return what ends at a position or before it, and what is behind it."""
        count = bisect_right(self.positions, position)
        return self.part(0, count), self.part(count)


@dataclass(frozen=True, slots=True)
class Replies(_Columns[Reply]):
    """Messages for askers, in the order of their deliveries, column by column: see `Reply`.

    Raises:
        InputError: The columns differ in length.
    """

    _row = Reply

    bodies: Sequence[bytes] = ()
    content_types: Sequence[str] = ()
    headers: Sequence[Headers] = ()
    keys: Sequence[bytes | None] = ()
    rejected: Sequence[Rejected | None] = ()

    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return all columns, in order."""
        return self.bodies, self.content_types, self.headers, self.keys, self.rejected


class Commit(NamedTuple):
    """All that becomes visible together.

    Attributes:
        replies: In the order of their deliveries, one for each.
        ledger: Encoded public ledger events, in order.
        position: Position after the last delivery these replies belong to.
        metadata: At most `METADATA_LIMIT` bytes, handed back by `Sink.open`; opaque to the connector.
    """

    replies: Replies
    ledger: Sequence[bytes]
    position: int
    metadata: bytes

    @classmethod
    def joined(cls, commits: Sequence[Self]) -> Self:
        """Return what makes all of some commits durable together; at least one."""
        last = commits[-1]
        ledger = list(chain.from_iterable(commit.ledger for commit in commits))
        return cls(Replies.joined([commit.replies for commit in commits]), ledger, last.position, last.metadata)


class Committed(NamedTuple):
    """The last durable commit's position and metadata."""

    position: int
    metadata: bytes


class Lag(NamedTuple):
    """How far the answers are behind the stream.

    Attributes:
        records: Messages that are there and whose answers are not committed yet; on a log with gaps an upper bound.
        seconds: Age of the oldest of them, 0.0 if there is none, None if it is not known.
    """

    records: int
    seconds: float | None


class LogReader(Protocol):
    """A log that is read beside the daemon, by what is in it now; nothing is committed to it."""

    async def open(self, position: int) -> None:
        """Make the next `read` start behind a position (0: at the beginning).

        Raises:
            SourceError: What lies behind it is gone, or cannot be read.
            BusError: The bus does not answer.
        """

    async def read(self) -> Sequence[tuple[int, bytes | None]]:
        """Return some of what there is now, each body with the position behind it; nothing at the end for now.

        Raises:
            SourceError: It cannot be read.
            BusError: The bus does not answer.
        """

    async def close(self) -> None:
        """Let go of it."""


class Source(Protocol):
    """A replayable, totally ordered stream of messages."""

    @property
    def exhausted(self) -> bool:
        """True once the stream has ended for good and every delivery was fetched; never True on a live bus."""

    async def open(self, position: int | None) -> None:
        """Make the next `fetch` start behind `position` (None or 0: at the beginning).

        Raises:
            SourceError: The records behind `position` cannot be read again, or it is below 0; the text has the number.
            BusError: The bus does not answer.
        """

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """Return up to `limit` deliveries that are there, waiting up to `wait` seconds for the first; else empty.

        All of them are held in memory at once: what is returned is bounded in bytes too, but for a single delivery.

        Cancelling a waiting `fetch` loses nothing: the next one returns what this one would have.

        Raises:
            SourceError: The source is not open, or what was there before is gone.
            BusError: The bus does not answer, or does not hand over what is there.
        """

    def lag(self) -> Lag | None:
        """Return how far the answers are behind, by what is known without asking anybody; None if that is nothing.

        It never waits, and may be asked at any time: before `open` and after `close` too, where it is None.
        """

    async def close(self) -> None:
        """Release what is held. It may never be called (kill -9), so nothing may depend on it."""


class Sink(Protocol):
    """Where replies and ledger events become visible, atomically with the position."""

    async def open(self) -> Committed | None:
        """Undo whatever a crash left half-written and return the last durable commit (None: there is none).

        Where several processes can reach it, whoever opened it before can commit nothing from then on.

        Raises:
            StorageError: What was committed cannot be read.
            BusError: The bus does not answer.
        """

    @property
    def in_doubt(self) -> Committed | None:
        """After `open`: a commit beyond the durable ones, parts of which somebody may have seen; else None.

        Its answers must be given again before any others, and from the same messages: `metadata` tells.
        """
        return None  # as of most, of which nobody sees what is not durable

    async def commit(self, commit: Commit) -> None:
        """Make all of `commit` durable, or nothing of it. After it was cancelled only `open` tells which.

        Raises:
            InputError: The metadata is longer than `METADATA_LIMIT`; nothing was written.
            StorageError: The sink is not open, or it could not be written; the earlier commits stand untouched.
            BusError: The bus does not answer, so it may stand or not: `open` tells.
            FencedError: Somebody else has opened the sink since.
        """

    async def close(self) -> None:
        """Release what is held. It may never be called."""
