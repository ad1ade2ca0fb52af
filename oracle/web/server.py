"""The web server within the daemon's event loop."""

import asyncio
import contextlib
import errno
import math
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from oracle.config.web import WebConfig
from oracle.errors import InputError
from oracle.telemetry.health import Health
from oracle.telemetry.library_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Metrics
from oracle.telemetry.registry import Registry
from oracle.web.app import make_app
from oracle.web.guard import HEADERS
from oracle.web.token import read_token

__all__ = ["listen", "serving"]

_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_CONNECTIONS: Final = 64
"""Most connections at a time; one more takes the place of the one that has been idle longest."""

_REQUEST_SECONDS: Final = 10.0
"""Most time from a connection, or the answer before, to the end of the next answer."""

_IDLE_SECONDS: Final = 5
_REQUEST_BYTES: Final = 16_384
_STOP_SECONDS: Final = 2
_LET_GO: Final = 5.0


def listen(table: WebConfig) -> socket.socket:
    """Return a listening socket at the address of `[web]`.

    Raises:
        InputError: There is no such address here, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(table.host, table.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_CONNECTIONS)
    except (socket.gaierror, UnicodeError) as exc:
        raise InputError("web.host", table.host, "must be an address of this machine, or a name of one") from exc
    except OSError as exc:
        if exc.errno == errno.EADDRNOTAVAIL:
            raise InputError("web.host", table.host, "must be an address of this machine") from exc
        if exc.errno == errno.EADDRINUSE:
            raise InputError(
                "web.port",
                table.port,
                f"taken by another process at {table.host}; take another one, or 0 for one that is free",
            ) from exc
        raise InputError("web.port", table.port, f"cannot be listened at: {exc.strerror}") from exc


@contextlib.asynccontextmanager
async def serving(
    table: WebConfig, board: Registry, folder_of: Callable[[int], Path], log: PublicLog
) -> AsyncIterator[None]:
    """Answer requests about what the board knows until the context is left.

    Args:
        table: `[web]`.
        board: Where the records are.
        folder_of: Where a shard's snapshots are.
        log: Told of the address, and that something went wrong; never what was asked.

    Raises:
        InputError: The address is not there or taken, or the token file cannot be used.
    """
    token = None if table.token_file is None else read_token(table.token_file)
    health = Health(board, folder_of, table.ready_lag_seconds)

    def unready() -> frozenset[int | None]:
        return frozenset(found.shard for found in health.not_ready())

    metrics = Metrics(board, unready=unready, now=time.time)
    server = _Server(_settings(make_app(board, health, metrics, time.time, token=token, host=table.host)))
    listener = listen(table)
    hear_client(LibraryLog(log, "web.server"), _LOGGERS)
    health.look()
    tasks = [asyncio.create_task(server.serve([listener])), asyncio.create_task(health.run())]
    for task in tasks:
        task.add_done_callback(lambda done: _tell(done, log))
    log.info("web.listening", host=table.host, port=listener.getsockname()[1])
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait(tasks[:1], timeout=_LET_GO)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_LET_GO)
        listener.close()


def _tell(task: "asyncio.Task[None]", log: PublicLog) -> None:
    """Say that the web server has ended by itself; the daemon goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("web.server", kind=type(error).__name__, reason="ended")


def _settings(app: Callable[..., object]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Connection,
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


class _Connection(H11Protocol):
    """One of a bounded number of connections, each of bounded patience."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._wait()
        there = [other for other in self.connections if not other.transport.is_closing()]
        if len(there) > _CONNECTIONS:
            idle = [other for other in there if isinstance(other, _Connection) and other is not self and other.is_idle]
            min(idle, key=lambda other: other.patience_ends, default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no whole request waits for its answer."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None before the first

    @property
    def patience_ends(self) -> float:
        """When it is closed (seconds of the event loop), unless an answer ends before."""
        return math.inf if self._deadline is None else self._deadline.when()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close", **HEADERS}
        lines = ["HTTP/1.1 400 Bad Request", *(f"{name}: {value}" for name, value in headers.items()), "", msg]
        self.transport.write("\r\n".join(lines).encode())
        self.transport.close()

    def _wait(self) -> None:
        self._wait_no_more()
        self._deadline = self.loop.call_later(_REQUEST_SECONDS, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
