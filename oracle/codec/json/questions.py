"""One question about a table as one JSON object.

    {"id": "q1", "where": {"carrier": ["AA", null], "hour": [6.0, 9.0]}}
    {"id": "q2", "where": {"hour": [6.0, 9.0]}, "by": ["origin"]}
    {"id": "q3", "where": {"carrier": ["AA"]}, "above": 0.05}

An attribute that `where` does not name may have any value. `by` asks once for each cell of its attributes that `where`
allows, the last attribute's fastest; each takes a round. `above` is for sparse vectors, which have to be given it.
What stands behind an attribute's name is explained in `oracle.codec.json.domains`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.bodies import BAD_ID, Identifier, JsonBodies
from oracle.codec.json.domains import Domain, Given, domains_of, shown
from oracle.codec.json.public import Several, named
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.serving import most_rows
from oracle.planning.statistics.model import SparseVectorPlan, TablePlan

__all__ = ["Breakdown", "QuestionReader"]

_WORD: Final = 52  # see `Layout`
_SHARE: Final = "a share of the rows, from 0 to 1"
_OBJECT: Final = "an object with attributes as names"


class _Question(msgspec.Struct):
    id: Identifier = None
    where: dict[str, Given] | msgspec.UnsetType = msgspec.UNSET
    by: list[str] | msgspec.UnsetType = msgspec.UNSET
    above: float | msgspec.UnsetType = msgspec.UNSET


class _Where(msgspec.Struct):
    where: dict[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Breakdown(Several):
    """A message with `by`.

    Attributes:
        labels: For each attribute of `by`, of each cell that is asked for the name and the value, as JSON.
    """

    labels: tuple[tuple[bytes, ...], ...]

    @property
    def rows(self) -> int:
        """How many rounds it takes."""
        return math.prod(map(len, self.labels))


class QuestionReader(JsonBodies):
    """Reads JSON questions of one model, and writes rejections."""

    _values: ClassVar[str] = "where"

    def __init__(self, plan: TablePlan) -> None:
        super().__init__(plan)
        self._layout = plan.layout
        self._sparse = isinstance(plan, SparseVectorPlan)
        self._domains = domains_of(plan.attributes)
        self._whole = self._row_of_all()
        self._starts = dict(zip(self._domains, np.cumsum((0, *self._layout.words)).tolist(), strict=False))
        self._most = most_rows(plan)
        self._names = f"the model's attributes: {shown(list(self._domains))}"
        self._decoder = msgspec.json.Decoder(_Question)
        self._raw_decoder = msgspec.json.Decoder(_Where)
        self._value_decoder = msgspec.json.Decoder(Given)

    def _row_of_all(self) -> list[int]:
        masks = [np.ones(cells, dtype=np.bool_) for cells in self._layout.shape]
        return [int(word) for word in self._layout.row(masks)]

    def decode_run(self, bodies: Sequence[bytes]) -> tuple[list[Identifier], NDArray[np.float64]] | None:
        """Return ids and float64[n, D] of many messages, the same as `decode` would, if each asks one question.

        None if any does not, or might not: then `decode` tells which.
        """
        messages = self._read_together(self._decoder, bodies)
        if messages is None or any(message.by is not msgspec.UNSET for message in messages):
            return None
        try:
            rows = [self._row(message) for message in messages]
        except (LookupError, ValueError, AttributeError):
            return None
        return [message.id for message in messages], np.array(rows, dtype=np.float64)

    def _row(self, message: _Question) -> list[Any]:
        """Return the row of a message's `where` and `above`.

        Raises:
            AttributeError: There is no `where`.
            LookupError: It names what there is not, or the threshold is wanting or wanted by nobody.
            ValueError: As of `Domain.fill`.
        """
        row: list[Any] = self._whole.copy()
        domains = self._domains
        for name, given in message.where.items():  # type: ignore[union-attr]  # AttributeError
            domains[name].fill(row, given)
        if self._sparse:
            row.append(self._threshold(message))
        elif message.above is not msgspec.UNSET:
            raise LookupError
        return row

    def _threshold(self, message: _Question) -> float:
        above = message.above
        if above is msgspec.UNSET or not 0.0 <= above <= 1.0:
            raise LookupError
        return above + 0.0  # -0.0 becomes 0.0

    def decode(self, body: bytes) -> tuple[Identifier | Breakdown, NDArray[np.float64]] | Rejection:
        """Return what one body asks, and its rows, float64[n, D]; or why it is rejected."""
        try:
            message = self._read(self._decoder, body)
        except msgspec.ValidationError as exc:
            return self._not_valid(exc, body)
        if isinstance(message, Rejection):
            return message
        if message.where is msgspec.UNSET:
            if message.by is msgspec.UNSET:
                return Rejection(Reason.MISSING_FEATURE, "where", f"{_OBJECT}, or by")
            message.where = {}
        try:
            row = self._row(message)
        except (LookupError, ValueError):
            return self._wrong_where(body) or self._wrong_threshold(message)
        if message.by is msgspec.UNSET:
            return message.id, np.array([row], dtype=np.float64)
        return self._wrong_by(message.by) or self._broken_down(message, row)

    def _broken_down(self, message: Any, row: list[Any]) -> tuple[Breakdown, NDArray[np.float64]] | Rejection:  # noqa: ANN401 -- a question whose `by` is set
        domains = [self._domains[name] for name in message.by]
        asked = [self._cells(row, domain) for domain in domains]
        count = math.prod(map(len, asked))
        if count > self._most:
            return Rejection(Reason.TOO_MANY_ROWS, "by", f"at most {self._most:,} cells, within where")
        rows = np.tile(np.array(row, dtype=np.float64), (count, 1))
        labels = []
        for domain, cells, column in zip(domains, asked, np.array(list(product(*asked))).T, strict=True):
            start, words = self._place(domain)
            rows[:, start : start + words] = 0.0
            rows[np.arange(count), start + column // _WORD] = np.ldexp(1.0, column % _WORD)
            key = msgspec.json.encode(domain.attribute.name)
            labels.append(tuple(b"%b:%b" % (key, domain.labels[cell]) for cell in cells))
        return Breakdown(message.id, tuple(labels)), rows

    def _place(self, domain: Domain) -> tuple[int, int]:
        """Return an attribute's first word in a row, and how many it has."""
        return self._starts[domain.attribute.name], -(-domain.attribute.cells // _WORD)

    def _cells(self, row: Sequence[Any], domain: Domain) -> list[int]:
        start, _ = self._place(domain)
        return [cell for cell in range(domain.attribute.cells) if row[start + cell // _WORD] >> cell % _WORD & 1]

    def rows(self, body: bytes) -> int:
        """Return how many rows a body has: none where it is rejected."""
        if b"by" not in body and b"\\" not in body:
            return 1  # or none: close enough
        decoded = self.decode(body)
        return 0 if isinstance(decoded, Rejection) else len(decoded[1])

    def _not_valid(self, error: msgspec.ValidationError, body: bytes) -> Rejection:
        """Name the field of a well-formed message that has the wrong type, without quoting the message."""
        text = str(error)
        path = text.rsplit("`$.", 1)[-1].rstrip("`") if "`$." in text else "body"
        if path == "id":
            return BAD_ID
        if path == "body":
            return Rejection(Reason.WRONG_TYPE, "body", "a JSON object")
        if path == "where":
            return Rejection(Reason.WRONG_TYPE, "where", _OBJECT)
        if path.startswith("by"):
            return Rejection(Reason.WRONG_TYPE, path, f"a list of {self._names}" if path == "by" else self._names)
        if path == "above":
            reason = Reason.NOT_FINITE if "out of range" in text else Reason.WRONG_TYPE
            return Rejection(reason, path, self._threshold_bound)
        wrong = self._wrong_where(body)
        if wrong is None:  # it is of a name that stands there twice, or the body goes on as no JSON
            wrong = Rejection(Reason.WRONG_TYPE, "where", _OBJECT)
        return wrong

    def _wrong_where(self, body: bytes) -> Rejection | None:
        """Return what is wrong with the first thing that is, of `where`."""
        try:
            where = self._raw_decoder.decode(body).where
        except msgspec.DecodeError:
            return None  # there is none
        for name, raw in where.items():
            domain = self._domains.get(name)
            if domain is None:
                return Rejection(Reason.UNKNOWN_FEATURE, f"where.{named(name)}", self._names)
            field = f"where.{name}"
            try:
                given = self._value_decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                if "out of range" in str(exc):
                    return Rejection(Reason.NOT_FINITE, field, "finite float64 numbers")
                return Rejection(Reason.WRONG_TYPE, field, domain.accepts)
            try:
                domain.fill(self._whole.copy(), given)
            except (LookupError, ValueError):
                return domain.wrong(given, field)
        return None

    @property
    def _threshold_bound(self) -> str:
        return _SHARE if self._sparse else "nothing: it is for sparse vectors"

    def _wrong_threshold(self, message: _Question) -> Rejection:
        if message.above is msgspec.UNSET:
            return Rejection(Reason.MISSING_FEATURE, "above", self._threshold_bound)
        reason = Reason.OUTSIDE_DOMAIN if self._sparse else Reason.UNKNOWN_FEATURE
        return Rejection(reason, "above", self._threshold_bound)

    def _wrong_by(self, by: Sequence[str]) -> Rejection | None:
        if not by:
            return Rejection(Reason.OUTSIDE_DOMAIN, "by", f"at least one of {self._names}")
        for index, name in enumerate(by):
            if name not in self._domains:
                return Rejection(Reason.UNKNOWN_FEATURE, f"by[{index}]", self._names)
            if name in by[:index]:
                return Rejection(Reason.OUTSIDE_DOMAIN, f"by[{index}]", "each attribute once")
        return None
