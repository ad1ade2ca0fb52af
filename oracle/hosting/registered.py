"""Queries with schemas in a registry: the source that knows their schemas before it hands them over, and the codec.

What a message is must not depend on when it is read. A schema's id means the same for ever, and what it means is kept
beside the snapshots, so a log is read again without the registry. An id that the registry does not have may come to
mean something later: so that a message's schema was unknown is kept too, by the message's position, before anything is
answered, and it stays unknown. So is a schema that the registry keeps from us, though it lets us read others. Where it
lets us read none, or does not answer, the message waits, as for a broker.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from connectors.base import AVRO, PROTOBUF, REGISTERED, UNKNOWN_SCHEMA, Deliveries, Lag
from connectors.kafka.source import KafkaSource
from connectors.registry.settings import Kind, RegistrySettings
from oracle.codec.guarded import Codec
from oracle.codec.registered.avro_schemas import avro_answer, namespace_of, refuse_questions
from oracle.codec.registered.codec import AnswerWriter, JsonAnswers, RegisteredCodec
from oracle.codec.registered.frames import schema_of
from oracle.codec.registered.proto_schemas import proto_answer
from oracle.codec.registered.writers import Writers
from oracle.config.credentials import secret_of, tls_of
from oracle.config.daemon import Config, KafkaSinkConfig, KafkaSourceConfig
from oracle.config.registry import RegistryConfig
from oracle.config.web import is_loopback
from oracle.errors import BusError, InputError, LogDivergedError, RefusedError
from oracle.hosting.kafka_settings import CONTENT_TYPES
from oracle.planning.plan import Plan
from oracle.state.folder import peek_folder
from oracle.state.schema_log import KeptSchema, SchemaLog

if TYPE_CHECKING:
    from pydantic import SecretStr

    from connectors.registry.client import RegisteredSchema, RegistryClient

__all__ = ["RegisteredSource", "SchemaRegistry", "open_registry", "refuse_missing"]

_ALSO: Final = {
    AVRO: frozenset(
        {"application/vnd.apache.avro", "application/vnd.confluent.avro", "application/avro-binary", "avro/binary"}
    ),
    PROTOBUF: frozenset(
        {"application/x-protobuf", "application/vnd.google.protobuf", "application/vnd.confluent.protobuf"}
    ),
}
"""What else clients call the same."""

_EXTRA: Final = "schemas"
_MODULES: Final = {"avro": ("httpx", "fastavro"), "protobuf": ("httpx", "google.protobuf")}

_MOST_ASKED: Final = 64
"""Ids that the registry is asked for before messages are handed over; the messages behind them wait."""

_GRACE_SECONDS: Final = 0.5
"""A registry's replica may know a schema a little later than the one that took it in."""

_UNKNOWN_SECONDS: Final = 5.0
_MOST_UNKNOWN: Final = 4096
"""So long, and so many, ids that the registry does not have are not asked for again."""


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """A model's registry.

    Attributes:
        content_type: What queries are in.
        answers: The schema of answers.
        subject: What that is registered under.
        new: Whether it may be registered.
        file: What is kept of the registry, in each shard's folder.
        writers: The schemas of queries, by their shard's folder: who follows a shard has those that serve it too.
    """

    plan: Plan
    client: "RegistryClient"
    content_type: str
    answers: str
    subject: str
    new: bool
    file: str
    writers: dict[Path, Writers] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """What schemas are in, by the registry's own names."""
        return "AVRO" if self.content_type == AVRO else "PROTOBUF"

    async def register(self) -> int:
        """Return the id of the schema of answers, which is registered if it is new and this is allowed.

        Raises:
            RefusedError: The registry does not take it, or has it not.
            BusError: It does not answer.
        """
        if self.new:
            return await self.client.register(self.subject, self.kind, self.answers)
        return await self.registered()

    async def check(self) -> None:
        """Refuse what `register` would, as far as can be seen without a change."""
        if self.new:
            await self.client.find(self.subject, self.kind, self.answers)
        else:
            await self.registered()

    async def registered(self) -> int:
        """Return the id of the schema of answers, which must be there.

        Raises:
            RefusedError: It is not.
            BusError: The registry does not answer.
        """
        found = await self.client.find(self.subject, self.kind, self.answers)
        if found is None:
            other = "" if self.new else ", or set register_answers = true"
            raise RefusedError(
                f"kafka.registry: subject {self.subject} does not have the schema of answers; register there what "
                f"`perpetua schema MODEL.toml --format {self.kind.lower()} --of answer` prints{other}"
            )
        return found

    def source(self, source: KafkaSource, folder: Path, *, keeps: bool, recalls: bool = True) -> "RegisteredSource":
        """Return the source of a shard whose messages have schemas.

        Args:
            source: The partition.
            folder: The shard's.
            keeps: Whether what the registry says is kept in the folder.
            recalls: Whether messages whose schema was unknown when the shard was served are unknown here.
        """
        saved = partial(_saved_position, folder) if keeps else None
        log = SchemaLog(folder / self.file)
        return RegisteredSource(source, self.client, self._writers_of(folder), log, saved, recalls=recalls)

    def codec(self, folder: Path, answers: int) -> Callable[[Plan], Codec]:
        """Return what makes the codec of a shard, whose answers have the schema of that id."""
        writers = self._writers_of(folder)
        return lambda plan: RegisteredCodec(plan, writers, _answer_writer(plan, self.content_type, answers))

    def codec_to_json(self, folder: Path) -> Callable[[Plan], Codec]:
        """Return what makes a codec that reads a shard's queries, and answers them in JSON."""
        writers = self._writers_of(folder)
        return lambda plan: RegisteredCodec(plan, writers, JsonAnswers(plan))

    def _writers_of(self, folder: Path) -> Writers:
        return self.writers.setdefault(folder, Writers(self.plan, self.content_type))


def _shown(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:8])) + (", ..." if len(numbers) > 8 else "")  # noqa: PLR2004 -- enough to look for


def _saved_position(folder: Path) -> int:
    """Return the position of a shard's newest snapshot."""
    header = peek_folder(folder)
    return 0 if header is None else header.position


def open_registry(config: Config, plan: Plan) -> SchemaRegistry | None:
    """Return the registry of a configuration; None if it has none.

    Raises:
        InputError: The model's queries are JSON only, packages are missing, or secrets are not as they should be.
        StorageError: A secret cannot be read.
    """
    source, sink, kafka = config.source, config.sink, config.kafka
    if not isinstance(source, KafkaSourceConfig) or not isinstance(sink, KafkaSinkConfig) or kafka is None:
        return None
    table = kafka.registry
    if source.format == "json" or table is None:
        return None
    refuse_questions(plan, "source.format", source.format)
    refuse_missing(source.format)
    from connectors.registry.client import RegistryClient  # noqa: PLC0415 -- the extra is optional

    digest = hashlib.sha256(table.url.rstrip("/").encode()).hexdigest()
    record = f"{namespace_of(plan)}.Answer"
    subjects = {"topic": f"{sink.topic}-value", "record": record, "topic-record": f"{sink.topic}-{record}"}
    content_type = CONTENT_TYPES[source.format]
    return SchemaRegistry(
        plan=plan,
        client=RegistryClient(_settings(table)),
        content_type=content_type,
        answers=_answers_text(plan, content_type),
        subject=subjects[table.subject],
        new=table.register_answers,
        file=f"schemas-{digest[:16]}.jsonl",
    )


def refuse_missing(form: str) -> None:
    """Refuse a format whose packages are not installed.

    Raises:
        InputError: They are not.
    """
    for module in _MODULES[form]:
        if find_spec(module.partition(".")[0]) is None:
            bound = f"needs the extra {_EXTRA!r}: pip install 'perpetua[{_EXTRA}]'"
            raise InputError("source.format", form, bound)


def _answers_text(plan: Plan, content_type: str) -> str:
    return msgspec.json.encode(avro_answer(plan)).decode() if content_type == AVRO else proto_answer(plan)


def _answer_writer(plan: Plan, content_type: str, schema: int) -> AnswerWriter:
    if content_type == AVRO:
        from oracle.codec.registered.avro import AvroAnswers  # noqa: PLC0415 -- the extra is optional

        return AvroAnswers(plan, schema)
    from oracle.codec.registered.protobuf import ProtobufAnswers  # noqa: PLC0415 -- the extra is optional

    return ProtobufAnswers(plan, schema)


def _settings(table: RegistryConfig) -> RegistrySettings:
    password = _secret("password", table.password, table.password_file)
    token = _secret("token", table.token, table.token_file)
    if (table.username is None) != (password is None):
        raise InputError("kafka.registry.username", "...", "must be set exactly if there is a password")
    if token is not None and password is not None:
        raise InputError("kafka.registry.token_file", "...", "must not be set beside a name and a password")
    tls = tls_of(table.tls, "kafka.registry.tls")
    if tls is not None and not table.url.startswith("https:"):
        raise InputError("kafka.registry.url", "...", "must begin with https: where kafka.registry.tls is set")
    if (password is not None or token is not None) and not _is_safe(table.url):
        bound = "must begin with https:, or be of this machine, as a secret is sent there"
        raise InputError("kafka.registry.url", table.url, bound)
    return RegistrySettings(table.url, table.username, password, token, tls, table.request_seconds)


def _is_safe(url: str) -> bool:
    return url.startswith("https:") or is_loopback(urlsplit(url).hostname or "")


def _secret(name: str, value: "SecretStr | None", path: Path | None) -> str | None:
    return value.get_secret_value() if value is not None else secret_of(f"kafka.registry.{name}_file", path)


class RegisteredSource:
    """A partition whose messages have schemas. Delivery guarantee: as `KafkaSource`, and what a message is stays so.

    A message is handed over when its schema is known, or is known to be unknown.

    Args:
        source: The partition.
        writers: Gets the schemas of what is handed over.
        log: Where what the registry said is kept.
        saved: Returns the position of the shard's newest snapshot, from which on messages may be read again; None if
            nothing more is to be kept in the log.
        recalls: Whether messages that the log names as unknown are.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        source: KafkaSource,
        client: "RegistryClient",
        writers: Writers,
        log: SchemaLog,
        saved: Callable[[], int] | None,
        *,
        recalls: bool = True,
    ) -> None:
        self._source = source
        self._client = client
        self._writers = writers
        self._log = log
        self._known: dict[int, None] = {}  # the ids that are kept
        self._saved = saved
        self._recalls = recalls
        self._asked: set[int] = set()
        self._held = Deliveries()
        self._passed: frozenset[int] = frozenset()
        self._absent: dict[int, float] = {}
        self._guessed: set[int] = set()

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return self._source.exhausted and not self._held

    @property
    def _committed(self) -> int:
        """The position up to which messages were answered when the source was opened."""
        expected = self._source.progress.expected
        return 0 if expected is None else expected[0]

    async def open(self, position: int | None) -> None:
        """See `Source`.

        Raises:
            StorageError: What was kept cannot be read.
        """
        await self.close()
        self._guessed.clear()  # not in `close`: the daemon closes its source before anybody hears why it ended
        self._passed = await asyncio.to_thread(self._read, position or 0)
        await self._source.open(position)

    def _read(self, position: int) -> frozenset[int]:
        """Learn what was kept, and return the positions of messages behind this one whose schema was unknown."""
        schemas, unknown = self._log.open(position, 0 if self._saved is None else self._saved())
        self._learn(schemas)
        return unknown if self._recalls else frozenset()

    def _learn(self, schemas: Sequence[KeptSchema]) -> None:
        for one in schemas:
            self._writers.add(one.id, one.kind, one.schema, references=one.references)
            self._known[one.id] = None

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source`.

        Raises:
            BusError: The registry does not answer; nothing was lost.
            StorageError: What it said cannot be kept.
        """
        if not self._held:
            self._held = await self._source.fetch(limit, wait)
        some = self._held.part(0, limit)
        if some:
            some = await self._settled(some)
            self._held = self._held.part(len(some))
        return some

    async def _settled(self, some: Deliveries) -> Deliveries:
        """Return leading messages whose schemas are known, or known to be unknown."""
        also, kind = _ALSO[self._writers.content_type], self._writers.content_type
        kinds = [kind if one in also else one for one in some.content_types]
        numbers = [
            schema_of(body) if one == kind and position not in self._passed else None
            for position, body, one in zip(some.positions, some.bodies, kinds, strict=True)
        ]
        asked: dict[int, None] = {}
        for count, number in enumerate(numbers):
            if number is not None and number not in self._known and number not in asked:
                if len(asked) == _MOST_ASKED:
                    some, kinds, numbers = some.part(0, count), kinds[:count], numbers[:count]
                    break
                asked[number] = None
        absent = await self._ask(list(asked)) if asked else frozenset()
        unknown = [number in absent if number is not None else position in self._passed
                   for position, number in zip(some.positions, numbers, strict=True)]  # fmt: skip
        await self._keep([position for position, one in zip(some.positions, unknown, strict=True) if one], absent)
        told = {kind: REGISTERED}
        kinds = [UNKNOWN_SCHEMA if one else told.get(kind, kind) for kind, one in zip(kinds, unknown, strict=True)]
        return Deliveries(some.positions, some.bodies, kinds, some.headers, some.keys)

    async def _ask(self, numbers: Sequence[int]) -> Collection[int]:
        """Learn schemas, and return the ids that the registry does not have."""
        now = asyncio.get_running_loop().time()
        self._asked.update(numbers)
        absent = {number for number in numbers if self._absent.get(number, 0.0) > now}
        left = [number for number in numbers if number not in absent]
        for again in (False, True):
            if again and left:
                await asyncio.sleep(_GRACE_SECONDS)
            found = await self._client.schemas(left, next(reversed(self._known), None)) if left else {}
            await self._take_in(found)
            left = [number for number in left if number not in found]
        if len(self._absent) + len(left) > _MOST_UNKNOWN:
            self._absent.clear()
        self._absent.update(dict.fromkeys(left, asyncio.get_running_loop().time() + _UNKNOWN_SECONDS))
        return absent.union(left)

    async def _take_in(self, found: "dict[int, RegisteredSchema]") -> None:
        kept = [KeptSchema(number, one.kind, one.schema, bool(one.references)) for number, one in found.items()]
        if kept and self._saved is not None:
            await asyncio.to_thread(self._log.keep, kept, ())
        await asyncio.to_thread(self._learn, kept)

    async def _keep(self, positions: Sequence[int], absent: Collection[int]) -> None:
        """Keep which messages are unknown, but for those that were answered: of these it can only be guessed."""
        new = [position for position in positions if position > self._committed]
        if len(new) < len(positions):
            self._guessed.update(absent)
        if new and self._saved is not None:
            await asyncio.to_thread(self._log.keep, (), new)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say of a log that seems to have diverged if it may be the registry that has lost what it had.

        Raises:
            BusError: It may: what was answered needs a schema that is kept nowhere.
        """
        try:
            yield
        except LogDivergedError as exc:
            if not self._guessed:
                raise
            raise BusError(
                "kafka.registry: it does not have, or does not let us read, the schemas with ids "
                f"{_shown(self._guessed)}, which messages that were answered name, and the state folder does not have "
                "them either; restore them in the registry, or the file schemas-*.jsonl in the state folder"
            ) from exc

    @property
    def doubt(self) -> str:
        """Why what was answered may have been read otherwise then, in words that go on; empty if nothing was asked."""
        if not self._asked:
            return ""
        return (
            f", unless schemas with ids {_shown(self._asked)}, which are not in the state folder's schemas-*.jsonl, "
            "meant something else in the registry, or were unknown there, when they were answered"
        )

    def lag(self) -> Lag | None:
        """See `Source`."""
        return self._source.lag()

    async def close(self) -> None:
        """See `Source`."""
        self._held = Deliveries()
        await self._source.close()
