from aiokafka.protocol.api import Request, RequestStruct

class FindCoordinatorRequest(Request[RequestStruct]):
    def __init__(self, coordinator_key: str, coordinator_type: int) -> None: ...
