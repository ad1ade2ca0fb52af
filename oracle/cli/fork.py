"""`perpetua fork`: another log answered from a snapshot with fresh noise, at a stated cost."""

from typing import Annotated

import typer

from oracle.cli import options
from oracle.cli.replay.query_log import ROWS
from oracle.cli.replay.runs import Recorded, fork_log

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: options.Log,
    origin: options.Origin,
    out: options.Out = None,
    accept_cost: options.AcceptCost = False,
    ledger: options.Ledger = None,
    key: options.KeyFile = None,
    rows_per_message: Annotated[int, typer.Option(help="Rows of a Parquet or Arrow log that are one message.")] = ROWS,
    model: options.ModelName = None,
    partition: options.Partition = 0,
    offsets: options.Offsets = None,
    skip: options.Skip = None,
    data_ledger: options.DataLedger = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer another log from a snapshot with fresh noise, at a stated cost.

    LOG is answered from its beginning. The state stays, and what was spent is
    recorded beside it. Even the log that was served is another log here.
    """
    recorded = Recorded(log, origin, key, partition, rows_per_message, model)
    fork_log(recorded, out, (ledger, data_ledger), offsets, skip, accept_cost=accept_cost, as_json=as_json)
