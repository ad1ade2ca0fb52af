from asyncio import Future
from typing import Any

from aiokafka.record.memory_records import MemoryRecords as MemoryRecords

class Fetcher:
    _fetch_task: Future[None]
    _pending_tasks: set[Future[Any]]
    async def _proc_fetch_request(self, assignment: Any, node_id: int, request: Any) -> bool: ...

class PartitionRecords:
    def _unpack_records(self) -> Any: ...
    def _consumer_record(self, tp: Any, record: Any) -> Any: ...
