"""What the coordinator of a consumer group says and does: who is in the group, and who is in it no more."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from aiokafka import AIOKafkaClient, errors
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import LeaveGroupRequest

from connectors.kafka.client import CLIENT_ID, admin
from connectors.kafka.internals import connections
from connectors.kafka.settings import KafkaSettings
from connectors.retry import Backoff, retry

__all__ = ["Member", "foreign_members", "listed", "members", "remove", "until_coordinated"]

_Answer = TypeVar("_Answer")

_LONGEST: Final = 100
"""Letters of a client's own name that are shown."""

_GROUP: Final = 0
"""The kind of coordinator that keeps groups."""

_NOT_YET: Final = (
    errors.GroupCoordinatorNotAvailableError,
    errors.GroupLoadInProgressError,
    errors.NotCoordinatorForGroupError,
)


class Member(NamedTuple):
    """A member of the group."""

    client: str
    host: str


async def until_coordinated(ask: Callable[[], Awaitable[_Answer]], seconds: float) -> _Answer:
    """Ask until there is a coordinator that answers: a new cluster makes its own topics when it is first asked.

    Raises:
        KafkaError: Any error of the client's, also that there is no coordinator after so many seconds.
    """
    return await retry(ask, _NOT_YET, seconds=seconds, backoff=Backoff(0.1, 1.0))


async def members(settings: KafkaSettings) -> Sequence[Member]:
    """Return the group's members, ours too.

    Raises:
        RefusedError: The brokers do not let us look.
        BusError: The brokers do not answer.
    """
    async with admin(settings, f"group {settings.group}") as client:
        return await until_coordinated(lambda: _ask(connections(client), settings.group), settings.request_seconds)


def listed(found: Sequence[Member]) -> str:
    """Return members in words."""
    return ", ".join(f"{client[:_LONGEST]!r} at {host.lstrip('/')}" for client, host in sorted(set(found)))


async def foreign_members(client: AIOKafkaClient, settings: KafkaSettings) -> str | None:
    """Return who is in the group and does not call itself Perpetua, in words; None if nobody is.

    Raises:
        KafkaError: An error of the client's.
    """
    found = [member for member in await _ask(client, settings.group) if member.client != CLIENT_ID]
    if not found:
        return None
    return (
        f"group {settings.group}: another application is a member: {listed(found)}; nobody answers the partitions "
        "that are assigned to it. Give it a group of its own"
    )


async def remove(client: AIOKafkaClient, settings: KafkaSettings, ended: Iterable[str]) -> None:
    """Take members out of the group, by the ids that it gave them, as if they had left; one that goes on joins again.

    Raises:
        KafkaError: An error of the client's.
    """

    async def ask() -> None:
        coordinator = await _coordinator(client, settings.group)
        for member in ended:
            code = (await client.send(coordinator, LeaveGroupRequest(settings.group, member))).error_code
            if code != errors.UnknownMemberIdError.errno:
                _check(code)

    await until_coordinated(ask, settings.request_seconds)


async def _ask(client: AIOKafkaClient, group: str) -> list[Member]:
    coordinator = await _coordinator(client, group)
    (described,) = (await client.send(coordinator, DescribeGroupsRequest([group]))).to_object()["groups"]
    _check(described["error_code"])
    return [Member(member["client_id"], member["client_host"]) for member in described["members"]]


async def _coordinator(client: AIOKafkaClient, group: str) -> int:
    found = await client.send(client.get_random_node(), FindCoordinatorRequest(group, _GROUP))
    _check(found.error_code)
    return int(found.coordinator_id)


def _check(code: int) -> None:
    if code:
        raise errors.for_code(code)
