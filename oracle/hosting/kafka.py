"""A model on Kafka: its settings, its topics, and the fleet that serves the partitions that are ours."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from connectors.kafka.committed_offset import partition_name
from connectors.kafka.marks import marks_kept
from connectors.kafka.membership import KafkaMembership
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from connectors.kafka.topics import DEFAULT_MESSAGE_BYTES, check, describe
from connectors.retry import Backoff, retry
from oracle.accounting.ledger import LedgerEvent
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.config.daemon import Config
from oracle.errors import BusError, InputError, MisplacedError, StateError
from oracle.hosting.daemons import daemon_settings
from oracle.hosting.kafka_settings import kafka_settings, largest_reply
from oracle.hosting.registered import RegisteredSource, SchemaRegistry, open_registry
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.runtime.daemon import Daemon
from oracle.runtime.fleet import Fleet, Membership
from oracle.state.folder import read_plan
from oracle.state.keys import mark_key, read_key_file
from oracle.state.shards import refuse_copies, shard_count, shard_folder
from oracle.state.waiting import DeferredStore
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.records import ShardTelemetry
from oracle.telemetry.registry import Registry
from oracle.telemetry.reporter import Reporter

__all__ = ["KafkaModel", "check_topics", "make_fleet", "misplaced", "open_model"]


@dataclass(frozen=True, slots=True)
class KafkaModel:
    """What serving a model on Kafka needs, read and checked.

    Attributes:
        plan: The plan of each shard.
        master_key: Opens their snapshots.
        schemas: Where queries have schemas; None where they have none.
        answers: The id of the schema of answers, once it is registered.
    """

    config: Config
    plan: Plan
    shards: int
    master_key: bytes
    settings: KafkaSettings
    schemas: SchemaRegistry | None = None
    answers: int = 0

    def source(
        self, source: KafkaSource, partition: int, *, keeps: bool = True
    ) -> tuple[KafkaSource | RegisteredSource, Callable[[Plan], Codec]]:
        """Return a partition's source as its shard reads it, and what makes the codec; see `SchemaRegistry.shard`."""
        if self.schemas is None:
            return source, codec_of
        folder = shard_folder(self.config.state.folder, partition)
        return self.schemas.shard(source, folder, self.answers, keeps=keeps)


def open_model(config: Config) -> KafkaModel:
    """Read the state's plan and key.

    Raises:
        StateError: The state folder cannot be used.
        RefusedError: The configuration cannot.
    """
    folder = config.state.folder
    shards = shard_count(folder)
    data = read_plan(shard_folder(folder, 0))
    if data is None:
        raise StateError(f"{folder}: it holds no plan; make a state with `perpetua init`")
    plan = decode_plan(data)
    master_key = read_key_file(config.state.key_path)
    settings = replace(kafka_settings(config, plan.name), secret=mark_key(master_key, plan.digest))
    for name in ("first_offset", "stop_at"):
        table = getattr(settings, name)
        for partition in table if isinstance(table, dict) else ():
            if partition >= shards:
                raise InputError(f"source.{name}.{partition}", "...", f"must be below {shards}, the state's shards")
    refuse_copies(folder, master_key)
    return KafkaModel(config, plan, shards, master_key, settings, open_registry(config, plan))


async def check_topics(model: KafkaModel, *, tolerant: bool = False) -> KafkaModel:
    """Refuse topics that would stop the daemon, or let somebody else stop it; return the model fitted to them.

    `tolerant` lets reply topics be missing, or not as they should be.

    Raises:
        RefusedError: One is missing or not as it must be.
        BusError: The brokers do not answer.
    """
    facts = await describe(model.settings, tolerant=tolerant)
    queries = facts.get(model.settings.topic)
    settings = check(
        model.settings,
        facts,
        model.shards,
        largest_reply(model.plan, queries.message_bytes if queries else DEFAULT_MESSAGE_BYTES),
        tolerant=tolerant,
    )
    return replace(model, settings=settings)


def make_fleet(model: KafkaModel, registry: Registry, version: str) -> tuple[Fleet, Membership]:
    """Return the fleet, and the membership that it is run with, which checks the topics before it joins."""
    config = model.config

    def open_shard(partition: int) -> "_ServedShard":
        return _ServedShard(membership.model, partition, registry.shard(partition), version)

    fleet = Fleet(
        open_shard,
        registry,
        drain_seconds=config.service.drain_seconds,
        retry_seconds=model.settings.session_seconds,
        clock=time.monotonic,
    )
    membership = _CheckedMembership(model, fleet, registry)
    return fleet, membership


class _CheckedMembership:
    """Checks the topics as soon as the brokers answer, and only then joins: a daemon may be started before they are.

    Attributes:
        model: From the check on with settings that fit the topics.
    """

    def __init__(self, model: KafkaModel, fleet: Fleet, registry: Registry) -> None:
        self.model = model
        self._fleet = fleet
        self._registry = registry

    async def run(self, on_trouble: Callable[[BusError], None]) -> None:
        """See `Membership.run`."""
        self.model = await retry(self._checked, BusError, backoff=Backoff(0.5), on_failure=on_trouble)
        settings, shards = self.model.settings, self.model.shards
        fleet, told = self._fleet, self._registry.strangers
        await KafkaMembership(settings, shards, fleet.assigned, fleet.revoked, told).run(on_trouble)

    async def _checked(self) -> KafkaModel:
        model = await check_topics(self.model, tolerant=True)
        if model.schemas is not None:
            model = replace(model, answers=await model.schemas.register())
        with contextlib.suppress(BusError):  # each shard tries again
            await marks_kept(model.settings, 0, make=True)
        return model


def misplaced(settings: KafkaSettings, partition: int, error: MisplacedError) -> StateError:
    """Return what is said on Kafka where a snapshot is ahead of what was committed."""
    msg = (
        f"{partition_name(settings, partition)}: {error}. If the group's offsets are gone, and our marks on topic "
        f"{settings.marks} too: `perpetua offsets show CONFIG`, `perpetua offsets restore CONFIG --from snapshot`"
    )
    return StateError(msg)


class _ServedShard:
    """One partition's daemon with its store, which is closed when it ends."""

    def __init__(self, model: KafkaModel, partition: int, reporter: Reporter, version: str) -> None:
        self._settings, self._partition = model.settings, partition
        source = KafkaSource(model.settings, partition)
        self._source, codec = model.source(source, partition)

        def announce(record: ShardTelemetry, *, started: bool) -> LedgerEvent:
            stops = model.settings.stop_at_of(partition)
            return shard_event(version, record, started=started, begins=source.begins, stops=stops)

        self._store = DeferredStore(shard_folder(model.config.state.folder, partition), model.master_key)
        sink = KafkaSink(model.settings, partition, source.progress, observer=reporter)
        self._daemon = Daemon(
            plan=model.plan,
            store=self._store,
            source=self._source,
            sink=sink,
            reporter=reporter,
            settings=daemon_settings(model.config),
            announce=announce,
            codec=codec,
        )

    @property
    def serving(self) -> bool:
        return self._daemon.serving

    def stop(self) -> None:
        self._daemon.stop()

    async def run(self) -> int:
        explained = self._source.explained() if isinstance(self._source, RegisteredSource) else contextlib.nullcontext()
        try:
            with explained:
                return await self._daemon.run()
        except MisplacedError as exc:
            raise misplaced(self._settings, self._partition, exc) from exc
        finally:
            self._store.close()
