"""What `Client` and `SyncClient` promise of questions and their answers, on a bus that does what the test says."""

import asyncio
import concurrent.futures
import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oracle
from oracle.api import client as module
from oracle.errors import BusError, InputError, PerpetuaError, RejectedError, SourceError, UnansweredError
from tests.support.waiting import until

_QUERY = {"x": [0.5, 0.5]}


class _Bus:
    """An asker whose bus takes a question when `take` is called; or at once, and answers it, with `echo`."""

    def __init__(self, *, echo: bool = False) -> None:
        self.sent: list[tuple[bytes, bytes]] = []
        self._echo = echo
        self._taken = asyncio.Event()
        self.outcome: bool | Exception = True
        self.closed = False

    async def open(self, answered: Callable[[bytes, bytes], None], failed: Callable[[PerpetuaError], None]) -> None:
        self.answered, self.failed = answered, failed
        self._loop = asyncio.get_running_loop()

    async def send(self, correlation: bytes, body: bytes) -> bool:
        self.sent.append((correlation, body))
        if self._echo:
            self.answered(correlation, b'{"id":%b,"label":1}' % json.dumps(json.loads(body)["id"]).encode())
            return True
        await self._taken.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        self.closed = True

    def later(self, correlation: bytes, body: bytes) -> None:
        """Answer from another thread."""
        self._loop.call_soon_threadsafe(self.answered, correlation, body)

    def take(self, *, outcome: bool | Exception = True) -> None:
        """Let `send` end with an outcome."""
        self.outcome = outcome
        self._taken.set()


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> _Bus:
    """The bus of this test's clients."""
    made = _Bus()
    monkeypatch.setattr(module, "asker_of", lambda *_: made)
    return made


def _client() -> oracle.Client:
    return oracle.Client.kafka("127.0.0.1:1", "q", "a")


async def _sent(bus: _Bus, count: int = 1) -> None:
    await until(lambda: len(bus.sent) == count)


async def test_waiting_again_sends_nothing(bus: _Bus):
    """A time-out says what is known, and leaves the question as it is: what comes later is its answer."""
    async with _client() as client:
        with pytest.raises(UnansweredError, match="not known whether the bus has the question") as caught:
            await client.ask(_QUERY, seconds=0.01)
        question = caught.value.question
        assert question.written is None
        bus.take()
        await until(lambda: question.written)
        with pytest.raises(UnansweredError, match="the bus has the question: a daemon that serves it will answer it"):
            await question.answer(seconds=0.0)
        ((correlation, body),) = bus.sent
        assert json.loads(body) == _QUERY
        both = [asyncio.create_task(question.answer(None)) for _ in range(2)]
        bus.answered(b"somebody else's", b"{}")
        bus.answered(correlation, b'{"label":1}')
        bus.answered(correlation, b'{"label":0}')  # a repetition would be the same; none is looked at
        assert [await one for one in both] == [{"label": 1}, {"label": 1}]
        assert len(bus.sent) == 1


async def test_cancelled_call_sends_nothing_again(bus: _Bus):
    """The question stays sent, and a cancelled wait can be followed by another."""
    async with _client() as client:
        question = await client.send(_QUERY)
        waiting = asyncio.create_task(question.answer(None))
        await _sent(bus)
        waiting.cancel()
        await asyncio.wait({waiting})
        bus.answered(bus.sent[0][0], b'{"label":1}')
        assert await question.answer() == {"label": 1}
        assert (question.written, len(bus.sent)) == (True, 1)


async def test_rejections_are_named(bus: _Bus):
    """A reply with a reason is raised with it; a number called `error` is a promise, and no rejection."""
    async with _client() as client:
        first, second, third = [await client.send(_QUERY) for _ in range(3)]
        await _sent(bus, 3)
        known = [correlation for correlation, _ in bus.sent]
        bus.answered(known[0], b'{"id":null,"error":"wrong-dimension","field":"x","bound":"2 numbers","model":"m"}')
        bus.answered(known[1], b'{"id":null,"error":"budget-spent","paid":4}')
        bus.answered(known[2], b'{"share":0.5,"error":0.04}')
        with pytest.raises(RejectedError, match=r"^rejected: wrong-dimension; x; 2 numbers$") as caught:
            await first.answer()
        assert (caught.value.reason, caught.value.reply["field"]) == ("wrong-dimension", "x")
        with pytest.raises(RejectedError, match="budget-spent") as spent:
            await second.answer()
        assert spent.value.reply["paid"] == 4
        assert (await third.answer())["error"] == 0.04


@pytest.mark.parametrize(("outcome", "written"), [(BusError("gone"), False), (ZeroDivisionError(), None)])
async def test_what_is_not_sent_is_not_waited_for(bus: _Bus, outcome, written):
    """Who waits is told at once."""
    async with _client() as client:
        question = await client.send(_QUERY)
        bus.take(outcome=outcome)
        with pytest.raises(BusError):
            await question.answer(None)
        assert question.written is written


async def test_in_doubt_may_be_answered(bus: _Bus):
    """Where it is not known whether the bus has a question, it is waited for and not sent again."""
    async with _client() as client:
        question = await client.send(_QUERY)
        bus.take(outcome=False)
        with pytest.raises(UnansweredError, match="not known"):
            await question.answer(seconds=0.01)
        bus.answered(bus.sent[0][0], b'{"label":0}')
        assert (await question.answer(), question.written, len(bus.sent)) == ({"label": 0}, True, 1)


async def test_end_is_told_to_all_who_wait(bus: _Bus):
    """Where no answer can be read any more, everybody hears why, and nothing is sent from then on."""
    async with _client() as client:
        waiting = [asyncio.create_task(client.ask(_QUERY, None)) for _ in range(3)]
        await _sent(bus, 3)
        bus.failed(SourceError("answers were deleted"))
        for one in waiting:
            with pytest.raises(SourceError, match="answers were deleted"):
                await one
        with pytest.raises(SourceError, match="answers were deleted"):
            await client.ask(_QUERY)
    assert (len(bus.sent), bus.closed) == (3, True)


async def test_closing_ends_the_wait(bus: _Bus):
    """What was sent may be answered; nobody here will hear of it. A closed client, or one not opened, refuses."""
    with pytest.raises(UnansweredError, match="use `async with`"):
        await _client().ask(_QUERY)
    async with _client() as client:
        question = await client.send(_QUERY)
        await _sent(bus)
    with pytest.raises(UnansweredError, match="closed before the answer came"):
        await question.answer(None)
    with pytest.raises(UnansweredError, match="closed"):
        await client.ask(_QUERY)


async def test_questions_that_nobody_waits_for_are_forgotten(bus: _Bus):
    """Who lets go of a question lets go of its answer: no memory is kept for those who never come."""
    bus.take()
    async with _client() as client:
        for _ in range(50):
            await client.send(_QUERY)
        await _sent(bus, 50)
        await until(lambda: not client._sending)
        gc.collect()
        assert len(client._open) == 0


async def test_most_unsent(bus: _Bus, monkeypatch: pytest.MonkeyPatch):
    """While as many questions as are held have not left, the next one waits, and if in vain was never sent."""
    monkeypatch.setattr(module, "_MOST_UNSENT", 2)
    async with _client() as client:
        asked = [await client.send(_QUERY) for _ in range(2)]
        with pytest.raises(UnansweredError, match=r"not sent within 0\.01 s") as caught:
            await client.ask(_QUERY, seconds=0.01)
        assert (caught.value.question, len(bus.sent)) == (None, 2)
        bus.take()
        await until(lambda: all(question.written for question in asked))
        await client.send(_QUERY)
        await _sent(bus, 3)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ({"x": np.array([0.5, 1.0]), "n": np.int64(3)}, b'{"x":[0.5,1.0],"n":3}'),
        (b'{"id": "q",\n "x": [1]}', b'{"id":"q","x":[1]}'),
    ],
)
def test_queries_are_one_line_of_json(query: Any, sent: bytes):
    """NumPy's numbers and arrays are as Python's; JSON goes as it is, on one line."""
    assert module.encode_query(query) == sent


@pytest.mark.parametrize("query", [b"[1]", b"{", b"", b"\xff", {"x": object()}, {"x": {1: {(): 2}}}])
def test_what_is_no_object_is_refused(query: Any):
    """Before anything is sent."""
    with pytest.raises(InputError, match="must be one JSON object"):
        module.encode_query(query)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: oracle.Client.kafka("here", "q", "a"), "kafka.servers"),
        (lambda: oracle.Client.kafka("h:1", "q", "q"), "each must be a topic of its own"),
        (lambda: oracle.Client.kafka("h:1", "q", "a", tsl={}), "kafka.tsl: unknown setting of a configuration"),
        (lambda: oracle.Client.mqtt("h:1", "q/+", "a"), "source.topic"),
        (lambda: oracle.Client({}), "state"),
        (lambda: oracle.Client({"_env": 1}), "_env"),
    ],
)
def test_settings_are_checked_as_a_configuration_is(make: Callable[[], object], said: str):
    """In the same words."""
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)


def test_without_an_event_loop(monkeypatch: pytest.MonkeyPatch):
    """Many threads ask with one client, each hears its own answer; errors and questions are as the other client's."""
    bus = _Bus(echo=True)
    monkeypatch.setattr(module, "asker_of", lambda *_: bus)
    with (
        oracle.SyncClient(_client()) as client,
        concurrent.futures.ThreadPoolExecutor(8) as threads,
    ):
        answers = list(threads.map(lambda number: client.ask({"id": number}), range(200)))
        assert [answer["id"] for answer in answers] == list(range(200))
        asked = [client.send({"id": number}) for number in range(50)]
        assert [question.answer()["id"] for question in asked] == list(range(50))
        assert asked[0].written
        bus._echo = False
        with pytest.raises(UnansweredError) as caught:
            client.ask({"id": 7}, seconds=0.01)
        correlation = bus.sent[-1][0]
        assert caught.value.question.id == correlation.decode()
        with pytest.raises(UnansweredError) as again:
            caught.value.question.answer(seconds=0.01)
        assert again.value.question is caught.value.question
        bus.later(correlation, b'{"id":7}')
        assert caught.value.question.answer() == {"id": 7}
    assert (bus.closed, len(bus.sent)) == (True, 251)
    with pytest.raises(UnansweredError, match="use `with`"):
        client.ask({"id": 8})


def test_client_that_cannot_open_leaves_no_thread(monkeypatch: pytest.MonkeyPatch):
    """It raises what the bus says, and ends what it began."""
    bus = _Bus()

    async def refuse(*_: object) -> None:
        raise BusError("no broker")

    monkeypatch.setattr(bus, "open", refuse)
    monkeypatch.setattr(module, "asker_of", lambda *_: bus)
    client = oracle.SyncClient(_client())
    with pytest.raises(BusError, match="no broker"), client:
        pass
    assert (bus.closed, client._thread) == (True, None)
