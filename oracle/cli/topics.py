"""`perpetua topics`: look at a model's Kafka topics, and make those that are missing."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from connectors.kafka.topics import TopicFacts, describe, describe_made, make_missing, problems
from oracle.cli.kafka import open_kafka
from oracle.cli.options import AsJson, KafkaConfigFile, ModelName
from oracle.cli.output import print_json
from oracle.config.daemon import load_config, load_configs
from oracle.errors import InputError
from oracle.hosting.kafka import KafkaModel
from oracle.hosting.kafka_settings import largest_reply
from oracle.hosting.models import most_shards

__all__ = ["run"]


def run(
    config_file: KafkaConfigFile,
    model: ModelName = None,
    create: Annotated[bool, typer.Option("--create", help="Create the missing topics.")] = False,
    replication: Annotated[int, typer.Option(help="Replication factor of new topics.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Check a model's Kafka topics, or create the missing ones. Exits 1 if something would stop `serve`.

    Of a configuration with many models all are checked, unless one is named.
    """
    if not 1 <= replication <= 32_767:  # noqa: PLR2004 -- Kafka's own bound
        raise InputError("--replication", replication, "must be from 1 to 32767")
    configs = load_configs(config_file) if model is None else {None: load_config(config_file, model)}
    most, told = most_shards(load_configs(config_file).values()), {}
    for name, config in configs.items():
        opened = open_kafka(config, "topics")
        opened = replace(opened, settings=replace(opened.settings, mark_partitions=most))
        made, found, facts = asyncio.run(_look(opened, replication if create else None))
        told[name] = {"made": made, "problems": found, "topics": facts}
        if not as_json:
            _show(made, found, facts)
    if as_json:
        print_json(told.get(None, {"models": told}))
    if any(one["problems"] for one in told.values()):
        raise typer.Exit(1)


def _show(made: list[str], found: list[str], facts: dict[str, TopicFacts]) -> None:
    for name in made:
        typer.echo(f"created {name}")
    for name, fact in facts.items():
        typer.echo(f"exists  {name}: {fact.partitions} partition{'s' if fact.partitions != 1 else ''}")
    for problem in found:
        typer.echo(f"WRONG   {problem}")


async def _look(model: KafkaModel, replication: int | None) -> tuple[list[str], list[str], dict[str, TopicFacts]]:
    settings = model.settings
    facts = await describe(settings)
    reply = largest_reply(model.plan, facts.get(settings.topic, TopicFacts(1)).message_bytes)
    made: list[str] = []
    if replication is not None:
        made = await make_missing(settings, facts, model.shards, reply, replication)
        facts = await describe_made(settings, made)
    return made, problems(settings, facts, model.shards, reply), facts
