"""`perpetua topics`: look at a model's Kafka topics, make those that are missing, set others as these are."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from connectors.kafka.altering import Change, alter, changes
from connectors.kafka.topics import TopicFacts, describe, describe_made, make_missing, notes, problems
from oracle.cli.kafka import open_kafka
from oracle.cli.options import AsJson, KafkaConfigFile, ModelName
from oracle.cli.output import print_json
from oracle.config.daemon import load_config, load_configs
from oracle.errors import InputError
from oracle.hosting.kafka import KafkaModel
from oracle.hosting.kafka_settings import largest_reply
from oracle.hosting.models import most_shards

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


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    config_file: KafkaConfigFile,
    model: ModelName = None,
    create: Annotated[bool, typer.Option("--create", help="Create the missing topics.")] = False,
    replication: Annotated[int, typer.Option(help="Replication factor of new topics.")] = 1,
    partitions: Annotated[
        int | None,
        typer.Option(
            help="Partitions of a new query topic; fewer than the state has shards leave some waiting (`reshard`).",
            show_default="one for each shard",
        ),
    ] = None,
    alter_them: Annotated[
        bool, typer.Option("--alter", help="Set topics that exist as new ones are; without it, what differs is shown.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a model's Kafka topics, create missing ones, set others as these are. Exits 1 if `serve` would stop.

    Of a configuration with many models all are checked, unless one is named.
    """
    if not 1 <= replication <= 32_767:  # noqa: PLR2004 -- Kafka's own bound
        raise InputError("--replication", replication, "must be from 1 to 32767")
    configs = load_configs(config_file) if model is None else {None: load_config(config_file, model)}
    most, told = most_shards(load_configs(config_file).values()), {}
    for name, config in configs.items():
        opened = open_kafka(config, "topics")
        if partitions is not None and not 1 <= partitions <= opened.shards:
            raise InputError("--partitions", partitions, f"must be from 1 to {opened.shards}, the state's shards")
        opened = replace(opened, settings=replace(opened.settings, mark_partitions=most))
        told[name] = asyncio.run(_look(opened, replication if create else None, partitions, alters=alter_them))
        if not as_json:
            for line in _lines(told[name]):
                typer.echo(line)
    if as_json:
        shown = {name: _as_json(found) for name, found in told.items()}
        print_json(shown.get(None, {"models": shown}))
    if any(found.problems for found in told.values()):
        raise typer.Exit(1)


def _as_json(found: _Found) -> dict[str, object]:
    changed = {name: [change._asdict() for change in getattr(found, name)] for name in ("differs", "altered")}
    return asdict(found) | changed | {"topics": found.topics}


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


def _waiting(model: KafkaModel, facts: Mapping[str, TopicFacts]) -> Iterator[str]:
    queries = facts.get(model.settings.topic)
    if queries is not None and queries.partitions < model.shards:
        yield f"{model.shards - queries.partitions} of {model.shards} shards wait for a partition: `perpetua reshard`"


async def _look(model: KafkaModel, replication: int | None, partitions: int | None, *, alters: bool) -> _Found:
    settings, shards = model.settings, model.shards
    facts = await describe(settings)
    reply = largest_reply(model.plan, facts.get(settings.topic, TopicFacts(1)).message_bytes)
    differs = changes(settings, facts, shards, reply)
    made: list[str] = []
    altered: list[Change] = []
    if replication is not None:
        made = await make_missing(settings, facts, shards, reply, replication, partitions)
        facts = await describe_made(settings, made)
    if alters and differs:
        facts = await alter(settings, differs)
        altered, differs = differs, []
    told = [*notes(settings, facts, reply), *_waiting(model, facts)]
    return _Found(made, differs, altered, told, problems(settings, facts, shards), facts)
