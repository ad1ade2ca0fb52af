"""From a configuration to the daemon of one shard, on any bus."""

import time
from collections.abc import Callable

from connectors.base import Sink, Source
from oracle.config.daemon import Config
from oracle.planning.plan import Plan
from oracle.runtime.checkpoints import Retention
from oracle.runtime.daemon import Announce, Daemon, DaemonSettings
from oracle.state.store import Store
from oracle.telemetry.reporter import Reporter

__all__ = ["make_daemon"]


def make_daemon(  # noqa: PLR0913, PLR0917 -- the daemon's parts
    config: Config,
    plan: Plan,
    store: Store,
    source: Source,
    sink: Sink,
    reporter: Reporter,
    *,
    announce: Announce | None = None,
    retention: Retention | None = None,
    on_progress: Callable[[int], None] = lambda _position: None,
) -> Daemon:
    """Return the daemon, not yet running; `Daemon` says what its parts are."""
    return Daemon(
        plan=plan,
        store=store,
        source=source,
        sink=sink,
        reporter=reporter,
        settings=DaemonSettings(
            batch_rows=config.service.batch_rows,
            snapshot_rounds=config.state.snapshot_rounds,
            snapshot_seconds=config.state.snapshot_seconds,
            drain_seconds=config.service.drain_seconds,
        ),
        clock=time.monotonic,
        announce=announce,
        retention=retention,
        on_progress=on_progress,
    )
