"""Which topics there are, who leads them, and what we may do with them: asked so that no broker makes a topic of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaClient, errors
from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from oracle.errors import BusError

__all__ = ["MAX_BYTES", "READ", "WRITE", "TopicLook", "ask_any", "batch_limits", "configs", "look"]

MAX_BYTES: Final = "max.message.bytes"
READ: Final = 3
WRITE: Final = 4

_text = String("utf-8")


class _MetadataResponse(Response):
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


class _MetadataRequest8(RequestStruct):
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", Array(_text)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _MetadataRequest(Request[_MetadataRequest8]):
    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_MetadataRequest8]) -> _MetadataRequest8:
        return request_struct_class(self._topics, False, False, True)  # noqa: FBT003 -- in the order of the schema


@dataclass(frozen=True, slots=True)
class TopicLook:
    """What a broker says of one topic now.

    Attributes:
        there: Whether there is one, as far as we may know.
        leaders: By partition: the broker that leads it, below 0 if none does now.
        copies: How many each partition has.
        in_sync: By partition: how many of them are in sync.
        operations: A bit for each operation that we are allowed.
    """

    there: bool
    leaders: Mapping[int, int]
    copies: int
    in_sync: Mapping[int, int]
    operations: int

    def allows(self, operation: int) -> bool:
        """Return whether we may do that."""
        return bool(self.operations >> operation & 1)


async def ask_any(client: AIOKafkaClient, request: Request[Any], what: str) -> Any:  # noqa: ANN401 -- of the request's kind
    """Send a request to some broker, and return its answer; `what` is it that needs Kafka 2.3.

    Raises:
        KafkaError: An error of the client's.
        BusError: The brokers are too old for it.
    """
    try:
        return await client.send(client.get_random_node(), request)
    except NotImplementedError as exc:
        raise BusError(f"topics: the brokers are too old to {what} (before Kafka 2.3)") from exc


async def look(client: AIOKafkaClient, topics: Sequence[str]) -> dict[str, TopicLook]:
    """Return what a broker says of topics; one that is hidden from us is there, and nothing is allowed.

    Raises:
        KafkaError: An error of the client's.
        BusError: The brokers are too old to be asked.
    """
    response = await ask_any(client, _MetadataRequest(list(topics)), "report our permissions")
    return {name: _read(code, partitions, operations) for code, name, _, partitions, operations in response.topics}


async def configs(
    client: AIOKafkaClient, topics: Sequence[str], names: Sequence[str] | None = None, needed: Collection[str] = ()
) -> dict[str, dict[str, str]]:
    """Return settings of topics, as far as we may see them.

    `names` are those of the settings, None for all; topics of `needed` must let us see theirs.

    Raises:
        KafkaError: An error of the client's, or one of the needed topics cannot be looked at.
    """
    if not topics:
        return {}
    asked = [(ConfigResourceType.TOPIC, topic, names) for topic in topics]
    response = await client.send(client.get_random_node(), DescribeConfigsRequest(resources=asked))
    found: dict[str, dict[str, str]] = {}
    for code, _, _, topic, entries in response.resources:
        if code and topic in needed:
            raise errors.for_code(code)(topic)
        found[topic] = {entry[0]: entry[1] or "" for entry in entries}
    return found


async def batch_limits(client: AIOKafkaClient, topics: Sequence[str]) -> dict[str, int]:
    """Return the bytes of the largest batch that each topic takes, as far as we may see it.

    Raises:
        KafkaError: An error of the client's.
    """
    found = await configs(client, topics, [MAX_BYTES])
    return {name: int(texts[MAX_BYTES]) for name, texts in found.items() if texts.get(MAX_BYTES)}


_HIDDEN: Final = frozenset({0, errors.TopicAuthorizationFailedError.errno})
_MISSING: Final = frozenset({errors.UnknownTopicOrPartitionError.errno, errors.LeaderNotAvailableError.errno})


def _read(code: int, partitions: Sequence[Any], operations: int) -> TopicLook:
    if code not in _HIDDEN | _MISSING:
        raise errors.for_code(code)
    leaders = {part[1]: part[2] if not part[0] else -1 for part in partitions}
    copies = max((len(part[4]) for part in partitions), default=0)
    in_sync = {part[1]: len(part[5]) for part in partitions}
    return TopicLook(code in _HIDDEN, leaders, copies, in_sync, 0 if code else operations)
