"""`oracle.Client` on a real Mosquitto: many questions at once, none published twice, whatever ends in between."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

import oracle
from oracle.errors import BusError, RefusedError, RejectedError, UnansweredError
from tests.support.certificates import Authority
from tests.support.configs import write_secret
from tests.support.mosquitto import Mosquitto, write_passwords
from tests.support.mqtt import MqttModelUnderTest
from tests.support.waiting import TIMEOUT, until


def _client(model: MqttModelUnderTest, **mqtt: Any) -> oracle.Client:
    return oracle.Client.mqtt(model.broker.server, model.queries, f"{model.name}/replies/me", **mqtt)


def _queries(count: int, begin: int = 0) -> list[dict[str, Any]]:
    return [{"id": str(number), "x": [0.5, 0.5]} for number in range(begin, begin + count)]


async def test_a_thousand_at_once(served: MqttModelUnderTest):
    """Each hears its own answer, on a topic of the asker's; what is no query is told."""
    others = served.asker()
    async with _client(served) as client:
        refused = await client.send({"x": [0.5]})
        answers = await asyncio.gather(*(client.ask(query, TIMEOUT) for query in _queries(1000)))
        with pytest.raises(RejectedError, match="wrong-dimension"):
            await refused.answer(TIMEOUT)
    assert [answer["id"] for answer in answers] == [query["id"] for query in _queries(1000)]
    assert sorted(answer["round"] for answer in answers) == list(range(1000))
    assert others.heard == []


async def test_nobody_subscribed(model: MqttModelUnderTest):
    """It is said at once, and that the question was not kept; so is a topic that is none of the daemon's."""
    async with _client(model) as client:
        question = await client.send(_queries(1)[0])
        with pytest.raises(BusError, match="nobody is subscribed"):
            await question.answer(TIMEOUT)
        assert question.written is False


async def test_lost_connection(own_model: MqttModelUnderTest):
    """What the broker may have is not published again; later questions are."""
    own_model.serve(own_model.config())
    own_model.wait_for_event("bus.connected")
    broker = own_model.broker
    async with _client(own_model) as client:
        await client.ask(_queries(1)[0], TIMEOUT)
        broker.pause()
        in_doubt = await client.send(_queries(1, 1)[0])
        await until(lambda: client._asker._in_flight)  # type: ignore[attr-defined]
        client._asker._connection._client.socket().shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
        await until(lambda: not client._sending)
        assert in_doubt.written is None
        broker.resume()
        after = await client.ask(_queries(1, 2)[0], TIMEOUT)
        assert after["round"] in {1, 2}  # the broker may have read the other one, or not
        try:
            assert (await in_doubt.answer(1.0))["round"] == 1
        except UnansweredError as exc:
            assert "not known whether the bus has the question" in str(exc)  # noqa: PT017 -- one of two ends


@pytest.mark.slow
async def test_killed_daemon_and_restarted_broker(own_model: MqttModelUnderTest):
    """Answers find the asker behind a restart of both, and the daemon has each question once."""
    config = own_model.config()
    daemon = own_model.serve(config)
    own_model.wait_for_event("bus.connected")
    async with _client(own_model) as client:
        await client.ask(_queries(1)[0], TIMEOUT)
        daemon.kill()
        daemon.wait()
        asked = [await client.send(query) for query in _queries(200, 1)]
        await until(lambda: all(question.written for question in asked))
        with pytest.raises(UnansweredError, match="the bus has the question"):
            await asked[-1].answer(0.1)
        await asyncio.to_thread(own_model.broker.restart)
        own_model.serve(config, "again.log")
        answers = [await question.answer(TIMEOUT) for question in asked]
        assert [answer["id"] for answer in answers] == [str(number) for number in range(1, 201)]
        assert [answer["round"] for answer in answers] == list(range(1, 201))
        assert (await client.ask({"x": [0.5, 0.5]}, TIMEOUT))["round"] == 201


async def test_tls_and_password(tmp_path: Path):
    """In the same words as the configuration; a wrong password is refused. A closed client leaves no session."""
    authority = Authority(tmp_path)
    certificate = authority.issue("broker")
    write_passwords(tmp_path / "users", me="opensesame-7Qx")
    listener = [f"certfile {certificate}", f"keyfile {certificate}", f"password_file {tmp_path / 'users'}"]
    write_secret(tmp_path / "wrong", "opensesame-8Qx")
    with Mosquitto(tmp_path / "broker", listener=[*listener, "allow_anonymous false"]) as broker:
        tls = {"ca_file": str(authority.certificate)}
        right = {"username": "me", "password": "opensesame-7Qx"}
        wrong = {"username": "me", "password_file": str(tmp_path / "wrong")}
        async with oracle.Client.mqtt(broker.server, "a/q", "a/r", tls=tls, login=right) as client:
            with pytest.raises(BusError, match="nobody is subscribed"):
                await client.ask({"x": 1})
        with pytest.raises(RefusedError, match="refused: not authorized"):
            await oracle.Client.mqtt(broker.server, "a/q", "a/r", tls=tls, login=wrong).__aenter__()
        broker.restart()  # it stores what it has
        assert not any(b"perpetua-ask" in path.read_bytes() for path in (broker.folder / "store").iterdir())
