"""`perpetua replay`: the older name of `perpetua verify` (with --verify) and of `perpetua fork`."""

from typing import Annotated

import typer

from oracle.cli import options
from oracle.cli.replay.query_log import ROWS
from oracle.cli.replay.runs import Recorded, fork_log, verify_log
from oracle.errors import InputError

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: options.Log,
    origin: options.Origin,
    out: options.Out = None,
    accept_cost: options.AcceptCost = False,
    ledger: options.Ledger = None,
    check: Annotated[bool, typer.Option("--verify", help="Compare with --answers, and publish nothing.")] = False,
    answers: options.Answers = None,
    commit: options.CommitRecord = None,
    key: options.KeyFile = None,
    rows_per_message: Annotated[
        int | None,
        typer.Option(
            help=f"Rows of a Parquet or Arrow log that are one message; by default {ROWS}, or with --verify as it was "
            "served, which the answers tell.",
            show_default=False,
        ),
    ] = None,
    model: options.ModelName = None,
    partition: options.Partition = 0,
    offsets: options.Offsets = None,
    skip: options.Skip = None,
    data_ledger: options.DataLedger = None,
    as_json: options.AsJson = False,
) -> None:
    """Old name of `verify` (with --verify) and of `fork` (without it); these take the same options."""
    recorded = Recorded(log, origin, key, partition, rows_per_message, model)
    typer.echo(f"note: `perpetua replay` is now `perpetua {'verify' if check else 'fork'}`", err=True)
    if not check:
        if answers is not None:
            raise InputError("--verify", check, "must be added to compare with --answers; to answer a log, name --out")
        fork_log(recorded, out, (ledger, data_ledger), offsets, skip, accept_cost=accept_cost, as_json=as_json)
        return
    if out is not None or ledger is not None or accept_cost:
        raise InputError(
            "--verify", check, "publishes nothing, so --out, --ledger and --accept-cost cannot be used with it"
        )
    if skip:
        raise InputError("--skip", skip[0], "a verification follows the commit, which names the messages passed over")
    if offsets is not None:
        raise InputError("--offsets", offsets, "a verification goes from the snapshot to the last commit")
    verify_log(recorded, answers, commit, as_json=as_json)
