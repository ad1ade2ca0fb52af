from collections.abc import Sequence

from aiokafka.protocol.api import Request, RequestStruct

class LeaveGroupRequest(Request[RequestStruct]):
    def __init__(self, group: str, member_id: str) -> None: ...

class SyncGroupRequest(Request[RequestStruct]):
    def __init__(
        self,
        group: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        group_assignment: Sequence[tuple[str, bytes]],
    ) -> None: ...
