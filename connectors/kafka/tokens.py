"""Bearer tokens for the brokers: out of a file, or fetched from an authorization server (RFC 6749, section 4.4)."""

import asyncio
import base64
import contextlib
import http.client
import re
import ssl
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from aiokafka.abc import AbstractTokenProvider

from connectors.kafka.errors import UnprovenError
from connectors.kept_files import KeptFiles
from connectors.retry import Backoff
from connectors.secret_files import read_secret
from connectors.tls import Tls, tls_context
from oracle.errors import BusError, InputError, PerpetuaError, RefusedError

__all__ = ["FetchedToken", "FileToken", "Token", "TokenEndpoint"]

_FILE: Final = "kafka.sasl.token_file"
_ENDPOINT: Final = "kafka.sasl.token_endpoint"
_SECRET_FILE: Final = "kafka.sasl.client_secret_file"  # noqa: S105 -- the setting's name

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,65536}=*")
"""Tokens that fit the message (RFC 6750, section 2.1)."""

_SKEW: Final = 60.0
"""Seconds by which two clocks may differ: a token is used for so long after it has expired by ours."""

_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 18
_UNSAID_LIFE: Final = 300.0
"""Seconds that a token is used for whose server does not say how long it is good."""

_USED_PART: Final = 0.8
"""The part of a token's life after which another one is fetched."""

_TOLD: Final = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"}
    | {"invalid_scope", "access_denied", "server_error", "temporarily_unavailable"}
)
"""The errors of RFC 6749; anything else that a server says is not repeated."""

_REFUSALS: Final = range(400, 500)
_BUSY: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where an authorization server gives out tokens for our own credentials.

    Attributes:
        url: "https://..."; "http://..." for this machine only.
        client_secret: Of the client; never printed.
        client_secret_file: Holds it, and is read again where it has changed; None for a secret that stays.
        scope: What is asked for; None for the server's default.
        ca_file: Certificates to trust (PEM); None for the system's.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    client_secret_file: Path | None = None
    scope: str | None = None
    ca_file: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """What may be exchanged."""
        return tuple(path for path in (self.client_secret_file, self.ca_file) if path is not None)


class Token(AbstractTokenProvider):
    """What the client asks for a token at each connection."""

    def __init__(self, extensions: Mapping[str, str]) -> None:
        self._extensions = dict(extensions)

    @abstractmethod
    async def current(self) -> str:
        """Return a token that is good now.

        Raises:
            PerpetuaError: There is none.
        """

    async def token(self) -> str:
        """See `AbstractTokenProvider`; errors come as the client's own, as it handles no others."""
        try:
            return await self.current()
        except PerpetuaError as exc:
            raise UnprovenError from exc

    def extensions(self) -> dict[str, str]:
        """See `AbstractTokenProvider`."""
        return self._extensions


class FileToken(Token):
    """The token that a file holds now, such as Kubernetes writes them, and exchanges them before they expire."""

    def __init__(self, path: Path, extensions: Mapping[str, str], on_kept: Callable[[], None]) -> None:
        super().__init__(extensions)
        self._path = path
        self._kept = KeptFiles([path], self._read, on_kept)

    async def current(self) -> str:
        """See `Token`.

        Raises:
            InputError: The file holds no token, one that has expired, or others can read it.
            StorageError: It cannot be read.
        """
        token = await asyncio.to_thread(self._kept.get)
        expiry = _expiry_of(token)
        if expiry is not None and expiry + _SKEW < time.time():
            raise InputError(_FILE, str(self._path), "its token has expired; whoever writes the file must renew it")
        return token

    def _read(self) -> str:
        token = read_secret(_FILE, self._path).strip()
        if not _TOKEN.fullmatch(token):
            raise InputError(_FILE, str(self._path), "must contain one token: letters, digits and ._~+/-, then =")
        return token


class _Given(NamedTuple):
    """A token, and when (seconds, monotone) another one is to be fetched, and when it is good no more."""

    token: str
    renew: float
    end: float


class FetchedToken(Token):
    """The token that an authorization server gives us; another one is fetched in good time, one fetch at a time.

    Where that fails the old one is used as long as it is good, and the server is left alone for a while.
    """

    def __init__(
        self,
        endpoint: TokenEndpoint,
        extensions: Mapping[str, str],
        on_kept: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(extensions)
        self._endpoint = endpoint
        self._on_kept = on_kept
        self._clock = clock
        self._given: _Given | None = None
        self._failed: PerpetuaError | None = None
        self._again = 0.0
        self._backoff = Backoff()
        self._fetching: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        secrets = [endpoint.client_secret_file] if endpoint.client_secret_file is not None else []
        self._secret = KeptFiles(secrets, self._read_secret)
        self._context = KeptFiles([endpoint.ca_file], lambda: tls_context(Tls(endpoint.ca_file), "kafka.sasl"))

    async def current(self) -> str:
        """See `Token`.

        Raises:
            RefusedError: The server refuses us.
            BusError: It does not answer as it should.
        """
        async with self._lock():
            given, now = self._given, self._clock()
            if given is not None and now < given.renew:
                return given.token
            if now >= self._again:
                await self._renew(now)
            if self._given is not None and (self._failed is None or now < self._given.end):
                return self._given.token  # one that was just fetched is used, however short its life by our clock
            assert self._failed is not None  # noqa: S101 -- else there would be a token
            raise self._failed

    def _lock(self) -> asyncio.Lock:
        """Return the lock of the running event loop: a client of ours may live in several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._fetching is None or self._loop is not loop:
            self._fetching, self._loop = asyncio.Lock(), loop
        return self._fetching

    async def _renew(self, now: float) -> None:
        try:
            self._given = await self._fetch(now)
        except PerpetuaError as exc:
            if self._failed is None and self._given is not None:
                self._on_kept()
            self._failed, self._again = exc, now + self._backoff.pause()
        else:
            self._failed, self._again = None, 0.0
            self._backoff.reset()

    async def _fetch(self, now: float) -> _Given:
        secret = await asyncio.to_thread(self._secret.get)
        connection = await asyncio.to_thread(self._connection)
        work = asyncio.ensure_future(asyncio.to_thread(self._ask, connection, secret))
        try:
            async with asyncio.timeout(_SECONDS):
                status, body = await asyncio.shield(work)
        except (OSError, http.client.HTTPException) as exc:  # a TimeoutError is an OSError
            raise BusError(f"{_ENDPOINT}: no answer: {_said_by(exc)}") from exc
        finally:
            if not work.done():  # it ends with its connection
                work.add_done_callback(lambda done: done.cancelled() or done.exception())
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(2)
        return _read(status, body, now)

    def _connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self._endpoint.url)
        host = url.hostname or ""
        if url.scheme == "https":
            return http.client.HTTPSConnection(host, url.port, timeout=_SECONDS, context=self._tls())
        return http.client.HTTPConnection(host, url.port, timeout=_SECONDS)

    def _tls(self) -> ssl.SSLContext:
        return self._context.get()

    def _ask(self, connection: http.client.HTTPConnection, secret: str) -> tuple[int, bytes]:
        """Return status and body; redirects are not followed."""
        endpoint, url = self._endpoint, urlsplit(self._endpoint.url)
        form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
        proof = base64.b64encode(f"{quote_plus(endpoint.client_id)}:{quote_plus(secret)}".encode()).decode()
        headers = {
            "Authorization": f"Basic {proof}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        with contextlib.closing(connection):
            connection.request("POST", path, urlencode(form), headers)
            reply = connection.getresponse()
            return reply.status, reply.read(_MOST_BYTES)

    def _read_secret(self) -> str:
        if self._endpoint.client_secret_file is None:
            return self._endpoint.client_secret
        return read_secret(_SECRET_FILE, self._endpoint.client_secret_file)


class _Reply(msgspec.Struct):
    access_token: str
    expires_in: float | str | None = None
    token_type: str = "bearer"  # noqa: S105 -- a kind


class _Refusal(msgspec.Struct):
    error: str = ""


def _read(status: int, body: bytes, now: float) -> _Given:
    if status != http.client.OK:
        message = f"{_ENDPOINT}: status {status}{_reason_in(body)}"
        if status in _REFUSALS and status not in _BUSY:
            raise RefusedError(f"{message}; check kafka.sasl.client_id, its secret and kafka.sasl.scope")
        raise BusError(message)
    try:
        reply = msgspec.json.decode(body, type=_Reply)
        life = float(reply.expires_in) if reply.expires_in is not None else None
    except (msgspec.MsgspecError, ValueError, UnicodeDecodeError) as exc:
        raise BusError(f"{_ENDPOINT}: its answer is no token (RFC 6749, section 5.1)") from exc
    if not _TOKEN.fullmatch(reply.access_token) or reply.token_type.lower() != "bearer":
        raise BusError(f"{_ENDPOINT}: its answer is no bearer token (RFC 6750)")
    if life is None:
        expiry = _expiry_of(reply.access_token)
        life = _UNSAID_LIFE if expiry is None else expiry - time.time()
    life = max(life, 0.0) if life == life else 0.0  # noqa: PLR0124 -- not a number
    return _Given(reply.access_token, now + _USED_PART * life, now + life)


def _reason_in(body: bytes) -> str:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        error = msgspec.json.decode(body, type=_Refusal).error
        return f", {error}" if error in _TOLD else ""
    return ""


def _said_by(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "not in time"
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


class _Claims(msgspec.Struct):
    exp: float | None = None


def _expiry_of(token: str) -> float | None:
    """Return when a token expires (seconds since 1970) if it is one that says so to everybody (RFC 7519); else None."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 -- header, claims, signature
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except (ValueError, msgspec.MsgspecError):
        return None
