"""An analyst who drills down: always into the group that differs most from what its parts led to expect."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec

from oracle.planning.attributes import Attribute
from tests.experiments.analyst.table import Where

__all__ = ["Asked", "drill_down", "message"]

_DEEPEST: Final = 4
"""Attributes of a conjunction, at most."""

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

    >>> message([Attribute(name="a", bounds=(0.0, 1.0), bins=2)], {"a": 1}, 7)
    b'{"id":7,"where":{"a":[0.5,1.0]}}'
    """
    named = {one.name: one for one in attributes}
    asked = {name: _said(named[name], cell) for name, cell in where.items()}
    return msgspec.json.encode({"id": identifier, "where": asked})


def _said(attribute: Attribute, cell: int) -> list[float] | list[str | None]:
    return list(attribute.edges[cell : cell + 2]) if attribute.edges else [attribute.labels[cell]]


def drill_down(attributes: Sequence[Attribute], ask: Ask, questions: int) -> Iterator[Asked]:
    """Ask so many different questions, and yield them with their answers.

    First the share of each declared cell of each attribute. Then, again and again, the group that was found to differ
    most from what was expected of it is taken apart by all other attributes: from its parent's share times its last
    cell's own, or from an equal share. So what is asked next depends on every answer before.
    """
    numbers = count()
    shares: dict[tuple[str, int], float] = {}
    equal = {one.name: 1.0 / one.declared for one in attributes}
    waiting: list[tuple[float, int, Where, float]] = [(0.0, next(numbers), {}, 1.0)]
    seen: set[frozenset[tuple[str, int]]] = set()
    while waiting and len(seen) < questions:
        _, _, parent, share = heapq.heappop(waiting)
        children = [where for where in _parts(attributes, parent) if frozenset(where.items()) not in seen]
        children = children[: questions - len(seen)]
        seen.update(frozenset(where.items()) for where in children)
        answers = ask([message(attributes, where, next(numbers)) for where in children])
        for where, answer in zip(children, answers, strict=True):
            last = list(where.items())[-1]
            value = answer["value"]
            expected = share * shares[last] if parent else equal[last[0]]
            shares.setdefault(last, value)
            if len(where) < _DEEPEST:
                heapq.heappush(waiting, (-abs(value - expected), next(numbers), where, value))
            yield Asked(where, value, answer["paid"], answer["verified"])


def _parts(attributes: Sequence[Attribute], parent: Where) -> Iterator[Where]:
    for attribute in attributes:
        if attribute.name not in parent:
            yield from ({**parent, attribute.name: cell} for cell in range(attribute.declared))
