"""`perpetua init`: from labelled rows to the first snapshot and the key file."""

import secrets
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from oracle.cli.init_files import (
    check_place,
    erase_left_over,
    make_folder,
    make_key,
    refuse_existing_state,
    refuse_genesis,
    write_state,
)
from oracle.cli.init_shards import Rows, Targets, make_shards, refuse_genesis_folder
from oracle.cli.models import read_model
from oracle.cli.progress import Progress
from oracle.cli.tables import BothLabels, check_table, labelled_batches
from oracle.errors import RefusedError
from oracle.mechanisms.keys import KEY_BYTES
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.sharding import plan_shards, shard_model
from oracle.planning.tight import PLAN_STEPS
from oracle.predictors.kinds import new_trainer
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.shards import discard_unfinished

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data", help="Labelled rows: a .csv, .tsv, .parquet, .jsonl or .arrow file; - reads standard input."
        ),
    ],
    state: Annotated[Path, typer.Option("--state", help="The state folder to make.")],
    label: Annotated[str, typer.Option("--label", help="The label column.")] = "label",
    key: Annotated[Path | None, typer.Option("--key", help="The key file to make; by default DIR/key.")] = None,
    keep_genesis: Annotated[
        Path | None,
        typer.Option(
            "--keep-genesis",
            help="Also keep the first snapshot and its key here, to verify old rounds; a folder if there are --shards.",
        ),
    ] = None,
    shards: Annotated[
        int,
        typer.Option("--shards", help="Deal the examples to so many shards, one for each partition of a Kafka topic."),
    ] = 1,
) -> None:
    """Make the state of a model: plan it, read the labelled rows, write the first snapshot and the key file."""
    model = read_model(model_file)
    if label in {feature.name for feature in model.features}:
        msg = f"--label = {label!r}: is a feature of the model"
        raise RefusedError(msg)
    shard_model(model, shards)  # refuses a number of shards that no plan is for
    targets = Targets(state, key or state / "key", keep_genesis)
    _refuse_existing(targets, shards)
    check_place(state)
    check_table(data, model.features, label)  # before the planner takes its seconds
    with Progress("planning", PLAN_STEPS, "steps at most") as progress:
        plan = plan_shards(model, shards, progress.at)
    if shards == 1:
        _make_one(plan, data, label, targets)
    else:
        make_shards(plan, shards, Rows(data, label, model.examples), targets)
    _say_what_was_made(model, plan, shards, targets)


def _refuse_existing(targets: Targets, shards: int) -> None:
    refuse_existing_state(targets.state)
    genesis = targets.genesis
    if genesis is None:
        return
    if shards > 1:
        refuse_genesis_folder(genesis, targets.key)
    else:
        refuse_genesis(genesis, left_over=genesis.exists() and erase_left_over(genesis, targets.key))


def _make_one(plan: Plan, data: Path, label: str, targets: Targets) -> None:
    """Train and write in an order that a crash can cut anywhere: without its snapshot a folder is no state yet.

    1. the folder, 2. the key (an earlier try's key is used again), 3. the plan, 4. the genesis file, 5. the snapshot.
    """
    snapshot = _train(plan, data, label)
    make_folder("--state", targets.state)
    master_key = make_key(targets.key)
    with FolderStore.open(targets.state, master_key) as store:
        refuse_existing_state(targets.state)  # another `init` may have come first
        discard_unfinished(targets.state)
        write_state(store, master_key, plan.encode(), snapshot, targets.genesis)


def _train(plan: Plan, data: Path, label: str) -> Snapshot:
    trainer = new_trainer(plan, secrets.token_bytes(KEY_BYTES))
    both = BothLabels(label)
    with Progress("reading", plan.declared, "rows") as progress:
        for features, labels in labelled_batches(data, plan.features, label):
            both.look(labels[: trainer.missing])
            trainer.add(np.ascontiguousarray(features), labels)
            progress.at(plan.declared - trainer.missing)
            if trainer.missing <= 0:
                break
    predictor = trainer.finish()
    if plan.answers == "label":
        both.check()
    return Snapshot.first(plan.digest, predictor.export())


def _say_what_was_made(model: Model, plan: Plan, shards: int, targets: Targets) -> None:
    nominal = "; both nominal: no proof bounds them" if plan.nominal else ""
    nominal += "" if plan.protects_queries else "; both of the training rows: queries are not protected"
    whole = f"sum of delta <= {0.0 if plan.released else model.delta:g}{nominal}"
    typer.echo(f"{plan.name}: epsilon = {plan.epsilon:g}, {whole}, {model.examples:,} examples")
    if shards > 1:
        part = f"sum of delta <= {plan.delta:g}, {plan.declared:,} examples"
        typer.echo(f"{shards} shards, each: {part}; a record is in one shard only")
    typer.echo(f"state folder: {targets.state}")
    typer.echo(f"key file:     {targets.key}  (keep it apart from copies of the state folder)")
    if targets.genesis and shards == 1:
        typer.echo(f"genesis file: {targets.genesis}  (opens every round there will ever be: keep it offline)")
    elif targets.genesis:
        typer.echo(f"genesis files: {targets.genesis}  (they open every round there will ever be: keep them offline)")
