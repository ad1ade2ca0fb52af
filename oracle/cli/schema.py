"""`perpetua schema`: a model's messages as JSON Schema, in Avro and in Protobuf."""

from typing import Annotated, Literal

import msgspec
import typer

from oracle.cli.models import read_model
from oracle.cli.options import ModelFile
from oracle.cli.output import print_json
from oracle.codec.json.schemas import answer_schema, query_schema
from oracle.codec.registered.avro_schemas import avro_answer, avro_query, refuse_questions
from oracle.codec.registered.proto_schemas import proto_answer, proto_query
from oracle.planning.planner import plan_sufficient

__all__ = ["run"]


def run(
    model_file: ModelFile,
    of: Annotated[
        Literal["query", "answer"], typer.Option("--of", help="Which message: a query, or a reply, errors included.")
    ] = "query",
    form: Annotated[
        Literal["json", "avro", "protobuf"],
        typer.Option("--format", help="JSON Schema, an Avro schema, or a .proto file."),
    ] = "json",
) -> None:
    """Print the schema of a model's queries or answers, for registries and code generators. Reads no data."""
    plan = plan_sufficient(read_model(model_file))
    query = of == "query"
    if form == "json":
        print_json(msgspec.json.encode(query_schema(plan) if query else answer_schema(plan)), pretty=True)
        return
    refuse_questions(plan, "--format", form)
    if form == "avro":
        print_json(msgspec.json.encode(avro_query(plan) if query else avro_answer(plan)), pretty=True)
    else:
        typer.echo(proto_query(plan) if query else proto_answer(plan), nl=False)
