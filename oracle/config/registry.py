"""`[kafka.registry]`: the Schema Registry that has the schemas of queries and answers."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from oracle.config.base import ConfigTable, LocalPath
from oracle.config.tls import TlsConfig

__all__ = ["RegistryConfig"]

_URL: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_URLS: Final = '"http://host:port" or "https://host:port", maybe with a path, and with no name or password in it'


def _registry(url: str) -> str:
    if not _URL.fullmatch(url):
        raise PydanticCustomError("url", f"must be {_URLS}")
    return url


class RegistryConfig(ConfigTable):
    """`[kafka.registry]`: a Schema Registry with Confluent's API, which others have too.

    Attributes:
        url: Where its API begins. What ids mean is kept by it: stop the daemon cleanly before it is changed.
        username: A name for basic authentication.
        password_file: Holds its password.
        password: Only from the environment: PERPETUA_KAFKA__REGISTRY__PASSWORD.
        token_file: Holds a bearer's token, in place of a name and a password.
        token: Only from the environment: PERPETUA_KAFKA__REGISTRY__TOKEN.
        tls: TLS, where the URL's scheme is https and the system's certificates do not do.
        request_seconds: Longest time for one request.
        subject: What the answers' schema is registered under: the answers' topic and "-value", the record's name, or
            both with a hyphen between.
        register_answers: Whether the daemon registers that schema itself; else it must be there.
    """

    url: Annotated[str, AfterValidator(_registry), Field(json_schema_extra={"bound": _URLS})]
    username: str | None = None
    password_file: LocalPath | None = None
    password: SecretStr | None = None
    token_file: LocalPath | None = None
    token: SecretStr | None = None
    tls: TlsConfig | None = None
    request_seconds: Annotated[float, Field(ge=1, le=300)] = 10.0
    subject: Literal["topic", "record", "topic-record"] = "topic"
    register_answers: bool = True
