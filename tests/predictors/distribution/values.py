"""Values of every type for tests, as rows of a trainer, and questions about them."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import text_digits
from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.planning.features import Feature
from oracle.predictors.base import Predictor

Floats = NDArray[np.float64]

FEATURES: Final = {
    "number": Feature(name="a"),
    "date": Feature(name="a", type="date"),
    "decimal": Feature(name="a", type="decimal", places=2),
    "string": Feature(name="a", type="string", max_bytes=6),
}

_LETTERS: Final = ("a", "b", "e", "z", "\u00e9", "\u4e2d", "\U0001f600", "\x00")


def draw_values(of: Feature, count: int, generator: np.random.Generator) -> Floats:
    """Return values of a type: float64[count, width], a third of them one of few."""
    if of.kind == "string":
        rows = np.array([_text(of, generator) for _ in range(count)]).reshape(count, of.width)
    else:
        numbers = generator.normal(size=count)
        rows = {"number": numbers, "date": np.rint(9000.0 * numbers), "decimal": np.rint(700.0 * numbers) / 100.0}[
            of.kind
        ][:, None]
    few = generator.random(count) < 1.0 / 3.0
    rows[few] = rows[generator.integers(0, min(count, 5), int(few.sum()))]
    return rows + 0.0


def _text(of: Feature, generator: np.random.Generator) -> list[float]:
    text = "".join(_LETTERS[place] for place in generator.integers(0, len(_LETTERS), generator.integers(0, 5)))
    data = text.encode()
    while len(data) > of.longest:
        text = text[:-1]
        data = text.encode()
    return text_digits(data, of.width)


def at(values: Floats) -> Floats:
    """Return questions of shares up to values: float64[n, width + 1]."""
    return np.column_stack([values, np.full(len(values), -1.0)])


def quantiles(of: Feature, shares: Floats) -> Floats:
    """Return questions of quantiles: float64[n, width + 1]."""
    return np.column_stack([np.zeros((len(shares), of.width)), shares])


class Told(NamedTuple):
    """All that is told of some questions."""

    values: Floats
    paid: NDArray[np.int64]
    verified: NDArray[np.bool_]
    found: Floats


def ask(predictor: Predictor, rows: Floats) -> Told:
    """Ask questions in one batch."""
    answers = predictor.answer(rows, np.ones(len(rows), dtype=np.bool_))
    assert answers.values is not None
    assert answers.paid is not None
    assert answers.verified is not None
    assert answers.found is not None
    return Told(answers.values, answers.paid, answers.verified, answers.found)


def any_questions(plan: DistributionPlan, count: int, generator: np.random.Generator) -> Floats:
    """Return questions, one in eight of a quantile, some of any value at all."""
    rows = at(draw_values(plan.feature, count, generator))
    domain = domain_of(plan.feature)
    for place in np.flatnonzero(generator.random(count) < 1.0 / 8.0):
        rows[place, :-1] = domain.row(int(generator.random() * domain.size))
    asked = generator.random(count) < 1.0 / 8.0
    rows[asked] = quantiles(plan.feature, generator.random(int(asked.sum())))
    return rows


def drawn_questions(plan: DistributionPlan, rounds: int, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return questions, one in four of which is a repeated one, and one in seven rounds without one: NaN there."""
    generator = np.random.default_rng(seed)
    rows = any_questions(plan, rounds, generator)
    for place in np.flatnonzero(generator.random(rounds) < 1.0 / 4.0)[1:]:
        rows[place] = rows[generator.integers(0, place)]
    present = generator.random(rounds) > 1.0 / 7.0
    rows[~present] = np.nan
    return rows, present
