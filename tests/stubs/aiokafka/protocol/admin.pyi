from collections.abc import Sequence

from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.protocol.api import Request, RequestStruct

class DescribeConfigsRequest(Request[RequestStruct]):
    def __init__(self, resources: Sequence[tuple[ConfigResourceType, str, Sequence[str] | None]]) -> None: ...

class DescribeGroupsRequest(Request[RequestStruct]):
    def __init__(self, groups: Sequence[str]) -> None: ...
