"""Topics that exist, brought to what new ones are made with: what of them differs, and changing it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aiokafka import AIOKafkaClient, errors
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Schema, String

from connectors.kafka.client import admin
from connectors.kafka.internals import connections
from connectors.kafka.metadata import MAX_BYTES, ask_any
from connectors.kafka.rights import grant
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import (
    COMPACT,
    COMPRESSION,
    IN_SYNC,
    POLICY,
    TopicFacts,
    compressed,
    describe,
    wanted_configs,
)
from connectors.retry import Backoff, retry
from oracle.errors import BusError, RefusedError

__all__ = ["Change", "alter", "changes"]

_TOPIC: Final = 2
_SET: Final = 0
_RETENTION: Final = "retention.ms"
_RETENTION_BYTES: Final = "retention.bytes"
_FOR_EVER: Final = "-1"
_REPORT_SECONDS: Final = 0.1

_text = String("utf-8")


class _AlterResponse(Response):
    """IncrementalAlterConfigs, version 0 (KIP-339): what it does not name stays, unlike with AlterConfigs."""

    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(
                ("error_code", Int16),
                ("error_message", _text),
                ("resource_type", Int8),
                ("resource_name", _text),
            ),
        ),
    )


class _AlterRequest0(RequestStruct):
    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = _AlterResponse
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", _text),
                ("configs", Array(("name", _text), ("operation", Int8), ("value", _text))),
            ),
        ),
        ("validate_only", Boolean),
    )


class _AlterRequest(Request[_AlterRequest0]):
    API_KEY = 44

    def __init__(self, wanted: Sequence["Change"], *, only_ask: bool) -> None:
        self._wanted = wanted
        self._only_ask = only_ask

    def build(self, request_struct_class: type[_AlterRequest0]) -> _AlterRequest0:
        topics = dict.fromkeys(change.topic for change in self._wanted)
        resources = [
            (_TOPIC, topic, [(one.name, _SET, one.value) for one in self._wanted if one.topic == topic])
            for topic in topics
        ]
        return request_struct_class(resources, self._only_ask)


class Change(NamedTuple):
    """One setting of a topic.

    Attributes:
        value: What it is to be.
        before: What it is.
    """

    topic: str
    name: str
    value: str
    before: str


def changes(settings: KafkaSettings, facts: Mapping[str, TopicFacts], shards: int, largest_reply: int) -> list[Change]:
    """Return what of a model's topics differs from what new ones are made with, where that asks for more.

    The query topic keeps its records for as long as it does, or longer; what is large enough, or stricter, stays.
    Numbers of partitions and of copies are no settings. Topics whose settings we may not see are left out.
    """
    wanted = wanted_configs(settings, facts, shards, largest_reply)
    return [
        Change(topic, name, value, facts[topic].configs[name])
        for topic, set_to in wanted.items()
        if topic in facts
        for name, value in _fitting(settings, topic, facts[topic], set_to)
        if name in facts[topic].configs
    ] + [
        Change(topic, COMPRESSION, "producer", kind)
        for topic, kind in compressed((settings.answers, *sorted(settings.reply_topics)), facts).items()
        if settings.compression == "none"
    ]


def _fitting(
    settings: KafkaSettings, topic: str, found: TopicFacts, set_to: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    is_query = topic == settings.topic
    for name, value in set_to.items():
        now = found.configs.get(name, "")
        if name in {MAX_BYTES, IN_SYNC}:
            differs = now.isdigit() and int(now) < int(value)
        elif name == POLICY:
            differs = COMPACT not in now
        elif name == COMPRESSION:
            differs = now != value and not (is_query and settings.compressed)
        elif name == _RETENTION:
            differs = now != _FOR_EVER
        else:
            differs = is_query and now != value
        if differs:
            yield name, value
    if is_query and COMPACT in found.configs.get(POLICY, ""):  # by key: a query would be deleted for a later one
        yield POLICY, "delete"
        if found.configs[POLICY] == COMPACT and found.configs.get(_RETENTION_BYTES) != _FOR_EVER:
            yield _RETENTION_BYTES, _FOR_EVER  # which nothing was deleted by so far


async def alter(settings: KafkaSettings, wanted: Sequence[Change]) -> dict[str, TopicFacts]:
    """Make changes, all of them or, as far as the brokers can tell before, none; return the topics as they are then.

    Raises:
        RefusedError: The brokers do not let us, or take such a setting not; the message says which.
        BusError: They do not answer, or do not report the changes in time.
    """
    async with admin(settings, "topics") as client:
        for only_ask in (True, False):
            await _send(connections(client), settings, wanted, only_ask=only_ask)

    async def reported() -> dict[str, TopicFacts]:
        facts = await describe(settings)
        for change in wanted:
            if facts[change.topic].configs.get(change.name) != change.value:
                raise BusError(f"topic {change.topic}: was altered, but the brokers do not report it yet; try again")
        return facts

    pauses = Backoff(_REPORT_SECONDS, 10 * _REPORT_SECONDS)
    return await retry(reported, BusError, seconds=settings.request_seconds, backoff=pauses)


async def _send(client: AIOKafkaClient, settings: KafkaSettings, wanted: Sequence[Change], *, only_ask: bool) -> None:
    response = await ask_any(client, _AlterRequest(wanted, only_ask=only_ask), "alter single settings")
    for code, message, _, topic in response.resources:
        error = errors.for_code(code)
        if error is errors.TopicAuthorizationFailedError:
            raise RefusedError(f"the brokers deny {grant(settings, 'AlterConfigs', 'topic', topic)}")
        if error is not errors.NoError:
            raise RefusedError(f"topic {topic}: cannot be altered: {message or error.__name__}")
