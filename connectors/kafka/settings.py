"""What a Kafka connector is told: where the brokers are, who we are, and which topics are whose."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from connectors.base import JSON
from connectors.kafka.security import Security

__all__ = ["KafkaSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """One model on one cluster.

    Attributes:
        servers: Brokers to begin with, "host:port".
        group: The consumer group; its committed offsets are the model's place in the log.
        shared: Whether other models are in the group too; transactional ids have the topic's name then.
        model: The model's name, in the headers of ledger events.
        reply_topics: Topics that a query's `reply-topic` header may name.
        ledger: Topic of public ledger events; None to drop them.
        dead_letter: Topic of notes on rejected messages; None for none.
        dead_letter_bodies: Whether these notes hold the message itself, which is private.
        first_offset: Where a state that has answered nothing begins, on every partition or by partition (0 for those
            that are not named). Of every state, unanswered queries before it may be missing. "latest" is where the log
            ends when the state is first opened; it is committed with the first commit, and stays.
        stop_at: The first offset that is not answered any more, on every partition or by partition; None for no end.
        compressed: Whether the query topic may hold compressed batches, of which a small one can unpack to a large one.
        marks: Topic of our own marks beside the group's offsets (compacted, a partition for each of the query topic's);
            None for none. It is read and written only where there is a `secret`.
        mark_partitions: How many partitions that topic is made with at least: other models keep theirs on it too.
        secret: Seals the marks and the offsets' metadata, so that nobody else's are taken for ours; None to do without.
        instance: A name for this process that outlives it, so that its restart needs no rebalance; None for none.
        security: How we talk to the brokers; all settings that are made of these share it.
        session_seconds: Silence after which the group takes our partitions away.
        rebalance_seconds: Most time for handing over partitions in a rebalance.
        transaction_seconds: Most time for one transaction; the broker aborts it then.
        request_seconds: Most time for one request.
        metadata_seconds: How soon a changed number of partitions is noticed.
        shards: How many the state has, and so how many partitions the query topic may grow to.
        fetch_bytes: Bytes asked for at once.
        batch_bytes: Largest batch that is written; where a topic takes less (max.message.bytes), no larger than that.
        compression: How batches are compressed; their sizes may then tell what answers say.
        content_type: Of queries whose headers declare none.
        unfit: Reply topics that nothing may be written to as they are, and why.
    """

    servers: tuple[str, ...]
    topic: str
    answers: str
    group: str
    model: str
    shared: bool = False
    reply_topics: frozenset[str] = frozenset()
    ledger: str | None = None
    dead_letter: str | None = None
    dead_letter_bodies: bool = False
    first_offset: int | Literal["latest"] | Mapping[int, int] = 0
    stop_at: int | Mapping[int, int] | None = None
    compressed: bool = False
    marks: str | None = None
    mark_partitions: int = 1
    secret: bytes | None = field(default=None, repr=False)
    instance: str | None = None
    security: Security = field(default_factory=Security)
    session_seconds: float = 10.0
    rebalance_seconds: float = 60.0
    transaction_seconds: float = 30.0
    request_seconds: float = 15.0
    metadata_seconds: float = 30.0
    shards: int = 1
    fetch_bytes: int = 4 << 20
    batch_bytes: int = 768 << 10
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    content_type: str = JSON
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> tuple[str, ...]:
        """The topics without which no commit is possible."""
        return tuple(name for name in (self.answers, self.ledger, self.dead_letter) if name is not None)

    @property
    def written(self) -> tuple[str, ...]:
        """All topics that we may write to."""
        return self.own + tuple(sorted(self.reply_topics))

    def first_offset_of(self, partition: int) -> int | Literal["latest"]:
        """Return where a state that has answered nothing begins on a partition."""
        return self.first_offset.get(partition, 0) if isinstance(self.first_offset, Mapping) else self.first_offset

    def stop_at_of(self, partition: int) -> int | None:
        """Return the first offset of a partition that is left to another model; None if there is none."""
        return self.stop_at.get(partition) if isinstance(self.stop_at, Mapping) else self.stop_at
