"""Rows whose attributes are public: those that look alike together, and what may be published of their secret bits."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.randomness import Draws
from oracle.audit.reconstruction.functions import Linear, summed, table_of
from oracle.audit.reconstruction.regressions import LOSSES, Regressions
from oracle.errors import InputError

__all__ = ["KINDS", "MOST", "People", "Published", "alone", "grouped", "publish"]

Floats = NDArray[np.float64]
Published = Linear | Regressions

KINDS: Final = ("counts", "marginals", "trees", "errors", *LOSSES)
"""Of what is published."""

MOST: Final = 1 << 26
"""Entries of a system: 512 MiB."""


class People(NamedTuple):
    """Rows by what anybody may know of them.

    Attributes:
        names: Of the attributes.
        values: What each may be.
        codes: int64[g, a], the values' numbers of each group of rows that look alike.
        sizes: float64[g], its rows.
        group: int64[n], each row's.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    codes: NDArray[np.int64]
    sizes: Floats
    group: NDArray[np.int64]

    def counts(self, bits: NDArray[np.bool_]) -> Floats:
        """Return how many rows of each group have a bit: float64[g]."""
        return np.bincount(self.group, weights=bits, minlength=len(self.sizes)).astype(np.float64)


def alone(rows: int) -> People:
    """Return rows each of which can be told from all others."""
    return People((), (), np.zeros((rows, 0), dtype=np.int64), np.ones(rows), np.arange(rows))


def grouped(names: Sequence[str], values: Sequence[Sequence[str]], codes: Sequence[NDArray[np.int64]]) -> People:
    """Put rows together that look alike.

    Args:
        names: Of the attributes.
        values: What each may be.
        codes: int64[n] each, the numbers of the rows' values.

    >>> grouped(["a"], [["x", "y"]], [np.array([0, 1, 0])]).sizes.tolist()
    [2.0, 1.0]
    """
    group = np.zeros(len(codes[0]), dtype=np.int64)
    for some, code in zip(values, codes, strict=True):
        group = np.unique(group * len(some) + code, return_inverse=True)[1]
    _, first, counts = np.unique(group, return_index=True, return_counts=True)
    table = np.column_stack(codes)[first]
    return People(tuple(names), tuple(map(tuple, values)), table, counts.astype(np.float64), group)


def publish(kind: str, people: People, ways: int, questions: int, draws: Draws) -> Published:
    """Return what is published.

    Args:
        kind: One of `KINDS`.
        people: Whose bits; of "counts" the attributes count for nothing.
        ways: Attributes that go together, at most; of marginals each table has so many.
        questions: Of "counts": random sets of rows.
        draws: Where these come from.

    Raises:
        InputError: It is too much.
    """
    groups = len(people.sizes)
    if kind == "counts":
        _refuse_large(questions, groups)
        asked = draws.uniform(questions * groups).reshape(questions, groups) < 0.5  # noqa: PLR2004 -- fair
        return Linear(asked.astype(np.float64), np.zeros(questions))
    if kind == "marginals":
        return _tables(people, min(ways, len(people.names)))
    bits, owner = _bits(people)
    if kind in LOSSES:
        signs = 1.0 - 2.0 * bits
        chosen = [some for count in range(1, ways + 1) for some in _choices(owner, count)]
        if not chosen:
            raise InputError("--attribute", ", ".join(people.names), f"must have two values or more for {kind}")
        _refuse_large(len(chosen), groups)
        columns = np.array([signs[:, some].prod(axis=1) for some in map(list, chosen)])
        return Regressions(columns, people.sizes, LOSSES[kind])
    pairs = _choices(owner, 2)
    if not pairs:
        raise InputError("--attribute", ", ".join(people.names), f"must be at least two with two values for {kind}")
    both = np.array([*pairs, *(pair[::-1] for pair in pairs)]) if kind == "trees" else np.array(pairs)
    _refuse_large(len(both), groups)
    return summed(table_of(kind.removesuffix("s"), 2), bits, both, people.sizes)


def _tables(people: People, ways: int) -> Linear:
    """Return the marginals of every so many attributes with the secret: one count a cell, of those who have the bit."""
    shapes = [tuple(len(people.values[one]) for one in some) for some in combinations(range(len(people.names)), ways)]
    _refuse_large(sum(int(np.prod(shape, dtype=np.float64)) for shape in shapes), len(people.sizes))
    parts = []
    for some, shape in zip(combinations(range(len(people.names)), ways), shapes, strict=True):
        code = np.ravel_multi_index(tuple(people.codes[:, some].T), shape)
        parts.append(np.arange(np.prod(shape))[:, None] == code)
    matrix = np.concatenate(parts).astype(np.float64)
    return Linear(matrix, np.zeros(len(matrix)), tuple(shapes))


def _bits(people: People) -> tuple[NDArray[np.int64], list[int]]:
    """Return a bit for each value but an attribute's first, int64[g, D], and each bit's attribute."""
    owner = [place for place, some in enumerate(people.values) for _ in some[1:]]
    parts = [people.codes[:, [place]] == np.arange(1, len(some)) for place, some in enumerate(people.values)]
    return np.column_stack(parts).astype(np.int64), owner


def _choices(owner: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Return all choices of so many bits of different attributes."""
    return [some for some in combinations(range(len(owner)), count) if len({owner[one] for one in some}) == count]


def _refuse_large(numbers: int, groups: int) -> None:
    if numbers * groups > MOST:
        reason = f"times {groups:,} groups of rows must be at most {MOST:,}: fewer --ways or attributes, or --sample"
        raise InputError("published numbers", numbers, reason)
