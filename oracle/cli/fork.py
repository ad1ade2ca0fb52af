"""`perpetua fork`: another log answered from a snapshot with fresh noise, at a stated cost."""

from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.replay.options import AsJson, DataLedger, KeyFile, Log, Origin, Partition, Skip
from oracle.cli.replay.query_log import ROWS
from oracle.cli.replay.runs import Recorded, fork_log

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: Log,
    origin: Origin,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the answers to this new file: .jsonl, .parquet or .arrow.")
    ] = None,
    accept_cost: Annotated[
        bool,
        typer.Option("--accept-cost", help="Spend the epsilon that another run costs; without this, only state it."),
    ] = False,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Write the run's public events to this file.")] = None,
    key: KeyFile = None,
    rows_per_message: Annotated[
        int,
        typer.Option(help="Rows of a Parquet or Arrow log that are one message."),
    ] = ROWS,
    partition: Partition = 0,
    offsets: Annotated[
        str | None,
        typer.Option(metavar="FIRST:LAST", help="Offsets of a Kafka topic, LAST excluded; all by default."),
    ] = None,
    skip: Skip = None,
    data_ledger: DataLedger = None,
    as_json: AsJson = False,
) -> None:
    """Answer another log from a snapshot with fresh noise, at a stated cost.

    LOG is answered from its beginning. The state stays, and what was spent is
    recorded beside it. Even the log that was served is another log here.
    """
    recorded = Recorded(log, origin, key, partition, rows_per_message)
    fork_log(recorded, out, (ledger, data_ledger), offsets, skip, accept_cost=accept_cost, as_json=as_json)
