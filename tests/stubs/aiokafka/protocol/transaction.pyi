from aiokafka.protocol.api import Request, RequestStruct, Response

class AddPartitionsToTxnResponse_v0(Response):  # noqa: N801 -- the client's
    def __init__(self, *values: object) -> None: ...

class InitProducerIdRequest(Request[RequestStruct]):
    def __init__(self, transactional_id: str, transaction_timeout_ms: int) -> None: ...

class AddOffsetsToTxnRequest(Request[RequestStruct]):
    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str) -> None: ...
