"""Whether another process has taken our place in the group, under our own `group.instance.id` (KIP-345)."""

from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import SyncGroupRequest

__all__ = ["is_replaced", "place_in_group"]

_FENCED_INSTANCE_ID: Final = 82


def place_in_group(consumer: AIOKafkaConsumer) -> tuple[str, int]:
    """Return the member's id and the group's generation, as the coordinator gave them."""
    coordinator = consumer._coordinator  # noqa: SLF001 -- it tells nobody else
    return coordinator.member_id, coordinator.generation


async def is_replaced(consumer: AIOKafkaConsumer, instance: str, place: tuple[str, int]) -> bool:
    """Ask the coordinator.

    The client's heartbeats do not name the instance, so all that they hear is that the member is gone.

    Args:
        consumer: A member, or one that was.
        instance: Its instance.
        place: Its place when it was given its partitions.

    Returns:
        False too where the member is as it was, was forgotten after a silence, or the coordinator does not answer.
    """
    member, generation = place
    if place_in_group(consumer)[0] == member:
        return False
    coordinator = consumer._coordinator  # noqa: SLF001 -- as above
    try:
        said = await coordinator._send_req(  # noqa: SLF001 -- as above
            SyncGroupRequest(coordinator.group_id, generation, member, instance, [])
        )
    except KafkaError:
        return False
    return bool(said.error_code == _FENCED_INSTANCE_ID)
