"""`perpetua topics`: look at a model's Kafka topics, and make those that are missing."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from connectors.kafka.topics import TopicFacts, describe, describe_made, make_missing, problems
from oracle.cli.kafka import open_kafka
from oracle.cli.options import AsJson, KafkaConfigFile
from oracle.cli.output import print_json
from oracle.errors import InputError
from oracle.hosting.kafka import KafkaModel
from oracle.hosting.kafka_settings import largest_reply

__all__ = ["run"]


def run(
    config_file: KafkaConfigFile,
    create: Annotated[bool, typer.Option("--create", help="Create the missing topics.")] = False,
    replication: Annotated[int, typer.Option(help="Replication factor of new topics.")] = 1,
    partitions: Annotated[
        int | None,
        typer.Option(
            help="Partitions of a new query topic; fewer than the state has shards leave some waiting (`reshard`).",
            show_default="one for each shard",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a model's Kafka topics, or create the missing ones. Exits 1 if something would stop `serve`."""
    if not 1 <= replication <= 32_767:  # noqa: PLR2004 -- Kafka's own bound
        raise InputError("--replication", replication, "must be from 1 to 32767")
    model = open_kafka(config_file, "topics")
    if partitions is not None and not 1 <= partitions <= model.shards:
        raise InputError("--partitions", partitions, f"must be from 1 to {model.shards}, the state's shards")
    made, found, facts = asyncio.run(_look(model, replication if create else None, partitions))
    if as_json:
        print_json({"made": made, "problems": found, "topics": facts})
    else:
        for name in made:
            typer.echo(f"created {name}")
        for name, fact in facts.items():
            typer.echo(f"exists  {name}: {fact.partitions} partition{'s' if fact.partitions != 1 else ''}")
        for note in _waiting(model, facts):
            typer.echo(f"note    {note}")
        for problem in found:
            typer.echo(f"WRONG   {problem}")
    if found:
        raise typer.Exit(1)


def _waiting(model: KafkaModel, facts: Mapping[str, TopicFacts]) -> Iterator[str]:
    queries = facts.get(model.settings.topic)
    if queries is not None and queries.partitions < model.shards:
        yield f"{model.shards - queries.partitions} of {model.shards} shards wait for a partition: `perpetua reshard`"


async def _look(
    model: KafkaModel, replication: int | None, partitions: int | None
) -> tuple[list[str], list[str], dict[str, TopicFacts]]:
    settings = model.settings
    facts = await describe(settings)
    reply = largest_reply(model.plan, facts.get(settings.topic, TopicFacts(1)).message_bytes)
    made: list[str] = []
    if replication is not None:
        made = await make_missing(settings, facts, model.shards, reply, replication, partitions)
        facts = await describe_made(settings, made)
    return made, problems(settings, facts, model.shards, reply), facts
