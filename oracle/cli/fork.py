"""`perpetua fork`: another log answered from a snapshot with fresh noise, at a stated cost."""

from typing import Annotated

import typer

from oracle.cli.options import (
    AcceptCost,
    AsJson,
    DataLedger,
    KeyFile,
    Ledger,
    Log,
    Offsets,
    Origin,
    Out,
    Partition,
    Skip,
)
from oracle.cli.replay.query_log import ROWS
from oracle.cli.replay.runs import Recorded, fork_log

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: Log,
    origin: Origin,
    out: Out = None,
    accept_cost: AcceptCost = False,
    ledger: Ledger = None,
    key: KeyFile = None,
    rows_per_message: Annotated[int, typer.Option(help="Rows of a Parquet or Arrow log that are one message.")] = ROWS,
    partition: Partition = 0,
    offsets: Offsets = None,
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
