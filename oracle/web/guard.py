"""Checks before every answer: method, token or host; and security headers on all of them."""

import re
from functools import partial
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oracle.config.web import is_loopback
from oracle.web.token import is_shown

__all__ = ["HEADERS", "Guard", "careful"]

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""On every answer."""

_METHODS: Final = frozenset({"GET", "HEAD"})
_OPEN_PATHS: Final = frozenset({"/livez", "/", "/static/page.css", "/static/page.js"})
"""These tell nothing but that the daemon runs; the page's own files ask for the token."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:@\[\]]+))(?::[0-9]*)?")
"""A Host header: an IPv6 address in brackets or a name, and an optional port (RFC 9110, section 7.2)."""


def careful(send: Send) -> Send:
    """Return what sends an answer with `HEADERS`."""
    return partial(_send_carefully, send)


async def _send_carefully(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        MutableHeaders(scope=message).update(HEADERS)
    await send(message)


class Guard:
    """Lets authorized GET and HEAD requests through, and nothing else.

    Without a token it requires a Host header that names this machine, against DNS rebinding: a foreign page whose name
    was made to resolve to this machine still sends that name.

    Args:
        token: Required of requests, but for /livez and the page's files; None: no token is required.
        host: The address it listens on, as configured.
    """

    def __init__(self, app: ASGIApp, token: bytes | None, host: str) -> None:
        self._app = app
        self._token = token
        self._host = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        await self._answering(scope)(scope, receive, careful(send))

    def _answering(self, scope: Scope) -> ASGIApp:
        """Return the application that answers: a refusal or the real one."""
        if scope["method"] not in _METHODS:
            return PlainTextResponse("read-only\n", 405, {"Allow": "GET, HEAD"})
        headers = Headers(scope=scope)
        if self._token is None and not self._is_ours(headers.get("host", "")):
            return PlainTextResponse("the Host header does not name this machine\n", 421)
        shown = headers.get("authorization", "").encode("latin-1")
        if self._token is not None and scope["path"] not in _OPEN_PATHS and not is_shown(self._token, shown):
            text = "wrong bearer token\n" if shown else "bearer token required\n"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        return self._app

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        name = "" if found is None else found[1] or found[2]
        return name == self._host or is_loopback(name)
