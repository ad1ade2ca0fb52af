from collections.abc import Iterator
from typing import Any

class _DefaultRecordBatchPy:
    # One in C, with the same attributes, is what `MemoryRecords` gives.
    LOG_APPEND_TIME: int
    base_offset: int
    compression_type: int
    first_timestamp: int
    last_offset_delta: int
    max_timestamp: int
    is_control_batch: bool
    is_transactional: bool
    producer_epoch: int
    producer_id: int
    timestamp_type: int
    def __init__(self, buffer: bytes | memoryview) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
