"""`SyncClient`: what `Client` is, for programs without an event loop; it has one in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from oracle.api.client import Client, Query, Question
from oracle.errors import UnansweredError

__all__ = ["SyncClient", "SyncQuestion"]

_Result = TypeVar("_Result")


class SyncQuestion:
    """See `Question`; any thread may wait for it."""

    def __init__(self, client: "SyncClient", question: Question) -> None:
        self._client, self._question = client, question

    @property
    def id(self) -> str:
        """See `Question`."""
        return self._question.id

    @property
    def written(self) -> bool | None:
        """See `Question`."""
        return self._question.written

    def answer(self, seconds: float | None = 30.0) -> dict[str, Any]:
        """See `Question.answer`."""
        try:
            return self._client._run(self._question.answer(seconds))  # noqa: SLF001 -- ours
        except UnansweredError as exc:
            exc.question = self
            raise


class SyncClient:
    """Asks as a `Client` does: `with SyncClient(Client(...)) as client`. Many threads may use one.

    Many questions at once: `asked = [client.send(query) for query in queries]`, and then the `answer()` of each.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def ask(self, query: Query, seconds: float | None = 30.0) -> dict[str, Any]:
        """See `Client.ask`."""
        try:
            return self._run(self._client.ask(query, seconds))
        except UnansweredError as exc:
            exc.question = exc.question and SyncQuestion(self, exc.question)
            raise

    def send(self, query: Query) -> SyncQuestion:
        """See `Client.send`."""
        return SyncQuestion(self, self._run(self._client.send(query)))

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="perpetua-client", daemon=True)
        self._thread.start()
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._client.__aexit__(kind, error, trace))
        finally:
            self._end()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        if self._loop is None:
            work.close()
            raise UnansweredError("the client is not open; use `with`")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
