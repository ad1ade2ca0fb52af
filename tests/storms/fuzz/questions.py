"""Questions about a table to fuzz the codec with, read by other code than the product's, and what a reply may be."""

import datetime as dt
import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np

from connectors.base import ARROW_STREAM, JSON, RETAINED, Delivery, Reply
from oracle.planning.attributes import Attribute
from oracle.planning.features import NAME_LIMIT
from oracle.planning.model import Limits
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import SparseVectorPlan, TablePlan
from tests.storms.fuzz.mutate import mutated
from tests.storms.fuzz.verdicts import Verdict, asker, expect, read, small
from tests.support.tables import code_of, sparse_plan, statistics_plan

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_WORDS: Final = 2**63
_ODD: Final = (
    "[]", "{}", "null", "true", "5", '"AA"', "[true]", "[[6,9]]", "[6]", "[6,9,12]", "[9,6]", "[6,6]", "[6,9.5]",
    "[1e999,2]", "[NaN,1]", '["6","9"]', '["2013-01-01","2013-01-06"]', '["2013-01-01","2013-02-30"]', "[null]",
    '["AA","nobody"]', '["other"]', '["\\ud800"]', '["A\\u0041",null]', "[" * 70 + "]" * 70, '["AA",5]', "[-0.0,24]",
    "[0.30000000000000004,0.7]", "[0.1,0.7]", "[0,1e-9]", '{"from":6}', "[24,null]", "[" + "9" * 400 + ",1]",
)  # fmt: skip
_IDS: Final = ('"q1"', '"é\\n\\u00e9"', "17", "null", "9223372036854775807")
_ODD_IDS: Final = ("9223372036854775808", "1.5", "true", '"' + "i" * 300 + '"', '"\\ud800"', "[1]")
_THRESHOLDS: Final = ("0", "0.05", "1", "-0.0", "5e-1", "1.0000000001", "-1e-9", "2", "1e999", "null", '"0.5"', "[]")


@cache
def question_plans() -> tuple[TablePlan, ...]:
    """Return statistics and a sparse vector of usual attributes, and both with odd names and small limits."""
    odd = (
        Attribute(name="x.a`$.", categories=("", "null", "other", "b\n")),
        Attribute(name="Größe", bounds=(-0.1, 0.8), bins=9),
    )
    small_limits = Limits(body_bytes=300, id_bytes=16, rows=12)
    return (
        statistics_plan(),
        sparse_plan(odd, limits=small_limits),
        statistics_plan(odd, limits=small_limits),
        sparse_plan(),
    )


def question(plan: TablePlan, rng: random.Random, position: int) -> Delivery:
    """Return the next delivery: about half of them well formed."""
    return delivered(rng, position, lambda: _message(plan, rng))


def delivered(rng: random.Random, position: int, message: Callable[[], str]) -> Delivery:
    """Return a delivery of a message, or of what has become of one, or of none."""
    if rng.random() < 0.03:
        return Delivery(position, None, rng.choice((JSON, "text/plain")))
    body = message().encode(errors="replace")
    if rng.random() < 0.4:
        body = mutated(rng, body, [message().encode(errors="replace")])
    content = rng.choice((ARROW_STREAM, "text/plain", "", RETAINED)) if rng.random() < 0.02 else JSON
    return Delivery(position, body, content)


def _message(plan: TablePlan, rng: random.Random) -> str:
    pairs = [drawn_id(rng)]
    if rng.random() < 0.9:
        pairs.append(("where", _where(plan, rng)))
    names = [attribute.name for attribute in plan.attributes]
    if rng.random() < 0.2:
        by = rng.sample([*names, *names, "nobody"] if rng.random() < 0.2 else names, rng.choice((0, 1, 1, 1, 2)))
        pairs.append(("by", json.dumps(by)))
    if rng.random() < (0.9 if isinstance(plan, SparseVectorPlan) else 0.05):
        pairs.append(("above", rng.choice(_THRESHOLDS[:5] if rng.random() < 0.8 else _THRESHOLDS)))
    if rng.random() < 0.1:
        pairs.append((rng.choice(("note", "id", "where", "by", "above", "Where")), rng.choice(_ODD)))
    return joined(rng, pairs)


def drawn_id(rng: random.Random) -> tuple[str, str]:
    """Return the name of a message's id and its value, which may be none that a message may have."""
    return "id", rng.choice(_IDS if rng.random() < 0.9 else _ODD_IDS)


def joined(rng: random.Random, pairs: list[tuple[str, str]]) -> str:
    """Return a JSON object of names and values, in any order."""
    if rng.random() < 0.1:
        rng.shuffle(pairs)
    return "{" + rng.choice((",", ", ", " ,\n")).join(f'"{key}":{value}' for key, value in pairs) + "}"


def _where(plan: TablePlan, rng: random.Random) -> str:
    pairs = [
        (json.dumps(attribute.name, ensure_ascii=rng.random() < 0.3), _asked(attribute, rng))
        for attribute in rng.sample(plan.attributes, rng.randint(0, len(plan.attributes)))
    ]
    if pairs and rng.random() < 0.05:
        pairs.append((rng.choice(('"nobody"', '""', pairs[0][0])), rng.choice(_ODD)))
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"


def _asked(attribute: Attribute, rng: random.Random) -> str:
    if rng.random() < 0.08:
        return rng.choice(_ODD)
    if attribute.edges:
        if rng.random() < 0.1:
            return "null"
        first, last = sorted(rng.sample(range(len(attribute.edges)), 2))
        edges: list[Any] = [_edge(attribute, place) for place in (first, last)]
        if attribute.kind != "date":
            edges = [float(edge) for edge in edges]
        return json.dumps(edges)
    labels = [rng.choice(attribute.labels) for _ in range(rng.randint(1, 3))]
    return json.dumps(labels if rng.random() < 0.9 else labels[0], ensure_ascii=rng.random() < 0.5)


def judge_question(plan: TablePlan, delivery: Delivery, reply: Reply, features: Sequence[Sequence[float]]) -> Verdict:
    """Check one reply against its message.

    Args:
        plan: Says what a question is.
        delivery: The message.
        reply: Its one reply.
        features: The rows that the codec took from it.

    Raises:
        BrokenPromiseError: The reply is not one that this message may get.
    """
    body = delivery.body
    told = json.loads(reply.body)
    expect(reply.content_type == JSON, "a reply is JSON")
    if body is None:
        outcome = "above" if isinstance(plan, SparseVectorPlan) else "value"
        expect(told["id"] is None and outcome in told and told[outcome] is None, "a tombstone's answer")
        return Verdict("accepted", 1)
    document = read(body)
    found = None if document is None else read_question(plan, document.document)
    if reply.rejected:
        expect(not len(features), "a rejected message has no row")
        _check_rejection(plan, delivery, told)
        if delivery.content_type == JSON and document is not None and not document.doubled:
            expect(found is None or not small(plan.limits, body), "a question is not rejected")
        return Verdict(told["error"], 0)
    expect(delivery.content_type == JSON, "only JSON is answered")
    expect(found is not None, "an accepted message is a question")
    assert found is not None
    identifier, cells, rows = found
    expect(told["id"] == identifier and type(told["id"]) is type(identifier), "the asker's id")
    expect([list(row) for row in features] == rows, "its rows")
    expect(len(body) <= plan.limits.body_bytes, "the limit on its size")
    _check_answer(plan, told, cells, rows)
    return Verdict("accepted", len(rows))


def _check_answer(
    plan: TablePlan, told: dict[str, Any], cells: list[dict[str, object]] | None, rows: list[list[float]]
) -> None:
    expect(told["model"] == plan.name and type(told["round"]) is int and type(told["paid"]) is int, "an answer's form")
    if cells is None:
        expected = {"id": told["id"], **_alone(plan, rows[0], told["round"]), "paid": told["paid"]}
        rest = {"model": plan.name, "round": told["round"]}
        if "verified" in expected:
            rest["verified"] = expected.pop("verified")
        expect(told == expected | rest, "an answer")
        return
    values = [cell | _outcome(plan, row) for cell, row in zip(cells, rows, strict=True)]
    whole = told["round"] + len(rows) <= plan.questions
    promised = whole if isinstance(plan, SparseVectorPlan) else all(value["verified"] for value in values)
    error = plan.alpha if promised else None
    top = {"id": told["id"], "model": plan.name, "round": told["round"], "error": error, "paid": told["paid"]}
    expect(told == {**top, "values": values} and list(told) == [*top, "values"], "a breakdown's answer")


def _alone(plan: TablePlan, row: Sequence[float], number: int) -> dict[str, object]:
    """Return what it says of the row of a message with one question: with the error of a value, if it is promised."""
    found = _outcome(plan, row)
    if "value" not in found:
        return found
    promised = number < plan.questions if isinstance(plan, SparseVectorPlan) else found["verified"]
    return {**found, "error": plan.alpha if promised else None}


def _outcome(plan: TablePlan, row: Sequence[float]) -> dict[str, object]:
    """Return what the made-up predictor says of a row."""
    code = code_of(row)
    if not isinstance(plan, SparseVectorPlan):
        return {"value": code / 2**32, "verified": code % 3 > 0}
    if code % 5 == 0:
        return {"error": "budget-spent"}
    above: dict[str, object] = {"above": code % 2 == 1}
    return {**above, "value": code / 2**32} if code % 4 == 1 else above


def _check_rejection(plan: TablePlan, delivery: Delivery, told: dict[str, Any]) -> None:
    """Check a rejection's form, that its words are the plan's, and that it gives nothing back but the id."""
    expect(list(told) == ["id", "error", "field", "bound", "model"] and told["model"] == plan.name, "its form")
    names = "|".join(re.escape(attribute.name) for attribute in plan.attributes)
    field = rf"body|id|by|above|where|by\[(\d+|\.\.\.)\]|content type|retain flag|where\.({names})(\[\d+\])?"
    unknown = told["error"] == "unknown-feature" and told["field"].startswith("where.")
    known = re.fullmatch(field, told["field"]) is not None
    expect(known or (unknown and told["field"].isprintable()), f"a rejection's field: {told['field']}")
    expect(len(told["field"]) < 12 * NAME_LIMIT, "a short field")  # an escape has ten characters at most
    expect(told["error"] != "internal", "no error of ours")
    expect(len(told["bound"]) < 600, "a short bound")
    expect(told["id"] is None or told["id"] == asker(plan.limits, delivery.body), "the asker's id")


def read_question(
    plan: TablePlan, document: object
) -> tuple[object, list[dict[str, object]] | None, list[list[float]]] | None:
    """Return a document's id, the cells that it is broken down by, and its rows, if it is a question."""
    if not isinstance(document, dict) or not is_id(plan, document.get("id")):
        return None
    cells, threshold = _asked_cells(plan, document), _threshold(plan, document)
    if cells is None or threshold is None:
        return None
    if "by" not in document:
        return document.get("id"), None, [_row(plan, cells, threshold)]
    asked = _asked_by(plan, document["by"], cells)
    if asked is None:
        return None
    places, chosen = asked
    rows = []
    for some in chosen:
        narrowed = list(cells)
        for place, cell in zip(places, some, strict=True):
            narrowed[place] = {cell}
        rows.append(_row(plan, narrowed, threshold))
    attributes = [plan.attributes[place] for place in places]
    labels = [
        {attribute.name: _label(attribute, cell) for attribute, cell in zip(attributes, some, strict=True)}
        for some in chosen
    ]
    return document.get("id"), labels, rows


def _asked_cells(plan: TablePlan, document: dict[str, object]) -> list[set[int]] | None:
    """Return the cells of each attribute that `where` allows, or None where it is no question."""
    where = document.get("where", {})
    names = {attribute.name for attribute in plan.attributes}
    if not isinstance(where, dict) or not document.keys() & {"by", "where"} or not set(where) <= names:
        return None
    cells = [
        _cells(attribute, where[attribute.name]) if attribute.name in where else set(range(attribute.cells))
        for attribute in plan.attributes
    ]
    return cells if all(cells) else None


def _asked_by(plan: TablePlan, by: object, cells: Sequence[set[int]]) -> tuple[list[int], list[tuple[int, ...]]] | None:
    """Return the numbers of the attributes of `by`, and all combinations of their cells; None for no question."""
    names = [attribute.name for attribute in plan.attributes]
    if not isinstance(by, list) or not by or any(name not in names for name in by) or len(set(by)) < len(by):
        return None
    places = [names.index(name) for name in by]
    chosen = list(itertools.product(*(sorted(cells[place]) for place in places)))
    return None if len(chosen) > plan.limits.rows else (places, chosen)


def is_id(plan: Plan, identifier: object) -> bool:
    """Return whether a message may have such an id."""
    if type(identifier) is int:
        return -_WORDS <= identifier < _WORDS
    if isinstance(identifier, str):
        return len(identifier.encode(errors="surrogatepass")) <= plan.limits.id_bytes
    return identifier is None


def _threshold(plan: TablePlan, document: dict[str, object]) -> list[float] | None:
    """Return what a row has behind its cells, or None where the threshold makes it no question."""
    if not isinstance(plan, SparseVectorPlan):
        return None if "above" in document else []
    above = document.get("above")
    if isinstance(above, bool) or not isinstance(above, int | float) or not 0 <= above <= 1:
        return None
    return [abs(float(above))]


def _row(plan: TablePlan, cells: Sequence[set[int]], threshold: list[float]) -> list[float]:
    masks = []
    for attribute, some in zip(plan.attributes, cells, strict=True):
        mask = np.zeros(attribute.cells, dtype=np.bool_)
        mask[list(some)] = True
        masks.append(mask)
    return [*plan.layout.row(masks).tolist(), *threshold]


def _cells(attribute: Attribute, given: object) -> set[int]:
    """Return the cells that are asked for, or none where it is no question."""
    if not attribute.edges:
        labels = given if isinstance(given, list) else [given]
        places = [attribute.labels.index(one) if one is None or isinstance(one, str) else -1 for one in labels
                  if not isinstance(one, str) or one in attribute.labels]  # fmt: skip
        return set(places) if len(places) == len(labels) and -1 not in places else set()
    if given is None:
        return {attribute.missing}
    if not isinstance(given, list) or len(given) != 2:
        return set()
    first, last = (_place(attribute, edge) for edge in given)
    return set() if first is None or last is None else set(range(first, last))


def _place(attribute: Attribute, given: object) -> int | None:
    edges = [_edge(attribute, place) for place in range(attribute.declared + 1)]
    if attribute.kind == "date":
        return edges.index(given) if given in edges else None
    if isinstance(given, bool) or not isinstance(given, int | float) or abs(given) > 1e300:
        return None
    step = (Fraction(attribute.edges[-1]) - Fraction(attribute.edges[0])) / attribute.declared
    near = [place for place, edge in enumerate(edges) if abs(Fraction(given) - edge) < step / 10**8]
    return near[0] if near else None


def _edge(attribute: Attribute, place: int) -> Any:
    """Return an edge: of a date as its text, of numbers as the fraction that was meant."""
    assert isinstance(attribute.bounds, tuple)
    low, high = (Fraction(str(bound)) for bound in attribute.bounds)
    edge = low + (high - low) * place / attribute.declared
    return dt.date.fromordinal(_EPOCH + int(edge)).isoformat() if attribute.kind == "date" else edge


def _label(attribute: Attribute, cell: int) -> object:
    if not attribute.edges:
        return attribute.labels[cell]
    ends = [_edge(attribute, cell), _edge(attribute, cell + 1)]
    if cell == attribute.missing:
        return None
    return ends if attribute.kind == "date" else [float(end) for end in ends]
