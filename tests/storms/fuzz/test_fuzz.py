"""A quick cut of `python -m tests.storms.fuzz`, and code broken on purpose, which it must find."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import Deliveries, Delivery, Replies
from oracle.codec.arrow import columns
from oracle.codec.arrow import messages as arrow_messages
from oracle.codec.arrow.messages import ArrowCodec
from oracle.codec.batches import BatchCodec
from oracle.codec.categories import category_numbers, other_category
from oracle.codec.json import distributions, domains, quantiles, questions
from oracle.codec.json import messages as json_messages
from oracle.codec.json import values as json_values
from oracle.codec.json.distributions import DistributionReader
from oracle.codec.json.messages import JsonCodec
from oracle.codec.json.mixed import read_mixed
from oracle.codec.json.questions import QuestionReader
from oracle.codec.json.shares import ShareWriter
from oracle.codec.rejections import Reason, Rejection
from oracle.mechanisms.orders import text_digits
from oracle.mechanisms.scalars import day_of, decimal_of
from tests.storms.fuzz import readers
from tests.storms.fuzz.arrow import fuzz_arrow
from tests.storms.fuzz.codecs import fuzz_codecs, fuzz_distributions, fuzz_missing, fuzz_questions
from tests.storms.fuzz.verdicts import BrokenPromiseError, judge
from tests.support.shards import new_shard, process, small_plan

_NUMBERS = st.one_of(st.floats(), st.integers(), st.integers(-(10**400), 10**400), st.booleans(), st.none())
_VALUES = st.recursive(
    _NUMBERS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x", "id", ""]), inner),
    max_leaves=6,
)
_DOCUMENTS = st.one_of(
    st.fixed_dictionaries({}, optional={"id": _VALUES, "x": _VALUES, "a": _VALUES, "b": _VALUES, "note": _VALUES}),
    st.fixed_dictionaries({"x": st.lists(_NUMBERS, min_size=2, max_size=2)}, optional={"id": _VALUES}),
    st.fixed_dictionaries({"a": _NUMBERS, "b": _NUMBERS}, optional={"id": _VALUES}),
    _VALUES,
)


@pytest.mark.parametrize("run", range(8))
def test_codecs(run):
    """Of 16,000 changed messages each gets one right reply, and the rejected ones leave no trace."""
    counts: Counter[tuple[str, str]] = Counter()
    fuzz_codecs(5, run, counts, 2_000)
    assert sum(counts.values()) == 2_000
    assert counts["JSON", "accepted"] > 300
    assert counts["Arrow", "accepted"] > 25


@pytest.mark.parametrize("run", range(8))
def test_categories_and_missing_values(run):
    """Of 8,000 changed messages of ensembles each gets one right reply, alone as in a batch."""
    counts: Counter[tuple[str, str]] = Counter()
    fuzz_missing(5, run, counts)
    assert sum(counts.values()) == 1_000
    assert counts["JSON", "accepted"] > 150
    assert counts["Arrow", "accepted"] > 10


@pytest.mark.parametrize("run", range(8))
def test_questions(run):
    """Of 16,000 changed questions about a table each gets one right reply, and the rejected ones leave no trace."""
    counts: Counter[tuple[str, str]] = Counter()
    fuzz_questions(5, run, counts, 2_000)
    assert sum(counts.values()) == 2_000
    assert counts["question", "accepted"] > 500
    assert min(counts["question", reason] for reason in ("outside-domain", "wrong-type", "malformed")) > 10


@pytest.mark.parametrize("run", range(4))
def test_distributions(run):
    """Of 8,000 changed questions about a distribution each gets one right reply, and the rejected leave no trace."""
    counts: Counter[tuple[str, str]] = Counter()
    fuzz_distributions(5, run, counts, 2_000)
    assert sum(counts.values()) == 2_000
    assert counts["place", "accepted"] > 500
    assert min(counts["place", reason] for reason in ("unknown-feature", "wrong-type", "malformed")) > 10


@pytest.mark.parametrize("run", range(3))
def test_arrow(run):
    """Of 3,000 messages with columns of all types each is told what it is told alone."""
    counts: Counter[tuple[str, str]] = Counter()
    fuzz_arrow(5, run, counts)
    assert sum(counts.values()) == 1_000
    assert min(counts["Arrow, all types", outcome] for outcome in ("accepted", "malformed", "wrong-type")) > 10


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(document=_DOCUMENTS)
def test_documents(document):
    """Any JSON document is answered if Python's own parser finds a query in it, and rejected by name if not."""
    delivery = Delivery(1, json.dumps(document).encode())
    shard = new_shard()
    features = shard._codec.decode(Deliveries.of([delivery])).features.tolist()
    outcome = process(shard, [delivery])
    assert judge(small_plan(), delivery, next(outcome.commit.replies.rows()), features).rounds == outcome.rounds


@pytest.mark.parametrize("name", readers.READERS)
def test_readers(tmp_path, name):
    """Of 1,000 changed files none is taken for another, and each error is a documented one."""
    counts: Counter[tuple[str, str]] = Counter()
    readers.fuzz_reader(name, 5, 0, counts, tmp_path)
    assert sum(counts.values()) == 1_000
    assert len(counts) >= 2


def _raises(*_):
    raise KeyError("out of a codec")


_real_decode = JsonCodec.decode


def _takes_anything(self, body):
    result = _real_decode(self, body)
    return (None, [0.0] * len(self._names)) if isinstance(result, Rejection) else result


def _quotes(self, body, rejection):
    told = {"id": None, "error": rejection.reason, "field": "body", "bound": repr(body), "model": self._model.decode()}
    return json.dumps(told).encode()


_real_encode = BatchCodec.encode


def _mixes_up(self, batch, answers):
    replies = _real_encode(self, batch, answers)
    return Replies.of(list(replies.rows())[::-1]) if len(replies) > 100 else replies


def _refuses_often(self, body):
    if len(body) % 7 == 0:
        return Rejection(Reason.MALFORMED, "body", "one JSON object")
    return _real_decode(self, body)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "found"),
    [
        (json_messages, "_not_valid", _raises, "KeyError"),
        (JsonCodec, "decode", _takes_anything, "an accepted message is"),
        (JsonCodec, "encode_rejection", _quotes, "a rejection's"),
        (BatchCodec, "encode", _mixes_up, "cut otherwise"),
        (JsonCodec, "decode", _refuses_often, "a query is not rejected"),
    ],
)
def test_broken_codecs_are_found(monkeypatch, owner, name, broken, found):
    """A codec that raises, takes what is no query, quotes a message, mixes replies up, or refuses queries is found."""
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(BrokenPromiseError, match=found):
        fuzz_codecs(5, 0, Counter(), 2_000)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "found"),
    [
        (json_values, "day_of", lambda text: day_of(text) or 0.0, "an accepted message is a query"),
        (
            json_values,
            "decimal_of",
            lambda text, places: decimal_of(text, places) or 0.0,
            "an accepted message is a query",
        ),
        (json_values, "text_digits", lambda data, count: text_digits(data[:-1], count), "its features"),
        (columns, "FIRST_DAY", 0, "a row's reason"),
        (columns, "largest_decimal", lambda _: 10**5, "a row's reason"),
        (columns, "texts_digits", lambda _data, starts, _lengths, count: np.zeros((len(starts), count)), "a row's fea"),
    ],
)
def test_broken_types_are_found(monkeypatch, owner, name, broken, found):
    """A codec that takes what is no date or decimal, cuts texts off, or refuses values in a column is found."""
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(BrokenPromiseError, match=found):
        fuzz_codecs(5, 3, Counter(), 6_000)


def _read_all():
    for run in range(4):
        fuzz_missing(5, run, Counter(), 2_000)


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (json_values, "category_numbers", lambda feature: {**category_numbers(feature), None: 0.0}),
        (json_values, "category_numbers", lambda feature: {**category_numbers(feature), "": 9.0}),
        (columns, "other_category", lambda feature: other_category(feature) - 1.0),
        (json_messages, "read_mixed", lambda readers, rows: np.zeros_like(read_mixed(readers, rows))),
        (arrow_messages, "MISSING", 0.0),
        (json_values, "MISSING", -1.0),
    ],
)
def test_broken_categories_and_nulls_are_found(monkeypatch, owner, name, broken):
    """A codec that takes null for a category, miscounts the others, or reads many queries as others is found."""
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(BrokenPromiseError):
        _read_all()


_real_breakdown = ShareWriter.several


def _ask_all():
    for run in range(4):
        fuzz_questions(5, run, Counter(), 6_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken", "found"),
    [
        (domains, "_NEAR", 0.6, "an accepted message is a question"),
        (domains, "_NEAR", 0.0, "a question is not rejected"),
        (questions, "_WORD", 53, "its rows"),
        (QuestionReader, "_threshold", lambda _self, _message: 0.5, "its rows"),
        (QuestionReader, "_wrong_by", lambda _self, by: _raises() if not by else None, "KeyError"),
        (
            ShareWriter,
            "several",
            lambda self, message, rows, answers: _real_breakdown(
                self, dataclasses.replace(message, labels=message.labels[::-1]), rows, answers
            ),
            "a breakdown's answer",
        ),
        (ShareWriter, "_above", lambda _self, answers: [b'"above":true'] * len(answers.labels), "answer"),
    ],
)
def test_broken_questions_are_found(monkeypatch, owner, name, broken, found):
    """A codec that takes other edges or thresholds, loses cells, raises, or answers out of order is found."""
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(BrokenPromiseError, match=found):
        _ask_all()


def _place_all():
    for run in range(4):
        fuzz_distributions(5, run, Counter(), 2_000)


_real_items = DistributionReader._items
_real_texts = quantiles._texts


@pytest.mark.parametrize(
    ("owner", "name", "broken", "found"),
    [
        (DistributionReader, "_items", lambda self, reader, data: _real_items(self, reader, data)[:3], "its rows"),
        (distributions, "AT", 0.0, "its rows"),
        (
            distributions,
            "_rows_of_ones",
            lambda messages: np.array([[one.at or 0.0, -1.0] for one in messages]),
            "read together",
        ),
        (json_values, "day_of", lambda text: day_of(text) or 0.0, "an accepted message is a question"),
        (quantiles, "_texts", lambda feature, found: _real_texts(feature, found + 1.0), "an answer"),
    ],
)
def test_broken_distributions_are_found(monkeypatch, owner, name, broken, found):
    """A codec that loses values, takes shares for values, raises, takes no dates, or answers with others is found."""
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(BrokenPromiseError, match=found):
        _place_all()


_real_run = ArrowCodec._run


def _forgets(self, bodies):
    run = _real_run(self, bodies)
    return run and run._replace(parts=run.parts[::-1])


@pytest.mark.parametrize(
    ("name", "broken", "found"),
    [
        ("_wrong", lambda _self, schema: schema.empty_table().combine_chunks() and None, "Error"),
        ("_run", _forgets, "together, other replies"),
        ("_table", _raises, "KeyError"),
    ],
)
def test_broken_arrow_codecs_are_found(monkeypatch, name, broken, found):
    """A codec that touches what it cannot read, mixes messages up, or raises is found."""
    monkeypatch.setattr(ArrowCodec, name, broken)
    with pytest.raises(BrokenPromiseError, match=found):
        fuzz_arrow(5, 0, Counter(), 3_000)


def test_broken_reader_is_found(tmp_path, monkeypatch):
    """A reader that takes any bytes for the snapshot is found."""
    monkeypatch.setattr(readers, "decode", lambda *_: None)
    with pytest.raises(BrokenPromiseError, match="something else"):
        readers.fuzz_reader("snapshot", 5, 0, Counter(), tmp_path)
