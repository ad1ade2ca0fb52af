"""What a client of a Schema Registry is told."""

from dataclasses import dataclass, field
from typing import Literal

from connectors.tls import Tls

__all__ = ["Kind", "RegistrySettings"]

Kind = Literal["AVRO", "PROTOBUF"]
"""What a schema is written in, by the registry's own names."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """One registry.

    Attributes:
        url: Where its API begins, such as "https://registry:8081".
        username: The name for basic authentication; None for none.
        password: Its password; never printed.
        token: The bearer's token, in place of a name and a password; never printed.
        tls: TLS, if the URL's scheme is https and more is to be said of it.
        request_seconds: Most time for one request.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    request_seconds: float = 10.0
