"""Who is in the consumer group."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from aiokafka import errors
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest

from connectors.kafka.client import CLIENT_ID, admin
from connectors.kafka.deadlines import until_there
from connectors.kafka.errors import translated
from connectors.kafka.settings import KafkaSettings

__all__ = ["Member", "listed", "members", "strangers"]

_LONGEST: Final = 100
"""Letters of a client's own name that are shown."""

_GROUP: Final = 0
"""The kind of coordinator that keeps groups."""


class Member(NamedTuple):
    """A member of the group.

    Attributes:
        client: What it calls itself.
        host: Where it connects from.
    """

    client: str
    host: str


async def members(settings: KafkaSettings) -> Sequence[Member]:
    """Return the group's members, ours too.

    Raises:
        RefusedError: The brokers do not let us look.
        BusError: The brokers do not answer.
    """
    async with admin(settings) as client:
        with translated(f"group {settings.group}"):
            return await until_there(lambda: _ask(client._client, settings.group), settings.request_seconds)  # noqa: SLF001


def listed(found: Sequence[Member]) -> str:
    """Return members in words."""
    return ", ".join(f"{client[:_LONGEST]!r} at {host.lstrip('/')}" for client, host in sorted(set(found)))


async def strangers(client: Any, settings: KafkaSettings) -> str | None:  # noqa: ANN401 -- no types
    """Return who is in the group and does not call itself Perpetua, in words; None if nobody is.

    Args:
        client: The client's own, below its consumer.
        settings: Names the group.

    Raises:
        KafkaError: An error of the client's.
    """
    found = [member for member in await _ask(client, settings.group) if member.client != CLIENT_ID]
    if not found:
        return None
    return (
        f"group {settings.group}: somebody else is a member of it: {listed(found)}; partitions of topic "
        f"{settings.topic} that the group gives it are answered by nobody. Give it a group of its own"
    )


async def _ask(client: Any, group: str) -> list[Member]:  # noqa: ANN401 -- no types
    found = await client.send(client.get_random_node(), FindCoordinatorRequest(group, _GROUP))
    _refuse(found.error_code)
    (described,) = (await client.send(found.coordinator_id, DescribeGroupsRequest([group]))).to_object()["groups"]
    _refuse(described["error_code"])
    return [Member(member["client_id"], member["client_host"]) for member in described["members"]]


def _refuse(code: int) -> None:
    if code:
        raise errors.for_code(code)
