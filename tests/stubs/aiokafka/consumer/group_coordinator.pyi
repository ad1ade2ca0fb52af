from typing import Any

from aiokafka.protocol.api import Request

class GroupCoordinator:
    group_id: str
    generation: int
    member_id: str
    async def _send_req(self, request: Request[Any]) -> Any: ...
