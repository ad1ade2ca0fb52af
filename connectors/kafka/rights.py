"""What the brokers' access rules withhold from us: asked for, so that nothing is written, fenced or committed."""

import shlex
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final

from aiokafka import errors
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import AddOffsetsToTxnRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from connectors.kafka.client import admin, transactional_id
from connectors.kafka.errors import translated
from connectors.kafka.patience import until_there
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, RefusedError

__all__ = ["check_rights"]

_READ: Final = 3
_WRITE: Final = 4
_CONFIGS: Final = 10
_NAMES: Final = {_READ: "Read", _WRITE: "Write", _CONFIGS: "DescribeConfigs"}
_TRANSACTION: Final = 1
"""The kind of coordinator that keeps transactions."""

_NOBODY: Final = -1
"""The producer id, and its epoch, of nobody: what is asked in its name is checked for the right to ask, and refused."""

_TOLD: Final = frozenset(
    {
        errors.TransactionalIdAuthorizationFailed,
        errors.GroupAuthorizationFailedError,
        errors.InvalidProducerIdMapping,  # from here on the rights were there, and nobody was told so
        errors.InvalidProducerEpoch,
        errors.ProducerFenced,
        errors.InvalidTxnState,
    }
)

_text = String("utf-8")


class _MetadataResponse(Response):  # type: ignore[misc]  # no types
    """Metadata, version 8: the first that tells what the asker may do."""

    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", _text), ("port", Int32), ("rack", _text))),
        ("cluster_id", _text),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", _text),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _MetadataRequest8(RequestStruct):  # type: ignore[misc]  # no types
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", Array(_text)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _MetadataRequest(Request[_MetadataRequest8]):  # type: ignore[misc]  # no types
    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_MetadataRequest8]) -> _MetadataRequest8:
        return request_struct_class(self._topics, False, False, True)  # noqa: FBT003 -- in the order of the schema


async def check_rights(settings: KafkaSettings, partitions: int) -> None:
    """Refuse rules under which a daemon could not read queries, write what it writes, or commit.

    Args:
        settings: The topics, of which those that there are are looked at, and the group.
        partitions: Of the query topic; each has a transactional id of its own.

    Raises:
        RefusedError: Something is withheld; the message says how to grant it.
        BusError: The brokers do not answer, or are too old to be asked.
    """
    async with admin(settings) as client:
        with translated("access rules"):
            missing = [text async for text in _withheld(client._client, settings, partitions)]  # noqa: SLF001
    if missing:
        raise RefusedError("the brokers withhold " + "; and ".join(missing))


async def _withheld(client: Any, settings: KafkaSettings, partitions: int) -> AsyncIterator[str]:  # noqa: ANN401
    for name, operation in await _withheld_topics(client, settings):
        yield _what_to_do(settings, _NAMES[operation], "topic", name)
    refused: set[type[Exception]] = set()
    for partition in range(partitions):
        name = transactional_id(settings, partition)
        refused.add(
            await until_there(partial(_commit_as_nobody, client, name, settings.group), settings.request_seconds)
        )
    if errors.TransactionalIdAuthorizationFailed in refused:
        yield _what_to_do(
            settings, "Write", "transactional id", f"{settings.group}-", "--resource-pattern-type prefixed"
        )
    if errors.GroupAuthorizationFailedError in refused:
        yield _what_to_do(settings, "Read", "group", settings.group)


async def _withheld_topics(client: Any, settings: KafkaSettings) -> list[tuple[str, int]]:  # noqa: ANN401 -- no types
    needed = {settings.topic: _READ} | dict.fromkeys(settings.written, _WRITE)
    try:
        response = await client.send(client.get_random_node(), _MetadataRequest(list(needed)))
    except NotImplementedError as exc:
        raise BusError("access rules: the brokers are too old to tell them (before Kafka 2.3)") from exc
    allowed = dict(_allowed(response))
    return [
        (name, operation)
        for name, own in needed.items()
        for operation in (own, _CONFIGS)
        if name in allowed and not allowed[name] >> operation & 1
    ]


def _allowed(response: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 -- no types
    """Yield the topics that there are, with a bit for each operation that we are allowed."""
    for code, name, _, _, operations in response.topics:
        if code == errors.UnknownTopicOrPartitionError.errno:
            continue
        if code not in {0, errors.TopicAuthorizationFailedError.errno}:
            raise errors.for_code(code)(name)
        yield name, 0 if code else operations


async def _commit_as_nobody(client: Any, name: str, group: str) -> type[Exception]:  # noqa: ANN401 -- no types
    """Ask to commit offsets of the group in a transaction of nobody; return the error that it is refused with.

    The brokers look first whether we may write under the id, then whether we may read in the group, then who it is that
    asks: the producer id of nobody is never that of a transaction, so that none is touched.
    """
    found = await client.send(client.get_random_node(), FindCoordinatorRequest(name, _TRANSACTION))
    error: type[Exception] = errors.for_code(found.error_code)
    if error is errors.NoError:
        asked = AddOffsetsToTxnRequest(name, _NOBODY, _NOBODY, group)
        error = errors.for_code((await client.send(found.coordinator_id, asked)).error_code)
    if error not in _TOLD:
        raise error(name)
    return error


def _what_to_do(settings: KafkaSettings, operation: str, kind: str, name: str, more: str = "") -> str:
    who = f"User:{settings.security.sasl.username if settings.security.sasl else 'NAME'}"
    command = [
        *("kafka-acls", "--bootstrap-server", settings.servers[0], "--add", "--allow-principal", who),
        *("--operation", operation, f"--{kind.replace(' ', '-')}", name),
    ]
    return f"{operation} on {kind} {name}; grant it: {' '.join([shlex.join(command), more]).strip()}"
