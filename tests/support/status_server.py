"""A web server for tests of the status page: the page's own files, the daemon's headers, and a /status to set."""

import asyncio
import hmac
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import oracle.web
from tests.support.waiting import TIMEOUT, eventually

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGE = Path(oracle.web.__file__).parent / "page"
_FILES = {"/": "index.html", "/static/page.css": "page.css", "/static/page.js": "page.js"}


class StatusServer:
    """Serves the page on a port of loopback that stays the same over stops and starts.

    Attributes:
        document: What /status says.
        code: The HTTP status that /status answers with.
        delay: Seconds that /status waits before it answers.
        token: The bearer token that /status wants, if any. The page itself, which says nothing, is anyone's.
        asked: The paths asked for so far, in order.
        models: The models that /status was asked for so far, in order; None where none was named.
        others: What /status says of a model that is named, instead.
        written: The methods other than GET that were used so far.
    """

    document: Mapping[str, Any] | bytes

    def __init__(self) -> None:
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was set and what was asked."""
        self.document = {}
        self.code = 200
        self.delay = 0.0
        self.token: str | None = None
        self.asked: list[str] = []
        self.models: list[str | None] = []
        self.others: dict[str, Mapping[str, Any]] = {}
        self.written: list[str] = []

    @property
    def address(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Listen, if it does not, and return when the port answers."""
        if self._server is not None:
            return
        config = uvicorn.Config(  # log_config: its loggers are those of the daemon's tests, in the same process
            self._application(), port=self._port, log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="status-server", daemon=True)
        self._thread.start()
        running = self._server
        eventually(lambda: running.started)
        self._port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Close the port; nobody answers there any more."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the test's web server does not stop"
        self._server = None

    def _application(self) -> Starlette:
        methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
        pages = [Route(path, self._file, methods=methods) for path in _FILES]
        return Starlette(routes=[*pages, Route("/status", self._status, methods=methods)])

    def _note(self, request: Request) -> None:
        self.asked.append(request.url.path)
        if request.method != "GET":
            self.written.append(request.method)

    async def _file(self, request: Request) -> Response:
        self._note(request)
        return FileResponse(_PAGE / _FILES[request.url.path], headers=_HEADERS)

    async def _status(self, request: Request) -> Response:
        self._note(request)
        model = request.query_params.get("model")
        self.models.append(model)
        await asyncio.sleep(self.delay)
        given = request.headers.get("Authorization", "")
        if self.token is not None and not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return Response("token wanted", 401, {**_HEADERS, "WWW-Authenticate": "Bearer"})
        if isinstance(self.document, bytes):
            return Response(self.document, self.code, _HEADERS, "application/json")
        return JSONResponse(self.others.get(model or "", self.document), self.code, _HEADERS)
