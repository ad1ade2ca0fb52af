"""`perpetua truth`: labels that come later, counted with noise."""

import asyncio
import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING

from oracle.cli.options import ConfigFile, ModelName
from oracle.cli.serve.process import run_logged
from oracle.config.daemon import load_config
from oracle.errors import PerpetuaError

if TYPE_CHECKING:
    from pathlib import Path

    from oracle.hosting.truths import TruthModel
    from oracle.telemetry.log import PublicLog

__all__ = ["run"]


def run(config_file: ConfigFile, model: ModelName = None) -> None:
    """Count, with noise, how many answers the labels that came later agree with: drift seen, privately.

    It reads the answers, and the topic or file of the configuration's truth
    table, until a signal comes, or to their ends where the source is not
    followed. A period's counts are released once, as log line and metrics;
    nothing else is told.
    """
    from oracle.hosting.truths import open_truths
    from oracle.state.truths import held_truths

    config = load_config(config_file, model)
    opened = open_truths(config)
    with held_truths(opened.table.folder) as folder:
        run_logged(config, opened.name, partial(_run, opened, folder))


async def _run(model: "TruthModel", folder: "Path", log: "PublicLog") -> None:
    from oracle.hosting.truths import count_truths
    from oracle.telemetry.truths import TruthTelemetry
    from oracle.web.truths import truths_beside

    telemetry = TruthTelemetry(model.name, model.plan.alpha, model.truth.epsilon)
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with truths_beside(model.table.web, telemetry, log):
        counting = asyncio.create_task(count_truths(model, folder, telemetry, log))
        waiting = asyncio.create_task(stopping.wait())
        log.info("truth.counting", epsilon=model.truth.epsilon, rounds=model.truth.rounds)
        await asyncio.wait({counting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        counting.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await counting
        except* PerpetuaError as group:
            raise _first(group) from None


def _first(group: "BaseExceptionGroup[PerpetuaError]") -> PerpetuaError:
    """Return the first of what ended the shards."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
