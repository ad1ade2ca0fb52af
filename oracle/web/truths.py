"""Metrics and health of `perpetua truth` over HTTP."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oracle.config.web import WebConfig
from oracle.telemetry.collector import TruthCollector
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import encode, format_for
from oracle.telemetry.truths import TruthTelemetry
from oracle.web.guard import Guard
from oracle.web.server import Connection, listen, running
from oracle.web.token import read_token

__all__ = ["truth_app", "truths_beside"]

_UNREADY: Final = 503


@contextlib.asynccontextmanager
async def truths_beside(table: WebConfig | None, telemetry: TruthTelemetry, log: PublicLog) -> AsyncIterator[None]:
    """Serve what may be told until the context is left; without a table there is no server.

    Raises:
        InputError: On entering: the port is taken, or the token file cannot be used.
    """
    if table is None:
        yield
        return
    token = None if table.token_file is None else read_token(table.token_file)
    app = truth_app(telemetry, token=token, host=table.host)
    async with running(app, listen(table, "truth.web"), log, Connection) as port:
        log.info("web.listening", host=table.host, port=port)
        yield


def truth_app(telemetry: TruthTelemetry, *, token: bytes | None, host: str) -> Guard:
    """Return the application; `Guard` says what the token and the host are for."""

    async def ready(_request: Request) -> Response:
        unready = sorted(shard for shard, there in telemetry.ready.items() if not there)
        body = msgspec.json.encode({"ready": not unready, "not_ready": unready})
        return Response(body, _UNREADY if unready else 200, media_type="application/json")

    async def measured(request: Request) -> Response:
        wanted = format_for(request.headers.get("accept", ""))
        return Response(encode(TruthCollector(telemetry), wanted), headers={"Content-Type": wanted.value})

    routes = [
        Route("/livez", Response("alive\n", media_type="text/plain")),
        Route("/readyz", ready),
        Route("/metrics", measured),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # it would take the host from the request
    return Guard(app, token, host)
