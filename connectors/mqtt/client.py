"""The adapter to aiomqtt and to paho beneath it; no other file uses their clients.

Its contract, which `tests/connectors/mqtt/test_client.py` holds, differs from aiomqtt's: a message is acknowledged when
we say so, not when a callback returns; DUP is handed on, and a PUBACK's reason; no queue discards; a message that paho
cannot parse, or not in time, does not end every connection for ever; sockets are closed where a connection fails.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import aiomqtt
from paho.mqtt import MQTTException
from paho.mqtt.client import MQTT_ERR_SUCCESS
from paho.mqtt.client import Client as Paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from connectors.mqtt.messages import NO_PAIRS, Outgoing, unpack_pairs
from connectors.mqtt.packets import packet_id, puback_of, publish_of, unfit
from connectors.mqtt.protocols import STRAY, UNREADABLE, Receiver
from connectors.mqtt.reasons import Ending, broken, ending, refusal
from connectors.mqtt.settings import MqttSettings
from connectors.tls import secured, tls_context
from oracle.errors import BusError, RefusedError

__all__ = ["LOGGER", "Connection", "check_broker", "matches"]

LOGGER: Final = "mqtt"
"""Name of the client's own logger, and of paho's."""

_NO_RETAINED: Final = 2
_QOS: Final = 1
_MOST_UNSUBSCRIBED: Final = 100
"""Topics of old subscriptions that a connection unsubscribes from."""


def matches(topic: str, wildcard: str) -> bool:
    """Return whether a topic matches a filter.

    >>> matches("vfr/replies/a", "vfr/replies/+")
    True
    """
    return aiomqtt.Topic(topic).matches(wildcard)


class Connection(aiomqtt.Client):
    """One connection to the broker, from `enter` to `leave`.

    Attributes:
        session_present: Whether the broker had kept our session.
        lost: Set when the connection has ended, to why.
        ending: What that says of what was in flight.
        window: Most messages that it lets us have unacknowledged.

    Args:
        will: What the broker publishes for us when we vanish, on the status topic; None for nothing.
        probe: Whether only to look: under another client id and without a session, so that nobody is disturbed.
    """

    def __init__(
        self, settings: MqttSettings, receiver: Receiver, will: bytes | None = None, *, probe: bool = False
    ) -> None:
        login, status, tls = settings.login, settings.status, settings.tls
        context = None if tls is None else tls_context(tls, "mqtt.tls")
        super().__init__(
            settings.host,
            settings.port,
            username=login.username if login else None,
            password=login.password if login else None,
            identifier=f"{settings.client_id}-check" if probe else settings.client_id,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=aiomqtt.Will(status, will, _QOS, retain=True) if will is not None and status is not None else None,
            clean_start=probe,
            keepalive=settings.keepalive_seconds,
            timeout=settings.request_seconds,
            properties=_connect_properties(settings, 0 if probe else settings.session_seconds),
            tls_context=context,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
            logger=logging.getLogger(LOGGER),
        )
        self.settings, self._receiver = settings, receiver
        self._unfit: RefusedError | None = None
        self._unsubscribed: set[str] = set()
        self._paused = self.session_present = False
        self.window = 0
        self.ending = Ending.ELSEWHERE
        self.lost: asyncio.Future[BusError] = asyncio.get_running_loop().create_future()
        self._set_up_paho(context)

    def _set_up_paho(self, context: ssl.SSLContext | None) -> None:
        """Acknowledge by hand, keep to the window ourselves, and handle what paho's own methods do not handle well."""
        settings = self.settings
        paho: Any = self._client
        paho.manual_ack_set(True)  # noqa: FBT003 -- paho's
        paho.max_inflight_messages_set(0)
        paho.connect_timeout = settings.request_seconds
        if context is not None:  # paho's own leaves a socket open where the handshake fails
            wrap = partial(secured, context, host=settings.host, seconds=settings.request_seconds)
            paho._ssl_wrap_socket = wrap  # noqa: SLF001 -- there is no public way to it
        paho._handle_publish = self._on_publish_packet  # noqa: SLF001 -- as above
        paho._handle_pubackcomp = self._on_puback_packet  # noqa: SLF001 -- as above

    async def enter(self) -> None:
        """Connect.

        Raises:
            RefusedError: The broker does not let us in, or lacks what is needed; nothing but another setting helps.
            BusError: It does not answer as it should; it may pass.
        """
        where = f"broker {self.settings.host}:{self.settings.port}"
        try:
            with _translated(where):
                await self._enter(where)
        except BaseException:
            self._drop()
            raise
        if self.window < 1:
            self._drop()
            raise self._unfit or BusError(f"{where}: its CONNACK could not be read")

    async def _enter(self, where: str) -> None:
        """As aiomqtt does, but without waiting for the answer of a broker that has gone."""
        entering = asyncio.ensure_future(self.__aenter__())
        waiting: set[asyncio.Future[Any]] = {entering, self.lost}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not entering.done() and not self._connected.done():
            entering.cancel()
            await asyncio.wait({entering})
            raise BusError(f"{where}: closes the connection; check mqtt.tls and mqtt.login")
        await entering

    async def subscribe_queries(self) -> None:
        """Subscribe to the query topic; what is retained there is not asked for, and marked if it comes.

        Raises:
            RefusedError: The broker refuses it.
            BusError: It does not answer.
        """
        options = SubscribeOptions(qos=_QOS, retainAsPublished=True, retainHandling=_NO_RETAINED)
        where = f"topic {self.settings.topic}"
        with _translated(where):
            granted = await self.subscribe(self.settings.topic, options=options)
        code = granted[0].value if isinstance(granted[0], ReasonCode) else int(granted[0])
        if code != _QOS:
            raise RefusedError(f"{where}: the broker refuses a subscription at QoS 1 (reason {code:#04x})")

    def acknowledge(self, mid: int) -> None:
        """Tell the broker that a message is ours now."""
        self._client.ack(mid, _QOS)

    def send(self, message: Outgoing) -> int:
        """Publish at QoS 1 and return the packet id that `Receiver.published` will name.

        Raises:
            BusError: There is no connection any more.
            RefusedError: The client cannot send such a message at all.
        """
        return self._send(message.topic, message.body, partial(_publish_properties, message), retain=False)

    def ask(self, message: Outgoing, replies: str) -> int:
        """Publish a query whose answer is to go to a topic; see `send`."""
        return self._send(message.topic, message.body, partial(_publish_properties, message, replies), retain=False)

    def send_status(self, body: bytes) -> int:
        """Publish a retained status message; see `send`."""
        return self._send(self.settings.status or "", body, lambda: None, retain=True)

    def pause(self) -> None:
        """Stop reading until `resume`; after the keep-alive interval the broker takes us for dead."""
        sock = self._client.socket()
        if not self._paused and sock is not None:
            self._paused = True
            self._loop.remove_reader(sock.fileno())

    def resume(self) -> None:
        """Read again."""
        sock = self._client.socket()
        if self._paused and sock is not None and sock.fileno() >= 0:
            self._paused = False
            self._loop.add_reader(sock.fileno(), self._read)
            self._loop.call_soon(self._read)  # what TLS holds already, the socket does not show

    async def leave(self, *, gracefully: bool = True, forget: bool = False) -> None:
        """Disconnect, and leave nothing behind here; if it is to `forget` our session, nor with the broker."""
        if forget:
            properties = _properties(PacketTypes.DISCONNECT)
            properties.SessionExpiryInterval = 0
            self._client.disconnect = partial(self._client.disconnect, properties=properties)  # type: ignore[method-assign]  # aiomqtt calls it
        if gracefully and not self.lost.done():
            with contextlib.suppress(aiomqtt.MqttError):
                await self.__aexit__(None, None, None)
        self._drop()

    def _drop(self) -> None:
        if self._disconnected.done() and not self._disconnected.cancelled():
            self._disconnected.exception()
        if self._connected.done() and not self._connected.cancelled():
            self._connected.exception()
        self._client._reset_sockets()  # noqa: SLF001 -- a client that never got an answer keeps its socket otherwise
        if self._misc_task is not None:
            self._misc_task.cancel()

    def _send(self, topic: str, body: bytes, properties: Callable[[], Properties | None], *, retain: bool) -> int:
        try:
            info = self._client.publish(topic, body, _QOS, retain, properties())
        except (ValueError, TypeError, ArithmeticError, struct.error, MQTTException) as exc:
            raise RefusedError(
                "a message cannot be sent: it exceeds the limits of MQTT, or its topic is invalid"
            ) from exc
        if info.rc != MQTT_ERR_SUCCESS:
            raise BusError("not connected")
        kept = self._client._out_messages.get(info.mid)  # noqa: SLF001 -- as above
        if kept is not None:
            kept.properties = None  # it would send again from these, which we do; they can take five times their bytes
        return info.mid

    def _on_disconnect(self, *args: Any) -> None:  # noqa: ANN401 -- aiomqtt's callback
        """As aiomqtt's, which forgets an end that comes with the beginning."""
        super()._on_disconnect(*args)
        _, _, flags, reason, *_ = args
        self._set_lost(reason.value, by_broker=flags.is_disconnect_packet_from_server)

    def _set_lost(self, code: int | None, *, by_broker: bool = False) -> None:
        if not self.lost.done():
            self.ending = ending(code, by_broker=by_broker)
            self.lost.set_result(broken(f"broker {self.settings.host}:{self.settings.port}", code))

    def _on_connect(self, *args: Any) -> None:  # noqa: ANN401 -- aiomqtt's callback
        _, _, flags, _, properties = args
        self.session_present = bool(flags.session_present)
        self._unfit = unfit(properties, self.settings)
        self.window = 0 if self._unfit else min(getattr(properties, "ReceiveMaximum", 65_535), 65_535)
        super()._on_connect(*args)

    def _on_socket_open(self, client: Paho, userdata: Any, sock: Any) -> None:  # noqa: ANN401, ARG002
        """As aiomqtt's, but so that reading can pause; paho calls it from the thread that connects."""

        def start() -> None:
            self._loop.add_reader(sock.fileno(), self._read)
            self._misc_task = self._loop.create_task(self._misc_loop())

        self._loop.call_soon_threadsafe(start)

    def _read(self) -> None:
        try:
            while self._client.loop_read() == MQTT_ERR_SUCCESS and not self._paused:
                sock = self._client.socket()
                if not (isinstance(sock, ssl.SSLSocket) and sock.pending()):
                    break  # TLS may hold more than the socket shows
        except Exception as exc:  # noqa: BLE001 -- as aiomqtt does: the connection is broken
            self._broken(exc)

    def _broken(self, error: Exception) -> None:
        if not self._disconnected.done():
            self._disconnected.set_exception(error)
        self._set_lost(None)

    def _on_socket_register_write(self, client: Paho, userdata: Any, sock: Any) -> None:  # noqa: ANN401, ARG002
        """As aiomqtt's, but for a socket that is closed before the loop comes to it: its number may be another's."""

        def write() -> None:
            try:
                self._client.loop_write()
            except Exception as exc:  # noqa: BLE001 -- as in `_read`
                self._broken(exc)

        def start() -> None:
            current = self._client.socket()
            if current is not None and current is sock and current.fileno() >= 0:
                self._loop.add_writer(current.fileno(), write)

        self._loop.call_soon_threadsafe(start)

    def _on_publish(self, *args: Any) -> None:  # noqa: ANN401 -- aiomqtt's callback
        super()._on_publish(*args)
        _, _, mid, reason, _ = args
        self._receiver.published(mid, reason.value)

    def _on_unsubscribe(self, *_args: Any) -> None:  # noqa: ANN401 -- aiomqtt's own warns of what it has not asked for
        """Nobody waits for it."""

    def _on_publish_packet(self) -> Any:  # noqa: ANN401 -- paho's
        """Hand over a PUBLISH, in place of paho's own way (see `packets`); acknowledge at once what will not be used.

        What cannot be parsed would only come again; so would what an old subscription of our session brings, from a
        topic that the settings no longer name: its queries are not ours.
        """
        packet = self._client._in_packet  # noqa: SLF001 -- there is no public way to it
        message = publish_of(packet)
        if message is not None and message.topic == self.settings.topic:
            self._receiver.received(message)
            return MQTT_ERR_SUCCESS
        mid = packet_id(packet)
        if mid:
            self.acknowledge(mid)
        self._receiver.passed_over(UNREADABLE if message is None else STRAY)
        if message and message.topic not in self._unsubscribed and len(self._unsubscribed) < _MOST_UNSUBSCRIBED:
            self._unsubscribed.add(message.topic)
            self._client.unsubscribe(message.topic)
        return MQTT_ERR_SUCCESS

    def _on_puback_packet(self, _command: str) -> Any:  # noqa: ANN401 -- paho's
        """Handle a PUBACK, in place of paho's own way: it knows some reason codes only, and not every text."""
        found = puback_of(self._client._in_packet)  # noqa: SLF001 -- as above
        if found is None:
            raise MQTTException("PUBACK too short")
        mid, code = found
        reason = ReasonCode(PacketTypes.PUBACK)
        reason.value = code
        if mid in self._client._out_messages:  # noqa: SLF001 -- as above
            return self._client._do_on_publish(mid, reason, _properties(PacketTypes.PUBACK))  # noqa: SLF001 -- as above
        return MQTT_ERR_SUCCESS


async def check_broker(settings: MqttSettings) -> None:
    """Connect under a client id of our own without a session, look at what the broker says of itself, and leave.

    Raises:
        RefusedError: It does not let us in, or lacks what is needed.
        BusError: It does not answer.
    """
    connection = Connection(settings, Receiver(), probe=True)
    await connection.enter()
    await connection.leave()


def _publish_properties(message: Outgoing, replies: str | None = None) -> Properties:
    properties = _properties(PacketTypes.PUBLISH)
    if replies is not None:
        properties.ResponseTopic = replies
    properties.ContentType = message.content_type
    if message.correlation is not None:
        properties.CorrelationData = message.correlation
    if message.user != NO_PAIRS:
        properties.UserProperty = list(unpack_pairs(message.user))
    if message.expiry is not None:
        properties.MessageExpiryInterval = message.expiry
    return properties


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]  # paho has no types here


def _connect_properties(settings: MqttSettings, session_seconds: int) -> Properties:
    properties = _properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = session_seconds
    properties.ReceiveMaximum = settings.receive_maximum
    properties.MaximumPacketSize = settings.message_bytes
    return properties


@contextlib.contextmanager
def _translated(where: str) -> Iterator[None]:
    """Run a call to the client; its own texts are left out, as they may quote what was sent.

    Raises:
        RefusedError: The broker refuses us for good.
        BusError: Anything else; it may pass.
    """
    try:
        yield
    except aiomqtt.MqttCodeError as exc:
        code = exc.rc.value if isinstance(exc.rc, ReasonCode) else None
        raise refusal(where, code) from exc
    except (aiomqtt.MqttError, OSError) as exc:
        cause = exc.__context__ if isinstance(exc, aiomqtt.MqttError) else exc
        if isinstance(cause, ssl.SSLCertVerificationError):
            message = f"{where}: mqtt.tls: the broker's certificate is not trusted: {cause.verify_message}"
            raise RefusedError(message) from exc
        reason = "no answer in time" if cause is None or isinstance(cause, TimeoutError) else type(cause).__name__
        raise BusError(f"{where}: {reason}") from exc
