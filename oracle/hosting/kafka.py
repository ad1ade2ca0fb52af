"""A model on Kafka: its settings, its topics, and the fleet that serves the partitions that are ours."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from connectors.base import Committed, Source
from connectors.kafka.committed_offset import committed_offset, partition_name
from connectors.kafka.consumers import SharedConsumer
from connectors.kafka.errors import TooLargeError
from connectors.kafka.marks import marks_kept
from connectors.kafka.membership import KafkaMembership, Names
from connectors.kafka.moving import cluster_of
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from connectors.kafka.topics import TopicFacts, check, describe, notes
from connectors.kafka.writer import Writer
from connectors.retry import Backoff, retry
from oracle.accounting.ledger import LedgerEvent
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.config.daemon import Config, KafkaSourceConfig
from oracle.errors import BusError, InputError, MisplacedError, RefusedError, StateError
from oracle.hosting.daemons import daemon_settings
from oracle.hosting.kafka_settings import kafka_settings, largest_reply
from oracle.hosting.registered import RegisteredSource, SchemaRegistry, open_registry
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.runtime.daemon import Daemon
from oracle.runtime.fleet import Fleet, Membership
from oracle.runtime.pausing import PauseWatch
from oracle.runtime.shard import Shard
from oracle.runtime.standby import Follower, Standby
from oracle.runtime.together import Together
from oracle.state.folder import load_newest, peek_folder, read_plan
from oracle.state.keys import mark_key, read_key_file
from oracle.state.moves import read_moves
from oracle.state.paused import is_paused
from oracle.state.shards import refuse_copies, shard_count, shard_folder, shard_folders
from oracle.state.waiting import DeferredStore
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.records import ShardTelemetry
from oracle.telemetry.registry import Registry
from oracle.telemetry.reporter import Reporter

__all__ = ["KafkaGroup", "KafkaModel", "check_topics", "misplaced", "open_model", "topic_notes"]


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

    def source(self, source: KafkaSource, partition: int, *, keeps: bool = True) -> KafkaSource | RegisteredSource:
        """Return a partition's source as its shard reads it; see `SchemaRegistry.source`."""
        if self.schemas is None:
            return source
        return self.schemas.source(source, shard_folder(self.config.state.folder, partition), keeps=keeps)

    def codec(self, partition: int) -> Callable[[Plan], Codec]:
        """Return what makes the codec of a partition's shard."""
        if self.schemas is None:
            return codec_of
        return self.schemas.codec(shard_folder(self.config.state.folder, partition), self.answers)

    @property
    def name(self) -> str:
        """What the model is called: in `[[models]]`, or else as its plan."""
        return self.config.entry or self.plan.name

    @property
    def folders(self) -> list[Path]:
        """The snapshot folder of each shard."""
        return shard_folders(self.config.state.folder)


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
    settings = replace(kafka_settings(config, plan.name), secret=mark_key(master_key, plan.digest), shards=shards)
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
    if queries is not None:
        _refuse_fewer(model, queries.partitions)
    settings = check(model.settings, facts, model.shards, tolerant=tolerant)
    return replace(model, settings=settings)


def _refuse_fewer(model: KafkaModel, partitions: int) -> None:
    """Refuse a topic that has no partition for a shard that has answered: it is another one than that was answered."""
    for shard in range(partitions, model.shards):
        header = peek_folder(shard_folder(model.config.state.folder, shard))
        if header is not None and (header.position or header.round):
            raise RefusedError(
                f"topic {model.settings.topic}: has no partition {shard}, and shard {shard} of the state has answered "
                "queries from it; serve the topic that it has answered, or one with as many partitions"
            )


async def topic_notes(model: KafkaModel) -> list[str]:
    """Return what topics cost some askers, though they are served as they are.

    Raises:
        BusError: The brokers do not answer.
    """
    facts = await describe(model.settings, tolerant=True)
    queries = facts.get(model.settings.topic, TopicFacts(model.shards))
    return notes(model.settings, facts, largest_reply(model.plan, queries.message_bytes))


class _Shared(NamedTuple):
    """What all shards of a process on Kafka share: who reads, who commits, and who answers together."""

    consumer: SharedConsumer
    writer: Writer
    together: Together


class KafkaGroup:
    """What all models of a process on Kafka share: a place in the group, and the clients of their shards.

    Args:
        settings: Of any of them.
        topics: The query topics of all of them.
        strangers: Told who else is in the group.
        names: See `KafkaMembership`.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Iterable[str],
        strangers: Callable[[str | None], None],
        names: Names | None = None,
    ) -> None:
        self.membership = KafkaMembership(settings, topics, strangers, names)
        together = Together()
        self._shared = _Shared(SharedConsumer(settings, together.quiet), Writer(settings), together)

    async def close(self) -> None:
        """Let go of what is shared, behind the last shard."""
        await self._shared.writer.close()

    def open_fleet(
        self, model: KafkaModel, registry: Registry, version: str, served: Callable[[], None]
    ) -> tuple[Fleet, Membership]:
        """Return a model's fleet, and what it is run with, which checks the topics before it takes partitions.

        `served` is called in between.
        """
        config = model.config

        def open_shard(partition: int) -> "_ServedShard":
            warm = None if place.standby is None else partial(place.standby.take, partition)
            reporter = registry.shard(partition)
            return _ServedShard(place.model, partition, reporter, self._shared, version, place.paused, warm)

        fleet = Fleet(
            open_shard,
            registry,
            drain_seconds=config.service.drain_seconds,
            retry_seconds=model.settings.session_seconds,
            clock=time.monotonic,
        )
        place = _Place(model, fleet, self.membership, registry.partitions, served)
        if isinstance(config.source, KafkaSourceConfig) and config.source.standby:
            place.standby = Standby(place.follower, place.others, registry.followed)
        return fleet, place


class _Place:
    """A model's place in the group: it checks the topics as soon as the brokers answer, and only then takes partitions.

    Attributes:
        model: From the check on with settings that fit the topics.
        paused: Whether its shards are to answer nothing just now; they stay ours.
        standby: Follows what other processes serve, if that is wanted.
    """

    def __init__(
        self,
        model: KafkaModel,
        fleet: Fleet,
        membership: KafkaMembership,
        counted: Callable[[int], None],
        served: Callable[[], None],
    ) -> None:
        self.model = model
        self._served = served
        self.paused = PauseWatch(partial(is_paused, model.config.state.folder))
        self.standby: Standby | None = None
        self._partitions = 0
        self._fleet = fleet
        self._membership = membership
        self._counted = counted

    async def run(self, on_trouble: Callable[[BusError], None]) -> None:
        """See `Membership.run`."""
        topic = self.model.settings.topic

        def missed(error: BusError) -> None:
            self._membership.pass_over(topic)
            on_trouble(error)

        try:
            self.model = await retry(self._checked, BusError, backoff=Backoff(0.5), on_failure=missed)
        except Exception:
            self._membership.pass_over(topic)
            raise
        self._served()
        settings, shards, fleet = self.model.settings, self.model.shards, self._fleet
        following = contextlib.nullcontext() if self.standby is None else self.standby.running()
        async with self.paused.watching(), following:
            await self._membership.hold(settings, shards, fleet.assigned, fleet.revoked, self._grown)

    def _grown(self, partitions: int) -> None:
        self._partitions = partitions
        self._counted(partitions)

    def others(self) -> frozenset[int]:
        """Return the partitions that other processes serve, or nobody does."""
        return frozenset(range(self._partitions)) - self._fleet.held

    def follower(self, partition: int) -> Follower:
        """Return what follows a partition, from its newest snapshot on."""
        model = self.model
        folder = shard_folder(model.config.state.folder, partition)

        async def find() -> tuple[Committed, Source] | None:
            found = await committed_offset(model.settings, partition)
            if found is None:
                return None
            source = KafkaSource(model.settings, partition)
            source.progress.expect(*found)
            return Committed(found[0], found[1].mark), model.source(source, partition, keeps=False)

        load = partial(load_newest, folder, model.master_key, model.plan.digest)
        return Follower(model.plan, load, find, partition, model.codec(partition))

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
        f"{settings.marks} too: `perpetua offsets show CONFIG`, `perpetua offsets restore CONFIG --from snapshot`. A "
        "model that comes from another topic or cluster: `perpetua offsets import` instead"
    )
    return StateError(msg)


class _ServedShard:
    """One partition's daemon with its store, which is closed when it ends."""

    def __init__(  # noqa: PLR0913, PLR0917 -- its parts
        self,
        model: KafkaModel,
        partition: int,
        reporter: Reporter,
        shared: _Shared,
        version: str,
        paused: Callable[[], bool],
        warm: Callable[[], Awaitable[Shard | None]] | None,
    ) -> None:
        self._settings, self._partition = model.settings, partition
        source = KafkaSource(model.settings, partition, consumer=shared.consumer)
        self._source = model.source(source, partition)

        def announce(record: ShardTelemetry, *, started: bool) -> LedgerEvent:
            stops = model.settings.stop_at_of(partition)
            return shard_event(version, record, started=started, begins=source.begins, stops=stops)

        self._folder = shard_folder(model.config.state.folder, partition)
        self._open = partial(DeferredStore, self._folder, model.master_key)
        self._sink = KafkaSink(model.settings, partition, source.progress, observer=reporter, writer=shared.writer)
        self._daemon: Daemon | None = None
        self._make = partial(
            Daemon,
            plan=model.plan,
            source=self._source,
            sink=self._sink,
            reporter=reporter,
            settings=daemon_settings(model.config),
            announce=announce,
            codec=model.codec(partition),
            paused=paused,
            together=shared.together,
            warm=warm,
        )

    @property
    def serving(self) -> bool:
        return self._daemon is not None and self._daemon.serving

    def stop(self) -> None:
        if self._daemon is not None:
            self._daemon.stop()

    async def run(self) -> int:
        explained = self._source.explained() if isinstance(self._source, RegisteredSource) else contextlib.nullcontext()
        store = await self._opened()
        try:
            self._sink.moved = await self._moved_elsewhere()
            self._daemon = self._make(store=store)
            with explained:
                return await self._daemon.run()
        except MisplacedError as exc:
            raise misplaced(self._settings, self._partition, exc) from exc
        except TooLargeError as exc:  # opened anew, the sink asks what the topics take now
            raise BusError(str(exc)) from exc
        finally:
            store.close()

    async def _moved_elsewhere(self) -> bool:
        """Return whether the state has moved, but for one that had answered nothing yet, and is where it went."""
        moves = await asyncio.to_thread(read_moves, self._folder)
        if not moves:
            return False
        last, settings = moves[-1], self._settings
        if last.round or last.position or (last.topic, last.group) != (settings.topic, settings.group):
            return True
        return await cluster_of(settings) != last.cluster

    async def _opened(self) -> DeferredStore:
        """Return the store, opened in a thread: a disk that hangs holds no other shard."""
        opening = asyncio.ensure_future(asyncio.to_thread(self._open))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_let_go)
            raise


def _let_go(opening: "asyncio.Future[DeferredStore]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
