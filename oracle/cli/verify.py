"""`perpetua verify`: recorded answers compared with those that re-execution gives, at no cost."""

from typing import Annotated

import typer

from oracle.cli.options import Answers, AsJson, CommitRecord, KeyFile, Log, ModelName, Origin, Partition
from oracle.cli.replay.runs import Recorded, verify_log

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: Log,
    origin: Origin,
    answers: Answers = None,
    commit: CommitRecord = None,
    key: KeyFile = None,
    rows_per_message: Annotated[
        int | None,
        typer.Option(
            help="Rows of a Parquet or Arrow log that are one message; by default as it was served, which the answers "
            "tell.",
            show_default=False,
        ),
    ] = None,
    model: ModelName = None,
    partition: Partition = 0,
    as_json: AsJson = False,
) -> None:
    """Verify recorded answers by answering the log again. Publishes nothing and costs no epsilon.

    It exits with 1 if an answer differs, with 2 if the snapshot is at the
    last answer already, so that there is nothing to compare, with 3 if LOG is
    not the log that was answered.
    """
    verify_log(Recorded(log, origin, key, partition, rows_per_message, model), answers, commit, as_json=as_json)
