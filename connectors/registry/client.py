"""The few requests to a Schema Registry that a daemon makes; the only place that imports httpx."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
import msgspec

from connectors.registry.settings import Kind, RegistrySettings
from connectors.retry import Backoff, retry
from connectors.tls import tls_context
from oracle.errors import BusError, RefusedError

__all__ = ["LARGEST_SCHEMA", "RegisteredSchema", "RegistryClient"]

LARGEST_SCHEMA: Final = 1 << 20
"""Most bytes of an answer of the registry, and so of a schema that is looked at."""

_LAST_ID: Final = 2**31 - 1
_TRIES_SECONDS: Final = 5.0
_OK: Final = 200
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_REFUSALS: Final = {409: "it does not fit those before it", 422: "it is no schema there"}
_SCHEMA_NOT_FOUND: Final = 40403
_ABSENT: Final = frozenset({40401, 40403})
"""Codes of the API's errors: there is no such subject, or no such schema."""

_MEDIA: Final = "application/vnd.schemaregistry.v1+json"


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema as its registry gives it out.

    Attributes:
        schema: Its text; empty where that is longer than `LARGEST_SCHEMA`.
        kind: What it is written in.
        references: Other schemas that it names.
    """

    schema: str
    kind: str = msgspec.field(name="schemaType", default="AVRO")
    references: Sequence[Mapping[str, Any]] = ()


_UNREADABLE: Final = RegisteredSchema("")


def _is_unreadable(body: bytes) -> bool:
    """Return whether an answer has a schema that is no text, as one with lone surrogates: nobody must wait for it."""
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        msgspec.json.decode(body)
        return False
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("schema"), str)


class _Problem(msgspec.Struct):
    error_code: int = 0


class _Registered(msgspec.Struct):
    id: int


class RegistryClient:
    """Asks one registry. A connection lasts as long as a call: what a schema's id means never changes, so few are made.

    Raises:
        RefusedError: Files of TLS cannot be used.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._verify = tls_context(settings.tls, "kafka.registry.tls") if settings.tls is not None else True

    async def schemas(self, numbers: Sequence[int], known: int | None = None) -> dict[int, RegisteredSchema]:
        """Return the schemas with these ids; those that the registry says it does not have are left out.

        So are those that it does not let us read, if it lets us read another of them, or `known`, which it did before.

        Raises:
            BusError: It does not answer as it should, several times.
        """
        found: dict[int, RegisteredSchema] = {}
        forbidden = False
        async with self._connected() as client:
            for number in numbers:
                if number > _LAST_ID:  # no registry gives out such an id
                    continue
                status, body = await self._request(client, "GET", f"/schemas/ids/{number}")
                code = 0 if status == _OK else self._decoded(body, _Problem).error_code
                if status == _OK:
                    unreadable = len(body) > LARGEST_SCHEMA or _is_unreadable(body)
                    found[number] = _UNREADABLE if unreadable else self._decoded(body, RegisteredSchema)
                elif status == _FORBIDDEN and code:
                    forbidden = True
                elif code != _SCHEMA_NOT_FOUND:
                    raise self._trouble(f"answers {status} where a schema is asked for by its id; is the URL right?")
            if forbidden and not found and (known is None or not await self._gives_out(client, known)):
                raise self._trouble(f"answers {_FORBIDDEN}: it does not let us read schemas")
        return found

    async def _gives_out(self, client: httpx.AsyncClient, number: int) -> bool:
        """Return whether it lets us read a schema that it has; a cache on the way is not asked."""
        client.headers["Cache-Control"] = "no-cache"
        return (await self._request(client, "GET", f"/schemas/ids/{number}"))[0] == _OK

    async def find(self, subject: str, kind: Kind, schema: str) -> int | None:
        """Return the id of a schema under a subject; None if it is not there.

        Raises:
            BusError: The registry does not answer as it should, several times.
        """
        status, body = await self._post(f"/subjects/{subject}", kind, schema)
        if status == _OK:
            return self._identifier(body)
        if self._decoded(body, _Problem).error_code in _ABSENT:
            return None
        raise self._trouble(f"answers {status} where a schema is looked for; is the URL right?")

    async def register(self, subject: str, kind: Kind, schema: str) -> int:
        """Return the id of a schema under a subject; register it there if it is new.

        Raises:
            RefusedError: The registry does not take it there.
            BusError: It does not answer as it should, several times.
        """
        status, body = await self._post(f"/subjects/{subject}/versions", kind, schema)
        if status == _OK:
            return self._identifier(body)
        if status in _REFUSALS:
            why = f"{_REFUSALS[status]} ({status})"
            raise RefusedError(f"kafka.registry: subject {subject} does not take the schema of answers: {why}")
        raise self._trouble(f"answers {status} where a schema is to be registered; is the URL right?")

    async def _post(self, path: str, kind: Kind, schema: str) -> tuple[int, bytes]:
        content = {"schema": schema} if kind == "AVRO" else {"schema": schema, "schemaType": kind}
        async with self._connected() as client:
            status, answer = await self._request(client, "POST", path, msgspec.json.encode(content))
        if status == _FORBIDDEN:
            raise self._trouble(f"answers {status}")
        return status, answer

    def _identifier(self, body: bytes) -> int:
        found: _Registered = self._decoded(body, _Registered)
        return found.id

    def _connected(self) -> httpx.AsyncClient:
        settings = self._settings
        headers = {"Accept": f"{_MEDIA}, application/json", "Content-Type": _MEDIA, "Accept-Encoding": "identity"}
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token}"
        name = None if settings.username is None else (settings.username, settings.password or "")
        # Not by the environment, which may know proxies and passwords: what is meant stands in the configuration.
        return httpx.AsyncClient(
            base_url=settings.url.rstrip("/"),
            headers=headers,
            auth=name,
            verify=self._verify,
            timeout=settings.request_seconds,
            trust_env=False,
        )

    async def _request(
        self, client: httpx.AsyncClient, method: str, path: str, content: bytes | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of an answer, which is cut one byte behind `LARGEST_SCHEMA`."""

        async def attempt() -> tuple[int, bytes]:
            body = bytearray()
            try:
                async with client.stream(method, path, content=content) as response:
                    async for part in response.aiter_raw():
                        body += part
                        if len(body) > LARGEST_SCHEMA:
                            break
            except httpx.HTTPError as exc:
                raise self._trouble(f"cannot be reached ({type(exc).__name__})") from exc
            if response.status_code not in {_OK, _FORBIDDEN, _NOT_FOUND, *_REFUSALS}:
                raise self._trouble(f"answers {response.status_code}")
            return response.status_code, bytes(body[: LARGEST_SCHEMA + 1])

        return await retry(attempt, BusError, seconds=_TRIES_SECONDS, backoff=Backoff(0.1, 2.0))

    def _decoded(self, body: bytes, kind: type[Any]) -> Any:  # noqa: ANN401 -- of that type
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(body, type=kind)
        raise self._trouble("answers with something that no registry would; is the URL right?")

    def _trouble(self, text: str) -> BusError:
        return BusError(f"kafka.registry: {self._settings.url} {text}")
