"""`perpetua audit`: attacks Perpetua's own predictors and daemon, and prints what it could prove of their epsilon."""

import math
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.table import Table

from oracle.audit.findings import (
    NEAR,
    Check,
    Finding,
    finite,
    near,
    near_predictors,
    outcome,
    refuted,
    too_few,
    untold,
    verdict,
)
from oracle.audit.page import page
from oracle.cli.audit import majority, reconstruct, trace
from oracle.cli.audit import receipt as audit_receipt
from oracle.cli.audit.own import audit_own
from oracle.cli.options import AsJson, KeyFile
from oracle.cli.output import figure_table, print_json, wide_console
from oracle.cli.progress import Progress
from oracle.cli.version import version
from oracle.errors import InputError, StorageError

__all__ = ["app"]

if TYPE_CHECKING:
    from oracle.audit.runner import Job, Settings

_LEAST: Final = 64
_LEAST_DAEMON: Final = 16
_LEAST_MISS: Final = 1e-9
_SMALLEST, _LARGEST = 0.5, 8.0
_KEPT: Final = "audit.jsonl"
_REPORTS: Final = ("audit.html", "audit.json")
"""The page, and the same as JSON, which is written last."""
_GAMES_NOTE: Final = (
    "proved: a lower bound of epsilon, wrong with the probability below; provable: what so many counted games in each "
    "world could prove at most, were there no privacy at all."
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
        typer.Option("--games", help="Games against each predictor, in each world; mechanisms get ten times as many."),
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
    as_json: AsJson = False,
) -> None:
    """Play both worlds of the privacy game against every predictor; check structure, restarts and time.

    Exit 1 if a claim is refuted, or a check fails or could not tell.
    """
    if context.invoked_subcommand is not None:
        return
    if plan_file is not None or state is not None or key is not None:
        _run_own(plan_file, state, key, out, as_json=as_json)
    from oracle.audit.runner import Settings, kept_seed, run_jobs
    from oracle.audit.software import fingerprint

    _check(games, daemon_games, miss, epsilon)
    jobs = _jobs(games, daemon_games, tuple(dict.fromkeys(epsilon or (2.0, 4.0))), miss, tuple(only or ()))
    kept = None if out is None else _folder(out) / _KEPT
    before = kept_seed(kept, _REPORTS) if kept is not None else None
    settings = Settings(
        version=version(),
        software=fingerprint(),
        seed=_seed(seed) or before or secrets.token_hex(16),
        miss=miss,
        jobs=tuple(job.name for job in jobs),
    )
    with Progress("auditing", len(jobs), "parts") as progress:
        results = run_jobs(jobs, settings, workers=workers or os.cpu_count() or 1, kept=kept, done=progress.at)
    if out is not None:
        _report_to(out, settings, results)
    if as_json:
        print_json(_report(settings, results))
    else:
        _print(results, settings, out)
    raise typer.Exit(1 if refuted(results) or untold(results) else 0)


def _run_own(plan_file: Path | None, state: Path | None, key: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Look at somebody's own plan and state, print what was found, and exit."""
    from oracle.audit.runner import Settings
    from oracle.audit.software import fingerprint

    results = tuple(audit_own(plan_file, state, key))
    cells = tuple(one.cell for one in results)
    settings = Settings(version=version(), software=fingerprint(), seed="none", miss=0.0, jobs=cells)
    if out is not None:
        _report_to(_folder(out), settings, results)
    if as_json:
        print_json(_report(settings, results))
    else:
        console = wide_console()
        console.print(_checks_table(results))
        console.print(outcome(results), style="bold")
    raise typer.Exit(1 if refuted(results) else 0)


def _report_to(out: Path, settings: "Settings", results: "Sequence[Finding | Check]") -> None:
    shown = page(results, version=settings.version, software=settings.software, seed=settings.seed, miss=settings.miss)
    _write(out / _REPORTS[0], shown.encode())
    _write(out / _REPORTS[1], msgspec.json.encode(_report(settings, results)))


class Report(msgspec.Struct, frozen=True):
    """What `--json` prints.

    Attributes:
        software: Its fingerprint, hex digits.
        miss: Probability that at least one true claim is refuted by chance.
        refuted: Names of the refuted claims and failed checks.
        untold: Names of the checks that could not tell.
        too_few: Names of the attacks that had too few games to refute their claim.
        near: By level of attack, the least factor between a proved claim and what was shown of it.
        near_predictors: The same by predictor; null where nothing could be shown with so many games.
    """

    version: str
    software: str
    seed: str
    miss: float
    refuted: tuple[str, ...]
    untold: tuple[str, ...]
    too_few: tuple[str, ...]
    near: dict[str, float | None]
    near_predictors: dict[str, float | None]
    results: tuple[Finding | Check, ...]


def _report(settings: "Settings", results: "Sequence[Finding | Check]") -> Report:
    return Report(
        version=settings.version,
        software=settings.software,
        seed=settings.seed,
        miss=settings.miss,
        refuted=tuple(one.cell for one in refuted(results)),
        untold=tuple(one.cell for one in untold(results)),
        too_few=tuple(one.cell for one in too_few(results)),
        near={level: finite(factor) for level, factor in near(results).items()},
        near_predictors={name: finite(factor) for name, factor in near_predictors(results).items()},
        results=tuple(results),
    )


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


def _jobs(
    games: int, daemon_games: int, epsilons: tuple[float, ...], miss: float, only: tuple[str, ...]
) -> "list[Job]":
    from oracle.audit.cells import all_cells
    from oracle.audit.runner import daemon_job, game_job, structure_job, timing_job
    from oracle.audit.structure import structure_names
    from oracle.audit.timing import TIMINGS

    jobs = [structure_job(target, check) for target, check in structure_names()]
    jobs += [daemon_job(daemon_games)] if daemon_games else []
    jobs += [game_job(cell) for cell in all_cells(games, epsilons, miss)]
    jobs += [timing_job(what) for what in TIMINGS]
    wanted = [job for job in jobs if not only or any(part in job.name for part in only)]
    if not wanted:
        raise InputError("--only", only[0], "must be part of a part's name, as 'structure' or 'twins' is")
    return wanted


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageError(f"--out = '{out}': cannot be made: {exc.strerror}") from exc
    return out


def _write(path: Path, data: bytes) -> None:
    try:
        path.unlink(missing_ok=True)  # a link is replaced, not written through
        with path.open("xb") as file:
            file.write(data)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def _print(results: "Sequence[Finding | Check]", settings: "Settings", out: Path | None) -> None:
    console = wide_console()
    games = [one for one in results if isinstance(one, Finding)]
    if games:
        console.print(_games_table(games))
        console.print(_GAMES_NOTE, style="dim")
    checks = [one for one in results if isinstance(one, Check)]
    if checks:
        console.print(_checks_table(checks))
    for level, factor in near(results).items():
        console.print(_power(level, factor))
    predictors = near_predictors(results)
    if predictors:
        parts = [f"{name} {'nothing' if math.isinf(part) else f'1/{part:.2g}'}" for name, part in predictors.items()]
        console.print(f"proved of each predictor's claim: {'; '.join(parts)}")
    console.print(outcome(results), style="bold")
    console.print(
        f"The probability that any of these bounds is wrong is at most {settings.miss:g}; seed {settings.seed}"
    )
    if out is not None:
        console.print(f"report: {out / 'audit.html'}")


def _games_table(games: "Sequence[Finding]") -> Table:
    texts, figures = ("attacked", "adversary", "hidden record"), ("claimed", "delta", "proved", "provable")
    table = figure_table(*texts, *figures, "estimate", "counted", texts=len(texts))
    for one in games:
        estimate = "-" if one.estimate is None else f"{one.estimate:.2f}"
        table.add_row(
            f"{one.level}: {one.target}" if one.level != "daemon" else one.target,
            one.adversary,
            one.record,
            f"{one.epsilon:g}{' (nominal)' if one.nominal else ''}",
            f"{one.delta:g}",
            f"{one.lowest:.2f}",
            f"{one.ceiling:.1f}",
            estimate,
            f"{one.games:,}",
            style="red" if one.refutes else None,
        )
    return table


def _checks_table(checks: "Sequence[Check]") -> Table:
    table = figure_table("checked", "what must hold", "", "seen", texts=4)
    for one in checks:
        table.add_row(one.target, one.name, verdict(one), one.says, style=None if one.passed else "red")
    return table


def _power(level: str, factor: float) -> str:
    """Say how strong the strongest attack was; how many games it takes is no defect of what is attacked."""
    if math.isinf(factor):
        return f"{level}: nothing could be proved with so few games"
    more = "" if factor <= NEAR else "; more games would prove more (--games)"
    return f"{level}: the strongest attack proved 1/{factor:.2g} of what is claimed{more}"
