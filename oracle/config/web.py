"""`[web]` of the configuration: where the daemon can be looked at, and by whom."""

import ipaddress
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from oracle.config.base import ConfigTable, LocalPath

__all__ = ["WebConfig", "is_loopback"]


class WebConfig(ConfigTable):
    """`[web]`: metrics, health and the status page over HTTP, to be looked at only. Without it there is no web server.

    Attributes:
        host: The address to listen at.
        port: The port to listen at; 0 takes any free one and logs it.
        token_file: Holds a token of at least 16 characters that every request must carry (`Authorization: Bearer
            TOKEN`), except for /livez and for the page without its figures. Must be set if other machines can connect.
        ready_lag_seconds: How long answers may stand still while queries wait, before /readyz says so.
    """

    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 9464
    token_file: LocalPath | None = None
    ready_lag_seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        """Refuse to answer other machines that show nothing."""
        if self.token_file is None and not is_loopback(self.host):
            raise PydanticCustomError(
                "unguarded", f'must be set: host is "{self.host}", which others than this machine can reach'
            )
        return self


def is_loopback(host: str) -> bool:
    """Return whether an address, or the name `localhost`, is this machine's to itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may be anybody's
        return False
