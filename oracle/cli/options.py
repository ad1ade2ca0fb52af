"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Final

import typer

__all__ = [
    "DEFAULT_LABEL",
    "AcceptCost",
    "Answers",
    "AsJson",
    "CommitRecord",
    "ConfigFile",
    "DataLedger",
    "KafkaConfigFile",
    "KeyFile",
    "LabelColumn",
    "Ledger",
    "Log",
    "ModelFile",
    "ModelName",
    "Offsets",
    "Origin",
    "Out",
    "Partition",
    "Skip",
    "StateFolder",
]

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.")]
KafkaConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="A configuration with a Kafka source.")]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Which of the configuration's models, where it has many.")
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")]
StateFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The state folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with every figure.")]
KeyFile = Annotated[Path | None, typer.Option("--key", help="The state's key file; by default DIR/key.")]
LabelColumn = Annotated[str, typer.Option("--label", help="The label column.")]
DEFAULT_LABEL: Final = "label"

# Of `verify`, `fork` and `replay`.
Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG", help="A query log: .jsonl, .parquet or .arrow; or the .toml configuration of a Kafka source."
    ),
]
Origin = Annotated[Path, typer.Option("--from", help="A genesis file, or a state folder (its newest snapshot).")]
Partition = Annotated[int, typer.Option(help="Partition of a Kafka topic.")]
Answers = Annotated[
    Path | None, typer.Option("--answers", help="The recorded answers, as a sink wrote them; not on Kafka.")
]
CommitRecord = Annotated[Path | None, typer.Option("--commit", help="The commit record; by default beside --answers.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write the answers to this new file: .jsonl, .parquet or .arrow.")
]
AcceptCost = Annotated[
    bool, typer.Option("--accept-cost", help="Spend the epsilon that another run costs; without this, only state it.")
]
Ledger = Annotated[Path | None, typer.Option("--ledger", help="Write the run's public events to this file.")]
Offsets = Annotated[
    str | None, typer.Option(metavar="FIRST:LAST", help="Offsets of a Kafka topic, LAST excluded; all by default.")
]
Skip = Annotated[
    list[int] | None, typer.Option(help="Pass over the message that ends at this position; may be repeated.")
]
DataLedger = Annotated[
    Path | None,
    typer.Option("--data-ledger", help="Ledger of the model's data set (NAME.budget.jsonl), if the model names one."),
]
