"""What a question may ask of one attribute, and the bits that its cells are in a question's row.

"carrier": ["AA", null]      any of these; "AA" alone is ["AA"], and null is for rows that have no value
"hour": [6.0, 9.0]           from an edge of the bins up to another one; of dates: ["2013-01-01", "2013-02-01"]
"hour": null                 the rows that have none
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, Protocol

import msgspec
import numpy as np

from oracle.codec.rejections import Reason, Rejection
from oracle.planning.attributes import OTHER, Attribute, Layout

__all__ = ["Domain", "Given", "domains_of", "shown"]

Given = list[str | float | None] | str | None
"""What may stand behind an attribute's name, as far as JSON's types say it."""

_WORD: Final = 52  # see `Layout`
_SHOWN: Final = 12
_SHOWN_BYTES: Final = 400
_NEAR: Final = 1e-9
"""How far from an edge a number may be, in bins: so far as sums of floating-point numbers go astray."""


class Domain(Protocol):
    """One attribute's cells.

    Attributes:
        labels: Of each cell what `where` would say for it, as JSON.
        accepts: What `where` may say, in words.
    """

    attribute: Attribute
    labels: Sequence[bytes]
    accepts: str

    def fill(self, row: list[int], given: Given) -> None:
        """Set the attribute's words of a row.

        Raises:
            LookupError: No cells are called so; the row is of no use any more.
            ValueError: The same.
        """

    def wrong(self, given: Given, field: str) -> Rejection:
        """Return why `fill` raises."""


def domains_of(attributes: Sequence[Attribute]) -> dict[str, Domain]:
    """Return each attribute's domain by its name, in the order of a row."""
    layout = Layout.of(attributes)
    starts = np.cumsum((0, *layout.words)).tolist()
    domains: dict[str, Domain] = {}
    for attribute, start in zip(attributes, starts, strict=False):
        domains[attribute.name] = _Bins(attribute, start) if attribute.edges else _Categories(attribute, start)
    return domains


class _Categories:
    def __init__(self, attribute: Attribute, start: int) -> None:
        self.attribute = attribute
        self._start, self._stop = start, start + -(-attribute.cells // _WORD)
        self._none = [0] * (self._stop - start)
        self._bits = {label: (start + cell // _WORD, 1 << cell % _WORD) for cell, label in enumerate(attribute.labels)}
        self.labels: Sequence[bytes] = list(map(msgspec.json.encode, attribute.labels))
        names = [label for label in attribute.labels if label not in {OTHER, None}]
        self._names = f'{shown(names)}, "{OTHER}"'
        self.accepts = f"a list of categories: {self._names}, and null for missing"

    def fill(self, row: list[int], given: Given) -> None:
        if given is None or isinstance(given, str):
            given = [given]
        if not given:
            raise LookupError
        row[self._start : self._stop] = self._none
        for label in given:
            place, bit = self._bits[label]  # type: ignore[index]  # a number is no key
            row[place] |= bit

    def wrong(self, given: Given, field: str) -> Rejection:
        if given == []:
            return Rejection(Reason.OUTSIDE_DOMAIN, field, f"at least one category: {self._names}, or null for missing")
        labels: Sequence[str | float | None] = given if isinstance(given, list) else [given]
        index = next(index for index, label in enumerate(labels) if label not in self._bits)
        reason = Reason.WRONG_TYPE if isinstance(labels[index], float) else Reason.OUTSIDE_DOMAIN
        place = f"{field}[{index}]" if isinstance(given, list) else field
        return Rejection(reason, place, f"one of {self._names}, or null for missing")


class _Bins:
    def __init__(self, attribute: Attribute, start: int) -> None:
        self.attribute = attribute
        self._start, self._words = start, -(-attribute.cells // _WORD)
        self._edges = attribute.edges
        names: Sequence[str | float] = list(map(_day, self._edges)) if attribute.kind == "date" else self._edges
        self._places: dict[object, int] = {name: place for place, name in enumerate(names)}
        texts = list(map(msgspec.json.encode, names))
        self.labels: Sequence[bytes] = [b"[%b,%b]" % ends for ends in pairwise(texts)] + [b"null"]
        self._step = (self._edges[-1] - self._edges[0]) / attribute.declared
        self.accepts = f"a range [from, to) on bin edges: {self._between(names)}; or null for missing"

    def _between(self, names: Sequence[str | float]) -> str:
        if self.attribute.kind == "date":
            return f"from {names[0]} to {names[-1]} in steps of {_count(round(self._step), 'day')}"
        return f"from {names[0]:.12g} to {names[-1]:.12g} in steps of {self._step:.12g}"

    def fill(self, row: list[int], given: Given) -> None:
        if given is None:
            first, last = self.attribute.missing, self.attribute.cells
        else:
            low, high = list(given)
            first, last = self._place(low), self._place(high)
            if first >= last:
                raise LookupError
        if self._words == 1:
            row[self._start] = (1 << last) - (1 << first)
            return
        for word in range(self._words):
            begin, end = (min(max(cell - word * _WORD, 0), _WORD) for cell in (first, last))
            row[self._start + word] = (1 << end) - (1 << begin)

    def _place(self, value: str | float | None) -> int:
        """Return the number of the edge that a value is.

        Raises:
            LookupError: It is none.
        """
        place = self._places.get(value)
        if place is not None:
            return place
        if isinstance(value, float) and self.attribute.kind == "number":
            above = bisect_left(self._edges, value)
            for place in (above - 1, above):
                if 0 <= place < len(self._edges) and abs(self._edges[place] - value) <= _NEAR * self._step:
                    return place
        raise LookupError

    def wrong(self, given: Given, field: str) -> Rejection:
        kind = str if self.attribute.kind == "date" else float
        pair = isinstance(given, list) and len(given) == len(("from", "to"))
        typed = pair and all(isinstance(end, kind) for end in given or ())
        return Rejection(Reason.OUTSIDE_DOMAIN if typed else Reason.WRONG_TYPE, field, self.accepts)


def shown(names: Sequence[str]) -> str:
    """Return names as JSON writes them, but no more than a dozen, and those that take little room."""
    texts = [msgspec.json.encode(name) for name in names[:_SHOWN]]
    fitting = [text for text, size in zip(texts, accumulate(map(len, texts)), strict=True) if size <= _SHOWN_BYTES]
    some = b", ".join(fitting).decode()
    return some if len(fitting) == len(names) else f"{some}, ... ({len(names):,} in all)".removeprefix(", ")


def _day(edge: float) -> str:
    return str(np.datetime64(int(edge), "D"))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number:,} {thing}s"
