"""`perpetua schema`: a model's messages as JSON Schema."""

from typing import Annotated, Literal

import msgspec
import typer

from oracle.cli.models import read_model
from oracle.cli.options import ModelFile
from oracle.cli.output import print_json
from oracle.codec.json.schemas import answer_schema, query_schema
from oracle.planning.planner import plan_sufficient

__all__ = ["run"]


def run(
    model_file: ModelFile,
    of: Annotated[
        Literal["query", "answer"], typer.Option("--of", help="Which message: a query, or a reply, errors included.")
    ] = "query",
) -> None:
    """Print the JSON Schema of a model's queries or answers, for registries and code generators. Reads no data."""
    plan = plan_sufficient(read_model(model_file))
    schema = query_schema(plan) if of == "query" else answer_schema(plan)
    print_json(msgspec.json.encode(schema), pretty=True)
