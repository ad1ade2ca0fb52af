"""`perpetua ask`: put one query to a daemon that serves, as any asker would, and print its answer."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from oracle.cli.options import ConfigFile, ModelName
from oracle.errors import InputError, UnansweredError

if TYPE_CHECKING:
    from oracle.api.client import Client

__all__ = ["run"]

_REJECTED: Final = 2


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    config_file: ConfigFile,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query, one JSON object; - for standard input.")],
    model: ModelName = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the answer.")] = 30.0,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition of the Kafka topic; any by default.")] = None,
    reply_topic: Annotated[
        str | None, typer.Option(help="Where the answer is to go: a topic that sink.reply_topics allows.")
    ] = None,
) -> None:
    """Put one query to a running daemon, and print its answer. The query takes a round, as any does.

    On Kafka and MQTT the query has correlation data of its own, by which
    the answer is known: on the answer topic, or on a reply topic. To a
    followed JSONL file it is appended; over HTTP it is the first asker's.
    Needs no state and no key. Exits 2 if the query is rejected or its
    budget is spent, and 5 if no answer comes in time (the query may be
    answered all the same).
    """
    from oracle.api.client import Client, encode_query
    from oracle.telemetry.client_logs import hear_client

    hear_client()
    text = sys.stdin.read() if query == "-" else query
    try:
        body = encode_query(text.encode())
    except (InputError, UnicodeError) as exc:
        raise InputError("QUERY", "...", "must be one JSON object") from exc
    answer = asyncio.run(
        _asked(Client(config_file, model=model, reply_topic=reply_topic, partition=partition), body, timeout)
    )
    typer.echo(answer)
    if isinstance(msgspec.json.decode(answer).get("error"), str):  # a number is what the plan promises
        raise typer.Exit(_REJECTED)


async def _asked(asker: "Client", body: bytes, seconds: float) -> bytes:
    async with asker as client:
        try:
            return await (await client.send(body)).reply(seconds)
        except UnansweredError as exc:
            why = "is `perpetua serve` running with this configuration?"
            raise UnansweredError(f"{exc} (--timeout): {why}") from exc
