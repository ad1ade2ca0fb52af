"""A model's topics: what they must be like, whether they are, and making those that are missing."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from aiokafka import errors
from aiokafka.admin import NewPartitions, NewTopic

from connectors.kafka.client import admin
from connectors.kafka.internals import connections
from connectors.kafka.marks import MARK_CONFIG
from connectors.kafka.metadata import MAX_BYTES, configs, look
from connectors.kafka.settings import KafkaSettings
from connectors.retry import Backoff, retry
from oracle.errors import BusError, RefusedError

__all__ = [
    "COMPACT",
    "COMPRESSION",
    "DEFAULT_MESSAGE_BYTES",
    "IN_SYNC",
    "POLICY",
    "TopicFacts",
    "check",
    "compressed",
    "count_partitions",
    "describe",
    "describe_made",
    "grow",
    "make_missing",
    "notes",
    "other_partitions",
    "problems",
    "wanted_configs",
]

DEFAULT_MESSAGE_BYTES = 1_048_588
"""What a topic takes if it does not say otherwise: Kafka's own default of max.message.bytes."""

POLICY = "cleanup.policy"
IN_SYNC = "min.insync.replicas"
COMPRESSION = "compression.type"
_UNCOMPRESSED = "uncompressed"
_NOTE_BYTES = 2048
_EVENT_BYTES = 4096
_MARK_BYTES = 1536
_SPARED_COPIES = 3
"""Copies of a record from which on one may be away while it is written, and another one has it."""

_REPLY_BYTES = 1024
"""Of the smallest replies."""

COMPACT = "compact"
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic as the brokers have it."""

    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    copies: int = 1

    @property
    def message_bytes(self) -> int:
        """Largest batch that it takes, and so the largest record."""
        return int(self.configs.get(MAX_BYTES, str(DEFAULT_MESSAGE_BYTES)))


async def describe(settings: KafkaSettings, *, tolerant: bool = False) -> dict[str, TopicFacts]:
    """Return those of a model's topics that there are; `tolerant` passes over optional ones that we may not look at.

    Raises:
        RefusedError: The brokers do not let us look.
        BusError: The brokers do not answer.
    """
    needed = {settings.topic, *settings.own}
    names = [settings.topic, *settings.written, *filter(None, [settings.marks])]
    async with admin(settings, "topics") as client:
        below = connections(client)
        looks = await look(below, names)
        hidden = {name for name, found in looks.items() if found.there and not found.operations}
        forbidden = hidden - ({settings.marks} if not tolerant else looks.keys() - needed)
        if forbidden:
            raise errors.TopicAuthorizationFailedError(forbidden)
        found = {name: looks[name] for name in names if looks[name].there and name not in hidden}
        set_to = await configs(below, list(found), needed=needed if tolerant else found.keys())
    return {name: TopicFacts(len(one.leaders), set_to.get(name, {}), one.copies) for name, one in found.items()}


async def describe_made(settings: KafkaSettings, made: Collection[str]) -> dict[str, TopicFacts]:
    """Return `describe` as soon as it has these topics: brokers, busy ones above all, report them later than made.

    Raises:
        RefusedError: The brokers do not let us look.
        BusError: They do not report all of them within `KafkaSettings.request_seconds`.
    """

    async def all_there() -> dict[str, TopicFacts]:
        facts = await describe(settings)
        missing = [name for name in made if name not in facts]
        if missing:
            raise BusError(f"topic {missing[0]}: was created, but the brokers do not report it yet; try again")
        return facts

    pauses = Backoff(_REPORT_SECONDS, 10 * _REPORT_SECONDS)
    return await retry(all_there, BusError, seconds=settings.request_seconds, backoff=pauses)


def other_partitions(settings: KafkaSettings, partitions: int, shards: int) -> str:
    """Return what to do where the query topic has more partitions than the state has shards."""
    return (
        f"topic {settings.topic}: has {_counted(partitions, 'partition')}, but the state has "
        f"{_counted(shards, 'shard')}, one for each partition it was made for; queries in the others would get no "
        f"answer. Make a new topic with {_counted(shards, 'partition')}, or a new state: "
        f"perpetua init --shards {partitions}"
    )


async def count_partitions(settings: KafkaSettings) -> int:
    """Return how many partitions the query topic has, 0 if there is none.

    Raises:
        BusError: The brokers do not answer.
    """
    async with admin(settings, f"topic {settings.topic}") as client:
        return len((await look(connections(client), [settings.topic]))[settings.topic].leaders)


async def grow(settings: KafkaSettings, facts: Mapping[str, TopicFacts], partitions: int) -> list[str]:
    """Give the query topic so many partitions, and first its marks and answers as many; return the topics that grew.

    In this order, so that no query comes where nothing can be committed.

    Raises:
        RefusedError: A topic is missing, the query topic has as many already, or the brokers refuse.
        BusError: The brokers do not answer.
    """
    names = [*filter(None, [settings.marks]), settings.answers, settings.topic]
    missing = [name for name in names if name not in facts]
    if missing:
        raise RefusedError(f"topic {missing[0]}: does not exist; create it with `perpetua topics --create`")
    if facts[settings.topic].partitions >= partitions:
        has = _counted(facts[settings.topic].partitions, "partition")
        raise RefusedError(f"topic {settings.topic}: has {has} already, and a topic cannot be made smaller")
    growing = [name for name in names if facts[name].partitions < partitions]
    for name in growing:
        async with admin(settings, f"topic {name}") as client:
            await client.create_partitions({name: NewPartitions(partitions)})
    return growing


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def problems(settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int) -> list[str]:
    """Return what would stop the daemon, or let somebody else stop it, and what to do."""
    found = [
        f"topic {name}: does not exist; create it with `perpetua topics --create` or by hand"
        for name in (settings.topic, *settings.written)
        if name not in facts
    ]

    def need_bytes(name: str | None, least: int, why: str) -> None:
        topic = facts.get(name or "")
        if topic is not None and topic.message_bytes < least:
            found.append(f"topic {name}: {MAX_BYTES} = {topic.message_bytes}: must be at least {least}, {why}")

    def need_compaction(name: str | None, why: str) -> None:
        topic = facts.get(name or "")
        if topic is not None and COMPACT not in topic.configs.get(POLICY, ""):
            found.append(f"topic {name}: {POLICY}: must be compact, so that {why}")

    queries = facts.get(settings.topic)
    if queries is not None and queries.partitions > shards:
        found.append(other_partitions(settings, queries.partitions, shards))
    if queries is not None and not settings.compressed and queries.configs.get(COMPRESSION) != _UNCOMPRESSED:
        found.append(
            f"topic {settings.topic}: {COMPRESSION} = {queries.configs.get(COMPRESSION)}: must be {_UNCOMPRESSED}: a "
            "small message could decompress to one that takes all memory, or stops the shard; where the topic cannot "
            "be changed, and all who may ask are trusted, source.compressed accepts that"
        )
    answers = (settings.answers, *sorted(settings.reply_topics))
    for name in answers:
        need_bytes(name, _REPLY_BYTES, "for any reply; raise it")
    if settings.compression == "none":
        found += [
            f"topic {name}: {COMPRESSION} = {kind}: must be producer or {_UNCOMPRESSED}: the size of compressed "
            "answers would reveal what they say to anyone who sees only sizes; where the topic cannot be changed, "
            "kafka.compression accepts that"
            for name, kind in compressed(answers, facts).items()
        ]
    need_bytes(settings.dead_letter, _NOTE_BYTES, "for notes on queries; raise it")
    need_compaction(settings.ledger, "no event is ever deleted")
    need_bytes(settings.ledger, _EVENT_BYTES, "for ledger events; raise it")
    need_compaction(settings.marks, "our newest mark is never deleted")
    need_bytes(settings.marks, _MARK_BYTES + 3 * len(settings.group + settings.topic), "for our marks; raise it")
    marks = facts.get(settings.marks or "")
    marked = shards if queries is None else min(queries.partitions, shards)
    if marks is not None and marks.partitions < marked:
        found.append(
            f"topic {settings.marks}: has {_counted(marks.partitions, 'partition')}: must have at least {marked}, "
            "one for each shard's marks"
        )
    return found


def compressed(names: Iterable[str], facts: Mapping[str, TopicFacts]) -> dict[str, str]:
    """Return the topics that brokers compress, or may, and how: sizes would tell what answers say."""
    found = {name: facts[name].configs.get(COMPRESSION, "producer") for name in names if name in facts}
    return {name: kind for name, kind in found.items() if kind not in {"producer", _UNCOMPRESSED}}


def notes(settings: KafkaSettings, facts: Mapping[str, TopicFacts], largest_reply: int) -> list[str]:
    """Return what is served as it is, though it costs some askers something; `largest_reply` is in bytes."""
    found = [
        f"topic {name}: {MAX_BYTES} = {facts[name].message_bytes}: a reply may have up to {largest_reply} bytes; those "
        "that are larger are given up, each by itself"
        for name in (settings.answers, *sorted(settings.reply_topics))
        if name in facts and facts[name].message_bytes < largest_reply
    ]
    queries, letters = facts.get(settings.topic), facts.get(settings.dead_letter or "")
    if queries is not None and letters is not None and letters.message_bytes < _largest_note(settings, queries):
        found.append(
            f"topic {settings.dead_letter}: {MAX_BYTES} = {letters.message_bytes}: notes on larger queries do not hold "
            "the query"
        )
    return found


def _largest_note(settings: KafkaSettings, queries: TopicFacts) -> int:
    """Return the bytes of the largest dead letter: with bodies it holds a query in base64."""
    return _NOTE_BYTES + (queries.message_bytes * 4 // 3 if settings.dead_letter_bodies else 0)


def wanted_configs(
    settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int, largest_reply: int, replication: int = 1
) -> dict[str, dict[str, str]]:
    """Return what each of a model's topics is set to when it is made.

    The query topic stores records uncompressed, so that a small message cannot unpack to a large one.
    Of three copies or more, two must have a record before it counts as written.
    """
    # The broker's own times: records whose askers claim an old one would be deleted before the others.
    queries = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
    if not settings.compressed:
        queries[COMPRESSION] = _UNCOMPRESSED
    set_to: dict[str, dict[str, str]] = {settings.topic: queries}
    for name in (settings.answers, *sorted(settings.reply_topics)):
        set_to[name] = {MAX_BYTES: str(max(largest_reply, DEFAULT_MESSAGE_BYTES))}
    if settings.ledger:
        set_to[settings.ledger] = {POLICY: COMPACT, MAX_BYTES: str(DEFAULT_MESSAGE_BYTES)}
    if settings.dead_letter:
        note = _largest_note(settings, facts.get(settings.topic, TopicFacts(shards)))
        set_to[settings.dead_letter] = {MAX_BYTES: str(max(note, DEFAULT_MESSAGE_BYTES))}
    if settings.marks is not None:
        set_to[settings.marks] = {**MARK_CONFIG, MAX_BYTES: str(DEFAULT_MESSAGE_BYTES)}
    for name, own in set_to.items():
        if (facts[name].copies if name in facts else replication) >= _SPARED_COPIES:
            own[IN_SYNC] = "2"
    return set_to


async def make_missing(  # noqa: PLR0913, PLR0917 -- what topics are made by
    settings: KafkaSettings,
    facts: Mapping[str, TopicFacts],
    shards: int,
    largest_reply: int,
    replication: int,
    partitions: int | None = None,
) -> list[str]:
    """Make the topics that are missing, and return their names; see `wanted_configs`.

    The query topic gets a partition for each shard, or as many as are asked for.

    Raises:
        RefusedError: The brokers refuse one.
        BusError: The brokers do not answer.
    """
    set_to = wanted_configs(settings, facts, shards, largest_reply, replication)
    missing = [name for name in set_to if name not in facts]
    own = {settings.topic: partitions or shards, settings.answers: shards}
    if settings.marks is not None:
        own[settings.marks] = max(shards, settings.mark_partitions)
    topics = [
        NewTopic(
            name,
            own.get(name, 1),
            replication,
            topic_configs=set_to[name],
        )
        for name in missing
    ]
    if topics:
        async with admin(settings, "topics") as client:
            response = await client.create_topics(topics)
        for name, code, message in response.topic_errors:
            if code and errors.for_code(code) is not errors.TopicAlreadyExistsError:
                raise RefusedError(f"topic {name}: cannot be created: {message or errors.for_code(code).__name__}")
    return missing


def check(
    settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int, *, tolerant: bool = False
) -> KafkaSettings:
    """Refuse topics with a problem; return the settings to serve them with.

    `tolerant` lets reply topics be as they are: they cost those who name them their answers.

    Raises:
        RefusedError: See `problems`; the first one.
        BusError: There is no query topic (yet).
    """
    found = problems(replace(settings, reply_topics=frozenset()) if tolerant else settings, facts, shards)
    if settings.topic not in facts:
        raise BusError(found[0])
    if found:
        raise RefusedError(found[0])
    if settings.compression != "none":
        return settings
    unfit = {name: f"{COMPRESSION} = {kind}" for name, kind in compressed(settings.reply_topics, facts).items()}
    return replace(settings, unfit=unfit)
