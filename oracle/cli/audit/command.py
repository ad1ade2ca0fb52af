"""`perpetua audit`: attacks Perpetua's own predictors and daemon, and prints what it could prove of their epsilon."""

import math
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer
from rich.table import Table

from oracle.audit.findings import NEAR, Finding, limit_text, near, near_predictors
from oracle.cli.audit import majority, reconstruct, trace
from oracle.cli.audit import receipt as audit_receipt
from oracle.cli.audit.files import report_folder
from oracle.cli.audit.own import refuse_inside, run_own
from oracle.cli.audit.scope import toys_scope
from oracle.cli.options import AsJson, KeyFile
from oracle.cli.output import figure_table, print_json, wide_console
from oracle.cli.progress import Progress
from oracle.cli.version import version
from oracle.errors import InputError
from oracle.receipts.keys import signing_key

__all__ = ["app"]

if TYPE_CHECKING:
    from oracle.audit.report.contents import Report
    from oracle.audit.runner import Job

_LEAST: Final = 64
_LEAST_DAEMON: Final = 16
_LEAST_MISS: Final = 1e-9
_SMALLEST, _LARGEST = 0.5, 8.0
_KEPT: Final = "audit.jsonl"
_GAMES_NOTE: Final = (
    "proved: epsilon is more, but with the probability below; provable: what all games could prove at most, were there "
    "no privacy at all; would see: the least multiple of the claimed epsilon that the attack would have refuted, "
    "measured against what was planned for it ('none': not even 32 times, or 32 nats)."
)

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    add_completion=False,
    help="Attack Perpetua, or what others release; sign and check receipts.",
)
app.command("receipt")(audit_receipt.check)
app.command("sign")(audit_receipt.sign)
app.command("trace")(trace.run)
app.command("majority")(majority.run)
app.command("reconstruct")(reconstruct.run)


@app.callback()
def run(  # noqa: PLR0913, PLR0917 -- the command's options
    context: typer.Context,
    games: Annotated[
        int,
        typer.Option(
            "--games", help="Games against each predictor, in each world, at most; mechanisms get ten times as many."
        ),
    ] = 1_000,
    daemon_games: Annotated[
        int, typer.Option("--daemon-games", help="Games through daemons that are killed, in each world; 0 for none.")
    ] = 100,
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", help="Claims to attack, the Stopper's up to 4; by default 2 and 4."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only the parts whose name contains one of these strings.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for the report and the results; an interrupted audit is resumed, a finished one starts over.",
        ),
    ] = None,
    seed: Annotated[str | None, typer.Option("--seed", help="Seed, 32 hex digits; by default a fresh one.")] = None,
    miss: Annotated[
        float, typer.Option("--miss", help="Probability that at least one true claim is refuted by chance.")
    ] = 1e-3,
    workers: Annotated[int, typer.Option("--workers", min=0, help="Processes; 0 for one per core.")] = 0,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", help="Account for this plan a second time (a state's plan.json); no game is played."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="The same for a state's plan, and look at its live objects; it is only read."),
    ] = None,
    key: KeyFile = None,
    form: Annotated[
        Literal["registry", "nist"] | None,
        typer.Option(
            "--format",
            help="Of --plan or --state, print a record for OpenDP's registry of deployments (YAML), or a checklist by "
            "NIST SP 800-226 (Markdown), filled in from the plan.",
        ),
    ] = None,
    receipt_key: Annotated[
        Path | None,
        typer.Option("--receipt-key", help="Sign the report in --out with this receipt key; it is made if needed."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play both worlds of the privacy game against every predictor; check structure, restarts and time.

    Exit 1 if a claim is refuted, or a check fails or could not tell.
    """
    if context.invoked_subcommand is not None:
        return
    own = plan_file is not None or state is not None or key is not None
    _check_options(receipt_key, out, form, own=own, as_json=as_json)
    refuse_inside(out, state)
    from oracle.audit.runner import Settings, kept_seed, run_jobs
    from oracle.audit.software import fingerprint
    from oracle.cli.audit.reporting import REPORTS, Reporter

    signer = None if receipt_key is None else signing_key(receipt_key)
    folder = None if out is None else report_folder(out)
    made = Settings(version=version(), software=fingerprint(), seed="none, as nothing is drawn", miss=0.0, jobs=())
    if own:
        _refuse_games(context)
        run_own(plan_file, state, key, Reporter(folder, signer, made), form=form, as_json=as_json)
    _check(games, daemon_games, miss, epsilon)
    epsilons = tuple(dict.fromkeys(epsilon or (2.0, 4.0)))
    every = _jobs(games, daemon_games, epsilons)
    jobs = _chosen(every, only)
    kept = None if folder is None else folder / _KEPT
    before = kept_seed(kept, REPORTS) if kept is not None else None
    settings = msgspec.structs.replace(
        made,
        seed=_seed(seed) or before or secrets.token_hex(16),
        miss=miss,
        jobs=tuple(job.name for job in jobs),
    )
    scope = toys_scope(settings.jobs, [job.name for job in every], epsilons, daemon_games)
    reporter = Reporter(folder, signer, settings, scope)
    with Progress("auditing", len(jobs), "parts") as progress:
        results = run_jobs(
            jobs,
            settings,
            workers=workers or os.cpu_count() or 1,
            kept=kept,
            done=progress.at,
            unfinished=reporter.unfinished,
        )
    report = reporter.finished(results)
    if as_json:
        print_json(report)
    else:
        _print(report, out)
    raise typer.Exit(1 if report.refuted or report.untold else 0)


_OF_GAMES: Final = ("games", "daemon_games", "epsilon", "only", "seed", "miss", "workers")


def _refuse_games(context: typer.Context) -> None:
    """Refuse options that say how games are played, where none is.

    Raises:
        InputError: One is given with `--plan` or `--state`.
    """
    for name in _OF_GAMES:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            value = context.params[name]
            raise InputError(option, value, "must not go with --plan or --state: no game is played against these")


def _check(games: int, daemon_games: int, miss: float, epsilons: Sequence[float] | None) -> None:
    if games < _LEAST:
        raise InputError("--games", games, f"must be at least {_LEAST}")
    if daemon_games and daemon_games < _LEAST_DAEMON:
        raise InputError("--daemon-games", daemon_games, f"must be 0 or at least {_LEAST_DAEMON}")
    if not _LEAST_MISS <= miss < 1.0:
        raise InputError("--miss", miss, f"must be from {_LEAST_MISS:g} to below 1")
    for epsilon in epsilons or ():
        if not _SMALLEST <= epsilon <= _LARGEST:
            raise InputError("--epsilon", epsilon, f"must be from {_SMALLEST:g} to {_LARGEST:g}")


def _seed(text: str | None) -> str | None:
    if text is not None and re.fullmatch(r"[0-9a-f]{32}", text) is None:
        raise InputError("--seed", text, "must be 32 hex digits")
    return text


def _jobs(games: int, daemon_games: int, epsilons: tuple[float, ...]) -> "list[Job]":
    from oracle.audit.games.cells import all_cells
    from oracle.audit.runner import daemon_job, game_job, structure_job, timing_job
    from oracle.audit.structure.checks import structure_names
    from oracle.audit.timing.checks import TIMINGS

    jobs = [structure_job(target, check) for target, check in structure_names()]
    jobs += [daemon_job(daemon_games)] if daemon_games else []
    jobs += [game_job(cell) for cell in all_cells(games, epsilons)]
    return jobs + [timing_job(what) for what in TIMINGS]


def _chosen(jobs: "list[Job]", only: Sequence[str] | None) -> "list[Job]":
    for part in only or ():
        if not any(part in job.name for job in jobs):
            raise InputError("--only", part, "must be part of a part's name, as 'structure' or 'twins' is")
    return [job for job in jobs if not only or any(part in job.name for part in only)]


def _check_options(receipt_key: Path | None, out: Path | None, form: str | None, *, own: bool, as_json: bool) -> None:
    if receipt_key is not None and out is None:
        raise InputError("--receipt-key", str(receipt_key), "must go with --out: the report's files are signed")
    if form is not None and not own:
        raise InputError("--format", form, "must go with --plan or --state: it is filled in from a plan")
    if form is not None and as_json:
        raise InputError("--format", form, "must go without --json")


def _print(report: "Report", out: Path | None) -> None:
    from oracle.cli.audit.reporting import print_report

    games = [one for one in report.results if isinstance(one, Finding)]
    shown: list[Table | str] = [_games_table(games), _GAMES_NOTE] if games else []
    predictors = near_predictors(report.results)
    parts = [f"{name} {'nothing' if math.isinf(part) else f'1/{part:.2g}'}" for name, part in predictors.items()]
    proved = [f"proved of each predictor's claim: {'; '.join(parts)}"] if parts else []
    powers = [_power(level, factor) for level, factor in near(report.results).items()]
    print_report(wide_console(), report, out, [*shown, *powers, *proved])


def _games_table(games: "Sequence[Finding]") -> Table:
    texts, figures = ("attacked", "adversary", "hidden record"), ("claimed", "delta", "proved", "would see", "provable")
    table = figure_table(*texts, *figures, "estimate", "games", texts=len(texts))
    for one in games:
        estimate = "-" if one.estimate is None else f"{one.estimate:.2f}"
        table.add_row(
            f"{one.level}: {one.target}" if one.level != "daemon" else one.target,
            one.adversary,
            one.record,
            f"{one.epsilon:g}{' (nominal)' if one.nominal else ''}",
            f"{one.delta:g}",
            f"{one.lowest:.2f}",
            limit_text(one),
            f"{one.ceiling:.1f}",
            estimate,
            f"{one.games:,}",
            style="red" if one.refutes else None,
        )
    return table


def _power(level: str, factor: float) -> str:
    """Say how strong the strongest attack was; how many games it takes is no defect of what is attacked."""
    if math.isinf(factor):
        return f"{level}: nothing could be proved with so few games"
    more = "" if factor <= NEAR else "; more games would prove more (--games)"
    return f"{level}: the strongest attack proved 1/{factor:.2g} of what is claimed{more}"
