"""`perpetua init`: from labelled rows to the first snapshot and the key file."""

import os
import secrets
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from oracle.cli.models import read_model
from oracle.cli.progress import Progress
from oracle.cli.tables import labelled_batches
from oracle.errors import RefusedError, StateError, StorageError
from oracle.mechanisms.keys import KEY_BYTES
from oracle.planning.plan import Plan
from oracle.planning.planner import plan_model
from oracle.planning.tight import SEARCH_STEPS
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from oracle.state.files import erase, finish_exclusive
from oracle.state.folder import FolderStore, check_mode
from oracle.state.format import Snapshot, encode
from oracle.state.genesis import Genesis, read_genesis, write_genesis
from oracle.state.keys import create_key_file, read_key_file

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")],
    data: Annotated[Path, typer.Option("--data", help="Labelled rows: .csv with a header, or .parquet.")],
    state: Annotated[Path, typer.Option("--state", help="The state folder to make.")],
    label: Annotated[str, typer.Option("--label", help="The label column.")] = "label",
    key: Annotated[Path | None, typer.Option("--key", help="The key file to make; by default DIR/key.")] = None,
    keep_genesis: Annotated[
        Path | None,
        typer.Option("--keep-genesis", help="Also keep the first snapshot and its key here, to verify old rounds."),
    ] = None,
) -> None:
    """Make the state of a model: plan it, read the labelled rows, write the first snapshot and the key file."""
    model = read_model(model_file)
    if label in {feature.name for feature in model.features}:
        msg = f"--label = {label!r}: is a feature of the model"
        raise RefusedError(msg)
    _refuse_existing(state, keep_genesis, key or state / "key")
    _check_place(state)
    with Progress("planning", SEARCH_STEPS, "steps") as progress:
        plan = plan_model(model, progress.at)
    predictor = _train(plan, data, label)
    key_path = key or state / "key"
    snapshot = Snapshot(
        plan_digest=plan.digest,
        generation=1,
        position=0,
        round=0,
        phase=1,
        rearms=0,
        tag=bytes(16),
        arrays=predictor.export(),
    )
    _write(plan, snapshot, state, key_path, keep_genesis)
    nominal = "; both nominal: no proof bounds them" if plan.nominal else ""
    spent = f"sum of delta <= {plan.delta:g}{nominal}"
    typer.echo(f"{plan.name}: epsilon = {plan.epsilon:g}, {spent}, {plan.declared:,} examples")
    typer.echo(f"state folder: {state}")
    typer.echo(f"key file:     {key_path}  (keep it apart from copies of the state folder)")
    if keep_genesis:
        typer.echo(f"genesis file: {keep_genesis}  (opens every round there will ever be: keep it offline)")


def _refuse_existing(state: Path, genesis: Path | None, key_path: Path) -> None:
    if any(state.glob("snapshot-*.perp")):
        msg = f"{state}: holds a state already, and nothing is ever overwritten; name another folder"
        raise StateError(msg)
    if state.is_dir():
        check_mode(state)
    if genesis is not None and not genesis.absolute().parent.is_dir():
        msg = f"--keep-genesis = '{genesis}': its folder does not exist"
        raise RefusedError(msg)
    if genesis is not None and genesis.exists() and not _left_over(genesis, key_path):
        msg = f"{genesis}: exists already, and nothing is ever overwritten"
        raise StateError(msg)


def _left_over(genesis: Path, key_path: Path) -> bool:
    """Erase a genesis file that an interrupted `init` left: its key is this state's, and there is no snapshot yet."""
    try:
        ours = key_path.exists() and read_genesis(genesis).master_key == read_key_file(key_path)
    except StateError:
        return False
    if ours:
        erase(genesis)
    return ours


def _check_place(state: Path) -> None:
    """Find out before the work whether the folder can be made."""
    there = next(path for path in (state, *state.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        problem = "cannot be written" if there.is_dir() else "is not a folder"
        msg = f"--state = '{state}': {there} {problem}"
        raise StorageError(msg)


def _train(plan: Plan, data: Path, label: str) -> RectanglesPERP:
    trainer = RectanglesTrainer(plan, secrets.token_bytes(KEY_BYTES))
    names = tuple(feature.name for feature in plan.features)
    with Progress("reading", plan.declared, "rows") as progress:
        for features, labels in labelled_batches(data, names, label):
            trainer.add(np.ascontiguousarray(features), labels)
            progress.at(plan.declared - trainer.missing)
            if trainer.missing <= 0:
                break
    return trainer.finish()


def _write(plan: Plan, snapshot: Snapshot, state: Path, key_path: Path, genesis: Path | None) -> None:
    """Write in an order that a crash can cut anywhere: without its snapshot a folder is no state yet.

    1. the folder, 2. the key (an earlier try's key is used again), 3. the plan, 4. the genesis file, 5. the snapshot.
    """
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"--state = '{state}': cannot be made: {exc.strerror}"
        raise StorageError(msg) from exc
    if key_path.exists():
        master_key = read_key_file(key_path)
        finish_exclusive(key_path)  # else the key would stay under a second name
    else:
        master_key = create_key_file(key_path)
    with FolderStore.open(state, master_key) as store:
        store.write_plan(plan.encode())
        if genesis is not None:
            write_genesis(genesis, Genesis(master_key, encode(snapshot, master_key), plan.encode()))
        store.save(snapshot)
