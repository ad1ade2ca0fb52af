"""Where a partition was answered up to, of two who say so: the group's offset, which others can move, and our mark."""

from typing import NamedTuple

from aiokafka import TopicPartition

from connectors.kafka.client import admin
from connectors.kafka.group import until_coordinated
from connectors.kafka.marks import Claim, Fence, marks_kept, newest_mark, nobody, seal_of
from connectors.kafka.offset_metadata import OffsetMetadata, Seal
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, StateError

__all__ = [
    "CommittedOffset",
    "committed_offset",
    "decide",
    "fence_writers",
    "find_committed",
    "group_offset",
    "partition_name",
]


class CommittedOffset(NamedTuple):
    """What was found.

    Attributes:
        committed: The claim that counts; None where nothing was ever committed.
        disturbed: What somebody else has done to the group's offset, in words; None if nothing.
        unmarked: Why no marks can be kept, in words; None if they can, or are not to be.
    """

    committed: Claim | None
    disturbed: str | None = None
    unmarked: str | None = None

    @property
    def metadata(self) -> OffsetMetadata | None:
        """What was committed with it."""
        return None if self.committed is None else OffsetMetadata.unpack(self.committed.text)


def partition_name(settings: KafkaSettings, partition: int) -> str:
    """Return what errors about a partition's offset begin with."""
    return f"group {settings.group}, topic {settings.topic}, partition {partition}"


async def find_committed(
    settings: KafkaSettings, partition: int, *, make: bool = False, fence: Fence = nobody
) -> CommittedOffset:
    """Read both and decide; it is sure to be the newest only after the partition's producer was started.

    `make` has the topic of marks made where it is missing; `fence` is called with the writers that either names, and
    both are read behind that.

    Raises:
        StateError: Neither is ours, or they contradict each other; the message says what to do.
        BusError: The brokers do not answer.
    """
    offset, mark, unmarked = await _read_both(settings, partition, fence, make=make)
    seal = seal_of(settings, partition)
    return decide(partition_name(settings, partition), offset, mark, seal)._replace(unmarked=unmarked)


async def fence_writers(settings: KafkaSettings, partition: int, *, make: bool, fence: Fence) -> bool:
    """Do the same without deciding; return whether marks can be kept.

    Raises:
        BusError: The brokers do not answer.
    """
    return (await _read_both(settings, partition, fence, make=make))[2] is None


async def _read_both(
    settings: KafkaSettings, partition: int, fence: Fence, *, make: bool
) -> tuple[Claim | None, Claim | None, str | None]:
    """Return the group's offset, the newest mark, and why none can be kept."""
    seal, mark, unmarked = seal_of(settings, partition), None, None
    while True:
        if seal is not None and settings.marks is not None:
            unmarked, fresh = await marks_kept(settings, partition, make=make)
            if unmarked is None and not fresh:
                mark = await newest_mark(settings, partition, seal, fence)  # first: of a shard in service the older one
        offset = await group_offset(settings, partition)
        if offset is None or not _is_ours(offset.text) or (seal is not None and not seal.is_good(*offset)):
            break  # it names nobody, or is anybody's
        if offset.writer is None or not await fence(offset.writer):
            break
    return offset, mark, unmarked


def decide(where: str, offset: Claim | None, mark: Claim | None, seal: Seal | None) -> CommittedOffset:
    """Return which claim counts. A mark is proof that a transaction of ours committed it; of an offset, its seal is.

    Without a seal, the offset's metadata is believed.

    Raises:
        StateError: See `find_committed`.
    """
    if offset is None:
        return CommittedOffset(mark, None if mark is None else f"{where}: its offset is gone; {_goes_on(mark)}")
    good = None if seal is None else seal.is_good(*offset)
    if good is False or not _is_ours(offset.text):
        if mark is None:
            raise StateError(
                f"{where}: offset {offset.position} was not committed by Perpetua for this state, and there is no mark "
                "of ours to resume from. If the state has answered nothing yet, delete the group's offset; otherwise "
                "see `perpetua offsets show` and `perpetua offsets restore`. Give each model a group of its own"
            )
        return CommittedOffset(
            mark, f"{where}: offset {offset.position} was committed by another client; {_goes_on(mark)}"
        )
    if mark is None:
        return CommittedOffset(offset)
    same = OffsetMetadata.unpack(offset.text).mark == OffsetMetadata.unpack(mark.text).mark
    if offset.position == mark.position and same:
        return CommittedOffset(offset if good else mark)
    if mark.position > offset.position:
        return CommittedOffset(mark, f"{where}: the committed offset was reset to {offset.position}; {_goes_on(mark)}")
    if good and offset.position > mark.position:
        return CommittedOffset(offset)  # the marks were kept elsewhere meanwhile
    raise StateError(
        f"{where}: offset {offset.position} and our mark at offset {mark.position} contradict each other; choose "
        "one: `perpetua offsets restore CONFIG --from mark`, or `--from group` if an older Perpetua has served since"
    )


def _goes_on(mark: Claim) -> str:
    return f"resuming from our own mark at offset {mark.position}"


def _is_ours(text: str) -> bool:
    try:
        OffsetMetadata.unpack(text)
    except StateError:
        return False
    return True


async def committed_offset(settings: KafkaSettings, partition: int) -> tuple[int, OffsetMetadata] | None:
    """Return where a partition was answered up to and what was committed with it; None if nothing was.

    Raises:
        StateError: See `find_committed`.
        BusError: The brokers do not answer.
    """
    found = await find_committed(settings, partition)
    return None if found.committed is None or found.metadata is None else (found.committed.position, found.metadata)


async def group_offset(settings: KafkaSettings, partition: int) -> Claim | None:
    """Return the group's offset and its metadata, whoever committed it; None if there is none.

    Raises:
        BusError: The brokers do not answer.
    """
    part = TopicPartition(settings.topic, partition)
    async with admin(settings, f"group {settings.group}") as client:
        found = await until_coordinated(
            lambda: client.list_consumer_group_offsets(settings.group, partitions=[part]), settings.request_seconds
        )
    offset = found.get(part)
    if offset is None:  # the client passes over the error of a coordinator that is still loading the group's offsets
        raise BusError(f"group {settings.group}: its offsets cannot be read yet")
    return Claim(offset.offset, offset.metadata or "") if offset.offset >= 0 else None
