"""What `perpetua check` looks at where queries and answers are in files or standard streams."""

import asyncio
from collections.abc import Callable
from tempfile import TemporaryFile

from connectors.base import Committed, Source
from oracle.cli.check.findings import Findings
from oracle.cli.progress import Progress
from oracle.cli.sources import opened
from oracle.config.daemon import Config, FileSinkConfig, StdoutSinkConfig
from oracle.errors import StateError
from oracle.hosting.files import inspect_sink, last_commit, open_sink, open_source
from oracle.planning.plan import Plan
from oracle.runtime.marks import CommitMark
from oracle.runtime.recovery import catch_up
from oracle.runtime.shard import Shard
from oracle.runtime.skip import describe_position

__all__ = ["check_ends"]


def check_ends(config: Config, findings: Findings, plan: Plan | None, open_shard: Callable[[], Shard | None]) -> None:
    """Check the sink's folder, and beside the state the sink, the source and the log between them."""
    fine = findings.holds("sink's folder is writable", lambda: _try_writing(config))
    shard = open_shard()
    if plan is None or shard is None:
        return
    if fine:
        fine = findings.holds("sink matches the state", lambda: inspect_sink(config, shard))
    fine &= findings.holds(
        "source can be read from the state's position", lambda: _try_reading(config, plan, shard.position)
    )
    committed = last_commit(config) if fine else None
    if (
        committed is not None
        and findings.holds(
            "log matches the answers since the snapshot", lambda: _repeat(config, plan, shard, committed)
        )
        and config.source.kind != "stdin"
    ):
        following = asyncio.run(_first_behind(open_source(config, plan), committed.position))
        if following is not None:
            findings.note(following)


def _try_writing(config: Config) -> None:
    open_sink(config)
    if not isinstance(config.sink, FileSinkConfig | StdoutSinkConfig):
        return
    answers = config.sink.path if isinstance(config.sink, FileSinkConfig) else None
    for path in filter(None, (answers, config.sink.ledger, config.sink.dead_letter)):
        try:
            with TemporaryFile(dir=path.parent):  # of no name that somebody could have put a link at
                pass
        except OSError as exc:
            raise StateError(
                f"{path.parent}: cannot be written: {exc.strerror}; make the folder, or let this user write to it"
            ) from exc


def _try_reading(config: Config, plan: Plan, position: int) -> None:
    if config.source.kind != "stdin":
        asyncio.run(_first_behind(open_source(config, plan), position))


def _repeat(config: Config, plan: Plan, shard: Shard, committed: Committed) -> None:
    """Re-execute, in memory, what a restart would; of standard input nothing can be read."""
    if shard.position == committed.position:
        shard.check(CommitMark.unpack(committed.metadata))
    elif config.source.kind != "stdin":
        _try_reading(config, plan, committed.position)  # a log that ends before is told at once
        asyncio.run(_catch_up(shard, open_source(config, plan), committed))


async def _catch_up(shard: Shard, source: Source, committed: Committed) -> None:
    with Progress("re-executing", committed.position, "of the source") as progress:
        try:
            await catch_up(shard, source, committed, progress.at)
        finally:
            await source.close()


async def _first_behind(source: Source, position: int) -> str | None:
    """Return in words which message comes first behind a position: the daemon may have ended at it."""
    async with opened(source, position or None):
        behind = await source.fetch(1, 0.0)
    return describe_position(position, behind) if behind else None
