"""The registry's client, beside a real registry, and beside servers that answer as none would."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from connectors.registry import client as client_module
from connectors.registry.client import LARGEST_SCHEMA, RegisteredSchema, RegistryClient
from connectors.registry.settings import RegistrySettings
from oracle.errors import BusError, RefusedError
from tests.support.registry import RegistryUnderTest

_QUERY = {"type": "record", "name": "Q", "fields": [{"name": "a", "type": "double"}]}
_PROTO = 'syntax = "proto3"; message Q { optional double a = 11; }'
_NOT_FOUND = {"error_code": 40403, "message": "no"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up after a second."""
    monkeypatch.setattr(client_module, "_TRIES_SECONDS", 1.0)


def _client(url: str, **more: Any) -> RegistryClient:
    return RegistryClient(RegistrySettings(url, request_seconds=2.0, **more))


async def test_schemas_are_found_by_their_ids(registry: RegistryUnderTest) -> None:
    """What they are in comes with them; ids that the registry does not have, or no registry could, are left out."""
    avro = await asyncio.to_thread(registry.register, "client-avro", _QUERY)
    proto = await asyncio.to_thread(registry.register, "client-proto", _PROTO, "PROTOBUF")
    found = await _client(registry.url + "/").schemas([avro, proto, 2**31 - 1, 2**31, 2**32 - 1])
    assert {number: one.kind for number, one in found.items()} == {avro: "AVRO", proto: "PROTOBUF"}
    assert json.loads(found[avro].schema) == _QUERY
    assert found[proto].schema == _PROTO


async def test_a_schema_is_registered_once(registry: RegistryUnderTest) -> None:
    """It is found only where it was; what does not fit those before it is refused, with the subject's name."""
    client, text = _client(registry.url), json.dumps(_QUERY)
    assert await client.find("client-once", "AVRO", text) is None
    number = await client.register("client-once", "AVRO", text)
    assert (
        await client.register("client-once", "AVRO", text) == await client.find("client-once", "AVRO", text) == number
    )
    await asyncio.to_thread(registry.configure, "client-once", "FULL")
    other = json.dumps({**_QUERY, "fields": [{"name": "a", "type": "string"}]})
    with pytest.raises(RefusedError, match="subject client-once does not take the schema"):
        await client.register("client-once", "AVRO", other)


async def test_a_registry_that_is_away_or_silent_is_trouble_of_the_bus(registry: RegistryUnderTest) -> None:
    """And so is a URL that leads elsewhere: it must not make every schema unknown."""
    for url in ("http://127.0.0.1:9", registry.url + "/nowhere"):
        with pytest.raises(BusError, match=r"kafka\.registry: http://127"):
            await _client(url).schemas([1])
    with registry.paused(), pytest.raises(BusError, match="cannot be reached"):
        await _client(registry.url).schemas([1])


@contextlib.asynccontextmanager
async def _served(answer: Callable[[str], bytes]) -> AsyncIterator[str]:
    """Serve what a function makes of each request's head, and lend the URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            writer.write(answer(head.decode()))
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _response(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)


_ODD = [
    (200, b"<html>"),
    (200, b'{"schema": 7}'),
    (200, b"\xff"),
    (404, b"<html>"),
    (404, json.dumps({"error_code": 404}).encode()),
    (302, b""),
    (401, b"{}"),
    (403, b"{}"),
    (403, b'{"error_code":40301}'),
    (403, b"x" * (2 * LARGEST_SCHEMA)),
    (500, b"{}"),
]


@pytest.mark.parametrize(("status", "body"), _ODD)
async def test_what_no_registry_would_answer_says_nothing_of_a_schema(status: int, body: bytes) -> None:
    """It is waited for, and nothing of the answer is told."""
    async with _served(lambda _head: _response(status, body)) as url:
        with pytest.raises(BusError) as raised:
            await _client(url).schemas([1], 2)
    assert "html" not in str(raised.value)


async def test_a_schema_that_we_may_not_read_is_none_to_us() -> None:
    """As long as the registry lets us read another; else every schema would be unknown once a right is taken away."""

    def answer(head: str) -> bytes:
        if " /schemas/ids/2 " in head:
            return _response(200, b'{"schema":"{}"}')
        return _response(403, b"<html>" if "/3 " in head else b'{"error_code":40301}')

    async with _served(answer) as url:
        assert await _client(url).schemas([1, 2], None) == {2: RegisteredSchema("{}")}
        assert await _client(url).schemas([1], 2) == {}
        for numbers, known in (([1], None), ([1], 4), ([3], 2)):
            with pytest.raises(BusError, match=r"answers 403|no registry would"):
                await _client(url).schemas(numbers, known)
        with pytest.raises(BusError, match="answers 403"):
            await _client(url).register("subject", "AVRO", "{}")


async def test_a_schema_that_is_no_text_fits_nothing() -> None:
    """Half of a pair of surrogates, which other registries give out as they got it: nobody waits for another one."""
    async with _served(lambda _head: _response(200, b'{"schema":"\\ud800"}')) as url:
        assert await _client(url).schemas([1]) == {1: RegisteredSchema("")}


async def test_an_answer_without_end_is_cut() -> None:
    """A schema that long fits nothing, and takes no more memory than that."""
    async with _served(lambda _head: _response(200, b'{"schema":"' + b"x" * (4 * LARGEST_SCHEMA))) as url:
        assert await _client(url).schemas([1]) == {1: RegisteredSchema("")}


async def test_passwords_and_tokens_are_sent_and_not_printed() -> None:
    """In the header that each has; in neither errors nor representations."""
    heads: list[str] = []

    def answer(head: str) -> bytes:
        heads.append(head)
        return _response(404, json.dumps(_NOT_FOUND).encode())

    secrets: list[dict[str, Any]] = [{"username": "u", "password": "secret"}, {"token": "secret"}]
    async with _served(answer) as url:
        for more in secrets:
            assert await _client(url, **more).schemas([1]) == {}
            assert "secret" not in repr(RegistrySettings(url, **more))
    assert "Authorization: Basic dTpzZWNyZXQ=\r\n" in heads[0]
    assert "Authorization: Bearer secret\r\n" in heads[1]
