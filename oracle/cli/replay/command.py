"""`perpetua replay`: the older name of `perpetua verify` (with --verify) and of `perpetua fork`."""

from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.replay.options import AsJson, DataLedger, KeyFile, Log, Origin, Partition, Skip
from oracle.cli.replay.query_log import ROWS
from oracle.cli.replay.runs import Recorded, fork_log, verify_log
from oracle.errors import InputError

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
    check: Annotated[bool, typer.Option("--verify", help="Compare with --answers, and publish nothing.")] = False,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="With --verify: the answers that were given, as a sink wrote them.")
    ] = None,
    commit: Annotated[
        Path | None, typer.Option("--commit", help="With --verify: the commit record; by default beside --answers.")
    ] = None,
    key: KeyFile = None,
    rows_per_message: Annotated[
        int | None,
        typer.Option(
            help=f"Rows of a Parquet or Arrow log that are one message; by default {ROWS}, or with --verify as it was "
            "served, which the answers tell.",
            show_default=False,
        ),
    ] = None,
    partition: Partition = 0,
    offsets: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST",
            help="Offsets of a Kafka topic, LAST excluded; all by default, and with --verify.",
        ),
    ] = None,
    skip: Skip = None,
    data_ledger: DataLedger = None,
    as_json: AsJson = False,
) -> None:
    """The older name of `verify` (with --verify) and of `fork` (without); both take the same options as it does."""
    recorded = Recorded(log, origin, key, partition, rows_per_message)
    typer.echo(f"note: `perpetua replay` is now `perpetua {'verify' if check else 'fork'}`", err=True)
    if not check:
        if answers is not None:
            bound = "must be added to compare with --answers; to answer a log, name --out"
            raise InputError("--verify", check, bound)
        ledgers = ledger, data_ledger
        fork_log(recorded, out, ledgers, offsets, skip, accept_cost=accept_cost, as_json=as_json)
        return
    if out is not None or ledger is not None or accept_cost:
        bound = "publishes nothing, so --out, --ledger and --accept-cost cannot be used with it"
        raise InputError("--verify", check, bound)
    if skip:
        raise InputError("--skip", skip[0], "a verification follows the commit, which names the messages passed over")
    if offsets is not None:
        raise InputError("--offsets", offsets, "a verification goes from the snapshot to the last commit")
    verify_log(recorded, answers, commit, as_json=as_json)
