"""Questions to a daemon over HTTP, and their answers."""

import asyncio
import contextlib
import http.client
import re
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from connectors.asking import Answered, Failed
from connectors.base import JSON
from connectors.retry import Backoff
from oracle.errors import BusError, InputError, RefusedError, UnansweredError

__all__ = ["HttpAsker"]

_AT_ONCE: Final = 16
_SECONDS: Final = 60.0
_WAIT: Final = 5
_PAUSES: Final = (0.05, 2.0)
_TAKEN: Final = 202
_UNSAID: Final = (502, 503, 504)
"""A busy daemon, or a gateway that did not hear what it said: it may have the question."""
_REPLIES: Final = (200, 422)
_ANSWERS: Final = re.compile(r"/v1/answers/[0-9a-f]+")
_NO_DAEMON: Final = "it does not answer as a daemon does"
_DOUBT: Final = "an earlier try may have been taken: then the question takes a round; nothing tells whether it was"


class _Reply(NamedTuple):
    """What was said.

    Attributes:
        doubtful: Whether an earlier try, which nothing was heard of, may have been taken.
    """

    status: int
    where: str
    body: bytes
    doubtful: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether it is the daemon's, an answer or a rejection; 422 also stands for a key that was used before."""
        return self.status in _REPLIES and b'"message"' not in self.body[:12]


class HttpAsker:
    """See `Asker`. Each question is handed in under a key of its own, by which the daemon knows it if it comes again.

    Args:
        url: "http://HOST:PORT" or "https://...".
        token: Of the asker.

    Raises:
        InputError: The URL is none.
    """

    def __init__(self, url: str, token: str) -> None:
        found = urlsplit(url)
        if found.scheme not in {"http", "https"} or not found.hostname:
            raise InputError("url", url, 'must be "http://HOST:PORT" or "https://HOST"')
        self._where = f"{found.scheme}://{found.netloc.rpartition('@')[2]}"
        self._host, self._port, self._prefix = found.hostname, found.port, found.path.rstrip("/")
        self._context = ssl.create_default_context() if found.scheme == "https" else None
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": JSON}
        self._own = threading.local()
        self._open: list[http.client.HTTPConnection] = []
        self._threads: ThreadPoolExecutor | None = None
        self._fetching: set[asyncio.Task[None]] = set()

    async def open(self, answered: Answered, failed: Failed) -> None:
        """See `Asker.open`."""
        del failed  # each question is asked for by itself
        self._answered = answered
        self._own, self._threads = threading.local(), ThreadPoolExecutor(_AT_ONCE, "perpetua-http")
        try:
            reply = await self._call("GET", "/v1/answers/none", None, {})
        except (OSError, http.client.HTTPException) as exc:
            raise BusError(f"{self._where}: no answer: {type(exc).__name__}") from exc
        if reply.status != http.client.NOT_FOUND:
            raise self._refused(reply)

    async def send(self, correlation: bytes, body: bytes) -> bool:
        """See `Asker.send`. It is handed in until the daemon says that it has it, each time as the same question."""
        headers = {"Idempotency-Key": correlation.decode(), "Prefer": "wait=0"}
        reply = await self._until_said("POST", "/v1/ask", body, headers)
        if reply.is_answer:
            self._answered(correlation, reply.body)
        elif reply.status == _TAKEN and not _ANSWERS.fullmatch(reply.where):
            self._answered(correlation, BusError(f"{self._where}: {reply.status}: {_NO_DAEMON}"))
        elif reply.status == _TAKEN:
            fetching = asyncio.create_task(self._fetch(correlation, reply.where))
            self._fetching.add(fetching)
            fetching.add_done_callback(self._fetching.discard)
        elif reply.doubtful:
            self._answered(correlation, UnansweredError(f"{self._refused(reply)}; {_DOUBT}"))
            return False
        else:
            raise self._refused(reply)
        return True

    async def close(self) -> None:
        """See `Asker.close`."""
        threads, self._threads = self._threads, None
        for fetching in self._fetching:
            fetching.cancel()
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        for connection in self._open:  # which ends what waits in a thread
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(2)
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        for connection in self._open:
            connection.close()
        self._open.clear()

    async def _fetch(self, correlation: bytes, where: str) -> None:
        """Wait for an answer, or to hear that it is no longer kept."""
        reply = await self._until_said("GET", where, None, {"Prefer": f"wait={_WAIT}"})
        while reply.status == _TAKEN:
            reply = await self._until_said("GET", where, None, {"Prefer": f"wait={_WAIT}"})
        self._answered(correlation, reply.body if reply.is_answer else self._refused(reply))

    async def _until_said(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> _Reply:
        """Make a request until there is a reply to it, and the daemon is not busy."""
        backoff, doubtful = Backoff(*_PAUSES), False
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                reply = await self._call(method, path, body, headers)
                if reply.status not in _UNSAID:
                    return reply._replace(doubtful=doubtful)
            doubtful = True
            await asyncio.sleep(backoff.pause())

    async def _call(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> _Reply:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._request, method, path, body, headers)

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> _Reply:
        """Make one request over this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._connection()
            self._open.append(connection)
        try:
            connection.request(method, self._prefix + path, body, self._headers | headers)
            response = connection.getresponse()
            return _Reply(response.status, response.headers.get("Location", ""), response.read())
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=_SECONDS)
        return http.client.HTTPSConnection(self._host, self._port, timeout=_SECONDS, context=self._context)

    def _refused(self, reply: _Reply) -> RefusedError:
        try:
            said = str(msgspec.json.decode(reply.body)["message"])
        except (msgspec.DecodeError, TypeError, KeyError):
            said = _NO_DAEMON
        return RefusedError(f"{self._where}: {reply.status}: {said}")
