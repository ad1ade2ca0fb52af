"""`perpetua serve` on Kafka: one model or many, with as many shards as the consumer group gives us."""

import os
from collections.abc import Mapping
from functools import partial

from connectors.kafka.settings import KafkaSettings
from oracle.cli.serve.otlp import export_of
from oracle.cli.serve.process import run_logged
from oracle.cli.serve.web import web_beside
from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.hosting.kafka import KafkaModel, open_model
from oracle.hosting.kafka_settings import kafka_settings
from oracle.hosting.models import Opener, make_fleets, openers_of
from oracle.state.members import MemberNames
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models

__all__ = ["serve_kafka", "serve_models"]


def serve_kafka(config: Config) -> None:
    """Serve the partitions of one model that the group gives us until a signal comes.

    Raises:
        PerpetuaError: The state or the topics cannot be used, or a shard could not go on.
    """
    model = open_model(config)

    async def opened() -> KafkaModel:
        return model

    run_logged(
        config, model.name, partial(_serve, config, model.settings, {model.name: Opener(model.settings.topic, opened)})
    )


def serve_models(configs: Mapping[str, Config]) -> None:
    """Serve the partitions of many models that the group gives us until a signal comes.

    Raises:
        PerpetuaError: No model can go on, or one could not.
    """
    config, *_ = configs.values()
    settings = kafka_settings(config, "")
    run_logged(config, "", partial(_serve, config, settings, openers_of(configs)))


async def _serve(config: Config, settings: KafkaSettings, openers: Mapping[str, Opener], log: PublicLog) -> None:
    models = Models(openers, log, version=version())
    export = export_of(config, {name: opener.topic for name, opener in openers.items()})
    async with web_beside(config.web, models, log, export):
        names = None if settings.instance else MemberNames(config.state.folder, settings.group)
        fleets, group = make_fleets(settings, openers, models, config.service.drain_seconds, names)
        fleets.install_signals(os._exit)
        await fleets.run(group)
