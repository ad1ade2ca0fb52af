"""`perpetua topics`: look at a model's Kafka topics, make those that are missing, set others as these are."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from connectors.kafka.altering import Change, alter, changes
from connectors.kafka.topics import TopicFacts, describe, describe_made, make_missing, notes, problems
from oracle.cli.kafka import open_kafka
from oracle.cli.options import AsJson, KafkaConfigFile
from oracle.cli.output import print_json
from oracle.errors import InputError
from oracle.hosting.kafka import KafkaModel
from oracle.hosting.kafka_settings import largest_reply

__all__ = ["run"]


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of a model's topics, and done with them."""

    made: list[str]
    differs: list[Change]
    altered: list[Change]
    notes: list[str]
    problems: list[str]
    topics: dict[str, TopicFacts]


def run(
    config_file: KafkaConfigFile,
    create: Annotated[bool, typer.Option("--create", help="Create the missing topics.")] = False,
    replication: Annotated[int, typer.Option(help="Replication factor of new topics.")] = 1,
    alter_them: Annotated[
        bool, typer.Option("--alter", help="Set topics that exist as new ones are; without it, what differs is shown.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a model's Kafka topics, create missing ones, set others as these are. Exits 1 if `serve` would stop."""
    if not 1 <= replication <= 32_767:  # noqa: PLR2004 -- Kafka's own bound
        raise InputError("--replication", replication, "must be from 1 to 32767")
    model = open_kafka(config_file, "topics")
    found = asyncio.run(_look(model, replication if create else None, alters=alter_them))
    if as_json:
        print_json(
            {
                "made": found.made,
                "altered": [change._asdict() for change in found.altered],
                "differs": [change._asdict() for change in found.differs],
                "notes": found.notes,
                "problems": found.problems,
                "topics": found.topics,
            }
        )
    else:
        for line in _lines(found):
            typer.echo(line)
    if found.problems:
        raise typer.Exit(1)


def _lines(found: _Found) -> Iterator[str]:
    for name in found.made:
        yield f"created {name}"
    for topic, name, value, before in found.altered:
        yield f"altered {topic}: {name} = {value} (was {before})"
    for name, fact in found.topics.items():
        yield f"exists  {name}: {fact.partitions} partition{'s' if fact.partitions != 1 else ''}"
    for topic, name, value, before in found.differs:
        yield f"differs {topic}: {name} = {before}; --alter sets {value}"
    for note in found.notes:
        yield f"note    {note}"
    for problem in found.problems:
        yield f"WRONG   {problem}"


async def _look(model: KafkaModel, replication: int | None, *, alters: bool) -> _Found:
    settings, shards = model.settings, model.shards
    facts = await describe(settings)
    reply = largest_reply(model.plan, facts.get(settings.topic, TopicFacts(1)).message_bytes)
    differs = changes(settings, facts, shards, reply)
    made: list[str] = []
    altered: list[Change] = []
    if replication is not None:
        made = await make_missing(settings, facts, shards, reply, replication)
        facts = await describe_made(settings, made)
    if alters and differs:
        facts = await alter(settings, differs)
        altered, differs = differs, []
    told = notes(settings, facts, reply)
    return _Found(made, differs, altered, told, problems(settings, facts, shards), facts)
