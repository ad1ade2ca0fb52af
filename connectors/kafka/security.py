"""How we prove to the brokers who we are, and they to us: certificates, passwords and tokens, as they are now.

Each connection of a client is made with what the files hold then (`renewed` in `client.py`), so all of them may be
exchanged under a running daemon.
"""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from connectors.kafka.tokens import FetchedToken, FileToken, Token, TokenEndpoint
from connectors.kept_files import KeptFiles
from connectors.secret_files import read_secret
from connectors.tls import Tls, tls_context
from oracle.errors import InputError

__all__ = ["LOGGER", "OAuth", "Sasl", "Security"]

LOGGER: Final = "kafka"
"""Name of the logger for what becomes of files that were exchanged."""

_PASSWORD: Final = "kafka.sasl.password_file"  # noqa: S105 -- the setting's name


@dataclass(frozen=True, slots=True)
class Sasl:
    """Name and password for the brokers.

    Attributes:
        password: The password; never printed.
        password_file: Holds it, and is read again where it has changed; None for a password that stays.
    """

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    username: str
    password: str = field(repr=False)
    password_file: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """What may be exchanged."""
        return () if self.password_file is None else (self.password_file,)


@dataclass(frozen=True, slots=True)
class OAuth:
    """A bearer token for the brokers (RFC 7628).

    Attributes:
        token: A file that holds the token, or where a token is fetched.
        extensions: What is sent beside it.
    """

    token: Path | TokenEndpoint
    extensions: Mapping[str, str] = field(default_factory=dict)

    mechanism: Literal["OAUTHBEARER"] = field(default="OAUTHBEARER", init=False)
    username: None = field(default=None, init=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """What may be exchanged."""
        return (self.token,) if isinstance(self.token, Path) else self.token.files


Proof: TypeAlias = Sasl | OAuth


class Security:
    """How we talk to the brokers: one for all clients of a process, as it remembers what it has read.

    Attributes:
        entered: Whether the brokers have let us in.
    """

    def __init__(self, tls: Tls | None = None, sasl: Proof | None = None) -> None:
        self.tls = tls
        self.sasl = sasl
        self.entered = False
        self._context = KeptFiles(tls.files if tls else (), self._read_context, _tell_of_tls)
        self._password = KeptFiles(sasl.files if isinstance(sasl, Sasl) else (), self._read_password, _tell_of_secret)
        self._token = _token_of(sasl) if isinstance(sasl, OAuth) else None

    @property
    def protocol(self) -> str:
        """Kafka's own name for it."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")

    def may_pass(self, table: str) -> bool:
        """Return whether a refusal may pass without another configuration: we were in, and files may be exchanged."""
        given = self.tls if table == "kafka.tls" else self.sasl
        return self.entered and given is not None and bool(given.files)

    def options(self) -> dict[str, Any]:
        """Return what a connection is to be made with now, as the client takes it.

        Raises:
            RefusedError: A file cannot be used, and never could.
            StorageError: A file cannot be read, and never could.
        """
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls is not None:
            found["ssl_context"] = self._context.get()
        if isinstance(self.sasl, Sasl):
            found |= {
                "sasl_mechanism": self.sasl.mechanism,
                "sasl_plain_username": self.sasl.username,
                "sasl_plain_password": self._password.get(),
            }
        if isinstance(self.sasl, OAuth):
            found |= {"sasl_mechanism": self.sasl.mechanism, "sasl_oauth_token_provider": self._token}
        return found

    def _read_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else tls_context(self.tls, "kafka.tls")

    def _read_password(self) -> str:
        if not isinstance(self.sasl, Sasl):
            return ""
        if self.sasl.password_file is None:
            return self.sasl.password
        found = read_secret(_PASSWORD, self.sasl.password_file)
        if not found:
            raise InputError(_PASSWORD, str(self.sasl.password_file), "must not be empty")
        return found


def _token_of(sasl: OAuth) -> Token:
    if isinstance(sasl.token, Path):
        return FileToken(sasl.token, sasl.extensions, _tell_of_secret)
    return FetchedToken(sasl.token, sasl.extensions, _tell_of_token)


def _tell_of_tls() -> None:
    logging.getLogger(LOGGER).warning("kafka.tls: its files have changed and cannot be used; the old ones are kept")


def _tell_of_secret() -> None:
    logging.getLogger(LOGGER).warning("kafka.sasl: its file has changed and cannot be used; the old secret is kept")


def _tell_of_token() -> None:
    logging.getLogger(LOGGER).warning("kafka.sasl: no new token can be fetched; the old one is used until it expires")
