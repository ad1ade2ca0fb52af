"""Kafka's topics and brokers as a configuration names them."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

__all__ = ["Servers", "Topic"]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SERVER: Final = re.compile(r"[^\s,@/]+:([0-9]{1,5})")
_LAST_PORT: Final = 65_535
_NAMES: Final = "1 to 249 of letters, digits and the characters . _ -"
_ADDRESSES: Final = '"host:port", such as "broker-1:9092"'


def _named(name: str) -> str:
    if not _TOPIC.fullmatch(name):
        raise PydanticCustomError("name", f"must have {_NAMES}")
    return name


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= _LAST_PORT:
        raise PydanticCustomError("server", f"must be {_ADDRESSES}")
    return text


def _some(servers: list[str]) -> list[str]:
    if not servers:
        raise PydanticCustomError("servers", "must name at least one broker")
    return servers


Topic = Annotated[str, AfterValidator(_named), Field(json_schema_extra={"bound": _NAMES})]
"""A topic's name, or a group's or an instance's, which have the same letters."""

Servers = Annotated[
    list[Annotated[str, AfterValidator(_server)]],
    AfterValidator(_some),
    Field(json_schema_extra={"bound": f"at least one, each {_ADDRESSES}"}),
]
"""Brokers to begin with."""
