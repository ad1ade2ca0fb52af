"""`perpetua reshard`: more partitions for a model whose state has shards that wait for one."""

import asyncio
from functools import partial
from typing import Annotated

import typer

from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import count_partitions, describe, grow
from connectors.retry import retry
from oracle.cli.kafka import open_kafka
from oracle.cli.options import KafkaConfigFile, ModelName
from oracle.config.daemon import load_config
from oracle.errors import BusError, InputError
from oracle.hosting.kafka import check_topics

__all__ = ["run"]


def run(
    config_file: KafkaConfigFile,
    partitions: Annotated[int, typer.Option("--partitions", help="Of the query topic from now on.")],
    model: ModelName = None,
) -> None:
    """Give a model's Kafka topics more partitions, up to the shards that its state was made with.

    Shards that waited for a partition begin to answer, in whatever
    process the group gives them to, within half a minute and without a
    restart. Nothing that was learned or answered moves: each shard
    keeps its own rows, queries and budget.
    """
    opened = open_kafka(load_config(config_file, model), "partitions")
    if not 1 <= partitions <= opened.shards:
        bound = f"must be from 1 to {opened.shards}, the shards that the state was made with (`perpetua init --shards`)"
        raise InputError("--partitions", partitions, bound)
    for name in asyncio.run(_grown(asyncio.run(check_topics(opened)).settings, partitions)):
        typer.echo(f"topic {name}: has {partitions} partitions")


async def _grown(settings: KafkaSettings, partitions: int) -> list[str]:
    names = await grow(settings, await describe(settings), partitions)
    await retry(partial(_report, settings, partitions), BusError, seconds=settings.request_seconds)
    return names


async def _report(settings: KafkaSettings, partitions: int) -> None:
    """Wait until the brokers report what they agreed to."""
    if await count_partitions(settings) < partitions:
        raise BusError(f"topic {settings.topic}: grows, but the brokers do not report it yet; look again")
