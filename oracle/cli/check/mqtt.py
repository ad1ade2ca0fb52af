"""What `perpetua check` looks at where the source is MQTT: the journal, the outbox and the broker, beside the state."""

import asyncio
from collections.abc import Callable

from connectors.mqtt.client import check_broker
from oracle.cli.check.findings import Findings, place_of
from oracle.config.daemon import Config
from oracle.errors import MisplacedError
from oracle.hosting.mqtt import last_commit, misplaced, mqtt_settings, open_questions
from oracle.planning.plan import Plan
from oracle.runtime.recovery import check_order
from oracle.runtime.shard import Shard
from oracle.telemetry.client_logs import hear_client

__all__ = ["check_ends"]


def check_ends(config: Config, findings: Findings, plan: Plan | None, open_shard: Callable[[], Shard | None]) -> None:
    """Check journal and outbox beside the state, the settings, and the broker with these."""
    hear_client()
    shard = open_shard()
    if plan is None:
        return
    if shard is not None:
        place = findings.get(
            "journal and outbox are intact and match the state", lambda: asyncio.run(_repeat(config, plan, shard))
        )
        if place:
            findings.note(place)
    settings = findings.get("settings and secrets", lambda: mqtt_settings(config, plan))
    if settings is not None:
        findings.holds("broker accepts us and supports what is needed", lambda: asyncio.run(check_broker(settings)))


async def _repeat(config: Config, plan: Plan, shard: Shard) -> str:
    """Re-execute, in memory, what a restart would; return in words what comes next, if anything does."""
    committed = last_commit(config, plan)
    try:
        check_order(shard, committed)
    except MisplacedError as exc:
        raise misplaced(config, exc) from exc
    return await place_of(shard, open_questions(config, plan), committed, 0.0)
