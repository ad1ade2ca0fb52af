"""`perpetua topics`: look at a model's Kafka topics, and make those that are missing."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from oracle.errors import InputError

if TYPE_CHECKING:
    from connectors.kafka.topics import TopicFacts
    from oracle.hosting.kafka import KafkaModel

__all__ = ["run"]


def run(
    config_file: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="A configuration with a Kafka source.")],
    create: Annotated[bool, typer.Option("--create", help="Create the missing topics.")] = False,
    replication: Annotated[int, typer.Option(help="Replication factor of new topics.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a model's Kafka topics, or create the missing ones. Exits 1 if something would stop `serve`."""
    from oracle.config.daemon import load_config
    from oracle.hosting.kafka import open_model
    from oracle.telemetry.library_logs import hear_client

    config = load_config(config_file)
    if config.source.kind != "kafka":
        raise InputError("source.kind", config.source.kind, 'must be "kafka": only Kafka has topics')
    if not 1 <= replication <= 32_767:  # noqa: PLR2004 -- Kafka's own bound
        raise InputError("--replication", replication, "must be from 1 to 32767")
    model = open_model(config)
    hear_client(logging.NullHandler())
    made, found, facts = asyncio.run(_look(model, replication if create else None))
    if as_json:
        typer.echo(msgspec.json.encode({"made": made, "problems": found, "topics": facts}))
    else:
        for name in made:
            typer.echo(f"created {name}")
        for name, fact in facts.items():
            typer.echo(f"exists  {name}: {fact.partitions} partition{'s' if fact.partitions != 1 else ''}")
        for problem in found:
            typer.echo(f"WRONG   {problem}")
    if found:
        raise typer.Exit(1)


async def _look(model: "KafkaModel", replication: int | None) -> tuple[list[str], list[str], "dict[str, TopicFacts]"]:
    from connectors.kafka.topics import TopicFacts, describe, make_missing, problems
    from oracle.hosting.kafka_settings import largest_reply

    settings = model.settings
    facts = await describe(settings)
    reply = largest_reply(model.plan, facts.get(settings.topic, TopicFacts(1)).message_bytes)
    made: list[str] = []
    if replication is not None:
        made = await make_missing(settings, facts, model.shards, reply, replication)
        facts = await describe(settings)
    return made, problems(settings, facts, model.shards, reply), facts
