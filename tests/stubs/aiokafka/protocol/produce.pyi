from collections.abc import Sequence

from aiokafka.protocol.api import Request, RequestStruct

class ProduceRequest(Request[RequestStruct]):
    def __init__(
        self,
        transactional_id: str | None,
        required_acks: int,
        timeout: int,
        topics: Sequence[tuple[str, Sequence[tuple[int, bytes]]]],
    ) -> None: ...
