"""JSON Schemas of messages: what the codecs accept is valid, and so is every reply; what is plainly none is refused."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from oracle.codec.json.distributions import DistributionReader
from oracle.codec.json.messages import JsonCodec
from oracle.codec.json.questions import QuestionReader
from oracle.codec.json.schemas import answer_schema, query_schema
from oracle.codec.rejections import Rejection
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.planning.kinds import KINDS
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from tests.predictors.examples import example
from tests.predictors.plans import tiny_ensemble_plan, tiny_plan
from tests.support.distributions import distribution_plan
from tests.support.shards import bodies, deliveries_of, new_shard, process
from tests.support.tables import sparse_plan, statistics_plan

_TYPED = (
    Feature(name="n"),
    Feature(name="s", type="string", max_bytes=5),
    Feature(name="d", type="date"),
    Feature(name="f", type="decimal", places=2),
)
_CATEGORIES = (Feature(name="c", categories=("u", "v")), Feature(name="n"))


@cache
def _plan(name: str) -> Plan:
    made: dict[str, Callable[[], Plan]] = {
        "typed": lambda: tiny_plan(_TYPED),
        "categories": lambda: tiny_ensemble_plan(_CATEGORIES),
        "table": statistics_plan,
        "thresholds": sparse_plan,
        "days": lambda: distribution_plan("date"),
        "numbers": lambda: distribution_plan("number"),
    }
    return made[name]()


def _accepts(plan: Plan, body: bytes) -> bool:
    """Return whether the codec takes a body for a query."""
    if isinstance(plan, TablePlan):
        return not isinstance(QuestionReader(plan).decode(body), Rejection)
    if isinstance(plan, DistributionPlan):
        return not isinstance(DistributionReader(plan).decode(body), Rejection)
    return not isinstance(JsonCodec(plan).decode(body), Rejection)


@cache
def _query(name: str) -> Draft202012Validator:
    schema = msgspec.json.decode(msgspec.json.encode(query_schema(_plan(name))))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _names(name: str) -> list[str]:
    plan = _plan(name)
    return [one.name for one in (plan.attributes if isinstance(plan, TablePlan) else plan.features)]


_QUERIES: Mapping[str, Sequence[Any]] = {
    "typed": (
        {"id": 1, "x": [1.0, "abc", "2013-01-01", 1.25]},
        {"x": {"n": 1, "s": "", "d": "0001-01-01", "f": "1.25"}, "more": [1]},
        {"id": None, "n": 1, "s": "a", "d": "2013-01-01", "f": "1e2"},
    ),
    "categories": ({"x": ["w", None]}, {"c": None, "n": 2.5}, {"id": "1", "x": {"c": "u", "n": 0}}),
    "table": (
        {"where": {"carrier": "AA", "hour": [0, 12]}},
        {"id": "q", "by": ["carrier"], "where": {}},
        {"where": {"carrier": ["AA", None], "day": None}},
    ),
    "thresholds": ({"where": {}, "above": 1}, {"by": ["carrier"], "above": 0.5, "where": {"carrier": ["AA", "other"]}}),
    "days": ({"at": ["2013-01-01", "2014-01-01"]}, {"id": 7, "at": "2013-01-01"}, {"quantile": [0.5, 1]}),
    "numbers": ({"id": "1", "quantile": 0.5}, {"at": [1.5, 2]}, {"at": -3}),
}
"""Of each plan, queries of each form."""

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(2**63 - 2, 2**63 + 2),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 12.34, 1e13]),
    st.sampled_from(
        ["u", "v", "x", "other", "", "ab", "éé", "aééé", "2013-01-01", "2013-02-30", "1.25", "-0", "1e2", "1.250"]
    ),
)
_VALUES = st.one_of(_SCALARS, st.lists(_SCALARS, max_size=4))


@st.composite
def _messages(draw: st.DrawFn, name: str) -> Any:
    """Return messages of a plan with up to two of their parts exchanged, taken out or added."""
    message = json.loads(json.dumps(draw(st.sampled_from(_QUERIES[name]))))
    for _ in range(draw(st.integers(0, 2))):
        parts = list(_parts(message))
        part = parts[draw(st.integers(0, len(parts) - 1))]
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        how = draw(st.sampled_from(["change", "change", "change", "remove", "add"]))
        if how == "add" or not keys:
            _add(part, draw(st.sampled_from([*_names(name), *_FIELDS])), draw(_VALUES))
        elif how == "remove":
            del part[draw(st.sampled_from(keys))]
        else:
            part[draw(st.sampled_from(keys))] = draw(_VALUES)
    return message


def _parts(message: Any) -> Iterator[Any]:
    """Yield the objects and lists of a message, itself first."""
    yield message
    for one in message.values() if isinstance(message, dict) else message:
        if isinstance(one, dict | list):
            yield from _parts(one)


def _add(part: Any, name: str, value: object) -> None:
    if isinstance(part, dict):
        part[name] = value
    else:
        part.append(value)


_FIELDS = ("id", "x", "where", "by", "above", "at", "quantile", "else")
_PLANS = tuple(_QUERIES)


@pytest.mark.parametrize("name", _PLANS)
@given(data=st.data())
@settings(max_examples=150)
def test_what_the_codec_accepts_is_valid(name: str, data: st.DataObject) -> None:
    """A schema refuses no query, whatever its form."""
    message = data.draw(_messages(name))
    if _accepts(_plan(name), json.dumps(message).encode()):
        _query(name).validate(message)


@pytest.mark.parametrize("name", _PLANS)
def test_queries_of_each_form_are_valid(name: str) -> None:
    """The test above has something to look at: these are accepted, and valid."""
    for message in _QUERIES[name]:
        assert _accepts(_plan(name), json.dumps(message).encode()), message
        _query(name).validate(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("typed", {"x": [1.0, "abc", "2013-01-01"]}),
        ("typed", {"x": [1.0, "abc", "20130101", 1.25]}),
        ("typed", {"x": [1.0, "abcdef", "2013-01-01", 1.25]}),
        ("typed", {"x": [1.0, "abc", "2013-01-01", 1e13]}),
        ("typed", {"x": {"n": 1, "s": "", "d": "0001-01-01"}}),
        ("typed", {"x": {"n": 1, "s": "", "d": "0001-01-01", "f": 1, "g": 1}}),
        ("typed", {"n": 1, "s": "a", "d": "2013-01-01"}),
        ("typed", {"id": [1], "x": [1.0, "abc", "2013-01-01", 1.25]}),
        ("typed", {"id": 2**63, "x": [1.0, "abc", "2013-01-01", 1.25]}),
        ("typed", {"x": [None, "abc", "2013-01-01", 1.25]}),
        ("categories", {"x": [1.0, None]}),
        ("table", {}),
        ("table", {"where": {"else": None}}),
        ("table", {"where": {}, "above": 0.5}),
        ("table", {"by": []}),
        ("thresholds", {"where": {}}),
        ("thresholds", {"where": {}, "above": 1.5}),
        ("days", {"at": "1 January"}),
        ("days", {"at": "2013-01-01", "quantile": 0.5}),
        ("numbers", {"at": []}),
        ("numbers", {"quantile": 1.5}),
        ("numbers", {"at": 1.0, "more": 1}),
    ],
)
def test_what_is_plainly_none_is_refused(name: str, message: dict[str, Any]) -> None:
    """By the schema as by the codec."""
    assert not _accepts(_plan(name), json.dumps(message).encode())
    assert not _query(name).is_valid(message)


@pytest.mark.parametrize("predictor", KINDS)
def test_every_reply_is_valid(predictor: str) -> None:
    """Answers of each predictor, and what is said of messages that are no queries; but no reply without its round."""
    plan = example(predictor)
    schema = msgspec.json.decode(msgspec.json.encode(answer_schema(plan)))
    Draft202012Validator.check_schema(schema)
    asked = [*bodies(40, plan=plan), b"{", b"[]", b'{"id": "no", "x": []}']
    replies = [json.loads(body) for body in process(new_shard(plan), deliveries_of(asked)).commit.replies.bodies]
    assert len(replies) == len(asked)
    for reply in replies:
        Draft202012Validator(schema).validate(reply)
    first = {name: value for name, value in replies[0].items() if name != "round"}
    assert not Draft202012Validator(schema).is_valid(first)
