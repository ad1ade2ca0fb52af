"""A partition's committed offset and our mark, compared, and put right by an operator."""

from dataclasses import dataclass

from connectors.kafka.committed_offset import decide, group_offset, partition_name
from connectors.kafka.group import listed, members
from connectors.kafka.marks import Claim, marks_kept, newest_mark, seal_of
from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from oracle.errors import RefusedError, StateError

__all__ = ["OffsetReport", "report_offsets", "restore"]


@dataclass(frozen=True, slots=True)
class OffsetReport:
    """What is known of one partition's committed offset.

    Attributes:
        offset: The group's offset; None if there is none.
        sealed: Whether its metadata has our seal; None where it has none at all.
        mark: Our newest mark; None if there is none.
        unmarked: Why no marks can be kept; None if they can.
        counts: Where a start would go on from; None if that is nowhere, or it would refuse to.
        problem: Why it would refuse, or what was disturbed; None if all agrees.
    """

    partition: int
    offset: Claim | None
    sealed: bool | None
    mark: Claim | None
    unmarked: str | None
    counts: Claim | None
    problem: str | None

    @property
    def agrees(self) -> bool:
        """Whether the group's offset is our own and the mark goes with it."""
        return self.problem is None and (self.offset is None or (bool(self.sealed) and self.mark is not None))


async def report_offsets(settings: KafkaSettings, partition: int) -> OffsetReport:
    """Compare a partition's offset and mark; nobody is fenced and nothing is changed.

    Raises:
        BusError: The brokers do not answer.
    """
    seal = seal_of(settings, partition)
    unmarked = (await marks_kept(settings, partition, make=False)).problem
    mark = None if unmarked is not None or seal is None else await newest_mark(settings, partition, seal)
    offset = await group_offset(settings, partition)
    sealed = None if offset is None or seal is None else seal.is_good(*offset)
    try:
        found = decide(partition_name(settings, partition), offset, mark, seal)
    except StateError as exc:
        return OffsetReport(partition, offset, sealed, mark, unmarked, None, str(exc))
    return OffsetReport(partition, offset, sealed, mark, unmarked, found.committed, found.disturbed)


async def restore(settings: KafkaSettings, partition: int, choice: Claim) -> None:
    """Commit an offset for the group and as our mark, in one transaction. Whoever serves the partition is fenced.

    `choice` has metadata of ours, without a seal.

    Raises:
        RefusedError: The group has members: a daemon that runs needs no help, and others must leave first.
        BusError: The brokers do not answer.
    """
    found = await members(settings)
    if found:
        raise RefusedError(
            f"group {settings.group}: has {len(found)} member{'s' if len(found) > 1 else ''}, "
            f"{listed(found)}; stop them first"
        )
    sink = KafkaSink(settings, partition)
    try:
        await sink.put(Claim(choice.position, OffsetMetadata.unpack(choice.text).pack()))
    finally:
        await sink.close()
