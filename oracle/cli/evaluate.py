"""`perpetua evaluate`: the error on given rows, before anything is released; for their owner's eyes."""

import secrets
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table as ConsoleTable

from oracle import durable
from oracle.cli.models import read_model
from oracle.cli.plan_page import figure_table, promise_rows
from oracle.cli.progress import Progress
from oracle.cli.tables import labelled_batches
from oracle.errors import InputError, StorageError
from oracle.evaluation.baselines import baselines
from oracle.evaluation.causes import causes
from oracle.evaluation.page import page
from oracle.evaluation.report import Report, report_of
from oracle.evaluation.trial import Table, order_of, run_trial
from oracle.mechanisms.keys import KEY_BYTES, PhaseKey
from oracle.planning.features import Feature
from oracle.planning.planner import plan_model
from oracle.planning.promise import promise_of
from oracle.planning.tight import PLAN_STEPS

__all__ = ["run"]

_WIDTH = 160


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")],
    train: Annotated[Path, typer.Option("--train", help="Labelled rows to train on; as --data of init.")],
    test: Annotated[Path, typer.Option("--test", help="Other labelled rows, to ask.")],
    label: Annotated[str, typer.Option("--label", help="The label column of both.")] = "label",
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Queries to ask; by default each test row once.")
    ] = None,
    order: Annotated[
        Literal["file", "resampled"] | None,
        typer.Option(
            "--order",
            help="In the file's order, and again from its beginning; or drawn with replacement, the default for more "
            "rounds than rows.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with plots here.")] = None,
) -> None:
    """Show the error on rows of yours before anything is released. What it prints is not private.

    It trains the model's predictor under a throw-away key and asks it; no
    state is made. Exits 1 if the plan's promise is not kept.
    """
    model = read_model(model_file)
    with Progress("planning", PLAN_STEPS, "steps at most") as progress:
        plan = plan_model(model, progress.at)
    if plan.answers != "label":
        bound = f'answers with numbers; evaluate is for predictors that answer with labels, not "{plan.predictor}"'
        raise InputError("model.predictor", plan.predictor, bound)
    tables = _read(train, model.features, label, most=plan.declared), _read(test, model.features, label)
    count = rounds or len(tables[1].labels)
    resampled = count > len(tables[1].labels) if order is None else order == "resampled"
    secret = secrets.token_bytes(KEY_BYTES)
    asked = order_of(max(len(tables[1].labels), 1), count, PhaseKey(secret).ratchet().secret, resampled=resampled)
    with Progress("asking", count, "queries") as progress:
        trial = run_trial(plan, secret, tables, asked, progress=progress.at)
    promise = promise_of(plan)
    others = list(baselines(model, *tables, secret))
    report = report_of(plan, promise, trial, others, list(causes(plan, promise, trial, others, tables)))
    if html is not None:
        _write(html, page(report))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        _print(report)
    if not report.kept:
        raise typer.Exit(1)


def _read(path: Path, features: tuple[Feature, ...], label: str, most: int | None = None) -> Table:
    """Read rows, no more than `most` of them."""
    rows: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    labels: list[np.ndarray[tuple[int, ...], np.dtype[np.bool_]]] = []
    count = 0
    for some, given in labelled_batches(path, features, label):
        rows.append(some)
        labels.append(given)
        count += len(some)
        if most is not None and count >= most:
            break
    if not count:
        return Table(np.empty((0, sum(feature.width for feature in features))), np.empty(0, dtype=np.bool_))
    return Table(np.concatenate(rows)[:most], np.concatenate(labels)[:most])


def _write(path: Path, text: str) -> None:
    try:
        durable.replace(path, path.with_name(f".{path.name}.tmp"), text.encode())
    except OSError as exc:
        msg = f"--html = '{path}': cannot be written: {exc.strerror}"
        raise StorageError(msg) from exc


def _print(report: Report) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)
    console.print(report.warning)
    console.print()
    seen = f"{report.error:.4f} wrong, 95 % interval {report.low:.4f} to {report.high:.4f}"
    wrongs = f"{report.false_positives:.4f} say 1 and should say 0, {report.false_negatives:.4f} say 0 and should say 1"
    rows = [
        ("model", f"{report.model}: {report.predictor}, epsilon = {report.epsilon:g}, delta = {report.delta:g}"),
        ("seen", f"{seen}; {wrongs}"),
        ("promise", "kept" if report.kept else "NOT KEPT"),
        *promise_rows(report.promise),
    ]
    rows += [("" if number else "found", cause) for number, cause in enumerate(report.causes or ("nothing amiss",))]
    for name, value in rows:
        console.print(f"{name:<14}{value}")
    for table in (_others(report), _phases(report)):
        console.print()
        console.print(table)
    last = report.phases[-1]
    console.print(
        f"phase {last.phase} lasts {last.of:,} rounds; later ones were not asked, and may err more (--rounds asks more)"
    )


def _others(report: Report) -> ConsoleTable:
    table = figure_table("on the same rows", "wrong", "")
    table.columns[2].justify = "left"
    table.add_row(report.model, f"{report.error:.4f}", f"this model, epsilon {report.epsilon:g}")
    for one in report.baselines:
        table.add_row(one.name, "-" if one.error is None else f"{one.error:.4f}", one.note)
    return table


def _phases(report: Report) -> ConsoleTable:
    table = figure_table("phase", "rounds", "wrong")
    for seen in report.phases:
        table.add_row(str(seen.phase), f"{seen.rounds:,}", f"{seen.error:.4f}")
    return table
