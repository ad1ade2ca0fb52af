"""Why the brokers do not let us in: the client tells nobody, so each server is tried by itself."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.conn import create_conn

from connectors.kafka.errors import translated
from oracle.errors import BusError, RefusedError

__all__ = ["refusal"]


async def refusal(servers: Sequence[str], connection: Mapping[str, Any]) -> RefusedError | BusError | None:
    """Return why no server lets us in: what one that refuses us says, or else what became of each; None if one does.

    Args:
        servers: "host:port".
        connection: How the client is told to connect; its own names.
    """
    how = {name: value for name, value in connection.items() if name != "bootstrap_servers"}
    outcomes = await asyncio.gather(*(_try(server, how) for server in servers), return_exceptions=True)
    if any(outcome is None for outcome in outcomes):
        return None
    for outcome in outcomes:
        if isinstance(outcome, RefusedError):
            return outcome
    return BusError(f"no broker accepts us: {'; '.join(map(str, outcomes))}")


async def _try(server: str, how: Mapping[str, Any]) -> None:
    """Connect once.

    Raises:
        RefusedError: See `refusal`.
        BusError: The server does not answer.
    """
    host, _, port = server.rpartition(":")
    try:
        with translated(server):
            connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=5000, **how)
    except ValueError as exc:
        raise BusError(f"{server}: its certificate does not fit") from exc
    connection.close()
