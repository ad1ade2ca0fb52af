"""`perpetua evaluate`: the error on given rows, before anything is released; for their owner's eyes."""

import math
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from oracle import durable
from oracle.accounting.ledger import ScoreReleased
from oracle.cli.data_ledger import data_ledger, enter_score, read_ledger
from oracle.cli.evaluate.page import print_cost, print_report, print_votes
from oracle.cli.models import read_model
from oracle.cli.options import AsJson, ModelFile
from oracle.cli.output import print_json
from oracle.cli.progress import Progress
from oracle.cli.tables import labelled_batches, layout_of, order_by
from oracle.errors import InputError, PlanError, RefusedError, StorageError
from oracle.evaluation.baselines import baselines
from oracle.evaluation.causes import causes
from oracle.evaluation.page import page
from oracle.evaluation.release import check_release, cost_of, release
from oracle.evaluation.report import NOT_PRIVATE, report_of
from oracle.evaluation.trial import Table, Trial, order_of, run_trial
from oracle.evaluation.votes import votes_seen
from oracle.mechanisms.keys import KEY_BYTES, PhaseKey
from oracle.planning.boxes.tight import PLAN_STEPS
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.features import columns_of
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.planner import plan_model
from oracle.planning.promise import promise_of
from oracle.planning.questions import QuestionPlan
from oracle.predictors.base import Labels

__all__ = ["run"]

_MOST_ROUNDS: Final = 100_000_000
"""Their order is held in memory, eight bytes a round."""


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    model_file: ModelFile,
    train: Annotated[
        Path, typer.Option("--train", help="Labelled rows to train on, in any format that init --data takes.")
    ],
    test: Annotated[Path, typer.Option("--test", help="Other labelled rows, to test on.")],
    label: Annotated[str, typer.Option("--label", help="The label column of both.")] = "label",
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, max=_MOST_ROUNDS, help="Queries to ask; by default each test row once."),
    ] = None,
    order: Annotated[
        Literal["file", "time", "resampled"] | None,
        typer.Option(
            "--order",
            help="In the file's order, or by --time, and again from the beginning; or drawn with replacement, the "
            "default for more rounds than rows.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="COLUMN", help="Column of --test with the time, or a number, to order it by."),
    ] = None,
    as_json: AsJson = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write an HTML report with plots to this file.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--release",
            metavar="EPSILON",
            help="Also make one noisy score that may be published. It says what that costs, which is more than "
            "EPSILON, and asks before.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="Where --release records its cost; by default the data set's ledger."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--data-name", help="Name of the data set in the ledger; by default the model's."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the cost of --release without being asked.")] = False,
) -> None:
    """Measure the error on your own rows before anything is released. The output is not private.

    It trains the model's predictor under a throw-away key and asks it; no
    state is made. Exits 1 if the plan's promise is not kept.
    """
    model = read_model(model_file)
    secret = secrets.token_bytes(KEY_BYTES)
    plan = _planned(model, train, test, label, secret, as_json=as_json)
    if plan.answers != "label":
        bound = "answers with numbers, and evaluate is for predictors that answer with labels"
        if isinstance(plan, QuestionPlan):
            bound += (
                "; plan prints the error that is promised, and in Python oracle.train(oracle.plan(MODEL), rows)"
                ".ask(...) answers any question, to compare with the rows themselves"
            )
        raise InputError("model.predictor", plan.predictor, bound)
    if epsilon is not None and ledger is None:
        ledger = data_ledger(model, model_file, train)
    paid = _Release.of(epsilon, ledger, _data_name(model, name), plan, (model.data_epsilon, model.data_delta))
    tables = _read(train, plan, label, most=plan.declared), _read(test, plan, label)
    asked, words = _order(test, len(tables[1].labels), rounds, order, time, PhaseKey(secret).ratchet().secret)
    if paid is not None:
        paid.confirm(train, test, tables[1], asked, yes=yes)
    with Progress("asking", len(asked), "queries") as progress:
        trial = run_trial(plan, secret, tables, asked, progress=progress.at)
    released = None if paid is None else paid.publish(trial)
    promise = promise_of(plan)
    votes = votes_seen(model, plan, *tables, secret) if isinstance(model, EnsembleModel) else None
    others = list(baselines(model, *tables, secret, plan.labels, votes))
    found = list(causes(plan, promise, trial, others, tables, votes))
    report = report_of(plan, promise, trial, others, found, words, released, votes)
    if html is not None:
        _write(html, page(report))
    if as_json:
        print_json(report, pretty=True)
    else:
        print_report(report)
    if not report.kept:
        raise typer.Exit(1)


def _planned(  # noqa: PLR0913 -- options of the command, as they are
    model: Model, train: Path, test: Path, label: str, secret: bytes, *, as_json: bool
) -> Plan:
    """Return the plan; where an ensemble has none, say first how contested its votes are: that may be why."""
    try:
        with Progress("planning", PLAN_STEPS, "steps at most") as progress:
            return plan_model(model, progress.at)
    except PlanError:
        if isinstance(model, EnsembleModel):
            tables = _read(train, model, label, most=model.examples), _read(test, model, label)
            votes = votes_seen(model, None, *tables, secret)
            if votes is not None and as_json:
                print_json({"warning": NOT_PRIVATE, "votes": votes}, pretty=True)
            elif votes is not None:
                print_votes(votes)
        raise


def _data_name(model: Model, name: str | None) -> str:
    """Return what the ledger calls the rows' data; a model that names them is not to pay under another name."""
    if name is not None and model.data not in {None, name}:
        raise InputError("--data-name", name, f"must be {model.data}, as the model names its data, or be left out")
    return name or model.data or model.name


class _Release(NamedTuple):
    """A score that is to be released: agreed to before the trial, paid for before it is shown.

    Attributes:
        most: Epsilon and delta that a row of these may pay, as the model declares; infinite if it does not.
    """

    plan: Plan
    epsilon: float
    ledger: Path
    data: str
    most: tuple[float, float]

    @classmethod
    def of(
        cls, epsilon: float | None, ledger: Path | None, data: str, plan: Plan, most: tuple[float | None, float | None]
    ) -> "_Release | None":
        if epsilon is None:
            if ledger is not None:
                raise InputError("--ledger", str(ledger), "is for --release only")
            return None
        cost_of(plan, epsilon)
        if ledger is None:
            raise InputError(
                "--ledger", None, "must name a file for --release to write to what it costs, as the model names no data"
            )
        read_ledger(ledger)
        limits = [math.inf if one is None else one for one in most]
        return cls(plan, epsilon, ledger, data, (limits[0], limits[1]))

    def confirm(self, train: Path, test: Path, rows: Table, asked: NDArray[np.int64], *, yes: bool) -> None:
        if train.resolve() == test.resolve():
            raise InputError(
                "--test", str(test), "must be another file than --train: test rows must not be training rows"
            )
        check_release(len(rows.labels), asked)
        print_cost(self.plan, self.epsilon, len(asked), self.data)
        if yes:
            return
        if not sys.stdin.isatty():
            raise RefusedError("--release: spends privacy; accept the cost above with --yes")
        if not typer.confirm("Release it?", err=True):
            raise RefusedError("--release: not accepted; nothing was released")

    def publish(self, trial: Trial) -> ScoreReleased:
        """Return the event with the score, which is in the ledger by then."""
        event = release(self.plan, trial, self.epsilon, self.data)
        return enter_score(self.ledger, event, self.most)


def _order(  # noqa: PLR0913, PLR0917 -- options of the command, as they are
    test: Path, count: int, rounds: int | None, order: str | None, time: str | None, seed: bytes
) -> tuple[NDArray[np.int64], str]:
    """Return which test row is asked in each round, and in words how."""
    if (order == "time" and time is None) or (order in {"file", "resampled"} and time is not None):
        raise InputError("--order", order, "must go with --time COLUMN" if time is None else "takes no --time")
    resampled = (rounds or count) > count and time is None if order is None else order == "resampled"
    asked = order_of(max(count, 1), rounds or count, seed, resampled=resampled)
    if resampled:
        return asked, "Test rows drawn with replacement"
    if time is not None and count:
        asked = order_by(test, time)[asked]
    again = ", and again from the beginning" if len(asked) > count else ""
    return asked, f"Test rows {'by the time in ' + time if time else 'in the order of the file'}{again}"


def _read(path: Path, plan: Plan | Model, label: str, most: int | None = None) -> Table:
    rows: list[NDArray[np.float64]] = []
    labels: list[Labels] = []
    count = 0
    for some, given in labelled_batches(path, layout_of(plan), label):
        rows.append(some)
        labels.append(given)
        count += len(some)
        if most is not None and count >= most:
            break
    if not count:
        return Table(np.empty((0, columns_of(plan.features)[-1])), np.empty(0, dtype=np.bool_))
    return Table(np.concatenate(rows)[:most], np.concatenate(labels)[:most])


def _write(path: Path, text: str) -> None:
    try:
        durable.replace(path, path.with_name(f".{path.name}.tmp"), text.encode())
    except OSError as exc:
        raise StorageError(f"--html = '{path}': cannot be written: {exc.strerror}") from exc
