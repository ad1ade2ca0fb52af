"""The options that `perpetua verify`, `fork` and `replay` have in common."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "DataLedger", "KeyFile", "Log", "Origin", "Partition", "Skip"]

Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG", help="A query log: .jsonl, .parquet or .arrow; or the .toml configuration of a Kafka source."
    ),
]
Origin = Annotated[Path, typer.Option("--from", help="A genesis file, or a state folder (its newest snapshot).")]
KeyFile = Annotated[Path | None, typer.Option("--key", help="Key file of a state folder; by default DIR/key.")]
Partition = Annotated[int, typer.Option(help="Partition of a Kafka topic.")]
Skip = Annotated[
    list[int] | None, typer.Option(help="Pass over the message that ends at this position; may be repeated.")
]
DataLedger = Annotated[
    Path | None,
    typer.Option("--data-ledger", help="Ledger of the model's data set (NAME.budget.jsonl), if the model names one."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
