"""`perpetua serve` over HTTP: the real daemon as a process, asked by a client of HTTP; killed, and asked again."""

import concurrent.futures
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import oracle
from oracle.errors import BusError, InputError, RefusedError, RejectedError, UnansweredError
from tests.support.folders import perpetua
from tests.support.http import OTHER, TOKEN, HttpModelUnderTest
from tests.support.poisoned import FAILING, body
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "http.md"
_QUERY = {"id": "mine", "x": [0.5, 0.5]}


@pytest.fixture
def model(tmp_path: Path) -> Iterator[HttpModelUnderTest]:
    """A model; what still serves it at the end is killed."""
    made = HttpModelUnderTest(tmp_path).create()
    yield made
    made.end()


def _ask(client: httpx.Client, body: bytes, **headers: str) -> httpx.Response:
    return client.post("/v1/ask", content=body, headers={"Content-Type": "application/json", **headers})


def test_asked_and_answered(model: HttpModelUnderTest):
    """Answers are those of any other bus; each asker fetches its own again, and a key makes a question one."""
    daemon = model.serve()
    contents = bodies(20)
    with model.client() as client, model.client(OTHER) as other:
        answers = [_ask(client, body) for body in contents]
        assert [answer.content for answer in answers] == model.expected(contents)
        assert {answer.status_code for answer in answers} == {200}
        again = client.get(answers[3].headers["location"])
        assert (again.status_code, again.content) == (200, answers[3].content)
        assert other.get(answers[3].headers["location"]).status_code == 404
        keyed = [_ask(client, contents[0], **{"Idempotency-Key": "k1"}) for _ in range(3)]
        assert {answer.json()["round"] for answer in keyed} == {20}
        assert _ask(other, contents[0], **{"Idempotency-Key": "k1"}).json()["round"] == 21
        reused = _ask(client, contents[1], **{"Idempotency-Key": "k1"})
        assert (reused.status_code, reused.json()["message"]) == (
            422,
            "Idempotency-Key: this key was used for another question",
        )
        program = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)[0]
        names: dict[str, Any] = {}
        exec(program, names)  # noqa: S102 -- our own page
        assert names["ask"](_QUERY, str(client.base_url), TOKEN)["round"] == 22
        rejected = _ask(client, b'{"id":"a","x":[1]}')
        assert (rejected.status_code, rejected.json()["error"]) == (422, "wrong-dimension")
        assert _ask(client, b"{").json()["error"] == "malformed"
    found = perpetua("check", model.config()).stdout
    for line in (b"journals are intact and match the state", b"http: tokens", b"http: the port was not tried"):
        assert b"ok     " + line in found
    assert model.stop(daemon) == 0
    events = [json.loads(line)["kind"] for line in (model.folder / "ledger.jsonl").read_bytes().splitlines()]
    assert (events[0], events[-1]) == ("shard-started", "shard-stopped")
    said = (model.folder / "serve.log").read_text()
    assert "0.5" not in said
    assert answers[3].headers["location"].rpartition("/")[2] not in said


def test_events(model: HttpModelUnderTest):
    """An event in structured mode is answered by one, the same behind a crash; a key holds for it as it came."""
    daemon = model.serve()
    event = {"specversion": "1.0", "id": "7", "source": "/asker", "type": "t", "data": {"x": [0.5, 0.5]}}
    headers = {"Content-Type": "application/cloudevents+json", "Idempotency-Key": "k"}
    with model.client() as client:
        answer = _ask(client, json.dumps(event).encode(), **headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, headers["Content-Type"])
        told = answer.json()
        assert (told["causationid"], told["type"], told["data"]["round"]) == ("7", "perpetua.answer", 0)
        assert _ask(client, json.dumps(event).encode(), **headers, Prefer="wait=9").content == answer.content
        assert _ask(client, json.dumps(event).encode(), **{"Idempotency-Key": "k"}).status_code == 422  # as plain JSON
        rejected = _ask(client, json.dumps(event | {"data": {"x": [1]}}).encode(), **headers | {"Idempotency-Key": "l"})
        assert (rejected.status_code, rejected.json()["data"]["error"]) == (422, "wrong-dimension")
        batch = _ask(client, b"[]", **{"Content-Type": "application/cloudevents-batch+json"})
        assert (batch.status_code, "application/cloudevents+json" in batch.json()["message"]) == (415, True)
        daemon.kill()
        daemon.wait(TIMEOUT)
        model.serve()
        assert client.get(answer.headers["location"]).content == answer.content


def test_clients_over_http(model: HttpModelUnderTest):
    """Many at once, each answered once though the daemon is killed; rejections, time-outs and tokens as on any bus."""
    daemon = model.serve()
    url = f"http://127.0.0.1:{model.port}"
    queries = [{"id": number, "x": [0.5, number / 100]} for number in range(100)]
    with oracle.SyncClient(oracle.Client.http(url, OTHER)) as client:
        with pytest.raises(RejectedError, match="wrong-dimension"):
            client.ask({"x": [1]}, TIMEOUT)
        asked = [client.send(query) for query in queries]
        eventually(lambda: any(question.written for question in asked))
        daemon.kill()
        daemon.wait(TIMEOUT)
        with pytest.raises(UnansweredError, match="not known whether"):
            client.ask(_QUERY, seconds=0.1)
        model.serve()
        answers = [question.answer(TIMEOUT) for question in asked]
        assert [answer["id"] for answer in answers] == list(range(100))
    asked_here = perpetua("ask", model.config(), json.dumps(_QUERY))
    assert json.loads(asked_here.stdout)["round"] in {100, 101}  # the one nobody waited for may have come
    with pytest.raises(RefusedError, match="401: a bearer token is required"):
        oracle.SyncClient(oracle.Client.http(url, "nobody's token")).__enter__()
    model.end()
    with pytest.raises(BusError, match="no answer"):
        oracle.SyncClient(oracle.Client.http(url, OTHER)).__enter__()
    with pytest.raises(InputError, match="url"):
        oracle.Client.http("127.0.0.1:8464", OTHER)


@pytest.mark.slow
def test_killed_at_any_moment(model: HttpModelUnderTest):
    """Clients ask again under their keys until they have an answer: each question takes one round, and one answer."""
    daemon = model.serve()
    contents = bodies(480)

    def ask(number: int) -> bytes:
        with model.client() as client:
            while True:
                try:
                    answer = _ask(client, contents[number], **{"Idempotency-Key": f"question-{number}"})
                except httpx.TransportError:
                    continue
                if answer.status_code == 200:
                    return answer.content
                assert answer.status_code in {202, 503}, answer.content

    with concurrent.futures.ThreadPoolExecutor(8) as askers:
        asked = [askers.submit(ask, number) for number in range(len(contents))]
        for done in range(80, 401, 80):
            eventually(lambda done=done: sum(one.done() for one in asked) >= done)
            daemon.send_signal(signal.SIGKILL)
            daemon.wait(TIMEOUT)
            daemon = model.serve()
        answers = [one.result(TIMEOUT) for one in asked]
    rounds = [json.loads(answer)["round"] for answer in answers]
    assert sorted(rounds) == list(range(len(contents)))
    in_order = [contents[number] for number in sorted(range(len(contents)), key=rounds.__getitem__)]
    assert sorted(answers, key=lambda answer: json.loads(answer)["round"]) == model.expected(in_order)
    with model.client() as client:  # the newest daemon knows what the first one answered
        assert _ask(client, contents[0], **{"Idempotency-Key": "question-0"}).content == answers[0]
    assert model.stop(daemon) == 0


@pytest.mark.slow
def test_stopped_while_questions_wait(model: HttpModelUnderTest):
    """Who waits is told where its answer will be; the next daemon gives it, and goes on counting."""
    config = model.config()
    daemon = model.serve(config)
    with model.client() as client:
        assert _ask(client, json.dumps(_QUERY).encode(), Prefer="wait=0").status_code in {200, 202}
        daemon.send_signal(signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(1) as asker:
            late = asker.submit(_ask, client, json.dumps(_QUERY).encode(), Prefer="wait=0")
            daemon.send_signal(signal.SIGTERM)
            daemon.send_signal(signal.SIGCONT)
            try:
                told = late.result(TIMEOUT)
            except httpx.TransportError:  # it had not come so far
                told = None
        assert daemon.wait(TIMEOUT) == 0
    model.serve(config)
    with model.client() as client:
        if told is not None and told.status_code != 503:
            answer = client.get(told.headers["location"])
            assert (answer.status_code, answer.json()["round"]) == (200, 1)
        assert client.get("/v1/answers/00").status_code == 404


@pytest.mark.slow
def test_skipped(model: HttpModelUnderTest):
    """A question that stops the daemon waits for an operator, who passes it over; its asker is told, others go on."""
    config = model.config()
    launcher = ("-m", "tests.support.poisoned")
    daemon = model.serve(config, launcher)
    contents = [*bodies(5), body(FAILING, 0.5)]
    with model.client() as client:
        told = [_ask(client, content, Prefer="wait=0") for content in contents]
        assert {one.status_code for one in told} <= {200, 202}
    assert daemon.wait(TIMEOUT) == 3
    found = re.search(r"--position (\d+)", (model.folder / "serve.log").read_text())
    assert found is not None
    assert f"the next message ends at {found[1]}".encode() in perpetua("check", config).stdout
    skipped = perpetua("skip", config, "--position", found[1], "--yes")
    assert skipped.returncode == 0, skipped.stderr
    daemon = model.serve(config, launcher)
    with model.client() as client:
        answers = [client.get(one.headers["location"]) for one in told]
        assert [answer.status_code for answer in answers] == [200] * 5 + [422]
        assert answers[-1].json()["error"] == "skipped"
        assert _ask(client, contents[0]).json()["round"] == 5
    assert model.stop(daemon) == 0


@pytest.mark.slow
def test_retired(model: HttpModelUnderTest):
    """A model whose questions all have answers can be retired; its journals are erased, and nothing serves it."""
    config = model.config()
    daemon = model.serve(config)
    with model.client() as client:
        assert _ask(client, json.dumps(_QUERY).encode()).status_code == 200
    assert model.stop(daemon) == 0
    done = perpetua("retire", config)
    assert done.returncode == 0, done.stderr
    assert not list((model.folder / "state" / "journal").glob("*/*.journal"))
    last = json.loads((model.folder / "ledger.jsonl").read_bytes().splitlines()[-1])
    assert last["kind"] == "model-retired"
    assert perpetua("serve", config).returncode == 3


def test_paused_it_takes_no_question_and_gives_out_what_was_answered(model: HttpModelUnderTest):
    """503 and when to come again; behind the pause, the very next question takes the very next round."""
    daemon = model.serve()
    contents = bodies(3)
    with model.client() as client:
        first = _ask(client, contents[0])
        assert perpetua("pause", model.config()).returncode == 0
        eventually(lambda: "daemon.paused" in model.events())
        refused = _ask(client, contents[1])
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert refused.json() == {"message": "paused by an operator; ask again later"}
        assert client.get(first.headers["location"]).content == first.content
        assert perpetua("resume", model.config()).returncode == 0
        eventually(lambda: "daemon.resumed" in model.events())
        answers = [first, *(_ask(client, body) for body in contents[1:])]
    assert [answer.content for answer in answers] == model.expected(contents)
    assert model.stop(daemon) == 0
