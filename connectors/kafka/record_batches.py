"""Records handed over a batch at a time, and as the client's reader made them.

The client's consumer makes one more object of each record, which takes it longer than all else that is done to read it.
A consumer that was made with `value_deserializer=WHOLESALE` returns each batch as one `RecordBatch` instead; all other
consumers return what they always did. The names that stand in for the client's own are private: its version is pinned,
and tests compare what both ways read.
"""

from collections.abc import Sequence
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords as _Plain
from aiokafka.record.memory_records import MemoryRecords

from connectors.kafka.bad_records import TolerantRecords

__all__ = ["WHOLESALE", "install", "uninstall"]


def WHOLESALE(value: bytes) -> bytes:  # noqa: N802 -- a mark, never called
    """Mark a consumer that returns batches."""
    return value


class _PartitionRecords(_Plain):  # type: ignore[misc]
    """Stands in for the client's own: one answer to a fetch, without what was aborted."""

    def __init__(  # noqa: PLR0913, PLR0917 -- the client's
        self,
        part: Any,  # noqa: ANN401
        records: TolerantRecords,
        aborted: Sequence[tuple[int, int]] | None,
        offset: int,
        key_deserializer: Any,  # noqa: ANN401
        value_deserializer: Any,  # noqa: ANN401
        check_crcs: bool,  # noqa: FBT001
        isolation_level: int,
    ) -> None:
        records.whole = self._whole = value_deserializer is WHOLESALE
        super().__init__(
            part, records, aborted, offset, key_deserializer, value_deserializer, check_crcs, isolation_level
        )

    def _consumer_record(self, part: Any, record: Any) -> Any:  # noqa: ANN401
        return record if self._whole else super()._consumer_record(part, record)


def install() -> None:
    """Have all consumers of this process read with it, and with the reader that reads what brokers take."""
    fetcher.MemoryRecords = TolerantRecords
    fetcher.PartitionRecords = _PartitionRecords


def uninstall() -> None:
    """Have all consumers read as the client alone does: what benchmarks compare with."""
    fetcher.MemoryRecords, fetcher.PartitionRecords = MemoryRecords, _Plain
