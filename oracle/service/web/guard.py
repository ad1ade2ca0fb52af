"""What stands before every answer: methods, the token, and headers that make a browser careful."""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oracle.service.web.token import is_shown

__all__ = ["HEADERS", "Guard"]

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""On every answer."""

_METHODS: Final = frozenset({"GET", "HEAD"})
_OPEN_PATHS: Final = frozenset({"/livez", "/", "/static/page.css", "/static/page.js"})
"""What says nothing of the daemon but that it runs: the page's files, so that a browser may ask for the token."""


class Guard:
    """Lets requests to look at something through, and nothing else.

    Args:
        app: What answers them.
        token: What they must show, but for /livez and the page's files; None: nothing.
    """

    def __init__(self, app: ASGIApp, token: bytes | None) -> None:
        self._app = app
        self._token = token

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
        shown = Headers(scope=scope).get("authorization", "").encode("latin-1")
        if self._token is not None and scope["path"] not in _OPEN_PATHS and not is_shown(self._token, shown):
            return PlainTextResponse("a bearer token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
        return self._app
