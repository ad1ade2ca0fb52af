"""A broker that does what a test says: just enough MQTT 5, on a real socket, with acknowledgements that can be held."""

import asyncio
import ssl
from types import TracebackType
from typing import Final, Self

_CONNECT: Final = 1
_PUBLISH: Final = 3
_PUBACK: Final = 4
_SUBSCRIBE: Final = 8
_PING: Final = 12


def length_of(data: bytes) -> bytes:
    """Return the number of bytes as MQTT writes it."""
    rest, parts = len(data), []
    while rest > 127:
        parts.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*parts, rest])


class ScriptedBroker:
    """Lets anybody in and grants every subscription.

    Args:
        context: Its side of TLS; None for none.

    Attributes:
        port: Where it listens.
        session: Whether it says that it has kept a session.
        refuses: Whether it closes connections at once.
        takes: Reason codes of its acknowledgements, in turn; None for none; 0 when they are used up.
        ends_at: Bodies at whose publication it ends the connection.
        says: The reason that it gives for that; None for none.
        refuses_with: The reason with which it refuses everybody; None to let them in.
        connected: Times of connections.
        acked: Packet ids that the client has acknowledged.
        published: Topics and bodies that the client has published, with their packet ids.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self.port = 0
        self.session = self.refuses = False
        self.takes: list[int | None] = []
        self.ends_at: set[bytes] = set()
        self.says: int | None = None
        self.refuses_with: int | None = None
        self.connected: list[float] = []
        self.subscribed = 0
        self.acked: list[int] = []
        self.published: list[tuple[str, bytes, int]] = []
        self._writer: asyncio.StreamWriter | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for _ in range(5):  # a connection that was accepted last has its writer a few turns of the loop later
            await asyncio.sleep(0)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # an aborted connection is closed by the loop

    def send(self, body: bytes, mid: int, *, topic: bytes = b"q", dup: bool = False, properties: bytes = b"") -> None:
        """Publish a message to the client at QoS 1."""
        rest = (
            len(topic).to_bytes(2, "big") + topic + mid.to_bytes(2, "big") + length_of(properties) + properties + body
        )
        self._write(0x3A if dup else 0x32, rest)

    def send_at_once(self, bodies: list[bytes]) -> None:
        """Publish messages at QoS 0 to topic "q" with one write, so that they are one record of TLS."""
        assert self._writer is not None
        packets = [b"\0\1q\0" + body for body in bodies]
        self._writer.write(b"".join(b"\x30" + length_of(packet) + packet for packet in packets))

    def take(self, mid: int, reason: int = 0) -> None:
        """Acknowledge what the client has published."""
        self._write(_PUBACK << 4, mid.to_bytes(2, "big") + bytes([reason, 0]))

    def drop(self) -> None:
        """End the connection without a word."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    def end(self) -> None:
        """End the connection, with a reason if there is one to give."""
        if self.says is None:
            self.drop()
        elif self._writer is not None:
            self._write(0xE0, bytes([self.says, 0]))
            self._writer.close()
            self._writer = None

    def _write(self, command: int, rest: bytes) -> None:
        assert self._writer is not None
        self._writer.write(bytes([command]) + length_of(rest) + rest)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected.append(asyncio.get_running_loop().time())
        self._writers.append(writer)
        if self.refuses:
            writer.transport.abort()
            return
        self._writer = writer
        try:
            while True:
                command = (await reader.readexactly(1))[0]
                size = shift = 0
                while (byte := (await reader.readexactly(1))[0]) & 128:
                    size, shift = size | (byte & 127) << shift, shift + 7
                rest = await reader.readexactly(size | byte << shift)
                if writer is not self._writer:
                    return  # we have ended it
                self._answer(command >> 4, rest)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()

    def _answer(self, kind: int, rest: bytes) -> None:
        if kind == _CONNECT:
            self._write(0x20, bytes([self.session and not self.refuses_with, self.refuses_with or 0, 0]))
            self.session = True
        elif kind == _SUBSCRIBE:
            self._write(0x90, rest[:2] + b"\0\1")
            self.subscribed += 1
        elif kind == _PUBACK:
            self.acked.append(int.from_bytes(rest[:2], "big"))
        elif kind == _PING:
            self._write(0xD0, b"")
        elif kind == _PUBLISH:
            self._published(rest)

    def _published(self, rest: bytes) -> None:
        at = 2 + int.from_bytes(rest[:2], "big")
        topic, mid = rest[2:at].decode(), int.from_bytes(rest[at : at + 2], "big")
        body = rest[at + 3 + rest[at + 2] :]  # the properties of these tests take less than 128 bytes
        self.published.append((topic, body, mid))
        if body in self.ends_at:
            self.end()
            return
        reason = self.takes.pop(0) if self.takes else 0
        if reason is not None:
            self.take(mid, reason)
