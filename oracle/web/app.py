"""The web application: its paths and what they answer."""

import time
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oracle.telemetry.metrics import format_for
from oracle.telemetry.observers import Observers
from oracle.web.guard import Guard
from oracle.web.scrapes import Scrapes
from oracle.web.status import status_of

__all__ = ["make_app"]

_JSON: Final = "application/json"
_PAGE: Final[Mapping[str, tuple[str, str]]] = {
    "/": ("index.html", "text/html"),
    "/static/page.css": ("page.css", "text/css"),
    "/static/page.js": ("page.js", "text/javascript"),
}
"""File and content type of each path of the page."""


def make_app(
    observers: Observers, *, token: bytes | None, host: str, clock: Callable[[], float] = time.monotonic
) -> Guard:
    """Return the application; `Guard` says what the token and the host are for."""
    scrapes = Scrapes(observers.collector, clock)

    async def ready(_request: Request) -> Response:
        found = observers.not_ready()
        body: dict[str, object] = {"ready": not found, "not_ready": found}
        if not found:
            body["text"] = observers.summary()
        return Response(msgspec.json.encode(body), 503 if found else 200, media_type=_JSON)

    async def measured(request: Request) -> Response:
        wanted = format_for(request.headers.get("accept", ""))
        return Response(await scrapes.get(wanted), headers={"Content-Type": wanted.value})

    async def status(request: Request) -> Response:
        names = observers.models.names
        name = request.query_params.get("model", names[0])
        if name not in names:
            return Response("no such model\n", 404, media_type="text/plain")
        return Response(status_of(observers, name), media_type=_JSON)

    routes = [
        Route("/livez", Response("alive\n", media_type="text/plain")),
        Route("/readyz", ready),
        Route("/metrics", measured),
        Route("/status", status),
        *_page_routes(),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # it would take the host from the request
    return Guard(app, token, host)


def _page_routes() -> Iterator[Route]:
    """Yield a route for every file of the page that is installed."""
    folder = resources.files("oracle.web") / "page"
    for path, (name, content_type) in _PAGE.items():
        file = folder / name
        if file.is_file():
            yield Route(path, Response(file.read_bytes(), media_type=content_type))
