"""A model's topics: what they must be like, whether they are, and making those that are missing."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from aiokafka import errors
from aiokafka.admin import NewTopic

from connectors.kafka.client import admin
from connectors.kafka.internals import connections
from connectors.kafka.marks import MARK_CONFIG
from connectors.kafka.metadata import configs, look
from connectors.kafka.settings import KafkaSettings
from connectors.retry import Backoff, retry
from oracle.errors import BusError, RefusedError

__all__ = [
    "DEFAULT_MESSAGE_BYTES",
    "TopicFacts",
    "check",
    "describe",
    "describe_made",
    "fitted",
    "make_missing",
    "other_partitions",
    "problems",
]

DEFAULT_MESSAGE_BYTES = 1_048_588
"""What a topic takes if it does not say otherwise: Kafka's own default of max.message.bytes."""

_MAX_BYTES = "max.message.bytes"
_POLICY = "cleanup.policy"
_COMPRESSION = "compression.type"
_UNCOMPRESSED = "uncompressed"
_NOTE_BYTES = 2048
_EVENT_BYTES = 4096
_COMPACT = "compact"
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic as the brokers have it."""

    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def message_bytes(self) -> int:
        """Largest batch that it takes, and so the largest record."""
        return int(self.configs.get(_MAX_BYTES, str(DEFAULT_MESSAGE_BYTES)))


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
        found = {name: len(looks[name].leaders) for name in names if looks[name].there and name not in hidden}
        set_to = await configs(below, list(found), needed=needed if tolerant else found.keys())
    return {name: TopicFacts(partitions, set_to.get(name, {})) for name, partitions in found.items()}


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
    """Return what to do where the query topic has another number of partitions than the state has shards."""
    return (
        f"topic {settings.topic}: has {_counted(partitions, 'partition')}, but the state has "
        f"{_counted(shards, 'shard')}, one for each partition it was made for; queries in the others would get no "
        f"answer. Make a new topic with {_counted(shards, 'partition')}, or a new state: "
        f"perpetua init --shards {partitions}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def problems(settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int, largest_reply: int) -> list[str]:
    """Return what would stop the daemon, or let somebody else stop it, and what to do; `largest_reply` is in bytes."""
    found = [
        f"topic {name}: does not exist; create it with `perpetua topics --create` or by hand"
        for name in (settings.topic, *settings.written)
        if name not in facts
    ]

    def need_bytes(name: str | None, least: int, why: str) -> None:
        topic = facts.get(name or "")
        if topic is not None and topic.message_bytes < least:
            found.append(f"topic {name}: {_MAX_BYTES} = {topic.message_bytes}: must be at least {least}, {why}")

    def need_compaction(name: str | None, why: str) -> None:
        topic = facts.get(name or "")
        if topic is not None and _COMPACT not in topic.configs.get(_POLICY, ""):
            found.append(f"topic {name}: {_POLICY}: must be compact, so that {why}")

    queries = facts.get(settings.topic)
    if queries is not None and queries.partitions != shards:
        found.append(other_partitions(settings, queries.partitions, shards))
    if queries is not None and queries.configs.get(_COMPRESSION) != _UNCOMPRESSED:
        found.append(
            f"topic {settings.topic}: {_COMPRESSION} = {queries.configs.get(_COMPRESSION)}: must be {_UNCOMPRESSED}: a "
            "small message could decompress to one whose answer fits no topic, which would stop the shard"
        )
    answers = (settings.answers, *sorted(settings.reply_topics))
    for name in answers:
        need_bytes(
            name,
            largest_reply,
            "the size of the largest possible reply; one such query would stop the shard. Raise it, or lower the "
            f"plan's limits.rows, or {_MAX_BYTES} of {settings.topic}",
        )
    found += [
        f"topic {name}: {_COMPRESSION} = {kind}: must be producer or {_UNCOMPRESSED}: the size of compressed answers "
        "would reveal what they say to anyone who sees only sizes"
        for name, kind in _compressed(answers, facts).items()
    ]
    if queries is not None:
        why = "for notes on the largest query; raise it, or leave out sink.dead_letter_bodies"
        need_bytes(settings.dead_letter, _largest_note(settings, queries), why)
    need_compaction(settings.ledger, "no event is ever deleted")
    need_bytes(settings.ledger, _EVENT_BYTES, "for ledger events; raise it")
    need_compaction(settings.marks, "our newest mark is never deleted")
    marks = facts.get(settings.marks or "")
    if marks is not None and marks.partitions < shards:
        found.append(
            f"topic {settings.marks}: has {_counted(marks.partitions, 'partition')}: must have at least {shards}, "
            "one for each shard's marks"
        )
    return found


def _compressed(names: Iterable[str], facts: Mapping[str, TopicFacts]) -> dict[str, str]:
    """Return the topics that brokers compress, or may, and how: sizes would tell what answers say."""
    found = {name: facts[name].configs.get(_COMPRESSION, "producer") for name in names if name in facts}
    return {name: kind for name, kind in found.items() if kind not in {"producer", _UNCOMPRESSED}}


def fitted(settings: KafkaSettings, facts: Mapping[str, TopicFacts]) -> KafkaSettings:
    """Return settings whose batches every topic that may be written to takes.

    Single records above that are let be: `problems` has seen to it that our own topics take them.
    """
    limits = [facts[name].message_bytes for name in settings.own if name in facts]
    return replace(settings, batch_bytes=min((settings.batch_bytes, *limits)))


def _largest_note(settings: KafkaSettings, queries: TopicFacts) -> int:
    """Return the bytes of the largest dead letter: with bodies it holds a query in base64."""
    return _NOTE_BYTES + (queries.message_bytes * 4 // 3 if settings.dead_letter_bodies else 0)


async def make_missing(
    settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int, largest_reply: int, replication: int
) -> list[str]:
    """Make the topics that are missing, and return their names.

    The query topic stores records uncompressed, so that a small message cannot unpack to a large one.

    Raises:
        RefusedError: The brokers refuse one.
        BusError: The brokers do not answer.
    """
    sizes = {_MAX_BYTES: str(max(largest_reply, DEFAULT_MESSAGE_BYTES))}
    # The broker's own times: records whose askers claim an old one would be deleted before the others.
    queries = {_COMPRESSION: _UNCOMPRESSED, "retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
    set_to: dict[str, Mapping[str, str]] = {settings.topic: queries}
    set_to |= dict.fromkeys((settings.answers, *settings.reply_topics), sizes)
    if settings.ledger:
        set_to[settings.ledger] = {_POLICY: _COMPACT}
    if settings.dead_letter:
        note = _largest_note(settings, facts.get(settings.topic, TopicFacts(shards)))
        set_to[settings.dead_letter] = {_MAX_BYTES: str(max(note, DEFAULT_MESSAGE_BYTES))}
    wanted = (settings.topic, *settings.written)
    if settings.marks is not None:
        wanted += (settings.marks,)
        set_to[settings.marks] = MARK_CONFIG
    missing = [name for name in wanted if name not in facts]
    own = dict.fromkeys((settings.topic, settings.answers), shards)
    if settings.marks is not None:
        own[settings.marks] = max(shards, settings.mark_partitions)
    topics = [
        NewTopic(
            name,
            own.get(name, 1),
            replication,
            topic_configs=dict(set_to[name]),
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
    settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int, largest_reply: int, *, tolerant: bool = False
) -> KafkaSettings:
    """Refuse topics with a problem; return the settings to serve them with, see `fitted`.

    `tolerant` lets reply topics be as they are: they cost those who name them their answers.

    Raises:
        RefusedError: See `problems`; the first one.
        BusError: There is no query topic (yet).
    """
    found = problems(
        replace(settings, reply_topics=frozenset()) if tolerant else settings, facts, shards, largest_reply
    )
    if settings.topic not in facts:
        raise BusError(found[0])
    if found:
        raise RefusedError(found[0])
    unfit = {name: f"{_COMPRESSION} = {kind}" for name, kind in _compressed(settings.reply_topics, facts).items()}
    return replace(fitted(settings, facts), unfit=unfit)
