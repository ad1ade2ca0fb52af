"""`POST /v1/ask` and `GET /v1/answers/ID` on a real port, in front of a desk whose daemon is the test."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors.base import Commit, Replies, Reply
from connectors.desk.desk import Desk
from connectors.desk.sink import DeskSink
from connectors.desk.source import DeskSource
from connectors.journal.journal import Journal
from oracle.config.http import HttpConfig
from oracle.errors import InputError
from oracle.telemetry.log import PublicLog
from oracle.web.asking import asking
from oracle.web.guard import HEADERS
from oracle.web.server import listen
from oracle.web.token import read_tokens
from tests.faults import Faults
from tests.support.configs import write_secret
from tests.support.http import OTHER, TOKEN
from tests.support.waiting import TIMEOUT, until

_BODY = b'{"x":[0.5]}'
_JSON = {"Content-Type": "application/json"}
_LIMIT = 1000


class _Site:
    """A web server in front of a desk."""

    def __init__(self, desk: Desk, source: DeskSource, sink: DeskSink, log: io.StringIO) -> None:
        self.desk, self.source, self.sink, self._log = desk, source, sink, log

    @property
    def port(self) -> int:
        return int(json.loads(self._log.getvalue().splitlines()[0])["port"])

    def log(self) -> str:
        return self._log.getvalue()

    async def request(self, method: str, path: str, token: str | None = TOKEN, **given: Any) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        headers |= given.pop("headers", {})
        async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT) as client:
            return await client.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers, **given)

    async def ask(self, body: bytes = _BODY, *, token: str = TOKEN, **headers: str) -> httpx.Response:
        return await self.request("POST", "/v1/ask", token, content=body, headers=_JSON | headers)

    async def answer(self, reply: bytes = b'{"label":1}') -> int:
        """Answer what waits, all the same; return how many there were."""
        found = await self.source.fetch(1000, 60.0)
        replies = Replies.of([Reply(reply, headers=one.headers) for one in found.rows()])
        await self.sink.commit(Commit(replies, [], found.positions[-1], b""))
        return len(found)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[_Site]:
    """A site that is open, and a desk that nobody answers at."""
    desk = Desk(Journal(tmp_path / "queries", bytes(32), "q", limit=1 << 20), 1 << 20)
    sink = DeskSink(Journal(tmp_path / "answers", bytes(32), "a", limit=1 << 20), desk)
    source = DeskSource(desk, sink)
    await sink.open()
    await source.open(0)
    tokens = write_secret(tmp_path / "tokens", f"{TOKEN}\n\n{OTHER}\n")
    log = io.StringIO()
    table = HttpConfig(port=0, tokens_file=tokens, wait_seconds=0.0)
    async with asking(table, desk, bytes(32), _LIMIT, PublicLog(log, "json", "m")):
        yield _Site(desk, source, sink, log)
        with contextlib.suppress(Exception):
            await source.close()
    await sink.close()


async def test_answer_on_the_request(site: _Site):
    """It waits as long as it is told to; the answer is the daemon's, with where it can be fetched again."""
    asking_it = asyncio.create_task(site.ask(Prefer="wait=30"))
    await site.answer()
    answer = await asking_it
    assert (answer.status_code, answer.content) == (200, b'{"label":1}')
    assert answer.headers["content-type"] == "application/json"
    again = await site.request("GET", answer.headers["location"])
    assert (again.status_code, again.content) == (200, b'{"label":1}')


async def test_answer_later(site: _Site):
    """Where there is none in time, 202 says where it will be; there it is waited for as long as one likes."""
    told = await site.ask()
    assert (told.status_code, told.headers["retry-after"]) == (202, "1")
    where = told.json()["answer"]
    assert told.headers["location"] == where == f"/v1/answers/{told.json()['id']}"
    assert (await site.request("GET", where)).status_code == 202
    fetching = asyncio.create_task(site.request("GET", where, headers={"Prefer": "respond-async, wait=30"}))
    await site.answer(b'{"error":"wrong-dimension","field":"x"}')
    answer = await fetching
    assert (answer.status_code, answer.json()["error"]) == (422, "wrong-dimension")


async def test_number_called_error_is_no_rejection(site: _Site):
    """It is what the plan promises."""
    told = await site.ask()
    await site.answer(b'{"share":0.5,"error":0.04}')
    assert (await site.request("GET", told.headers["location"])).status_code == 200


async def test_key_makes_a_question_one(site: _Site):
    """Of one asker: the same key with the same question is the same; with another it is refused."""
    keyed: dict[str, Any] = {"Idempotency-Key": "k"}
    first, second = await asyncio.gather(site.ask(**keyed), site.ask(**keyed))
    assert first.json() == second.json()
    others = await site.ask(token=OTHER, **keyed)
    assert others.json() != first.json()
    assert (await site.ask(b'{"x":[0.6]}', **keyed)).status_code == 422
    assert (await site.ask()).json() != (await site.ask()).json()
    assert await site.answer() == 4
    assert (await site.ask(**keyed)).status_code == 200


async def test_answers_are_their_askers(site: _Site):
    """Nobody else can tell them from those that are not there."""
    mine = (await site.ask()).headers["location"]
    none = f"/v1/answers/{'0' * 48}"
    found = [await site.request("GET", where, OTHER) for where in (mine, none)]
    found += [await site.request("GET", where) for where in (none, "/v1/answers/x", "/v1/answers/")]
    assert [answer.status_code for answer in found] == [404] * 5
    assert found[0].content == found[1].content == found[2].content


@pytest.mark.parametrize("shown", [None, "x", "of-the-first-aske", "of-the-first-askers", "é"])
@pytest.mark.parametrize("path", ["/v1/ask", "/v1/answers/00", "/", "/none"])
async def test_without_a_token_there_is_nothing(site: _Site, shown: str | None, path: str):
    """No path is told from another, and nothing is taken in."""
    headers = {} if shown is None else {"Authorization": b"Bearer " + shown.encode()}
    answer = await site.request("POST", path, None, content=_BODY, headers=_JSON | headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert site.desk.questions.end == 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b" " * (_LIMIT + 1), {}, 413),
        (_BODY, {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (_BODY, {"Idempotency-Key": ""}, 400),
        (_BODY, {"Idempotency-Key": "a b"}, 400),
        (_BODY, {"Idempotency-Key": "k" * 256}, 400),
    ],
)
async def test_what_is_no_question_is_not_taken_in(site: _Site, body: bytes, headers: dict[str, str], status: int):
    """It is told what would be one. A body of the greatest length is taken in, whatever is in it."""
    answer = await site.ask(body, **headers)
    assert (answer.status_code, bool(answer.json()["message"])) == (status, True)
    assert site.desk.questions.end == 0
    assert (await site.ask(b"x" * _LIMIT, **{"Content-Type": "Application/JSON; charset=utf-8"})).status_code == 202


async def test_body_that_does_not_end_is_cut_off(site: _Site):
    """What comes in pieces is bounded as a whole; what breaks off is no question."""

    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 400

    with contextlib.suppress(httpx.TransportError):  # it may be closed before it is read
        answer = await site.request("POST", "/v1/ask", content=pieces(), headers=_JSON)
        assert answer.status_code == 413
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    head = f"POST /v1/ask HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + b"Content-Length: 9\r\n\r\n{}")
    await writer.drain()
    writer.close()
    assert b"202" not in await reader.read()
    assert site.desk.questions.end == 0


async def test_too_much_and_no_room(site: _Site, monkeypatch: pytest.MonkeyPatch):
    """503 says when to come again; the text of a failed disk names no folder, and nothing was taken in."""
    with Faults(fail_at=0):
        failed = await site.ask()
    monkeypatch.setattr("connectors.desk.desk._MOST_WAITING", 0)
    busy = await site.ask()
    for answer in (failed, busy):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "queries" not in answer.text
    assert site.desk.questions.end == 0


async def test_stop_tells_who_waits(site: _Site):
    """That the question is taken in, and where its answer will be; others are sent away, and whoever fetches theirs."""
    waiting = asyncio.create_task(site.ask(Prefer="wait=30"))
    await until(lambda: site.desk.questions.end == 1)
    await site.source.close()
    told = await waiting
    assert told.status_code == 202
    assert (await site.ask()).status_code == 503
    where = told.headers["location"]
    assert (await site.request("GET", where)).status_code == 202
    unknown = where[:-2] + ("00" if where[-2:] != "00" else "11")
    assert (await site.request("GET", unknown)).status_code == 503  # it may be known when the desk is open again
    await site.source.open(0)
    assert (await site.request("GET", unknown)).status_code == 404


async def test_every_answer_has_the_careful_headers(site: _Site):
    """Those that refuse too; the log has nothing of a request."""
    answers = [
        await site.ask(),
        await site.request("GET", "/v1/ask"),
        await site.request("GET", "/none"),
        await site.request("GET", "/v1/ask", None),
    ]
    assert [answer.status_code for answer in answers] == [202, 405, 404, 401]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "server" not in answer.headers
    assert site.log().count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must contain one token"),
        ("short", "at least 16 characters"),
        (f"{TOKEN}\nwith a space in it\n", "must contain one token"),
        (f"{TOKEN}\n{TOKEN}\n", "must contain a token once"),
    ],
)
def test_tokens_that_are_none(tmp_path: Path, text: str, said: str):
    """They are refused, without being told."""
    path = write_secret(tmp_path / "tokens", text)
    with pytest.raises(InputError, match=rf"^http\.tokens_file.*{said}") as caught:
        read_tokens(path)
    assert TOKEN not in str(caught.value)
    path.chmod(0o644)
    with pytest.raises(InputError, match="readable by others"):
        read_tokens(path)


def test_address_that_is_taken(tmp_path: Path):
    """It is named as the configuration names it."""
    table = HttpConfig(port=0, tokens_file=tmp_path)
    with listen(table, "http") as taken, pytest.raises(InputError, match=r"^http\.port"):
        listen(table.model_copy(update={"port": taken.getsockname()[1]}), "http")
