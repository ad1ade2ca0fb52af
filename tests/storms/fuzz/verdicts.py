"""What a message is, read by other code than the product's, and what its reply may therefore be."""

import io
import json
import math
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from connectors.base import ARROW_STREAM, JSON, Delivery, Reply
from oracle.codec.arrow.columns import COLUMNS
from oracle.codec.rejections import Reason
from oracle.planning.model import Limits
from oracle.planning.plan import Plan
from tests.storms.fuzz.reading import Written, column_values, read_value

_ANSWER = re.compile(rb'\{"id":.*,"label":(0   |1   |null),"model":"[^"]*","round":\d+,"phase":\d+\}', re.DOTALL)
_REASONS = frozenset(str(reason) for reason in Reason)
_WORDS = 2**63


class BrokenPromiseError(Exception):
    """The product did with a message what it must not do."""


class Verdict(NamedTuple):
    """What became of one message.

    Attributes:
        outcome: "accepted", or the reason of its rejection.
        rounds: Rounds that it took, by its reply.
    """

    outcome: str
    rounds: int


class Read(NamedTuple):
    """A body that is JSON; `doubled` where some object has a name twice."""

    document: object
    doubled: bool


def judge(plan: Plan, delivery: Delivery, reply: Reply, features: Sequence[Sequence[float]]) -> Verdict:
    """Check one reply against its message.

    Args:
        plan: Says what a query is.
        delivery: The message.
        reply: Its one reply.
        features: The rows that the codec took from it.

    Raises:
        BrokenPromiseError: The reply is not one that this message may get.
    """
    body = delivery.body
    if body is None:
        expect(not reply.rejected and b'"id":null,"label":null' in reply.body, "a tombstone's answer")
        return Verdict("accepted", 1)
    if reply.rejected:
        expect(not len(features), "a rejected message has no row")
        return Verdict(_rejection(plan, delivery, reply), 0)
    if delivery.content_type == ARROW_STREAM:
        return Verdict("accepted", _arrow_answer(plan, body, reply, features))
    expect(delivery.content_type == JSON and len(features) == 1, "one row of a JSON message")
    expect(_ANSWER.fullmatch(reply.body) is not None, "an answer's form")
    message = read(body)
    expect(message is not None, "an accepted message is JSON")
    assert message is not None
    expected = _query(plan, message.document)
    expect(expected is not None, "an accepted message is a query")
    assert expected is not None
    answer = json.loads(reply.body)
    expect(answer["id"] == expected[0] and type(answer["id"]) is type(expected[0]), "the asker's id")
    expect(_exactly(expected[1]) == _exactly(features[0]), "its features")
    expect(len(body) <= plan.limits.body_bytes, "the limit on its size")
    return Verdict("accepted", 1)


def _rejection(plan: Plan, delivery: Delivery, reply: Reply) -> str:
    """Check a rejection: its form, its words, and that it gives nothing of the message back but the id."""
    told = json.loads(reply.body)
    expect(
        list(told) == ["id", "error", "field", "bound", "model"] and told["model"] == plan.name, "a rejection's form"
    )
    expect(reply.content_type == JSON and told["error"] in _REASONS, "a rejection's reason")
    names = [feature.name for feature in plan.features]
    fields = {"body", "id", "x", "content type", "x[...]", *names, *(f"x.{name}" for name in names)}
    known = told["field"] in fields or re.fullmatch(r"x\[\d+\]", told["field"])
    expect(bool(known), f"a rejection's field: {told['field']}")
    ids_bound = re.fullmatch(r"at most \d+ bytes of all ids together", told["bound"])
    expect(told["bound"] in _bounds(plan) or bool(ids_bound), f"a rejection's bound: {told['bound']}")
    expect(told["id"] is None or told["id"] == asker(plan.limits, delivery.body), "the asker's id")
    message = None if delivery.body is None else read(delivery.body)
    plain = message is not None and delivery.content_type == JSON and not message.doubled
    if message is not None and plain and small(plan.limits, delivery.body):
        expect(_query(plan, message.document) is None, "a query is not rejected")
    return str(told["error"])


def asker(limits: Limits, body: bytes | None) -> object:
    """Return the id that a rejected message is known by; it is read where bytes elsewhere are bad."""
    lenient = read((body or b"").decode(errors="replace").encode())
    given = lenient.document.get("id") if lenient is not None and isinstance(lenient.document, dict) else None
    return given if len(str(given).encode(errors="replace")) <= limits.id_bytes else None


def small(limits: Limits, body: bytes | None) -> bool:
    """Return whether size and nesting are within the limits, and no escape could be a lone surrogate."""
    assert body is not None
    within = len(body) <= limits.body_bytes and body.count(b"[") + body.count(b"{") <= 64
    return within and b"\\ud" not in body.lower()


def _bounds(plan: Plan) -> set[str]:
    limits, null = plan.limits, ", or null" if plan.takes_missing else ""
    return {
        f"at most {limits.body_bytes} bytes",
        f"at most {limits.batch_bytes} bytes",
        f"at most {limits.rows} rows",
        f"at most {limits.id_bytes} bytes of UTF-8",
        "one JSON object, nested at most 64 deep",
        "one JSON object",
        "a JSON object",
        "a string, or an integer of 64 bits",
        f"{len(plan.features)} {_values_called(plan)}{'' if len(plan.features) == 1 else 's'}",
        "the model's features only",
        *(f"{feature.accepts}{null}" for feature in plan.features),
        *(f"{feature.accepts}{null}, at the top level or in x" for feature in plan.features),
        "a finite float64 above -1.7976931348623157e+308, which stands for null" if null else "UTF-8",
        *(COLUMNS[feature.kind] for feature in plan.features),
        "a finite float64",
        "finite float64 numbers",
        "numbers, as array or object",
        "UTF-8",
        "JSON, which has no NaN and no Infinity",
        "one Arrow IPC stream",
        f"at most {limits.batch_bytes} bytes, unpacked",
        "buffers that are uncompressed, LZ4 frames or of zstd",
        "columns without extension types",
        "dictionaries and views of columns of their own, with no columns within",
        "a dictionary of its own for each column",
        "at most 524288 columns in all batches together",
        "a schema of at most 4194304 bytes",
        "Arrow messages without metadata of their own",
        "at most 4096 columns, with those in others",
        "a column of strings or signed integers",
        f"{JSON} or {ARROW_STREAM}",
    }


def _values_called(plan: Plan) -> str:
    numbers = all(feature.kind == "number" for feature in plan.features)
    return "number" if numbers and not plan.takes_missing else "value"


def _arrow_answer(plan: Plan, body: bytes, reply: Reply, features: Sequence[Sequence[float]]) -> int:
    rows = len(features)
    expect(reply.content_type == ARROW_STREAM, "an Arrow message's answer")
    with pa.ipc.open_stream(io.BytesIO(body)) as reader:
        asked = reader.read_all()
    with pa.ipc.open_stream(io.BytesIO(reply.body)) as reader:
        table = reader.read_all()
    names = ["label", "round", "phase", "error"]
    expect(table.column_names == (["id", *names] if "id" in asked.column_names else names), "the answer's columns")
    expect(table.num_rows == asked.num_rows, "one answer for each row")
    rounds = [number for number in table["round"].to_pylist() if number >= 0]
    expect(len(rounds) == rows and rounds == list(range(rounds[0], rounds[0] + rows) if rounds else []), "rounds")
    errors = table["error"].to_pylist()
    expect(table["error"].null_count == rows, "a rejected row takes no round")
    expect(set(table["label"].to_pylist()) <= {-1, 0, 1}, "labels")
    outcomes = _arrow_rows(plan, asked)
    expect(errors == [outcome if isinstance(outcome, str) else None for outcome in outcomes], "a row's reason")
    taken = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    expect([_exactly(row) for row in taken] == [_exactly(row) for row in features], "a row's features")
    return rows


def _arrow_rows(plan: Plan, table: pa.Table) -> list[list[float] | str]:
    """Return of each row its numbers, or the reason of its rejection."""
    outcomes: list[list[float] | str] = []
    columns = [column_values(feature, table[feature.name].combine_chunks()) for feature in plan.features]
    for row in zip(*columns, strict=True):
        values: Sequence[list[float] | None] = row
        if all(value is None for value in values):
            outcomes.append([0.0] * plan.width)
            continue
        if plan.takes_missing:
            values = _without_nulls(plan, row)
        if None in values:
            outcomes.append("missing-feature")
        elif [] in [value for value, feature in zip(values, plan.features, strict=True) if feature.kind == "number"]:
            outcomes.append("not-finite")
        else:
            outcomes.append("wrong-type" if [] in values else [number for value in values for number in value or ()])
    return outcomes


def _without_nulls(plan: Plan, row: Sequence[list[float] | None]) -> list[list[float]]:
    """Return the numbers of a row where null is a value that is missing, [] where there is none."""
    least = [-sys.float_info.max]
    pairs = zip(row, plan.features, strict=True)
    return [
        least if value is None else [] if value == least and feature.kind == "number" else value
        for value, feature in pairs
    ]


def _exactly(numbers: Sequence[float]) -> list[str]:
    """Return numbers in such a way that 0.0 and -0.0 differ."""
    return [float(number).hex() for number in numbers]


def read(body: bytes) -> Read | None:
    """Read a message by Python's own parser, strictly; None where it is no JSON."""
    doubled = False

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal doubled
        doubled |= len({key for key, _ in items}) < len(items)
        return dict(items)

    try:
        return Read(
            json.loads(
                body.decode(),
                parse_constant=_refuse,
                parse_float=Written,
                parse_int=_integer,
                object_pairs_hook=pairs,
            ),
            doubled,
        )
    except (ValueError, RecursionError):
        return None


def _refuse(text: str) -> object:
    raise ValueError(text)


def _integer(text: str) -> int | float:
    return int(text) if len(text) < 4300 else math.inf


def _query(plan: Plan, document: object) -> tuple[object, list[float]] | None:
    """Return a document's id and features, if it is a query."""
    names = [feature.name for feature in plan.features]
    if not isinstance(document, dict):
        return None
    identifier = document.get("id")
    if not (identifier is None or isinstance(identifier, str) or type(identifier) is int):
        return None
    if type(identifier) is int and not -_WORDS <= identifier < _WORDS:
        return None
    if isinstance(identifier, str) and len(identifier.encode(errors="surrogatepass")) > plan.limits.id_bytes:
        return None
    beside = {name: document[name] for name in names if name in document}
    vector = document.get("x", beside)
    if isinstance(vector, dict) and vector.keys() == set(names):
        vector = [vector[name] for name in names]
    if not isinstance(vector, list) or len(vector) != len(names):
        return None
    kinds = {feature.name: feature for feature in plan.features}
    missing = plan.takes_missing
    numbers = [
        read_value(feature, value, missing=missing) for feature, value in zip(plan.features, vector, strict=True)
    ]
    others = [read_value(kinds[name], value, missing=missing) for name, value in beside.items()]
    flat = [number for value in numbers for number in value or ()]
    return None if None in numbers or None in others else (identifier, flat)


def expect(holds: bool, what: str) -> None:  # noqa: FBT001 -- the condition
    """Raise `BrokenPromiseError` if something does not hold."""
    if not holds:
        raise BrokenPromiseError(what)
