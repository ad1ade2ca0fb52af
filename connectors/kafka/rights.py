"""What the brokers' access rules withhold from us: asked for, so that nothing is written, fenced or committed."""

import shlex
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from aiokafka import AIOKafkaClient, errors
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import AddOffsetsToTxnRequest

from connectors.kafka.client import admin, transactional_ids, writer_id
from connectors.kafka.group import until_coordinated
from connectors.kafka.internals import connections
from connectors.kafka.metadata import READ, WRITE, look
from connectors.kafka.settings import KafkaSettings
from oracle.errors import RefusedError

__all__ = ["check_rights", "grant"]

_CONFIGS: Final = 10
_NAMES: Final = {READ: "Read", WRITE: "Write", _CONFIGS: "DescribeConfigs"}
_TRANSACTION: Final = 1
"""The kind of coordinator that keeps transactions."""

_NOBODY: Final = -1
"""The producer id, and its epoch, of nobody: what is asked in its name is checked for the right to ask, and refused."""

_TOLD: Final = frozenset(
    {
        errors.TransactionalIdAuthorizationFailed,
        errors.GroupAuthorizationFailedError,
        errors.InvalidProducerIdMapping,  # from here on the rights were there, and nobody was told so
        errors.InvalidProducerEpoch,
        errors.ProducerFenced,
        errors.InvalidTxnState,
    }
)


async def check_rights(settings: KafkaSettings, partitions: int) -> None:
    """Refuse rules under which a daemon could not read queries, write what it writes, or commit.

    Only those topics are looked at that there are. Each of the query topic's `partitions` has transactional ids, and
    each process one.

    Raises:
        RefusedError: Something is withheld; the message says how to grant it.
        BusError: The brokers do not answer, or are too old to be asked.
    """
    async with admin(settings, "access rules") as client:
        missing = [text async for text in _withheld(connections(client), settings, partitions)]
    if missing:
        raise RefusedError("the brokers deny " + "; and ".join(missing))


async def _withheld(client: AIOKafkaClient, settings: KafkaSettings, partitions: int) -> AsyncIterator[str]:
    for name, operation in await _withheld_topics(client, settings):
        yield grant(settings, _NAMES[operation], "topic", name)
    refused: set[type[Exception]] = set()
    names = {name for partition in range(partitions) for name in transactional_ids(settings, partition)}
    for name in sorted(names | {writer_id(settings, "any")}):
        refused.add(
            await until_coordinated(partial(_commit_as_nobody, client, name, settings.group), settings.request_seconds)
        )
    if errors.TransactionalIdAuthorizationFailed in refused:
        yield grant(settings, "Write", "transactional id", f"{settings.group}-", "--resource-pattern-type prefixed")
    if errors.GroupAuthorizationFailedError in refused:
        yield grant(settings, "Read", "group", settings.group)


async def _withheld_topics(client: AIOKafkaClient, settings: KafkaSettings) -> list[tuple[str, int]]:
    needed: dict[str, tuple[int, ...]] = {settings.topic: (READ,)}
    needed |= dict.fromkeys(settings.written, (WRITE,))
    if settings.marks is not None:
        needed[settings.marks] = (READ, WRITE)
    found = await look(client, list(needed))
    return [
        (name, operation)
        for name, own in needed.items()
        for operation in (*own, _CONFIGS)
        if found[name].there and not found[name].allows(operation)
    ]


async def _commit_as_nobody(client: AIOKafkaClient, name: str, group: str) -> type[Exception]:
    """Ask to commit offsets of the group in a transaction of nobody; return the error that it is refused with.

    The brokers look first whether we may write under the id, then whether we may read in the group, then who it is that
    asks: the producer id of nobody is never that of a transaction, so that none is touched.
    """
    found = await client.send(client.get_random_node(), FindCoordinatorRequest(name, _TRANSACTION))
    error: type[Exception] = errors.for_code(found.error_code)
    if error is errors.NoError:
        asked = AddOffsetsToTxnRequest(name, _NOBODY, _NOBODY, group)
        error = errors.for_code((await client.send(found.coordinator_id, asked)).error_code)
    if error not in _TOLD:
        raise error(name)
    return error


def grant(settings: KafkaSettings, operation: str, kind: str, name: str, more: str = "") -> str:
    """Return a right in words, with the command that grants it."""
    sasl = settings.security.sasl
    who = f"User:{(sasl.username if sasl else None) or 'NAME'}"
    command = [
        *("kafka-acls", "--bootstrap-server", settings.servers[0], "--add", "--allow-principal", who),
        *("--operation", operation, f"--{kind.replace(' ', '-')}", name),
    ]
    return f"{operation} on {kind} {name}; grant it: {' '.join([shlex.join(command), more]).strip()}"
