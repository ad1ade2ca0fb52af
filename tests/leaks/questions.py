"""Public questions and rows of leak tests, made of two numbers from 0 to 1 as other queries and rows are."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.questions import reader_of
from oracle.planning.attributes import Attribute
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from tests.predictors.tables import drawn_message, table_rows

_PARTS: Final = 1_000_000
_BY: Final = 6
"""One question in so many asks for every cell of an attribute, or for two things."""


def as_cells(plan: QuestionPlan, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows of a table, float64[n, A]; of NaN, a row whose values are all missing. Or values, float64[n, 1]."""
    if not isinstance(plan, TablePlan):
        return numbers[:, :1]
    gone = np.isnan(numbers[:, 0])
    cells = table_rows(plan, np.where(gone[:, None], 0.0, numbers))
    cells[gone] = [attribute.missing for attribute in plan.attributes]
    return cells


def as_labels(attribute: Attribute, cells: NDArray[np.float64]) -> pa.Array:
    """Return a column of a file whose values are in these cells."""
    missing = [cell == attribute.missing for cell in cells.tolist()]
    if attribute.kind == "category":
        return pa.array([attribute.labels[int(cell)] for cell in cells.tolist()], pa.string())
    width = attribute.edges[1] - attribute.edges[0]
    return pa.array(np.where(missing, 0.0, attribute.edges[0] + (cells + 0.5) * width), mask=np.array(missing))


def question_of(plan: QuestionPlan, numbers: Sequence[float]) -> bytes:
    """Return the question that two numbers stand for, in few bytes: about two attributes at most, and with no id."""
    seeds = [int(abs(number) * _PARTS) for number in numbers]
    message = drawn_message(plan, np.random.default_rng(seeds), "")
    if not isinstance(plan, TablePlan):
        ((name, value),) = [item for item in message.items() if item[0] != "id"]
        asked = [value, round(float(str(value)) / 2.0, 3)] if seeds[0] % _BY == 0 else value
        return json.dumps({name: asked}, separators=(",", ":")).encode()
    where = message["where"]
    assert isinstance(where, dict)
    asked = {name: [_short(value) for value in values[-2:]] for name, values in list(where.items())[:2]}
    by = [one.name for one in plan.attributes if one.name not in asked][: 1 if seeds[0] % _BY == 0 else 0]
    said: dict[str, object] = {"where": asked}
    if by:
        said = {"where": dict(list(asked.items())[:1]), "by": by}
    if "above" in message:
        said["above"] = round(float(str(message["above"])), 2)
    return json.dumps(said, separators=(",", ":")).encode()


def _short(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def questions_in(plan: QuestionPlan, numbers: tuple[float, float]) -> NDArray[np.float64]:
    """Return what predictors take of a message: float64[rounds, width]."""
    found = reader_of(plan).decode(question_of(plan, numbers))
    assert isinstance(found, tuple), found
    return found[1]
