"""What the client is relied on for beyond aiomqtt's documented ways: an update of it, or of paho, must keep these."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming, Outgoing, pack_pairs, unpack_pairs
from connectors.mqtt.protocols import STRAY, UNREADABLE, Receiver
from connectors.mqtt.settings import MqttSettings
from oracle.errors import BusError, FencedError, RefusedError
from tests.connectors.mqtt.conftest import unique_name
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import Asker
from tests.support.mqtt_link import SETTINGS
from tests.support.mqtt_script import ScriptedBroker
from tests.support.waiting import TIMEOUT, eventually, until


class _Recorder(Receiver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[Incoming] = []
        self.passed: list[str] = []
        self.taken: dict[int, int] = {}

    def received(self, message: Incoming) -> None:
        self.messages.append(message)

    def passed_over(self, reason: str) -> None:
        self.passed.append(reason)

    def published(self, mid: int, reason: int) -> None:
        self.taken[mid] = reason

    async def wait_for(self, count: int) -> list[Incoming]:
        await asyncio.to_thread(eventually, lambda: len(self.messages) >= count)
        return self.messages


@pytest.fixture
def settings(broker, request) -> MqttSettings:
    """Settings of a client and topics of the test's own."""
    name = unique_name(request)
    return replace(SETTINGS, port=broker.port, client_id=name, topic=f"{name}/queries", answers=f"{name}/answers")


@contextlib.asynccontextmanager
async def _connected(settings: MqttSettings, **options: object) -> AsyncIterator[tuple[Connection, _Recorder]]:
    recorder = _Recorder()
    connection = Connection(settings, recorder, **options)  # type: ignore[arg-type]
    await connection.enter()
    await connection.subscribe_queries()
    try:
        yield connection, recorder
    finally:
        await connection.leave()


async def _acknowledge(connection: Connection, recorder: _Recorder, *messages: Incoming) -> None:
    """Acknowledge messages, and wait until the broker knows: what it reads behind that has had its answer."""
    for message in messages:
        connection.acknowledge(message.mid)
    last = connection.send(Outgoing("behind-it", b"", "t"))
    await until(lambda: last in recorder.taken)


async def _ask(settings: MqttSettings, *bodies: bytes, **options: object) -> None:
    asker = await asyncio.to_thread(Asker, f"{settings.host}:{settings.port}")
    for body in bodies:
        asker.ask(settings.topic, body, **options)  # type: ignore[arg-type]
    await asyncio.to_thread(eventually, lambda: len(asker.taken) == len(bodies))
    await asyncio.to_thread(asker.close)


async def test_only_what_we_acknowledge_is_acknowledged(settings):
    """Of 30 messages 5 are acknowledged: the other 25 come again, marked, with their packet ids; none a third time."""
    async with _connected(settings) as (connection, recorder):
        await _ask(settings, *(b"%d" % number for number in range(30)))
        first = list(await recorder.wait_for(30))
        assert not any(message.dup for message in first)
        await _acknowledge(connection, recorder, *first[:5])
    async with _connected(settings) as (connection, recorder):
        assert connection.session_present
        again = list(await recorder.wait_for(25))
        assert [(one.mid, one.body, one.digest) for one in again] == [
            (one.mid, one.body, one.digest) for one in first[5:]
        ]
        assert all(message.dup for message in again)
        await _acknowledge(connection, recorder, *again)
    async with _connected(settings) as (connection, recorder):
        assert connection.session_present
        await _ask(settings, b"new")
        (new,) = await recorder.wait_for(1)
        assert (new.body, new.dup) == (b"new", False)
        await _acknowledge(connection, recorder, new)


async def test_receive_maximum_holds_the_broker_back(settings):
    """The broker sends so many messages and then waits for an acknowledgement (after which Mosquitto sends as many)."""
    async with _connected(replace(settings, receive_maximum=7)) as (connection, recorder):
        await _ask(settings, *(b"%d" % number for number in range(20)))
        await recorder.wait_for(7)
        await asyncio.sleep(0.2)
        assert len(recorder.messages) == 7
        connection.acknowledge(recorder.messages[0].mid)
        await recorder.wait_for(8)
        await asyncio.sleep(0.2)
        assert len(recorder.messages) <= 14


async def test_properties_come_over(settings):
    """Content type, response topic, correlation, user properties in order and repeated, expiry and retain flag."""
    async with _connected(settings) as (_, recorder):
        await _ask(
            settings,
            b"body",
            content_type="text/x",
            reply="r/a",
            correlation=b"\0\xff",
            user=[("b", "1"), ("a", "2"), ("b", "3")],
            expiry=50_000,
            retain=True,
        )
        (message,) = await recorder.wait_for(1)
    assert 40_000 < (message.expiry or 0) <= 50_000
    assert message == Incoming(
        topic=settings.topic,
        body=b"body",
        content_type="text/x",
        response_topic="r/a",
        correlation=b"\0\xff",
        user=pack_pairs([("b", "1"), ("a", "2"), ("b", "3")]),
        expiry=message.expiry,
        retained=True,
        qos=1,
        mid=message.mid,
    )
    await _ask(settings, b"", retain=True)  # what is retained is taken away again


async def test_what_was_retained_before_is_not_asked_for(settings):
    """A retained message does not come at subscription, the first or a later one."""
    await _ask(settings, b"old", retain=True)
    for _ in range(2):
        async with _connected(settings) as (connection, recorder):
            await _ask(settings, b"live")
            (message,) = await recorder.wait_for(1)
            assert message.body == b"live"
            await _acknowledge(connection, recorder, message)
    await _ask(settings, b"", retain=True)


async def test_message_that_cannot_be_parsed_is_told_and_gone(settings):
    """More user properties than are read, which the broker passes on, end no connection and come once."""
    async with _connected(settings) as (connection, recorder):
        await _ask(settings, b"poison", user=[("a", "b")] * 257)
        await _ask(settings, b"after", user=[("a", "b")] * 256)
        (message,) = await recorder.wait_for(1)
        assert len(unpack_pairs(message.user)) == 256
        assert (message.body, recorder.passed, connection.lost.done()) == (b"after", [UNREADABLE], False)
        await _acknowledge(connection, recorder, message)
    async with _connected(settings) as (_, recorder):
        await _ask(settings, b"later")
        await recorder.wait_for(1)
        assert not recorder.passed


async def test_byte_order_mark_is_a_character_like_any_other(settings):
    """U+FEFF, at which paho ends the connection, comes over wherever it stands, and is not stripped off."""
    settings = replace(settings, topic=f"{settings.topic}/\ufeffx")
    async with _connected(settings) as (connection, recorder):
        user = [("\ufeff", "a\ufeffb"), ("\ufeffname", "value\ufeff")]
        await _ask(settings, b"\xef\xbb\xbf{}", user=user, content_type="\ufefftext/x", reply="\ufeffr/\ufeff")
        (message,) = await recorder.wait_for(1)
        assert (message.topic, message.body, message.user) == (settings.topic, b"\xef\xbb\xbf{}", pack_pairs(user))
        assert (message.content_type, message.response_topic) == ("\ufefftext/x", "\ufeffr/\ufeff")
        assert not recorder.passed
        assert not connection.lost.done()
        connection.acknowledge(message.mid)


async def test_topic_of_an_old_subscription_is_left(settings):
    """A session keeps the subscription of a topic that is ours no more: what it brings is passed over, and it ends."""
    old = replace(settings, topic=f"{settings.topic}/old")
    async with _connected(old):
        pass
    await _ask(old, b"while away")
    async with _connected(settings) as (connection, recorder):
        await _ask(settings, b"ours")
        (message,) = await recorder.wait_for(1)
        assert (message.body, recorder.passed) == (b"ours", [STRAY])
        await _acknowledge(connection, recorder, message)

        async def comes(count: int) -> bool:
            before = len(recorder.passed)
            await _ask(old, b"later")
            await _ask(settings, b"ours")
            await recorder.wait_for(count)
            return len(recorder.passed) > before

        count = 2
        while await comes(count):  # the broker has not yet heard that the subscription is over
            count += 1
        assert set(recorder.passed) == {STRAY}
        assert not connection.lost.done()


async def test_answers_are_the_same_bytes_each_time(settings):
    """A message sent twice is received twice, equal in every field."""
    asker = await asyncio.to_thread(Asker, f"{settings.host}:{settings.port}", [settings.answers])
    message = Outgoing(settings.answers, b"body", "text/x", b"\1", pack_pairs([("b", "1"), ("a", "2")]), None)
    async with _connected(settings) as (connection, recorder):
        mids = [connection.send(message), connection.send(message)]
        await asyncio.to_thread(eventually, lambda: len(asker.heard) == 2)
        assert asker.heard[0] == asker.heard[1]
        assert asker.heard[0].body == b"body"
        assert (asker.heard[0].correlation, asker.heard[0].user) == (b"\1", (("b", "1"), ("a", "2")))
        await asyncio.to_thread(eventually, lambda: set(recorder.taken) == set(mids))
    await asyncio.to_thread(asker.close)


async def test_session_taken_over_is_told_as_such(settings):
    """A broker that says why it ends a connection (Mosquitto 2.0.11 does not) ends ours with an error of its own."""
    async with ScriptedBroker() as broker:
        broker.says = 0x8E  # session taken over
        connection = Connection(replace(settings, port=broker.port), _Recorder())
        await connection.enter()
        broker.end()
        async with asyncio.timeout(TIMEOUT):
            error = await connection.lost
        assert isinstance(error, FencedError)
        assert "client_id" in str(error)
        await connection.leave()


async def test_probe_disturbs_nobody(settings):
    """A probe connects beside a running client, which keeps its connection and its session."""
    async with _connected(settings) as (connection, _):
        other = Connection(settings, _Recorder(), probe=True)
        await other.enter()
        await other.leave()
        await asyncio.sleep(0.1)
        assert not connection.lost.done()


async def test_broker_that_never_answers(settings):
    """A port that takes connections and says nothing: an error in time, and the socket is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(replace(settings, port=server.getsockname()[1], request_seconds=0.3), _Recorder())
        with pytest.raises(BusError, match="no answer in time"):
            await connection.enter()
        peer, _ = server.accept()
        peer.settimeout(TIMEOUT)
        assert peer.recv(10_000)  # our CONNECT
        assert peer.recv(1) == b""
        peer.close()


async def test_nobody_listens(settings):
    """A refused connection is an error that may pass."""
    with pytest.raises(BusError, match="ConnectionRefused"):
        await Connection(replace(settings, port=1), _Recorder()).enter()


async def test_broken_connection_is_told(tmp_path, settings):
    """When the broker is killed `lost` says so."""
    with Mosquitto(tmp_path / "broker") as broker:
        async with _connected(replace(settings, port=broker.port)) as (connection, _):
            broker.stop(kill=True)
            async with asyncio.timeout(TIMEOUT):
                error = await connection.lost
            assert isinstance(error, BusError)
            assert not isinstance(error, FencedError)


async def test_broker_of_small_packets_is_refused(tmp_path, settings):
    """One that cannot take our largest reply, or retains nothing where a status is wanted, will not do."""
    with Mosquitto(tmp_path / "broker", ["max_packet_size 2000", "retain_available false"]) as broker:
        small = replace(settings, port=broker.port, largest_reply=3000)
        with pytest.raises(RefusedError, match="at most 2000 bytes"):
            await Connection(small, _Recorder()).enter()
        with pytest.raises(RefusedError, match=r"remove sink\.status"):
            await Connection(replace(small, largest_reply=0, status="s"), _Recorder()).enter()
        async with _connected(replace(small, largest_reply=0)):
            pass
