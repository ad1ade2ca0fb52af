"""`perpetua serve` on Kafka: many shards, as the consumer group has it."""

import os
from functools import partial

from oracle.cli.serve.otlp import export_of
from oracle.cli.serve.process import run_logged
from oracle.cli.serve.web import web_beside
from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.hosting.kafka import KafkaModel, make_fleet, open_model
from oracle.state.shards import shard_folder
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry

__all__ = ["serve_kafka"]


def serve_kafka(config: Config) -> None:
    """Serve the partitions that the group gives us until a signal comes.

    Raises:
        PerpetuaError: The state or the topics cannot be used, or a shard could not go on.
    """
    model = open_model(config)
    run_logged(config, model.plan, partial(_serve, model))


async def _serve(model: KafkaModel, log: PublicLog) -> None:
    registry = Registry(model.plan, log, version=version(), shards=model.shards, grouped=True)
    folders = [shard_folder(model.config.state.folder, shard) for shard in range(model.shards)]
    export = export_of(model.config)
    async with web_beside(model.config.web, registry, folders.__getitem__, log, export):
        fleet, membership = make_fleet(model, registry, version())
        fleet.install_signals(os._exit)
        await fleet.run(membership)
