"""`perpetua skip`: pass over one message that a shard cannot process."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.cli.options import ConfigFile, ModelName
from oracle.cli.states import present
from oracle.config.daemon import Config, load_config
from oracle.errors import InputError, RefusedError

if TYPE_CHECKING:
    from connectors.base import Committed, Sink, Source
    from oracle.planning.plan import Plan
    from oracle.state.format import Snapshot

    Ends = Callable[[], tuple[Source | None, Sink]]
    Parts = tuple[Snapshot, Committed | None, Ends]

__all__ = ["run"]


def run(
    config_file: ConfigFile,
    position: Annotated[int, typer.Option("--position", help="Position of the message, as `serve` named it.")],
    model: ModelName = None,
    partition: Annotated[int, typer.Option(help="Partition, as `serve` named it; 0 but on Kafka.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what would happen.")] = False,
) -> None:
    """Skip the message that `serve` stopped at: it takes no round, and its sender gets an error (`skipped`).

    A position is where a message ends: after record 16 of a Kafka topic
    it is 17. The message must be the next one. Stop the daemon
    first; on Kafka restart it, or what was running is fenced.
    """
    from oracle.runtime.skip import check_message, skip_message

    with _parts(load_config(config_file, model), partition) as (snapshot, committed, ends):
        asyncio.run(check_message(snapshot, ends()[0], committed, position))
        if not yes:
            raise RefusedError(
                f"--yes is not set: the message that ends at position {position} of partition {partition} would never "
                "be answered; its sender gets an error, and the ledger records it. Add --yes to do it"
            )
        asyncio.run(skip_message(snapshot, *ends(), position))
    typer.echo(f"partition {partition}: the message that ends at position {position} is passed over; start the daemon")


@contextlib.contextmanager
def _parts(config: Config, partition: int) -> "Iterator[Parts]":
    """Lend the newest snapshot, the last commit, and what makes the source and the sink, not yet open.

    A source that can be read only once is None.
    """
    if config.source.kind == "kafka":
        yield asyncio.run(_on_kafka(config, partition))
        return
    if partition:
        raise InputError("--partition", partition, "must be 0: only Kafka has partitions")
    from oracle.hosting.files import last_commit, open_store

    store, plan = open_store(config.state)
    with store:
        snapshot = present(store.load_latest(plan.digest), config.state.folder)
        if config.source.kind == "mqtt":
            from oracle.hosting import mqtt

            yield snapshot, mqtt.last_commit(config, plan), partial(mqtt.open_offline, config, plan)
        elif config.source.kind == "http":
            from oracle.hosting import http

            yield snapshot, http.last_commit(config, plan), partial(http.open_offline, config, plan)
        else:
            yield snapshot, last_commit(config), partial(_on_files, config, plan)


def _on_files(config: Config, plan: "Plan") -> "tuple[Source | None, Sink]":
    from oracle.hosting.files import open_sink, open_source

    return None if config.source.kind == "stdin" else open_source(config, plan), open_sink(config)


async def _on_kafka(config: Config, partition: int) -> "Parts":
    from connectors.kafka.sink import KafkaSink
    from oracle.cli.kafka import last_commit
    from oracle.hosting.kafka import check_topics, open_model
    from oracle.state.shards import shard_folder
    from oracle.state.waiting import DeferredStore
    from oracle.telemetry.client_logs import hear_client

    hear_client()
    model = open_model(config)
    if not 0 <= partition < model.shards:
        raise InputError("--partition", partition, f"must be from 0 to {model.shards - 1}, the state's shards")
    folder = shard_folder(config.state.folder, partition)
    snapshot = present(DeferredStore(folder, model.master_key).load_latest(model.plan.digest), folder)
    settings = (await check_topics(model)).settings
    committed, make_source = await last_commit(settings, partition)

    def ends() -> "tuple[Source, Sink]":
        source = make_source()
        return source, KafkaSink(settings, partition, source.progress)

    return snapshot, committed, ends
