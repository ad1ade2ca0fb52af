"""Asking over HTTP: `POST /v1/ask` and `GET /v1/answers/ID`, behind tokens, in front of the desk."""

import contextlib
import hmac
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from connectors.base import JSON
from connectors.desk.desk import Desk, DeskBusyError, ReusedIdError
from connectors.events import CLOUD_EVENT
from connectors.traceparents import TRACEPARENT, is_sampled
from oracle.config.http import HttpConfig
from oracle.errors import StorageError
from oracle.telemetry.log import PublicLog
from oracle.web.guard import careful
from oracle.web.server import Connection, listen, running
from oracle.web.token import read_tokens, shown

__all__ = ["asking", "make_app"]

_TAG_BYTES: Final = 8
_OWN_BYTES: Final = 16
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")
_LONGEST_WAIT: Final = 30.0
_CONNECTIONS: Final = 256
_REQUEST_SECONDS: Final = 60.0
_LATER: Final = {"Retry-After": "1"}
_PAUSED: Final = {"Retry-After": "30"}

_TAG: Final = "perpetua.tag"
"""Where a request's scope says whose it is."""


class _Connection(Connection):
    """Waits longer for an answer than those that look at the daemon."""

    def limits(self) -> tuple[int, float]:
        return _CONNECTIONS, _REQUEST_SECONDS


class Askers:
    """Who may ask: tokens, and what marks the ids of each one's questions.

    Args:
        secret: The state's; without it nobody can tell a token from a mark, or an id from a key.
    """

    def __init__(self, tokens: Sequence[bytes], secret: bytes) -> None:
        self._secret = secret
        self._known = {self._mac(b"token", token) for token in tokens}

    def tag(self, authorization: bytes) -> bytes | None:
        """Return whose an Authorization header is; None if nobody's. What is compared are keyed hashes."""
        token = shown(authorization)
        mac = self._mac(b"token", token or b"")
        return mac[:_TAG_BYTES] if mac in self._known else None

    def identifier(self, tag: bytes, key: str | None) -> bytes:
        """Return the id of a question: the same for the same key of the same asker, else a new one."""
        own = secrets.token_bytes(_OWN_BYTES) if key is None else self._mac(b"key", tag + key.encode())[:_OWN_BYTES]
        return tag + own

    def _mac(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._secret, purpose + b"\0" + data, "sha256")


class _Guard:
    """Lets nobody through without a token, and says whose a request is."""

    def __init__(self, app: ASGIApp, askers: Askers) -> None:
        self._app, self._askers = app, askers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tag = self._askers.tag(Headers(scope=scope).get("authorization", "").encode("latin-1"))
        scope[_TAG] = tag
        refusal = _json(401, {"message": "a bearer token is required"}, {"WWW-Authenticate": "Bearer"})
        await (self._app if tag is not None else refusal)(scope, receive, careful(send))


class _Site:
    """What the paths answer; see `make_app`."""

    def __init__(
        self, desk: Desk, askers: Askers, body_bytes: int, wait_seconds: float, paused: Callable[[], bool]
    ) -> None:
        self._desk, self._askers, self._paused = desk, askers, paused
        self._body_bytes, self._wait_seconds = body_bytes, wait_seconds

    async def ask(self, request: Request) -> Response:
        if self._paused():
            raise HTTPException(503, "paused by an operator; ask again later", _PAUSED)
        identifier = self._askers.identifier(request.scope[_TAG], _key(request))
        try:
            body = await _body(request, self._body_bytes)
            await self._desk.ask(identifier, body, _content_type(request), _traceparent(request))
        except ReusedIdError as exc:
            raise HTTPException(422, f"Idempotency-Key: {exc}") from exc
        except DeskBusyError as exc:
            raise HTTPException(503, f"{exc}; ask again later", _LATER) from exc
        except StorageError as exc:  # its text names folders of this machine
            raise HTTPException(503, "the question could not be written; ask again later", _LATER) from exc
        return await self._reply(request, identifier)

    async def fetch(self, request: Request) -> Response:
        try:
            identifier = bytes.fromhex(request.path_params["id"])
        except ValueError:
            identifier = b""
        try:
            known = identifier[:_TAG_BYTES] == request.scope[_TAG] and self._desk.knows(identifier)
        except DeskBusyError as exc:
            raise HTTPException(503, f"{exc}; ask again later", _LATER) from exc
        if not known:
            raise HTTPException(404, "there is no such question of yours, or its answer is no longer kept")
        return await self._reply(request, identifier)

    async def _reply(self, request: Request, identifier: bytes) -> Response:
        found = _WAIT.search(request.headers.get("prefer", ""))
        seconds = min(float(found[1]), _LONGEST_WAIT) if found else self._wait_seconds
        answer = await self._desk.answer(identifier, seconds)
        where = {"Location": f"/v1/answers/{identifier.hex()}"}
        if answer is None:
            return _json(202, {"id": identifier.hex(), "answer": where["Location"]}, where | _LATER)
        told = msgspec.json.decode(answer)
        event = "specversion" in told
        data = told.get("data", {}) if event else told
        rejected = isinstance(data.get("error"), str)  # a number is what the plan promises
        return Response(answer, 422 if rejected else 200, where, CLOUD_EVENT if event else JSON)


def make_app(
    desk: Desk, askers: Askers, *, body_bytes: int, wait_seconds: float, paused: Callable[[], bool] = lambda: False
) -> ASGIApp:
    """Return the application.

    Args:
        desk: Takes questions in.
        askers: Who may ask.
        body_bytes: Of the largest question.
        wait_seconds: How long a request waits for its answer, if it does not say (`Prefer: wait=SECONDS`).
        paused: Whether no question is taken in just now; answers are given out all the same.
    """
    site = _Site(desk, askers, body_bytes, wait_seconds, paused)
    app = Starlette(
        routes=[Route("/v1/ask", site.ask, methods=["POST"]), Route("/v1/answers/{id}", site.fetch)],
        exception_handlers={HTTPException: _problem},
    )
    app.router.redirect_slashes = False  # it would take the host from the request
    return _Guard(app, askers)


@contextlib.asynccontextmanager
async def asking(  # noqa: PLR0913, PLR0917 -- its parts
    table: HttpConfig,
    desk: Desk,
    secret: bytes,
    body_bytes: int,
    log: PublicLog,
    paused: Callable[[], bool] = lambda: False,
) -> AsyncIterator[None]:
    """Take questions over HTTP until the context is left; the log gets nothing of a request.

    Raises:
        InputError: The port is taken, or the tokens' file cannot be used.
    """
    askers = Askers(read_tokens(table.tokens_file), secret)
    app = make_app(desk, askers, body_bytes=body_bytes, wait_seconds=table.wait_seconds, paused=paused)
    async with running(app, listen(table, "http"), log, _Connection) as port:
        log.info("asking.listening", host=table.host, port=port)
        yield


def _traceparent(request: Request) -> bytes:
    """Return the asker's span, as a request names it; nothing where it names none, or does not sample its trace."""
    value = request.headers.get(TRACEPARENT, "").encode("latin-1")
    return value if is_sampled(value) else b""


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise HTTPException(400, "Idempotency-Key: must be 1 to 255 visible characters of ASCII")
    return key


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body(request: Request, limit: int) -> bytes:
    """Return the question in a request's body."""
    if _content_type(request) not in {JSON, CLOUD_EVENT}:
        raise HTTPException(415, f"Content-Type: must be {JSON} or {CLOUD_EVENT}")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise HTTPException(413, f"body: must have at most {limit} bytes", {"Connection": "close"})
    except ClientDisconnect as exc:  # half a body is no question, and nobody will hear of it
        raise HTTPException(400, "body: must be whole") from exc
    if not body:
        raise HTTPException(400, "body: must be one JSON object")
    return bytes(body)


async def _problem(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _json(error.status_code, {"message": error.detail}, error.headers)


def _json(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, dict(headers or {}), JSON)
