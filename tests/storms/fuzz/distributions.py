"""Questions about a distribution to fuzz the codec with, read by other code than the product's, and their replies."""

import datetime as dt
import json
import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from connectors.base import JSON, Delivery, Reply
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import NAME_LIMIT, Feature
from oracle.planning.model import Limits
from tests.storms.fuzz.ordered import json_value
from tests.storms.fuzz.questions import delivered, drawn_id, is_id, joined
from tests.storms.fuzz.reading import read_value
from tests.storms.fuzz.verdicts import Verdict, asker, expect, read, small
from tests.support.distributions import distribution_plan
from tests.support.tables import code_of

_ODD: Final = (
    "null", "true", '"0.5"', "{}", "[[1]]", "[]", "[null]", "[1,true]", "1e999", "[1e999]", "[1,NaN]", '"\\ud800"',
    "-0.0", "[-0.0,0]", "9" * 400, "[" * 70 + "]" * 70, '["2013-01-01"]', '["a","A320"]', "12.345", "0.1e1",
)  # fmt: skip
_SHARES: Final = ("0", "1", "0.5", "5e-1", "-0.0", "0.25", "0.999999", "1e-300")
_ODD_SHARES: Final = ("1.0000000001", "-1", "-1e-9", "2", "1e999", "null", '"0.5"', "[]", "true", "[0.5,2]")
_NUMBERS: Final = ("0", "-0.0", "3.5", "1e300", "-5e-324", "7", "12.25", "1E2")
_NUMBER: Final = Feature(name="quantile")
_AT: Final = -1.0


@cache
def distribution_plans() -> tuple[DistributionPlan, ...]:
    """Return one of every type, of which dates and strings have small limits."""
    limits = Limits(body_bytes=300, id_bytes=16, rows=5)
    return (
        distribution_plan("number"),
        distribution_plan("date", limits=limits),
        distribution_plan("decimal"),
        distribution_plan("string", limits=limits),
    )


def place(plan: DistributionPlan, rng: random.Random, position: int) -> Delivery:
    """Return the next delivery: about half of them well formed."""
    return delivered(rng, position, lambda: _message(plan, rng))


def _message(plan: DistributionPlan, rng: random.Random) -> str:
    pairs = [drawn_id(rng)]
    name = rng.choice(("at", "at", "quantile"))
    if rng.random() < 0.97:
        items = [_item(plan, name, rng) for _ in range(rng.randint(0, 6))] if rng.random() < 0.3 else []
        pairs.append((name, f"[{','.join(items)}]" if items else _item(plan, name, rng)))
    if rng.random() < 0.1:
        pairs.append((rng.choice(("note", "id", "at", "quantile", "At", "$.id", "\\u0061t", "")), rng.choice(_ODD)))
    return joined(rng, pairs)


def _item(plan: DistributionPlan, name: str, rng: random.Random) -> str:
    if rng.random() < 0.05:
        return rng.choice(_ODD)
    if name == "quantile":
        return rng.choice(_SHARES if rng.random() < 0.9 else _ODD_SHARES)
    feature = plan.features[0]
    return rng.choice(_NUMBERS) if feature.kind == "number" else json_value(rng, feature)


def judge_place(
    plan: DistributionPlan, delivery: Delivery, reply: Reply, features: Sequence[Sequence[float]]
) -> Verdict:
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
        expect(told["id"] is None and told["value"] is None and "quantile" not in told, "a tombstone's answer")
        return Verdict("accepted", 1)
    document = read(body)
    rows = None if document is None else _read_place(plan, document.document)
    if reply.rejected:
        expect(not len(features), "a rejected message has no row")
        _check_rejection(plan, delivery, told)
        if delivery.content_type == JSON and document is not None and not document.doubled:
            expect(rows is None or not small(plan.limits, body), "a question is not rejected")
        return Verdict(told["error"], 0)
    expect(delivery.content_type == JSON, "only JSON is answered")
    assert document is not None or rows is None
    expect(rows is not None, "an accepted message is a question")
    assert rows is not None and document is not None and isinstance(document.document, dict)  # noqa: PT018
    expect([list(row) for row in features] == rows, "its rows")
    expect(len(body) <= plan.limits.body_bytes, "the limit on its size")
    asked = document.document.get("at", document.document.get("quantile"))
    _check_answer(plan, document.document.get("id"), told, rows, several=isinstance(asked, list))
    return Verdict("accepted", len(rows))


def _check_answer(
    plan: DistributionPlan, identifier: object, told: dict[str, Any], rows: list[list[float]], *, several: bool
) -> None:
    expect(type(told["round"]) is int and type(told["paid"]) is int, "an answer's form")
    expect(type(told["id"]) is type(identifier), "the asker's id")
    values = [_outcome(plan, row) for row in rows]
    error = plan.alpha if all(value["verified"] for value in values) else None
    rest = {"model": plan.name, "round": told["round"]}
    if several:
        expected = {"id": identifier, **rest, "error": error, "paid": told["paid"], "values": values}
    else:
        verified = {"verified": values[0].pop("verified")}
        expected = {"id": identifier, **values[0], "error": error, "paid": told["paid"], **verified, **rest}
    expect(told == expected and list(told) == list(expected), "an answer")


def _outcome(plan: DistributionPlan, row: list[float]) -> dict[str, Any]:
    """Return what the made-up predictor says of a row: of a quantile that its value has the row's numbers, all 0."""
    code = code_of(row)
    found = {"value": code / 2**32, "verified": code % 3 > 0}
    return found if row[-1] < 0.0 else {"quantile": _zero(plan.features[0]), **found}


def _zero(feature: Feature) -> object:
    zeros: dict[str, object] = {"string": "", "date": dt.date(1970, 1, 1).isoformat()}
    return zeros.get(feature.kind, 0.0)


def _check_rejection(plan: DistributionPlan, delivery: Delivery, told: dict[str, Any]) -> None:
    """Check a rejection's form, that its words are the plan's, and that it gives nothing back but the id."""
    expect(list(told) == ["id", "error", "field", "bound", "model"] and told["model"] == plan.name, "its form")
    known = re.fullmatch(r"body|id|content type|retain flag|(at|quantile)(\[\d+\])?", told["field"]) is not None
    expect(known or (told["error"] == "unknown-feature" and told["field"].isprintable()), "a rejection's field")
    expect(len(told["field"]) < 12 * NAME_LIMIT, "a short field")  # an escape has ten characters at most
    expect(told["error"] != "internal", "no error of ours")
    expect(len(told["bound"]) < 100, "a short bound")
    expect(told["id"] is None or told["id"] == asker(plan.limits, delivery.body), "the asker's id")


def _read_place(plan: DistributionPlan, document: object) -> list[list[float]] | None:
    """Return the rows of a document, if it is a question."""
    if not isinstance(document, dict) or not is_id(plan, document.get("id")):
        return None
    asked = document.keys() - {"id"}
    if asked not in ({"at"}, {"quantile"}):
        return None
    (name,) = asked
    given = document[name] if isinstance(document[name], list) else [document[name]]
    if not 0 < len(given) <= plan.limits.rows:
        return None
    feature = plan.features[0]
    if name == "at":
        values = [read_value(feature, value) for value in given]
        return None if None in values else [[*(number + 0.0 for number in value or ()), _AT] for value in values]
    shares = [(read_value(_NUMBER, value) or [_AT])[0] for value in given]
    return [[0.0] * feature.width + [share + 0.0] for share in shares] if all(0.0 <= p <= 1.0 for p in shares) else None
