"""What one commit writes: records, topic by topic, in the client's batches."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from aiokafka.producer.message_accumulator import BatchBuilder

from connectors.base import JSON, Commit, Replies
from connectors.kafka.internals import fill
from connectors.kafka.metadata import MAX_BYTES
from connectors.kafka.progress import Asked
from connectors.kafka.reply_headers import dead_letter, reply_headers, reply_topic
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, StorageError

__all__ = ["CommitBatches", "named_topics"]

_PLAIN: Final = reply_headers(JSON, ())

_CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

_FRAME: Final = 256
"""Bytes of a batch with one record, without its key, body and further headers, rounded up."""

_HEADER_FRAME: Final = 10
"""Bytes of a header without its name and value, rounded up."""

_Run = tuple[str, list[tuple[str, bytes]], Sequence[bytes | None], Sequence[bytes]]
"""Topic, headers of all, keys, bodies."""


class CommitBatches:
    """Makes the batches of a partition's commits.

    An answer that its topic does not take, however alone, is given up, and noted among the dead letters.

    Args:
        batch_bytes: Most bytes of a batch for a topic, where that is known.
        tell: Called with why, where an answer is given up.

    Attributes:
        given_up: How many answers of the last commit were too large.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        partition: int,
        counts: Mapping[str, int],
        batch_bytes: Mapping[str, int],
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.given_up = 0
        self._tell = tell
        self._batch_bytes = batch_bytes
        self._settings = settings
        self._partition = partition
        self._counts = counts
        self._where = f"answers of topic {settings.topic}, partition {partition}"

    def batches(
        self, commit: Commit, now: int, unavailable: Collection[str], asked: Asked
    ) -> Iterable[tuple[str, int, BatchBuilder]]:
        """Yield (topic, partition, batch), each topic's in order.

        Args:
            commit: What to write.
            now: The records' time (ms).
            unavailable: Reply topics that nothing is written to; dead letters are, instead of those replies.
            asked: Tells what the replies answer.
        """
        self.given_up = 0
        batches: dict[str, BatchBuilder] = {}
        for topic, headers, keys, bodies in self._runs(commit, now, unavailable, asked):
            batch = batches.get(topic)
            if batch is None:
                batch = batches[topic] = self._new_batch(topic)
            done = fill(batch, zip(keys, bodies, strict=True), now, headers)
            while done < len(bodies):
                yield topic, self.partition_of(topic), batch
                batch = batches[topic] = self._new_batch(topic)
                more = fill(batch, zip(keys[done:], bodies[done:], strict=True), now, headers)
                if not more:
                    size = len(bodies[done])
                    raise StorageError(f"{self._where}: a message of {size} bytes does not fit in a batch")
                done += more
        for topic, batch in batches.items():
            yield topic, self.partition_of(topic), batch

    def _new_batch(self, topic: str) -> BatchBuilder:
        most = self._settings.batch_bytes
        codec = _CODECS[self._settings.compression]
        return BatchBuilder(min(self._batch_bytes.get(topic, most), most), codec, is_transactional=1)

    def partition_of(self, topic: str) -> int:
        """Return the partition that this shard writes to: one, so that its answers stay in order."""
        count = self._counts.get(topic, 0)
        if not count:
            raise BusError(f"topic {topic}: has no partitions")
        return self._partition % count

    def _runs(self, commit: Commit, now: int, unavailable: Collection[str], asked: Asked) -> Iterable[_Run]:
        """Yield records in runs of one topic and the same headers: most answers differ in their bodies only."""
        replies, start = commit.replies, 0
        for number in sorted({*_apart(replies), *self._too_large(replies)}):
            yield from self._together(replies.part(start, number))
            yield from self._alone(replies, number, unavailable, asked)
            start = number + 1
        yield from self._together(replies.part(start))
        settings = self._settings
        if settings.ledger is not None and commit.ledger:
            about = [*_PLAIN, ("model", settings.model.encode()), ("partition", b"%d" % self._partition)]
            # Compaction keeps the last record of a key: each event has one of its own, also those of two starts that no
            # query came between, which are equal but for the time.
            prefix = f"{settings.topic}/{self._partition}/{commit.position}/{now}"
            keys = [f"{prefix}-{number}".encode() for number in range(len(commit.ledger))]
            yield settings.ledger, about, keys, commit.ledger

    def _together(self, replies: Replies) -> Iterable[_Run]:
        """Yield replies that differ in their keys and bodies only."""
        if replies:
            headers = reply_headers(replies.content_types[0], ())
            yield self._settings.answers, headers, replies.keys, replies.bodies

    def _alone(self, replies: Replies, number: int, unavailable: Collection[str], asked: Asked) -> Iterable[_Run]:
        """Yield one reply, or the note that it was given up; and the note on its query if that was rejected."""
        settings = self._settings
        body, content_type, headers, key, rejected = next(replies.part(number, number + 1).rows())
        topic = reply_topic(headers, settings.reply_topics, settings.answers)
        kept = reply_headers(content_type, headers, settings.model)
        lost = topic in unavailable
        if not lost and not self._fits(topic, key, body, kept):
            lost, self.given_up = True, self.given_up + 1
            most = self._batch_bytes[topic]
            self._tell(f"topic {topic}: {MAX_BYTES} = {most}: an answer is larger, and is dropped; raise it")
        if not lost:
            yield topic, kept, [key], [body]
        if settings.dead_letter is None:
            return
        noted = key if settings.dead_letter_bodies else None  # it may be as private as the body
        if lost:
            offset, query = asked()[number]
            yield self._note(noted, "undelivered", offset, query or b"", reply_topic=topic)
        if rejected is not None:
            yield self._note(noted, rejected.reason, rejected.position - 1, rejected.body)

    def _note(self, key: bytes | None, reason: str, offset: int, body: bytes, **more: str) -> _Run:
        """Return a note on a query, with all of it if that is wanted and its topic takes it."""
        settings, topic = self._settings, self._settings.dead_letter or ""
        query = (settings.topic, self._partition, offset)
        note = dead_letter(reason, query, body, bodies=settings.dead_letter_bodies, **more)
        if not self._fits(topic, key, note, _PLAIN):
            key, note = None, dead_letter(reason, query, body, bodies=False, **more)
        return topic, _PLAIN, [key], [note]

    def _too_large(self, replies: Replies) -> list[int]:
        """Return the numbers of those replies that may be larger than their topics take."""
        named = (self._settings.answers, *self._settings.reply_topics)
        least = min((self._batch_bytes[name] for name in named if name in self._batch_bytes), default=None)
        if least is None or not replies:
            return []
        longest = max(map(len, replies.bodies)) + max(map(len, filter(None, replies.keys)), default=0)
        if longest + _FRAME <= least and replies.headers.count(()) == len(replies):
            return []  # most commits
        model, found = self._settings.model, []
        each = zip(replies.bodies, replies.keys, replies.content_types, replies.headers, strict=True)
        for number, (body, key, kind, headers) in enumerate(each):
            if _bound(key, body, reply_headers(kind, headers, model) if headers else ()) > least:
                found.append(number)
        return found

    def _fits(self, topic: str, key: bytes | None, body: bytes, headers: list[tuple[str, bytes]]) -> bool:
        """Return whether a topic takes a record alone in its batch, not compressed, as far as its limit is known."""
        most = self._batch_bytes.get(topic)
        if most is None or _bound(key, body, headers) <= most:
            return True
        batch = BatchBuilder(most, 0, is_transactional=1)
        fill(batch, [(key, body)], 0, headers)
        return batch.size() <= most


def _bound(key: bytes | None, body: bytes, headers: Iterable[tuple[str, bytes]]) -> int:
    """Return the bytes of a batch with one record, rounded up."""
    named = sum(4 * len(name) + len(value) + _HEADER_FRAME for name, value in headers)  # UTF-8 has up to 4 a letter
    return _FRAME + len(key or b"") + len(body) + named


def named_topics(replies: Replies, settings: KafkaSettings) -> dict[str, int]:
    """Return the reply topics that replies go to, and how many go to each."""
    found: dict[str, int] = {}
    if not settings.reply_topics:
        return found
    for headers in filter(None, replies.headers):
        topic = reply_topic(headers, settings.reply_topics, settings.answers)
        if topic != settings.answers:
            found[topic] = found.get(topic, 0) + 1
    return found


def _apart(replies: Replies) -> list[int]:
    """Return the numbers of those replies that are not as the first one, or as it should be: without headers."""
    kinds, headers, rejected = replies.content_types, replies.headers, replies.rejected
    if not replies or headers.count(()) == rejected.count(None) == kinds.count(kinds[0]) == len(replies):
        return []  # most commits
    each = enumerate(zip(kinds, headers, rejected, strict=True))
    return [number for number, (kind, kept, reason) in each if kept or reason or kind != kinds[0]]
