"""`Client`: asks a daemon that serves, over the bus that it is on."""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakValueDictionary

import msgspec

from connectors.asking import Asker
from oracle.config.daemon import config_of, load_config
from oracle.errors import BusError, InputError, PerpetuaError, RejectedError, UnansweredError
from oracle.hosting.asking import asker_of

__all__ = ["Client", "Query", "Question", "encode_query"]

Query = Mapping[str, Any] | bytes
"""What is asked, as the message that the daemon reads: an object, or its JSON."""

_MOST_UNSENT: Final = 10_000
"""Questions that the bus does not have yet; the next one waits."""

_SECONDS: Final = 30.0


class Question:
    """One question, sent once; its answer may be waited for as often as one likes. `Client.send` makes it.

    Attributes:
        id: Its correlation data, which a daemon gives back with the answer.
        written: True once the bus has it, False if it has not and never will; None while that is not known, and for
            ever where a connection ended before the bus had said so.
    """

    def __init__(self, correlation: bytes) -> None:
        self.id = correlation.decode()
        self.written: bool | None = None
        self._reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def reply(self, seconds: float | None = _SECONDS) -> bytes:
        """Return the daemon's reply as it stands, an answer or a rejection. See `answer`."""
        await asyncio.wait({self._reply}, timeout=seconds)
        if not self._reply.done():
            known = {
                True: "the bus has the question: a daemon that serves it will answer it, in a round",
                None: "it is not known whether the bus has the question; if so a daemon will answer it, in a round",
            }
            text = f"no answer within {seconds:g} s; {known[self.written]}; wait again instead of asking again"
            raise UnansweredError(text, self)
        return self._reply.result()

    async def answer(self, seconds: float | None = _SECONDS) -> dict[str, Any]:
        """Wait for the answer, and return it; a call after a time-out, or beside another one, sends nothing.

        Args:
            seconds: Most time to wait; None for no end.

        Raises:
            RejectedError: The daemon does not answer this question; it says why.
            UnansweredError: There is no answer yet, or the client was closed before.
            BusError: It was not sent, or answers cannot be read any more.
            RefusedError: The bus does not take it, or the daemon no longer keeps its answer (HTTP).
        """
        reply: dict[str, Any] = msgspec.json.decode(await self.reply(seconds))
        if isinstance(reply.get("error"), str):  # a number is what the plan promises
            raise RejectedError(reply)
        return reply

    def _end(self, outcome: bytes | PerpetuaError) -> None:
        """Set what will be its outcome, unless it has one."""
        if self._reply.done():
            return
        if isinstance(outcome, bytes):
            self.written = True
            self._reply.set_result(outcome)
        else:
            self._reply.set_exception(outcome)
            self._reply.exception()  # nobody need wait for it


class Client:
    """Asks a daemon that serves, over Kafka, MQTT, HTTP or a followed file: `async with Client(...) as client`.

    Many questions may be under way at once, from many tasks: `await asyncio.gather(*map(client.ask, queries))`. They
    are sent in the order in which they were asked, and answered in that of the daemon's log.

    Each question is sent once, and takes a round and its share of epsilon. What the daemon's side knows as the same is
    sent again by the client: on Kafka what its idempotent producer was not told of, over HTTP what has the same key.
    What it cannot tell from a second question never is: on MQTT a question whose connection ended before the broker had
    accepted it. A time-out or a cancelled call changes nothing about a question that was sent.

    Args:
        config: The daemon's configuration file, or what it would hold, as tables of settings by name. State and key are
            not used. `Client.kafka` and `Client.mqtt` make the latter.
        model: Which of the file's `[[models]]`; None where it has none.
        reply_topic: Where answers are to go, one of those that the daemon allows (`sink.reply_topics`).
        partition: Of the Kafka topic; None for any.

    Raises:
        InputError: Nobody could be asked so.
        SourceError: The file cannot be read.
        StorageError: A password file cannot be read.
    """

    def __init__(
        self,
        config: Path | str | Mapping[str, Any],
        *,
        model: str | None = None,
        reply_topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        found = config_of(config) if isinstance(config, Mapping) else load_config(Path(config), model)
        self._begin(asker_of(found, reply_topic, partition))

    def _begin(self, asker: Asker) -> None:
        self._asker = asker
        self._open: WeakValueDictionary[bytes, Question] = WeakValueDictionary()
        self._sending: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_MOST_UNSENT)
        self._ended: PerpetuaError | None = UnansweredError("the client is not open; use `async with`")

    @classmethod
    def kafka(
        cls,
        servers: str | Sequence[str],
        queries: str,
        replies: str,
        *,
        partition: int | None = None,
        **kafka: Any,  # noqa: ANN401 -- settings, which are checked
    ) -> Self:
        """Return a client of a daemon on Kafka.

        Args:
            servers: Brokers to begin with, "host:port".
            queries: Topic of the questions.
            replies: Where the answers are to go; where the daemon does not allow it, they go to its answer topic.
            partition: As of `Client`.
            kafka: The other keys of `[kafka]`: `tls={"ca_file": ...}`, `sasl={"mechanism": ..., "username": ...,
                "password": ...}`, `request_seconds`.
        """
        servers = [servers] if isinstance(servers, str) else list(servers)
        return cls(_tables("kafka", {**kafka, "servers": servers}, queries, replies), partition=partition)

    @classmethod
    def mqtt(cls, server: str, queries: str, replies: str, **mqtt: Any) -> Self:  # noqa: ANN401 -- as above
        """Return a client of a daemon on MQTT.

        Args:
            server: The broker, "host:port".
            queries: Topic of the questions.
            replies: Topic of the answers, nobody else's; where the daemon does not allow it, name its answer topic.
            mqtt: The other keys of `[mqtt]`: `tls={...}`, `login={"username": ..., "password": ...}`.
        """
        return cls(_tables("mqtt", {**mqtt, "server": server}, queries, replies))

    @classmethod
    def http(cls, url: str, token: str) -> Self:
        """Return a client of a daemon over HTTP: its "http://HOST:PORT" or "https://HOST", and a token of its."""
        from connectors.desk.asking import HttpAsker  # noqa: PLC0415 -- each bus when it is wanted

        made = cls.__new__(cls)
        made._begin(HttpAsker(url, token))  # noqa: SLF001 -- ours
        return made

    async def ask(self, query: Query, seconds: float | None = _SECONDS) -> dict[str, Any]:
        """Ask, and return the answer: `send` and `Question.answer` in one, with one time for both.

        Raises:
            UnansweredError: There is no answer yet; its `question` can be waited for again. To call `ask` again asks
                another question.
            PerpetuaError: See `send` and `Question.answer`.
        """
        clock = asyncio.get_running_loop().time
        end = None if seconds is None else clock() + seconds
        try:
            async with asyncio.timeout_at(end):
                question = await self.send(query)
        except TimeoutError as exc:
            raise UnansweredError(f"not sent within {seconds:g} s: {_MOST_UNSENT} questions wait for the bus") from exc
        return await question.answer(None if end is None else max(end - clock(), 0.0))

    async def send(self, query: Query) -> Question:
        """Give a question to the client, which sends it as soon as the bus takes it; return what waits for its answer.

        It waits only while thousands of others have not left. Whoever lets go of the question lets go of its answer.

        Raises:
            InputError: The query is no JSON object.
            PerpetuaError: What has ended the client.
        """
        body = encode_query(query)
        await self._room.acquire()
        if self._ended is not None:
            self._room.release()
            raise self._ended
        correlation = secrets.token_hex(16).encode()
        question = self._open[correlation] = Question(correlation)
        sending = asyncio.create_task(self._send(question, correlation, body))
        self._sending.add(sending)
        sending.add_done_callback(self._sent)
        return question

    async def __aenter__(self) -> Self:
        self._ended = None
        try:
            await self._asker.open(self._answered, self._fail)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fail(UnansweredError("the client was closed before the answer came; what the bus has takes a round"))
        for sending in list(self._sending):
            sending.cancel()
        if self._sending:
            await asyncio.wait(self._sending)
        await self._asker.close()

    async def _send(self, question: Question, correlation: bytes, body: bytes) -> None:
        try:
            question.written = await self._asker.send(correlation, body) or question.written
        except PerpetuaError as exc:
            question.written = False
            question._end(exc)  # noqa: SLF001 -- ours
        except Exception as exc:  # noqa: BLE001 -- the bus's client's; nobody is to wait in vain
            question._end(BusError(f"the client failed: {type(exc).__name__}"))  # noqa: SLF001 -- as above

    def _sent(self, sending: "asyncio.Task[None]") -> None:
        self._sending.discard(sending)
        self._room.release()

    def _answered(self, correlation: bytes, outcome: bytes | PerpetuaError) -> None:
        question = self._open.get(correlation)
        if question is not None:
            question._end(outcome)  # noqa: SLF001 -- as above

    def _fail(self, error: PerpetuaError) -> None:
        self._ended = self._ended or error
        for question in list(self._open.values()):
            question._end(error)  # noqa: SLF001 -- as above


def encode_query(query: Query) -> bytes:
    """Return a query as one line of JSON.

    Raises:
        InputError: It is no JSON object.
    """
    try:
        body = msgspec.json.format(query, indent=-1) if isinstance(query, bytes) else _encode(query)
        if isinstance(msgspec.json.decode(body), dict):
            return body
    except (msgspec.MsgspecError, TypeError, UnicodeError):
        pass
    raise InputError("query", "...", "must be one JSON object")


def _encode(query: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(dict(query), enc_hook=_plain)


def _plain(value: Any) -> Any:  # noqa: ANN401 -- NumPy's numbers and arrays, and what is neither
    with contextlib.suppress(AttributeError):
        return value.tolist()
    raise TypeError


def _tables(bus: str, settings: dict[str, Any], queries: str, replies: str) -> dict[str, Any]:
    """Return a configuration whose answers go to one topic: as much of one as an asker needs."""
    return {
        "state": {"folder": "."},
        bus: settings,
        "source": {"kind": bus, "topic": queries},
        "sink": {"kind": bus, "topic": replies},
    }
