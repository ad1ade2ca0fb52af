"""An analyst who drills down: always into the group that differs most from what its parts led to expect."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from oracle.planning.attributes import Attribute
from tests.experiments.analyst.table import Where

Ask = Callable[[Sequence[bytes]], Sequence[Mapping[str, Any]]]
"""Asks some questions, and waits for their answers."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its answer.

    Attributes:
        where: What was asked.
        value: The answer.
        paid: Answers that were paid for, up to and with it.
        verified: Whether it is promised.
    """

    where: Where
    value: float
    paid: int
    verified: bool


def message(attributes: Sequence[Attribute], where: Where, identifier: int) -> bytes:
    """Return the JSON of a question.

    >>> message([Attribute(name="a", bounds=(0.0, 1.0), bins=4)], {"a": (1, 4)}, 7)
    b'{"id":7,"where":{"a":[0.25,1.0]}}'
    """
    named = {one.name: one for one in attributes}
    asked = {name: _said(named[name], *cells) for name, cells in where.items()}
    return msgspec.json.encode({"id": identifier, "where": asked})


def _said(attribute: Attribute, first: int, last: int) -> list[float] | list[str | None]:
    return [attribute.edges[first], attribute.edges[last]] if attribute.edges else list(attribute.labels[first:last])


def drill_down(attributes: Sequence[Attribute], ask: Ask, questions: int) -> Iterator[Asked]:
    """Ask so many different questions, and yield them with their answers.

    First the share of each category, and of each half of the bins, quarter and so on. Then, again and again, the group
    that was found to differ most from what was expected of it is taken apart by all other attributes: from its parent's
    share times its last part's own, or, of one attribute, from an equal share. So what is asked next depends on every
    answer before.
    """
    numbers = count()
    shares: dict[tuple[str, tuple[int, int]], float] = {}
    declared = {one.name: one.declared for one in attributes}
    waiting: list[tuple[float, int, Where, float]] = [(0.0, next(numbers), {}, 1.0)]
    seen: set[frozenset[tuple[str, tuple[int, int]]]] = set()
    while waiting and len(seen) < questions:
        _, _, parent, share = heapq.heappop(waiting)
        children = [where for where in _parts(attributes, parent) if frozenset(where.items()) not in seen]
        children = children[: questions - len(seen)]
        seen.update(frozenset(where.items()) for where in children)
        answers = ask([message(attributes, where, next(numbers)) for where in children])
        for where, answer in zip(children, answers, strict=True):
            name, (first, last) = part = list(where.items())[-1]
            value = answer["value"]
            expected = share * shares[part] if parent else (last - first) / declared[name]
            shares.setdefault(part, value)
            heapq.heappush(waiting, (-abs(value - expected), next(numbers), where, value))
            yield Asked(where, value, answer["paid"], answer["verified"])


def _parts(attributes: Sequence[Attribute], parent: Where) -> Iterator[Where]:
    for attribute in attributes:
        if attribute.name not in parent:
            whole = (0, attribute.declared)
            cells = _halves(*whole) if attribute.edges else ((cell, cell + 1) for cell in range(attribute.declared))
            yield from ({**parent, attribute.name: some} for some in cells if some != whole)


def _halves(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield some bins, their halves, and so on down to each."""
    yield first, last
    if last - first > 1:
        middle = (first + last) // 2
        yield from _halves(first, middle)
        yield from _halves(middle, last)
