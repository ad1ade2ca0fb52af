"""A model on Kafka: its settings, its topics, and the fleet that serves the partitions that are ours."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connectors.kafka.membership import KafkaMembership
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from connectors.kafka.topics import DEFAULT_MESSAGE_BYTES, check, describe
from oracle.accounting.ledger import LedgerEvent
from oracle.errors import StateError
from oracle.planning.plan import Plan
from oracle.predictors.base import PublicFacts
from oracle.service.config import Config
from oracle.service.daemon import Daemon, DaemonSettings
from oracle.service.fleet import Fleet
from oracle.service.kafka import kafka_settings, largest_reply
from oracle.service.log import PublicLog
from oracle.service.standing import standing
from oracle.state.folder import read_plan
from oracle.state.keys import read_key_file
from oracle.state.patient import PatientStore
from oracle.state.shards import shard_count, shard_folder

__all__ = ["KafkaModel", "check_topics", "make_fleet", "open_model"]

_QUIET_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class KafkaModel:
    """What serving a model on Kafka needs, read and checked.

    Attributes:
        config: The configuration.
        plan: The plan of each shard.
        shards: How many there are.
        master_key: Opens their snapshots.
        settings: The connector's.
    """

    config: Config
    plan: Plan
    shards: int
    master_key: bytes
    settings: KafkaSettings


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
        msg = f"{folder}: it holds no plan; make a state with `perpetua init`"
        raise StateError(msg)
    plan = Plan.decode(data)
    return KafkaModel(config, plan, shards, read_key_file(config.state.key_path), kafka_settings(config, plan))


async def check_topics(model: KafkaModel) -> None:
    """Refuse topics that would stop the daemon, or let somebody else stop it.

    Raises:
        RefusedError: One is missing or not as it must be.
        BusError: The brokers do not answer.
    """
    facts = await describe(model.settings)
    queries = facts.get(model.settings.topic)
    check(
        model.settings,
        facts,
        model.shards,
        largest_reply(model.plan, queries.message_bytes if queries else DEFAULT_MESSAGE_BYTES),
    )


def make_fleet(model: KafkaModel, log: PublicLog, version: str) -> tuple[Fleet, KafkaMembership]:
    """Return the fleet, and the membership that it is run with."""
    config = model.config

    def open_shard(partition: int) -> "_ServedShard":
        return _ServedShard(model, partition, log.of(partition), version)

    fleet = Fleet(
        open_shard,
        log,
        drain_seconds=config.service.drain_seconds,
        patience=model.settings.session_seconds,
        clock=time.monotonic,
    )
    return fleet, KafkaMembership(model.settings, model.shards, fleet.assigned, fleet.revoked)


class _ServedShard:
    """One partition's daemon with its store, which is closed when it ends."""

    def __init__(self, model: KafkaModel, partition: int, log: PublicLog, version: str) -> None:
        config, plan = model.config, model.plan
        source = KafkaSource(model.settings, partition)

        def announce(facts: PublicFacts, *, started: bool) -> LedgerEvent:
            return standing(plan, version, facts, started=started)

        self._store = PatientStore(shard_folder(config.state.folder, partition), model.master_key)
        self._daemon = Daemon(
            plan=plan,
            store=self._store,
            source=source,
            sink=KafkaSink(model.settings, partition, source),
            log=log,
            settings=DaemonSettings(
                batch_rows=config.service.batch_rows,
                snapshot_rounds=config.state.snapshot_rounds,
                snapshot_seconds=config.state.snapshot_seconds,
                drain_seconds=config.service.drain_seconds,
            ),
            clock=time.monotonic,
            announce=announce,
        )

    @property
    def serving(self) -> bool:
        return self._daemon.serving

    def stop(self) -> None:
        self._daemon.stop()

    async def run(self) -> int:
        try:
            return await self._daemon.run()
        finally:
            self._store.close()


class ClientChatter(logging.Handler):
    """Turns the client's own log lines, which are free text, into events of the closed vocabulary.

    Args:
        log: Where these go; of each of the client's loggers at most one in ten seconds.
        clock: Seconds, monotone.
    """

    def __init__(self, log: PublicLog, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._clock = clock
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say that there was something, of which part of the client and of which weight; not what."""
        now = self._clock()
        if now - self._said.get(record.name, -_QUIET_SECONDS) >= _QUIET_SECONDS:
            self._said[record.name] = now
            self._log.warning("bus.client", kind=record.name, reason=record.levelname.lower())
