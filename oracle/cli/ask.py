"""`perpetua ask`: put one query to a daemon that serves, as any asker would, and print its answer."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Annotated, Any, Final

import msgspec
import typer

from oracle.cli.options import ConfigFile
from oracle.config.daemon import Config, FileSinkConfig, FileSourceConfig, load_config
from oracle.errors import BusError, InputError

__all__ = ["run"]

_REJECTED: Final = 2


def run(
    config_file: ConfigFile,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query, one JSON object; - for standard input.")],
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the answer.")] = 30.0,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition of the Kafka topic; any by default.")] = None,
    reply_topic: Annotated[
        str | None, typer.Option(help="Where the answer is to go: a topic that sink.reply_topics allows.")
    ] = None,
) -> None:
    """Ask a daemon that serves one query, and print the answer. The query takes a round, as any does.

    On Kafka and MQTT the query has correlation data of its own, by which the answer is known: on the answer topic, or
    on a reply topic. To a followed JSONL file it is appended. Needs no state and no key. Exits 2 if the query is
    rejected or its budget is spent, and 5 if no answer comes in time (the query may be answered all the same).
    """
    config = load_config(config_file)
    answer = asyncio.run(_within(timeout, _asked(config, _body(query), partition, reply_topic)))
    typer.echo(answer)
    if isinstance(msgspec.json.decode(answer).get("error"), str):  # a number is what the plan promises
        raise typer.Exit(_REJECTED)


def _body(query: str) -> bytes:
    text = sys.stdin.read() if query == "-" else query
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        document = None
    if not isinstance(document, dict):
        raise InputError("QUERY", "...", "must be one JSON object")
    return msgspec.json.format(text.encode(), indent=-1)


async def _within(seconds: float, asking: Coroutine[Any, Any, bytes]) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await asking
    except TimeoutError as exc:
        raise BusError(
            f"no answer within {seconds:g} s (--timeout): is `perpetua serve` running with this configuration? If the "
            "query was written, it will be answered once it is, and take a round"
        ) from exc


async def _asked(config: Config, body: bytes, partition: int | None, reply_topic: str | None) -> bytes:
    kind = config.source.kind
    if partition is not None and kind != "kafka":
        raise InputError("--partition", partition, "must be left out: only Kafka has partitions")
    if reply_topic is not None and kind not in {"kafka", "mqtt"}:
        raise InputError("--reply-topic", reply_topic, "must be left out: only Kafka and MQTT have topics")
    if kind == "kafka":
        return await _on_kafka(config, body, partition, reply_topic)
    if kind == "mqtt":
        return await _on_mqtt(config, body, reply_topic)
    return await _in_files(config, body)


async def _on_kafka(config: Config, body: bytes, partition: int | None, reply_topic: str | None) -> bytes:
    from connectors.kafka.asking import ask
    from oracle.hosting.kafka_settings import kafka_settings
    from oracle.telemetry.client_logs import hear_client

    hear_client()
    settings = kafka_settings(config, "ask")
    if reply_topic is not None and reply_topic not in settings.reply_topics:
        raise InputError("--reply-topic", reply_topic, "must be one of sink.reply_topics")
    return await ask(settings, body, reply_topic or settings.answers, partition)


async def _on_mqtt(config: Config, body: bytes, reply_topic: str | None) -> bytes:
    from connectors.mqtt import asking
    from oracle.hosting import mqtt

    replies = mqtt.reply_topic(config, reply_topic)
    return await asking.ask(mqtt.asker_settings(config, replies), mqtt.query_topic(config), body)


async def _in_files(config: Config, body: bytes) -> bytes:
    """As of a followed JSONL file; others are answered from end to end, and a query of ours would come too late."""
    from connectors.local.asking import ask

    source, sink = config.source, config.sink
    if not isinstance(source, FileSourceConfig) or source.kind != "jsonl" or not source.follow:
        why = 'must be "kafka", "mqtt", or "jsonl" with source.follow = true: no daemon waits for queries elsewhere'
        raise InputError("source.kind", source.kind, f"{why}; put the query into the source before `perpetua serve`")
    if not isinstance(sink, FileSinkConfig):
        raise InputError("sink.kind", sink.kind, 'must be "jsonl": the answer is read where the daemon writes it')
    return await ask(source.path, sink.path, body)
