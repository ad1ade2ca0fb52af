"""Random conjunctions about a table, as rows, as messages, and answered exactly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.planning.attributes import Attribute, Layout
from tests.experiments.statistics.tables import Table

Marginal = Callable[[tuple[int, ...]], NDArray[np.float64]]
"""From attributes to the shares of their cells: float64 of the attributes' shape."""


@dataclass(frozen=True)
class Questions:
    """Questions in order.

    Attributes:
        masks: bool[k, cells] of each attribute: the cells asked for; all of them where it does not matter.
        asked: bool[k, A], which attributes matter.
    """

    masks: tuple[NDArray[np.bool_], ...]
    asked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.asked)

    def first(self, count: int) -> "Questions":
        """Return the first few."""
        return Questions(tuple(mask[:count] for mask in self.masks), self.asked[:count])

    def rows(self, layout: Layout) -> NDArray[np.float64]:
        """Return them as a predictor takes them: float64[k, width]."""
        return np.stack([layout.row([mask[number] for mask in self.masks]) for number in range(len(self))])

    def messages(self, attributes: Sequence[Attribute]) -> list[bytes]:
        """Return them as JSON."""
        return [
            msgspec.json.encode({"id": str(number), "where": self._where(attributes, number)})
            for number in range(len(self))
        ]

    def _where(self, attributes: Sequence[Attribute], number: int) -> dict[str, Any]:
        where: dict[str, Any] = {}
        for index in np.flatnonzero(self.asked[number]).tolist():
            attribute, cells = attributes[index], np.flatnonzero(self.masks[index][number])
            if attribute.kind == "category":
                where[attribute.name] = [attribute.labels[cell] for cell in cells]
            else:
                where[attribute.name] = [attribute.edges[cells[0]], attribute.edges[cells[-1] + 1]]
        return where


def draw(attributes: Sequence[Attribute], count: int, seed: int) -> Questions:
    """Draw conjunctions about 1 to 3 attributes, all of which are as likely.

    Of categories a set is asked for, of any size as likely, but not all of them; of bins a range between two of the
    edges, but not all of it.

    Args:
        attributes: Of the table.
        count: How many.
        seed: Of the generator.
    """
    generator = np.random.default_rng(seed)
    masks = tuple(np.ones((count, attribute.cells), dtype=np.bool_) for attribute in attributes)
    asked = np.zeros((count, len(attributes)), dtype=np.bool_)
    for number in range(count):
        chosen = generator.choice(len(attributes), generator.integers(1, 4), replace=False)
        asked[number, chosen] = True
        for index in chosen:
            masks[index][number] = _part(attributes[index], generator)
    return Questions(masks, asked)


def _part(attribute: Attribute, generator: np.random.Generator) -> NDArray[np.bool_]:
    mask, declared = np.zeros(attribute.cells, dtype=np.bool_), attribute.declared
    if attribute.kind == "category":
        mask[generator.choice(declared, generator.integers(1, declared), replace=False)] = True
        return mask
    low, high = 0, declared
    while high - low == declared:
        low, high = sorted(generator.choice(declared + 1, 2, replace=False))
    mask[low:high] = True
    return mask


def shares(marginal: Marginal, questions: Questions) -> NDArray[np.float64]:
    """Return the answers that marginals give: float64[k]."""
    answers = np.empty(len(questions))
    sets, owners = np.unique(questions.asked, axis=0, return_inverse=True)
    for number, asked in enumerate(sets):
        rows = np.flatnonzero(owners.reshape(-1) == number)
        about = tuple(np.flatnonzero(asked).tolist())
        left = marginal(about)[None]
        for index in about:
            mask = questions.masks[index][rows].astype(np.float64)
            flat = left.reshape(len(left), mask.shape[1], -1)
            left = np.einsum("na,nab->nb", mask, np.broadcast_to(flat, (len(rows), *flat.shape[1:])), optimize=True)
        answers[rows] = left[:, 0]
    return answers


def counted(table: Table) -> Marginal:
    """Return the rows' own marginals."""

    def marginal(about: tuple[int, ...]) -> NDArray[np.float64]:
        shape = [table.layout.shape[index] for index in about]
        flat = np.ravel_multi_index([table.cells[:, index] for index in about], shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / len(table.cells)

    return marginal
