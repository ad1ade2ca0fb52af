"""`perpetua init`: from labelled rows to the first snapshot and the key file."""

import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
import typer

from oracle.accounting.ledger import PersonBound
from oracle.cli.data_ledger import data_ledger
from oracle.cli.init.check import StartCheck
from oracle.cli.init.files import (
    check_destination,
    erase_left_over,
    make_folder,
    make_key,
    refuse_existing_state,
    refuse_genesis,
    write_state,
)
from oracle.cli.init.persons import Persons, check_persons
from oracle.cli.init.shards import Rows, Targets, make_shards, refuse_genesis_folder
from oracle.cli.models import read_model
from oracle.cli.options import DEFAULT_LABEL, LabelColumn, ModelFile
from oracle.cli.progress import Progress
from oracle.cli.tables import BothLabels, check_table, labelled_batches, layout_of, read_persons
from oracle.errors import DataError, InputError, RefusedError
from oracle.mechanisms.keys import KEY_BYTES, PhaseKey
from oracle.mechanisms.persons import AtMost
from oracle.planning.boxes.tight import PLAN_STEPS
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionModel, QuestionPlan
from oracle.planning.sharding import plan_shards, shard_model
from oracle.predictors.kinds import new_trainer, points_beyond
from oracle.predictors.statistics.predictor import Statistics
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.shards import discard_unfinished

__all__ = ["run"]

_PERCENT: Final = 100


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    model_file: ModelFile,
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            help="Rows, labelled if labels are learned: .csv, .tsv, .parquet, .jsonl or .arrow; - is standard input.",
        ),
    ],
    state: Annotated[Path, typer.Option("--state", help="The state folder to create.")],
    label: LabelColumn = DEFAULT_LABEL,
    key: Annotated[Path | None, typer.Option("--key", help="The key file to create; by default DIR/key.")] = None,
    keep_genesis: Annotated[
        Path | None,
        typer.Option(
            "--keep-genesis",
            help="Also keep the first snapshot and its key in this file, to verify old rounds; a folder with --shards.",
        ),
    ] = None,
    shards: Annotated[
        int,
        typer.Option(
            "--shards", help="Split the examples into this many shards, one for each partition of a Kafka topic."
        ),
    ] = 1,
    person: Annotated[
        str | None, typer.Option("--person", help="Column that names the person a row belongs to; needs --at-most.")
    ] = None,
    at_most: Annotated[
        int | None,
        typer.Option("--at-most", help="Use at most this many rows of any one person, chosen with a fresh key."),
    ] = None,
) -> None:
    """Create the state of a model: plan it, read the labelled rows, write the first snapshot and the key file."""
    model = read_model(model_file)
    truth = _label_of(model, label)
    check_persons(person, at_most, {*filter(None, [truth]), *(one.source for one in layout_of(model).inputs)})
    shard_model(model, shards)  # refuses a number of shards that no plan is for
    targets = Targets(state, key or state / "key", keep_genesis, data_ledger(model, model_file, data))
    _refuse_existing(targets, shards)
    check_destination(state)
    check_table(data, layout_of(model), truth)  # before the planner takes its seconds
    rows = Rows(data, truth, model.examples, _persons(data, person, at_most))
    with Progress("planning", PLAN_STEPS, "steps at most") as progress:
        plan = plan_shards(model, shards, progress.at)
    plan = targets.uses.named(msgspec.structs.replace(plan, at_most=at_most or msgspec.UNSET), model)
    try:
        if shards == 1:
            _make_one(plan, rows, targets)
        else:
            make_shards(plan, shards, rows, targets)
    except DataError as exc:
        if person is None or "fewer rows" not in str(exc):
            raise
        raise DataError(f"{exc}, once at most {at_most} of each person in column {person} are used") from exc
    _say_what_was_made(model, plan, shards, targets)


def _persons(data: Path, person: str | None, at_most: int | None) -> Persons | None:
    if person is None or at_most is None:
        return None
    return read_persons(data, person, AtMost(PhaseKey(secrets.token_bytes(KEY_BYTES)), at_most))


def _refuse_existing(targets: Targets, shards: int) -> None:
    refuse_existing_state(targets.state)
    genesis = targets.genesis
    if genesis is None:
        return
    if shards > 1:
        refuse_genesis_folder(genesis, targets.key)
    else:
        refuse_genesis(genesis, left_over=genesis.exists() and erase_left_over(genesis, targets.key))


def _label_of(model: Model, label: str) -> str | None:
    """Return the label column; None where questions are about the rows themselves, which have no labels."""
    if isinstance(model, QuestionModel):
        if label != DEFAULT_LABEL:
            raise InputError("--label", label, f"must be left out: the rows of {model.predictor} have no labels")
        return None
    if label in {feature.name for feature in model.features}:
        raise RefusedError(f"--label = {label!r}: is a feature of the model")
    return label


def _make_one(plan: Plan, rows: Rows, targets: Targets) -> None:
    """Train and write in an order that a crash can cut anywhere: without its snapshot a folder is no state yet.

    1. the folder, 2. the key (an earlier try's key is used again), 3. the data set's ledger, 4. the plan,
    5. the genesis file, 6. the snapshot.
    """
    snapshot = _train(plan, rows, StartCheck(plan, 1, targets.state, targets.uses.ledger))
    make_folder("--state", targets.state)
    master_key = make_key(targets.key)
    with FolderStore.open(targets.state, master_key) as store:
        refuse_existing_state(targets.state)  # another `init` may have come first
        discard_unfinished(targets.state)
        targets.uses.enter(plan)
        write_state(store, master_key, plan.encode(), snapshot, targets.genesis)
        targets.uses.made()


def _train(plan: Plan, rows: Rows, check: StartCheck) -> Snapshot:
    trainer = new_trainer(plan, secrets.token_bytes(KEY_BYTES))
    both = BothLabels(rows.label)
    with Progress("reading", plan.declared, "rows") as progress:
        for features, labels in labelled_batches(rows.path, layout_of(plan), rows.label, rows.persons):
            both.look(labels[: trainer.missing])
            trainer.add(np.ascontiguousarray(features), labels)
            progress.at(plan.declared - trainer.missing)
            if trainer.missing <= 0:
                break
    with Progress("fitting", _PERCENT, "percent") as progress:
        trainer.progress = lambda part: progress.at(int(_PERCENT * part))
        predictor = trainer.finish()
    if plan.answers == "label":
        both.check()
    if isinstance(predictor, Statistics):
        _say_what_is_other(predictor)
    check.confirm(0, points_beyond(trainer))
    return Snapshot.first(plan.digest, predictor.export())


def _say_what_is_other(predictor: Statistics) -> None:
    """Say where a category may be misspelt; the counts are noisy, and the ledger begins with them."""
    for name, share in predictor.others():
        typer.echo(
            f"attribute {name}: about {share:.1%} of the rows are none of its categories; are these spelt alike?"
        )


def _say_what_was_made(model: Model, plan: Plan, shards: int, targets: Targets) -> None:
    nominal = "; both nominal: no proof bounds them" if plan.nominal else ""
    whole = f"sum of delta <= {0.0 if plan.released else model.delta:g}{nominal}"
    if isinstance(plan, QuestionPlan):
        whole = f"delta = {plan.delta:g} of each training row, for ever (questions are public){nominal}"
    elif not plan.protects_queries:
        whole += "; both of the training rows: queries are not protected"
    typer.echo(f"{plan.name}: epsilon = {plan.epsilon:g}, {whole}, {model.examples:,} examples")
    bound = plan.person
    if isinstance(bound, PersonBound):
        typer.echo(
            f"a person, of whom at most {bound.rows:,} rows are used: epsilon = {bound.epsilon:g}, "
            f"delta = {bound.delta:.3g}{nominal}; a person's queries are not part of it"
        )
    if shards > 1:
        part = f"sum of delta <= {plan.delta:g}, {plan.declared:,} examples"
        typer.echo(f"{shards} shards, each: {part}; a record is in one shard only")
    typer.echo(f"state folder: {targets.state}")
    typer.echo(f"key file:     {targets.key}  (keep it apart from copies of the state folder)")
    if targets.genesis and shards == 1:
        typer.echo(f"genesis file: {targets.genesis}  (opens every round there will ever be: keep it offline)")
    elif targets.genesis:
        typer.echo(f"genesis files: {targets.genesis}  (they open every round there will ever be: keep them offline)")
