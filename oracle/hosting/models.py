"""Many models of one process on Kafka: from their configurations to the fleets that serve them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from connectors.kafka.membership import Names
from connectors.kafka.settings import KafkaSettings
from oracle.config.daemon import Config
from oracle.errors import CorruptSnapshotError, ForeignShardError, PerpetuaError, StorageError
from oracle.hosting.kafka import KafkaGroup, KafkaModel, open_model
from oracle.hosting.kafka_settings import kafka_settings
from oracle.runtime.fleet import Fleet, Membership
from oracle.runtime.fleets import Fleets
from oracle.state.folder import peek_folder
from oracle.state.shards import shard_count, shard_folders
from oracle.telemetry.models import Models
from oracle.telemetry.registry import Registry

__all__ = ["Opener", "make_fleets", "most_shards", "openers_of", "refuse_copies_among"]

_PATIENCE: Final = 10.0
"""Seconds for which the group is joined by no model where one is still being opened: its disk may hang."""


class Opener(NamedTuple):
    """What opens a model.

    Attributes:
        topic: Of its queries.
        open: Reads its state.
    """

    topic: str
    open: Callable[[], Awaitable[KafkaModel]]


def most_shards(configs: Iterable[Config]) -> int:
    """Return how many shards the largest state has, of those that can be read."""
    most = 1
    for config in configs:
        with contextlib.suppress(PerpetuaError):
            most = max(most, shard_count(config.state.folder))
    return most


def openers_of(configs: Mapping[str, Config]) -> dict[str, Opener]:
    """Return what opens each model, by name, in a thread: a disk that hangs holds no other model.

    One that is a copy of another's state is refused: both would draw the same noise, for different queries.
    """
    most, drawn = most_shards(configs.values()), _Drawn()

    async def opened(name: str) -> KafkaModel:
        model = await asyncio.to_thread(open_model, configs[name])
        await asyncio.to_thread(drawn.add, name, model.folders)
        return replace(model, settings=replace(model.settings, mark_partitions=most))

    return {name: Opener(kafka_settings(config, name).topic, partial(opened, name)) for name, config in configs.items()}


def refuse_copies_among(configs: Mapping[str | None, Config]) -> None:
    """Refuse models of which one's state is a copy of another's; states that cannot be read are passed over.

    Raises:
        ForeignShardError: One is.
    """
    drawn = _Drawn()
    for name, config in configs.items():
        with contextlib.suppress(StorageError, CorruptSnapshotError):
            drawn.add(str(name), shard_folders(config.state.folder))


class _Drawn:
    """Which model's shards begin with which keys, by their commitments."""

    def __init__(self) -> None:
        self._owners: dict[bytes, str] = {}

    def add(self, name: str, folders: Iterable[Path]) -> None:
        """Take note of a model's shards.

        Raises:
            ForeignShardError: Another model has one of them.
        """
        for folder in folders:
            header = peek_folder(folder)
            if header is None or header.origin is None:
                continue
            owner = self._owners.setdefault(header.origin.genesis, name)
            if owner != name:
                raise ForeignShardError(
                    f"{folder}: is a copy of a shard of model {owner}: both would draw the same noise, for different "
                    "queries; make a state of its own with `perpetua init`"
                )


def make_fleets(
    settings: KafkaSettings,
    openers: Mapping[str, Opener],
    models: Models,
    drain_seconds: float,
    names: Names | None = None,
) -> tuple[Fleets, Membership]:
    """Return what serves models, and what it is run with.

    Args:
        settings: Of the cluster and the group, which are those of all.
        openers: By the models' names.
        models: Is told of each.
        drain_seconds: Most time for a clean stop.
        names: See `KafkaMembership`.
    """
    group = KafkaGroup(settings, (opener.topic for opener in openers.values()), models.strangers, names)

    async def open_fleet(name: str) -> tuple[Fleet, Membership]:
        asyncio.get_running_loop().call_later(_PATIENCE, group.membership.pass_over, openers[name].topic)
        try:
            model = await openers[name].open()
        except Exception:
            group.membership.pass_over(openers[name].topic)
            raise
        registry = Registry(
            model.plan,
            models.log_of(name),
            version=models.version,
            shards=model.shards,
            grouped=True,
            model=name,
        )
        models.opened(name, registry, model.folders.__getitem__)
        return group.open_fleet(model, registry, models.version, partial(models.served, name))

    opens = {name: partial(open_fleet, name) for name in openers}
    fleets = Fleets(opens, models, drain_seconds=drain_seconds, close=group.close)
    return fleets, group.membership
