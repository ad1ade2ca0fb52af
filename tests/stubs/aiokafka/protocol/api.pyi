from typing import ClassVar, Generic, TypeVar

from aiokafka.protocol.types import Schema

_Request = TypeVar("_Request", bound=RequestStruct)

class Response:
    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]
    SCHEMA: ClassVar[Schema]

class RequestStruct:
    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]
    RESPONSE_TYPE: ClassVar[type[Response]]
    SCHEMA: ClassVar[Schema]
    def __init__(self, *values: object) -> None: ...

class Request(Generic[_Request]):
    API_KEY: ClassVar[int]
    def build(self, request_struct_class: type[_Request]) -> _Request: ...
