"""The web server within the daemon's event loop."""

import asyncio
import contextlib
import errno
import math
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from oracle.config.http import HttpConfig
from oracle.config.web import WebConfig
from oracle.errors import InputError
from oracle.telemetry.client_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.observers import Observers
from oracle.web.app import make_app
from oracle.web.guard import HEADERS
from oracle.web.token import read_token

__all__ = ["Connection", "listen", "running", "serving"]

_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_CONNECTIONS: Final = 64
"""Most connections at a time; one more replaces the one that has been idle longest."""

_REQUEST_SECONDS: Final = 10.0
"""Most time from a connection, or the previous answer, to the end of the next answer."""

_IDLE_SECONDS: Final = 5
_REQUEST_BYTES: Final = 16_384
_STOP_SECONDS: Final = 2
_STOP_TIMEOUT: Final = 5.0


def listen(table: WebConfig | HttpConfig, name: str = "web") -> socket.socket:
    """Return a listening socket at the address of `[web]`, or of the table of that name.

    Raises:
        InputError: The address is not this machine's, or the port is in use.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(table.host, table.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_CONNECTIONS)
    except (socket.gaierror, UnicodeError) as exc:
        raise InputError(f"{name}.host", table.host, "must be an address or name of this machine") from exc
    except OSError as exc:
        if exc.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{name}.host", table.host, "must be an address of this machine") from exc
        if exc.errno == errno.EADDRINUSE:
            raise InputError(
                f"{name}.port",
                table.port,
                f"in use by another process at {table.host}; choose another, or 0 for any free port",
            ) from exc
        raise InputError(f"{name}.port", table.port, f"cannot listen on it: {exc.strerror}") from exc


@contextlib.asynccontextmanager
async def serving(table: WebConfig, models: Models, log: PublicLog) -> AsyncIterator[None]:
    """Serve the models' records over HTTP until the context is left; the log gets nothing of a request.

    Raises:
        InputError: See `listen` and `read_token`.
    """
    token = None if table.token_file is None else read_token(table.token_file)
    observers = Observers(models, table.ready_lag_seconds)
    app = make_app(observers, token=token, host=table.host)
    async with running(app, listen(table), log, Connection) as port:
        log.info("web.listening", host=table.host, port=port)
        observers.look()
        looking = asyncio.create_task(observers.run())
        looking.add_done_callback(lambda done: _log_failure(done, log))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait({looking})


@contextlib.asynccontextmanager
async def running(
    app: ASGIApp, listener: socket.socket, log: PublicLog, connection: type["Connection"]
) -> AsyncIterator[int]:
    """Run an application behind a listening socket until the context is left, and lend the port.

    The log gets nothing of a request.
    """
    server = _Server(_settings(app, connection))
    hear_client(LibraryLog(log, "web.server"), _LOGGERS)
    task = asyncio.create_task(server.serve([listener]))
    task.add_done_callback(lambda done: _log_failure(done, log))
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        await asyncio.wait({task}, timeout=_STOP_TIMEOUT)
        task.cancel()
        await asyncio.wait({task}, timeout=_STOP_TIMEOUT)
        listener.close()


def _log_failure(task: "asyncio.Task[None]", log: PublicLog) -> None:
    """Log that the web server has failed; the daemon goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("web.server", kind=type(error).__name__, reason="ended")


def _settings(app: ASGIApp, connection: type["Connection"]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        h11_max_incomplete_event_size=_REQUEST_BYTES,
    )


class _Server(uvicorn.Server):
    """Leaves the signals to the daemon."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Connection(H11Protocol):
    """One of a bounded number of connections, each with a deadline for the next answer."""

    _timer: asyncio.TimerHandle | None = None

    def limits(self) -> tuple[int, float]:
        """Return how many there may be, and the seconds of the deadline."""
        return _CONNECTIONS, _REQUEST_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin the deadline; where there are too many, end the one that has been idle longest."""
        super().connection_made(transport)
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio leaves it where the listener is ours
        self._start_timer()
        there = [other for other in self.connections if not other.transport.is_closing()]
        if len(there) > self.limits()[0]:
            idle = [other for other in there if isinstance(other, Connection) and other is not self and other.is_idle]
            min(idle, key=lambda other: other.deadline, default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting for its answer."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None before the first

    @property
    def deadline(self) -> float:
        """When the connection is closed unless an answer ends before (seconds of the event loop)."""
        return math.inf if self._timer is None else self._timer.when()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadline."""
        self._cancel_timer()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin the deadline of the next answer."""
        self._start_timer()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, with the headers of all answers."""
        headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close", **HEADERS}
        lines = ["HTTP/1.1 400 Bad Request", *(f"{name}: {value}" for name, value in headers.items()), "", msg]
        self.transport.write("\r\n".join(lines).encode())
        self.transport.close()

    def _start_timer(self) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(self.limits()[1], self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
