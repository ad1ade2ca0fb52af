"""What stands before every answer: methods, the token or the host, and headers that make a browser careful."""

import re
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oracle.config.web import is_loopback
from oracle.web.token import is_shown

__all__ = ["HEADERS", "Guard"]

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
"""What says nothing of the daemon but that it runs: the page's files, so that a browser may ask for the token."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:@\[\]]+))(?::[0-9]*)?")
"""A Host header: an IPv6 address in brackets, or anything else, and maybe a port (RFC 9110, section 7.2)."""


class Guard:
    """Lets requests to look at something through, and nothing else.

    Without a token it answers only who calls this machine by a name of its own: a page from elsewhere whose name was
    made to mean this machine, once a browser had loaded it, still says that name.

    Args:
        app: What answers them.
        token: What they must show, but for /livez and the page's files; None: nothing.
        host: The address that is listened at, as configured.
    """

    def __init__(self, app: ASGIApp, token: bytes | None, host: str) -> None:
        self._app = app
        self._token = token
        self._host = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._answering(scope)(scope, receive, send_guarded)

    def _answering(self, scope: Scope) -> ASGIApp:
        """Return what is to answer."""
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
        """Return whether a Host header means this machine to itself."""
        found = _HOST.fullmatch(host.lower())
        name = "" if found is None else found[1] or found[2]
        return name == self._host or is_loopback(name)
