"""`perpetua audit reconstruct`: what could somebody rebuild of a secret column from tables that are published?"""

import math
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from oracle.audit.randomness import Draws, Randomness
from oracle.audit.reconstruction.attack import POWER, Line, attack, without
from oracle.audit.reconstruction.functions import Linear
from oracle.audit.reconstruction.page import page
from oracle.audit.reconstruction.people import KINDS, People, alone, grouped, publish
from oracle.audit.reconstruction.releases import PRIVATE, RELEASES, Table, Terms, treated
from oracle.audit.reconstruction.report import Report
from oracle.cli.audit.files import report_folder, write_report
from oracle.cli.audit.one_run import Miss, Seed, seed_of
from oracle.cli.audit.published import COUNT, Secret, read_published
from oracle.cli.options import AsJson
from oracle.cli.output import Row, figure_table, print_json, print_rows, wide_console
from oracle.cli.progress import Progress
from oracle.cli.tables import read_values
from oracle.errors import DataError, InputError

__all__ = ["run"]

_REPORTS: Final = ("reconstruction.html", "reconstruction.json")
_TWO: Final = 2
_FEWEST: Final = 8
_NEVER: Final = 1e-9
_LEAST_EPSILON: Final = 1e-6
_MOST: Final = 1 << 32
"""Of --unit and --least: more rows than fit."""

_Column = tuple[tuple[str, ...], NDArray[np.int64]]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="The rows: .csv, .tsv, .parquet, .jsonl or .arrow.")],
    secret: Annotated[str, typer.Option("--secret", help="The column that is to be kept secret.")],
    yes: Annotated[str | None, typer.Option("--yes", help="Which of its values is a 1; all others are a 0.")] = None,
    no: Annotated[
        str | None, typer.Option("--no", help="The other value, where --unknown; left out: not told.")
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", help="A column that anybody may know; may be repeated.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option("--tables", help="Counts that were published (.csv or .jsonl), to be attacked.")
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="ROWS does not have the secret column; only with --tables.")
    ] = False,
    kind: Annotated[str, typer.Option("--kind", help=f"What is published: {', '.join(KINDS)}.")] = "marginals",
    ways: Annotated[
        int | None,
        typer.Option(
            "--ways",
            min=1,
            max=8,
            help="Attributes that go together in a number; no more than there are --attribute. By default 2, or 1.",
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option("--questions", min=1, help="Of counts: random sets of rows; by default five a row.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=_FEWEST, help="Take only so many of the rows, drawn at random.")
    ] = None,
    releases: Annotated[
        list[str] | None,
        typer.Option("--release", help=f"How: {', '.join(RELEASES)}; may be repeated. By default all, one by one."),
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Of exchanging a bit, for all numbers together.")] = 1.0,
    delta: Annotated[float, typer.Option("--delta", help="The same, of gaussian and statistics.")] = 1e-6,
    unit: Annotated[int, typer.Option("--unit", min=2, max=_MOST, help="Counts are rounded to multiples of it.")] = 5,
    places: Annotated[int, typer.Option("--places", min=0, max=12, help="Coefficients are rounded to so many.")] = 3,
    least: Annotated[
        int, typer.Option("--least", min=2, max=_MOST, help="Counts from 1 to below it are suppressed.")
    ] = 5,
    zeros: Annotated[bool, typer.Option("--zeros", help="Counts of 0 are suppressed as well.")] = False,
    miss: Miss = 1e-3,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for a report: a page, and JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find out what could be rebuilt of a secret column from the tables that you are about to publish.

    Numbers about the rows are made and released in several ways, and the
    column is rebuilt from them by least squares and by a linear program.
    Beside it stand what is guessed without any number, and the same
    attack on fair coins in the column's place: of these epsilon lets only
    so many be guessed, and exact numbers must give them all away, or the
    attack cannot judge.

    --tables FILE attacks counts that were published: a line for each, with
    columns for attributes (empty: any value), for the secret's value, and
    `count` (empty: suppressed). --release says what was done to them.

    What it prints is as sensitive as the table. Exit 1 if a release is not
    as private as it claims, or the attack cannot judge.
    """
    _check(kind, releases, epsilon, delta, unknown=unknown, tables=tables, sample=sample, miss=miss)
    terms = Terms(epsilon=epsilon, delta=delta, unit=unit, places=places, least=least, zeros=zeros)
    key = seed_of(seed)
    draws = Draws(Randomness(key, "audit reconstruct"), 0)
    names = list(attribute or ())
    if kind == "counts" and tables is None:
        names = []
    elif not names:
        raise InputError("--attribute", None, "must name a column that anybody may know: rows are told apart by these")
    said = Secret(secret, yes or "", no)
    if secret in names:
        raise InputError("--attribute", secret, "must not be the secret column")
    if tables is not None and COUNT in {secret, *names}:
        option = "--secret" if secret == COUNT else "--attribute"
        raise InputError(option, COUNT, "must be called otherwise: in --tables it is the column of the counts")
    known = list(dict.fromkeys(names))
    together = _together(ways, known)
    columns = _columns(rows, known if unknown else [*known, secret], sample, draws)
    people, bits, column = _read(columns, known, said)
    if tables is not None:
        chosen = [releases[-1] if releases else "exact"]
        over = None if chosen[0] in PRIVATE else unit if chosen[0] == "rounded" else 0.0
        published, found = read_published(tables, people, column, over)
        if np.isnan(found).any() and chosen[0] != "suppressed":
            raise InputError("--release", chosen[0], f"must be suppressed: {tables} has lines without a count")
        _check_treated(chosen[0], published, found, terms)
        table = Table(people, bits, published, terms, found)
        kind = "published tables"
    else:
        chosen = releases or list(RELEASES)
        asked = questions or 5 * len(people.group)
        table = Table(people, bits, publish(kind, people, together, asked, draws), terms)
    with Progress("attacking", len(chosen), "releases") as progress:
        lines = attack(table, chosen, draws, miss, progress.at)
    report = _report(table, column, kind, lines, miss)
    if out is not None:
        _write(out, report)
    if as_json:
        print_json(report)
    else:
        _print(report, out)
    raise typer.Exit(1 if report.refuted or not report.judged else 0)


def _check(  # noqa: PLR0913 -- the command's options
    kind: str,
    releases: list[str] | None,
    epsilon: float,
    delta: float,
    *,
    unknown: bool,
    tables: Path | None,
    sample: int | None,
    miss: float,
) -> None:
    """Refuse options that say nothing.

    Raises:
        InputError: There is one.
    """
    if kind not in KINDS:
        raise InputError("--kind", kind, f"must be one of {', '.join(KINDS)}")
    for name in releases or ():
        if name not in RELEASES:
            raise InputError("--release", name, f"must be one of {', '.join(RELEASES)}")
    if tables is not None:
        _check_done(releases or [])
    if not _LEAST_EPSILON <= epsilon <= 1e3:  # noqa: PLR2004 -- beyond any claim
        raise InputError("--epsilon", epsilon, f"must be from {_LEAST_EPSILON:g} to 1,000")
    if not 0.0 < delta < 1.0:
        raise InputError("--delta", delta, "must be above 0 and below 1")
    if not _NEVER <= miss < 1.0:
        raise InputError("--miss", miss, f"must be from {_NEVER:g} to below 1")
    if tables is not None and sample is not None:
        raise InputError("--sample", sample, "must be left out with --tables: these count all rows")
    if unknown and tables is None:
        raise InputError("--unknown", unknown, "needs --tables: without the column there is nothing to publish")


def _check_done(releases: list[str]) -> None:
    """Refuse what cannot have been done to published counts.

    Raises:
        InputError: That is said.
    """
    if len(releases) > 1:
        raise InputError("--release", ", ".join(releases), "must be given once: what was done to --tables")
    if "statistics" in releases:
        raise InputError("--release", "statistics", "must be what was done to the counts of --tables")


def _check_treated(name: str, published: Linear, found: NDArray[np.float64], terms: Terms) -> None:
    """Refuse counts to which was not done what is said: to do it now would make other counts of them.

    Raises:
        InputError: There is one.
    """
    told = treated(name, published, found, terms).numbers
    other = found[np.isfinite(found) & (told != found)]
    if len(other) and name == "rounded":
        raise InputError("--unit", terms.unit, f"must be what all counts are multiples of: {other[0]:g} is not")
    if len(other):
        shown = f"{other[0]:g} is among the counts"
        raise InputError("--least", terms.least, f"must be the least count, but for 0, that is not suppressed: {shown}")


def _together(ways: int | None, known: list[str]) -> int:
    """Return how many attributes go together in a number.

    Raises:
        InputError: There are not so many.
    """
    if known and (ways or 1) > len(known):
        raise InputError("--ways", ways, f"must be at most {len(known)}, as many as there are --attribute")
    return ways or max(min(_TWO, len(known)), 1)


def _columns(rows: Path, wanted: list[str], sample: int | None, draws: Draws) -> dict[str, _Column]:
    """Return columns of the rows, or of a sample of these.

    Raises:
        DataError: There are too few.
    """
    columns = dict(zip(wanted, read_values(rows, wanted), strict=True))
    count = len(columns[wanted[0]][1])
    if count < _FEWEST:
        raise DataError(f"{rows}: must have {_FEWEST} rows or more, has {count}")
    if sample is None or sample >= count:
        return columns
    kept = draws.some(sample, count)
    return {name: (values, codes[kept]) for name, (values, codes) in columns.items()}


def _read(
    columns: dict[str, _Column], known: list[str], said: Secret
) -> tuple[People, NDArray[np.bool_] | None, Secret]:
    """Return the rows, their secret bits, and what these are called.

    Raises:
        InputError: The options do not say it.
    """
    rows = len(next(iter(columns.values()))[1])
    people = grouped(known, *zip(*map(columns.__getitem__, known), strict=True)) if known else alone(rows)
    if said.name not in columns:
        if not said.yes:
            raise InputError("--yes", None, f"must be the value of {said.name} that is a 1: ROWS does not have it")
        return people, None, said
    values, codes = columns[said.name]
    if not said.yes and len(values) != _TWO:
        raise InputError("--yes", None, f"must be the value of {said.name} that is a 1: it has {len(values):,} values")
    chosen = said.yes or values[-1]
    if chosen not in values:
        raise InputError("--yes", chosen, f"must be a value of column {said.name}")
    other = next(one for one in values if one != chosen) if len(values) == _TWO else None
    return people, codes == values.index(chosen), Secret(said.name, chosen, other)


def _report(table: Table, column: Secret, kind: str, lines: tuple[Line, ...], miss: float) -> Report:
    people = table.people
    return Report(
        rows=len(people.group),
        groups=len(people.sizes),
        singles=int((people.sizes == 1.0).sum()),
        attributes=people.names,
        secret=column.name,
        yes=column.yes,
        having=None if table.secret is None else int(table.secret.sum()),
        kind=kind,
        terms=table.terms,
        miss=miss,
        wanted=math.ceil(POWER * len(people.group)),
        without=without(table),
        lines=lines,
    )


def _write(out: Path, report: Report) -> None:
    report_folder(out)
    for name, data in zip(_REPORTS, (page(report).encode(), msgspec.json.encode(report)), strict=True):
        write_report(out / name, data, private=True)


def _print(report: Report, out: Path | None) -> None:
    console = wide_console()
    print_rows(console, report.heads())
    table = figure_table(*report.columns)
    for cells in report.cells():
        table.add_row(*(cell or "-" for cell in cells), style="red" if cells[0] in report.refuted else None)
    console.print(table)
    last: list[Row] = [("outcome", report.outcome), ("note", "this is as sensitive as the table itself")]
    print_rows(console, last if out is None else [*last, ("report", str(out / _REPORTS[0]))])
