from aiokafka.protocol.api import Request, RequestStruct

class AddOffsetsToTxnRequest(Request[RequestStruct]):
    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str) -> None: ...
