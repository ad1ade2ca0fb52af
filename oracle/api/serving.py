"""`oracle.serve`: the daemon with a source and a sink of the caller's."""

from importlib.metadata import version
from pathlib import Path

from connectors.base import Sink, Source
from oracle.api.predictor import open_state
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry

__all__ = ["serve"]


async def serve(
    folder: Path | str,
    source: Source,
    sink: Sink,
    *,
    key: Path | str | None = None,
    settings: DaemonSettings | None = None,
) -> int:
    """Serve a state until the source ends; return the rounds answered in all. In a notebook: `await oracle.serve(...)`.

    Answers, commits and recovery are those of `perpetua serve` (`Daemon` states its guarantees); log lines go to
    standard error. Cancelling it is like a crash: it recovers when it is called again.

    Args:
        folder: The state folder of one shard; no predictor may hold it.
        source: Not yet open; it must keep the promises of `connectors.base`.
        sink: Not yet open; likewise.
        key: The state's key file; by default `key` in the folder.
        settings: Batch size, and how often a snapshot is written.

    Raises:
        PerpetuaError: The state, the source or the sink fails; what was committed stands.
    """
    store, plan = open_state(folder, key)
    with store:
        reporter = Registry(plan, PublicLog(model=plan.name), version=version("perpetua")).shard(0)
        daemon = Daemon(plan=plan, store=store, source=source, sink=sink, reporter=reporter, settings=settings)
        return await daemon.run()
