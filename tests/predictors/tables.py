"""Small tables for tests: rows as a trainer takes them, and questions as rows of a batch and as JSON.

Whether somebody is in `c` depends on `a` and `b` together, so no marginal of two attributes tells it, and answers are
paid for.
"""

import json
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.planning.attributes import Attribute
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import SparseVectorPlan, TablePlan

Floats = NDArray[np.float64]

TABLE: Final = (
    Attribute(name="a", categories=("x", "y")),
    Attribute(name="b", bounds=(0.0, 3.0), bins=3),
    Attribute(name="c", categories=("u", "v", "other")),
)
"""4 x 4 x 4 cells, missing values and others included."""

TABLES: Final = ("statistics", "sparse-vector")
"""The predictors that answer about tables."""

ASKED: Final = (*TABLES, "distribution")
"""The predictors whose questions are public, and JSON."""

_REPEATED: Final = 0.25
_EMPTY: Final = 0.02
_QUANTILES: Final = 0.2
_HIGH: Final = 0.25
"""Thresholds are so high that few shares are above: the power to which uniform ones are raised."""


def table_rows(plan: TablePlan, numbers: Floats) -> Floats:
    """Return rows of a plan's table, float64[n, A], made of numbers from 0 to 1, float64[n, 2 or more].

    At most a hundredth of them have missing or other values.
    """
    columns = [
        np.minimum(np.floor(numbers[:, place] * attribute.declared), attribute.declared - 1)
        for place, attribute in enumerate(plan.attributes[:2])
    ]
    both = np.sum(columns, axis=0)
    rest = [np.floor(both + number) % attribute.declared for number, attribute in enumerate(plan.attributes[2:])]
    rows = np.stack([*columns, *rest], axis=1)
    rows[::128, 0] = plan.attributes[0].missing
    return rows


def random_rows(plan: TablePlan, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return as many rows as a plan declares, more of them in some cells than in others, and all of them there."""
    generator = np.random.default_rng(seed)
    numbers = generator.random((plan.declared, 2)) ** generator.uniform(0.5, 2.0, 2)
    return table_rows(plan, numbers), np.ones(plan.declared, dtype=np.bool_)


def any_questions(plan: TablePlan, count: int, generator: np.random.Generator) -> Floats:
    """Return different questions, float64[count, width]: of each attribute, at random, some cells or all of them."""
    layout = plan.layout
    rows = []
    for _ in range(count):
        masks = [generator.random(cells) < generator.uniform(0.2, 0.9) for cells in layout.shape]
        whole = generator.random(len(masks)) < 1.0 / 3.0
        rows.append(layout.row([mask | all_of_it for mask, all_of_it in zip(masks, whole, strict=True)]))
    found = np.array(rows).reshape(count, layout.width)
    if isinstance(plan, SparseVectorPlan):
        return np.column_stack([found, generator.random(count) ** _HIGH])
    return found


def drawn_questions(plan: TablePlan, count: int, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a stream: a quarter repeats what came before, another quarter of the rounds has no question (NaN)."""
    generator = np.random.default_rng(seed)
    rows = any_questions(plan, count, generator)
    for row in range(2, count):
        if generator.random() < _REPEATED:
            rows[row] = rows[generator.integers(0, row - 1)]
    rows[generator.random(count) < _EMPTY, 0] = 0.0  # asks for no cell at all
    present = generator.random(count) > _REPEATED
    rows[~present] = np.nan
    return rows, present


def drawn_messages(plan: QuestionPlan, count: int, seed: int = 1, by: int = 0) -> list[bytes]:
    """Return JSON questions with ids q0, q1, ...

    Args:
        plan: What is asked; of a distribution, about numbers from 0 to 1.
        count: How many messages.
        seed: Of the choice.
        by: Every so many messages ask for each cell of an attribute; 0 for none.
    """
    generator = np.random.default_rng(seed)
    messages: list[dict[str, object]] = []
    for number in range(count):
        if number and generator.random() < _REPEATED:
            messages.append(messages[generator.integers(0, number)] | {"id": f"q{number}"})
            continue
        message = drawn_message(plan, generator, f"q{number}")
        if isinstance(plan, TablePlan) and by and number % by == 1:
            name = plan.attributes[generator.integers(0, len(plan.attributes))].name
            where = message["where"]
            assert isinstance(where, dict)
            where.pop(name, None)
            message["by"] = [name]
        messages.append(message)
    return [json.dumps(message).encode() for message in messages]


def drawn_message(plan: QuestionPlan, generator: np.random.Generator, identifier: str) -> dict[str, object]:
    """Return one question, about some attributes or one value; the next one is another, most likely."""
    if not isinstance(plan, TablePlan):
        if generator.random() < _QUANTILES:
            return {"id": identifier, "quantile": round(generator.random(), 3)}
        return {"id": identifier, "at": round(generator.uniform(-0.1, 1.1), 3)}
    where = {one.name: _asked(one, generator) for one in plan.attributes if generator.random() < 2.0 / 3.0}
    more: dict[str, object] = {}
    if isinstance(plan, SparseVectorPlan):
        more["above"] = round(generator.random() ** _HIGH, 3)
    return {"id": identifier, "where": where, **more}


def _asked(attribute: Attribute, generator: np.random.Generator) -> object:
    """Return what `where` says of an attribute."""
    if attribute.kind == "category":
        labels = attribute.labels
        chosen = generator.permutation(len(labels))[: generator.integers(1, len(labels))]
        return [labels[number] for number in sorted(chosen.tolist())]
    low, high = sorted(generator.permutation(len(attribute.edges))[:2].tolist())
    return [attribute.edges[low], attribute.edges[high]]
