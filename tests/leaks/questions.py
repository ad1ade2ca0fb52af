"""Questions of leak tests about tables, each made of two numbers from 0 to 1 as other queries are."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.questions import QuestionReader
from oracle.planning.statistics.model import TablePlan
from tests.predictors.tables import drawn_message

__all__ = ["question_of", "rows_of_questions"]

_PARTS = 1_000_000


def question_of(plan: TablePlan, numbers: Sequence[float]) -> bytes:
    """Return the question that two numbers stand for."""
    seeds = [int(abs(number) * _PARTS) for number in numbers]
    return json.dumps(drawn_message(plan, np.random.default_rng(seeds), "q")).encode()


def rows_of_questions(plan: TablePlan, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what predictors take: float64[n, 2] to float64[n, width]."""
    reader, rows = QuestionReader(plan), []
    for pair in numbers.tolist():
        found = reader.decode(question_of(plan, pair))
        assert isinstance(found, tuple), found
        rows.append(found[1][0])
    return np.array(rows).reshape(len(numbers), plan.width)
