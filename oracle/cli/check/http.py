"""What `perpetua check` looks at where the source is HTTP: journals, tokens and the address, beside the state."""

import asyncio
from collections.abc import Callable

from oracle.cli.check.findings import Findings, place_of
from oracle.config.daemon import Config
from oracle.errors import MisplacedError
from oracle.hosting.http import last_commit, misplaced, open_ends, open_offline
from oracle.planning.plan import Plan
from oracle.runtime.recovery import check_order
from oracle.runtime.shard import Shard
from oracle.state.folder import is_held
from oracle.web.server import listen
from oracle.web.token import read_tokens

__all__ = ["check_ends"]


def check_ends(config: Config, findings: Findings, plan: Plan | None, open_shard: Callable[[], Shard | None]) -> None:
    """Check both journals beside the state, the tokens' file, and the address."""
    shard = open_shard()
    if plan is None:
        return
    if shard is not None:
        place = findings.get(
            "journals are intact and match the state", lambda: asyncio.run(_repeat(config, plan, shard))
        )
        if place:
            findings.note(place)
    ends = findings.get("http: settings", lambda: open_ends(config, plan))
    if ends is None:
        return
    table = ends.table
    findings.holds("http: tokens", lambda: read_tokens(table.tokens_file))
    if is_held(config.state.folder) and table.port:
        findings.note("http: the port was not tried, as a daemon serves this state now")
    else:
        findings.holds("http: address is free", lambda: listen(table, "http").close())


async def _repeat(config: Config, plan: Plan, shard: Shard) -> str:
    """Re-execute, in memory, what a restart would; return in words what comes next, if anything does."""
    committed = last_commit(config, plan)
    try:
        check_order(shard, committed)
    except MisplacedError as exc:
        raise misplaced(config, exc) from exc
    return await place_of(shard, open_offline(config, plan)[0], committed, 0.0)
