"""Messages that are decoded and encoded many at a time give what each of them gives alone, bit by bit."""

import itertools
import json
import random

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery, Reply
from oracle.codec.batches import BatchCodec
from oracle.codec.json import runs as json_runs
from oracle.codec.json.messages import JsonCodec
from oracle.codec.json.runs import encode_rounds, read_together, split_texts
from oracle.predictors.base import Answers
from tests.predictors.plans import feature, tiny_plan
from tests.support.shards import small_plan


def _examples(count):
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


_DECODER = JsonCodec(small_plan())._decoder
_WHOLE = b'{"id":"a","x":[1,2]}'

# Texts that are no message, or more than one, but could be part of others.
_TOKENS = [
    '{"id":1,"x":[1,2]}',
    "{}",
    "{",
    "}",
    '{"n":',
    "[",
    "]",
    '"',
    '"k":',
    '"a',
    ",",
    ":",
    " ",
    "\n",
    "\r",
    "\\",
    "1",
    "é",
    '{"n":"',
    '"}',
    "null",
]
_ATTACKS: list[list[bytes]] = [
    [b'{"id":1', b',"x":[1,2]}', b"{}{}"],
    [b'{"id":1,', b'"x":[1,2]}', b"{} {}"],
    [b'{"n":{}', b"{}}", b"{}{}"],
    [b'{"n":[{}', b"{}]}", b"{}{}"],
    [b'{"n":[{}', b",{}]}", b"{}{}"],
    [b'{"n":"}', b'{"}', b"{}{}"],
    [b'{"n":"0123456789012345678901234567890123456789}', b'{"}', b"{}{}"],
    [b'{"n":"\\}', b'{"}', b"{}{}"],
    [b'{"}', b'{":1}', b"{}{}"],
    [b'{"id":"}', b'{"}', b"{}{}"],
    [b'{"n":{"k":{}', b"{}}}", b"{}{}"],
    [b"{}\n{}", b"{}"],
    [b"{}\n{}", b""],
    [b"{}{}", b""],
    [b"{}{}", b" "],
    [b"{}", b"{}\n"],
    [b"\n{}", b"{}"],
    [b"{}", b"", b"{}{}"],
    [b'{"n":"\xc3}', b'{\xa9"}', b"{}{}"],
    [b'{"n":"\xc3"}', b'{"n":"\xa9"}'],
    [b"{}}", b"{{}"],
    [b"{},{}", b"{}"],
    [b"{}", b"}", b"{", b"{}"],
]


def _alone(body):
    try:
        body.decode()
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _joined(tokens):
    return "".join(tokens).encode()


def _shown(message):
    return msgspec.json.encode(message)


@_examples(400)
@given(
    bodies=st.lists(
        st.one_of(st.just(_WHOLE), st.lists(st.sampled_from(_TOKENS), max_size=6).map(_joined)), min_size=1, max_size=6
    )
)
def test_texts_read_together_are_those_read_alone(bodies):
    """Whatever the bodies are, reading them together gives what each gives alone, or nothing."""
    together = read_together(_DECODER, bodies)
    if together is not None:
        assert list(map(_shown, together)) == list(map(_shown, map(_alone, bodies)))


@pytest.mark.parametrize("attack", _ATTACKS, ids=map(str, range(len(_ATTACKS))))
def test_bodies_that_complete_each_other_are_looked_at_alone(attack):
    """Bodies that are wrong alone, in every order and among good ones, are never read together."""
    for order in itertools.permutations(attack):
        assert read_together(_DECODER, list(order)) is None
        assert read_together(_DECODER, [_WHOLE, *order, _WHOLE]) is None


@_examples(300)
@given(data=st.data())
def test_a_text_cut_anywhere_is_not_read_as_a_whole(data):
    """Pieces of one message, with doubled messages to make the count right, are not taken for messages."""
    text = b'{"id":"a}{","n":[{},{"k":"}{"},{}],"x":[1,2],"m":{"{}":{}}}'
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), min_size=1, max_size=3)))
    pieces = [text[start:stop] for start, stop in itertools.pairwise([0, *cuts, len(text)])]
    assert read_together(_DECODER, [*pieces, b"{}" * len(pieces)]) is None


def test_the_braces_at_the_seams_are_needed(monkeypatch):
    """If any newline would do, what is wrong alone would be read: the attacks above do attack."""
    monkeypatch.setattr(json_runs, "_BETWEEN", b"\n")
    taken = [order for attack in _ATTACKS for order in itertools.permutations(attack) if read_together(_DECODER, order)]
    assert len(taken) > 5


_FORMS = [
    '{{"id":{id},"x":[{a},{b}]}}',
    '{{"id":{id},"x":{{"b":{b},"a":{a}}}}}',
    '{{"id":{id},"a":{a},"b":{b}}}',
    '{{"x":[{a},{b}],"note":["é",{{"k":null}}]}}',
]
_IDENTIFIERS = [
    '"q"',
    '"é\\n"',
    '"\\ud83d\\ude00"',
    '""',
    '",\\",\\""',
    '","',
    "17",
    "-9223372036854775808",
    "null",
    f'"{"i" * 256}"',
]
_ODD = [
    *(body.encode() for body in _TOKENS),
    b'{"id":9223372036854775808,"x":[1,2]}',
    b'{"id":"' + b"i" * 257 + b'","x":[1,2]}',
    b'{"id":"' + "é".encode() * 129 + b'","x":[1,2]}',
    b'{"x":[1]}',
    b'{"x":[1,2,3]}',
    b'{"x":[1,1e999]}',
    b'{"x":{"a":1,"c":2}}',
    b'{"x":{"a":1}}',
    b'{"a":1}',
    b'{"id":true,"x":[1,2]}',
    b'{"id":1,"x":[1,2],"note":"\xff"}',
    b'{"x":[1,2],"n":' + b"[" * 63 + b"]" * 63 + b"}",
    b'{"x":[1,2],"n":' + b"[" * 64 + b"]" * 64 + b"}",
    b'{"x":[1,2],"n":"' + b"[" * 99 + b'"}',
    b'{"x":[1,2]}'.ljust(65_537),
    b"{}{}",
]


def _bodies(rng, count, forms, odd):
    """Return bodies of some forms, some of them odd ones, and some tombstones."""
    made: list[bytes | None] = []
    for _ in range(count):
        draw = rng.random()
        if draw < odd:
            made.append(rng.choice(_ODD))
        elif draw > 0.97:
            made.append(None)
        else:
            a, b = (rng.choice([repr(rng.uniform(-1, 2)), "0", "-0.0", "1e-3", "5e-324"]) for _ in "ab")
            made.append(rng.choice(forms).format(id=rng.choice(_IDENTIFIERS), a=a, b=b).encode())
    return made


def _answers(rng, first, count):
    labels = np.array([rng.choice((-1, 0, 1)) for _ in range(count)], dtype=np.int8)
    phases = np.sort(np.array([rng.choice((1, 1, 9, 10)) for _ in range(count)], dtype=np.int64))
    return Answers(labels, first, phases, np.zeros(2, dtype=np.uint64), ())


@_examples(50)
@given(
    seed=st.integers(0, 2**32),
    forms=st.sampled_from([_FORMS[:1], _FORMS[1:2], _FORMS[2:3], _FORMS]),
    odd=st.sampled_from([0, 0, 0.003, 0.05]),
)
def test_a_batch_is_its_messages_one_by_one(seed, forms, odd):
    """Ids, features, rows, rejections and replies of a batch are those of its messages, each decoded alone."""
    rng = random.Random(seed)  # noqa: S311  # test data
    codec = BatchCodec(small_plan())
    contents = _bodies(rng, rng.choice([31, 32, 40, 256, 257, 600, 1024, 1025, 1056, 2300]), forms, odd)
    deliveries = [
        Delivery(
            number,
            body,
            ARROW_STREAM if body is None and number % 2 else JSON,
            (("h", b"%d" % number),),
            b"k%d" % number,
        )
        for number, body in enumerate(contents, 1)
    ]
    batch = codec.decode(Deliveries.of(deliveries))
    singles = [codec.decode(Deliveries.of([delivery])) for delivery in deliveries]
    assert [(type(part), part) for part in batch.parts] == [(type(one.parts[0]), one.parts[0]) for one in singles]
    assert batch.features.tobytes() == b"".join(one.features.tobytes() for one in singles)
    assert batch.present.tolist() == [flag for one in singles for flag in one.present]
    assert batch.ends == list(itertools.accumulate(len(one.features) for one in singles))
    assert batch.rejections == [reason for one in singles for reason in one.rejections]
    answers = _answers(rng, rng.choice([0, 7, 990, 999_900, 10**13 - 5]), len(batch.features))
    replies: list[Reply] = []
    for single, end in zip(singles, batch.ends, strict=True):
        rows = slice(end - len(single.features), end)
        own = Answers(answers.labels[rows], answers.first_round + rows.start, answers.phases[rows], answers.tag, ())
        replies += codec.encode(single, own).rows()
    assert list(codec.encode(batch, answers).rows()) == replies


def test_the_fast_way_is_taken(monkeypatch):
    """Runs of one form are decoded together, tombstones among them too; one odd message costs its own run only."""
    calls = []
    real = JsonCodec.decode

    def counted(self, body):
        calls.append(body)
        return real(self, body)

    monkeypatch.setattr(JsonCodec, "decode", counted)
    codec = BatchCodec(small_plan())
    for form in _FORMS[:3]:
        contents = _bodies(random.Random(1), 600, [form], 0)  # noqa: S311  # test data
        deliveries = [Delivery(number, body) for number, body in enumerate(contents, 1)]
        assert codec.decode(Deliveries.of(deliveries)).plain
        assert not calls
        deliveries[300] = Delivery(301, b"?")
        assert not codec.decode(Deliveries.of(deliveries)).plain
        assert 200 < len(calls) <= 256
        calls.clear()


@pytest.mark.parametrize("names", [["a"], ["Größe"], ["a", "b", "c"]])
@pytest.mark.parametrize("form", ["list", "object", "beside"])
def test_any_number_of_features(names, form):
    """One feature or three, in each form, odd names too."""
    codec = BatchCodec(tiny_plan([feature(name) for name in names]))
    rows = np.random.default_rng(1).random((100, len(names)))
    deliveries = []
    for number, row in enumerate(rows.tolist(), 1):
        named = dict(zip(names, row, strict=True))
        document = {"list": {"x": row}, "object": {"x": named}, "beside": named}[form]
        deliveries.append(Delivery(number, json.dumps({"id": number, **document}).encode()))
    batch = codec.decode(Deliveries.of(deliveries))
    assert batch.plain
    assert batch.features.tolist() == rows.tolist()
    assert batch.parts == list(range(1, 101))


_ANY_TEXT = st.text(st.one_of(st.sampled_from('",\\é\n'), st.characters(codec="utf-8")), max_size=5)


@_examples(200)
@given(texts=st.lists(st.one_of(_ANY_TEXT, st.sampled_from(["", ",", '","', "a"])), min_size=1, max_size=6))
@example(texts=["", ""])
@example(texts=[",", ",", ","])
@example(texts=['",', '",'])
def test_texts_are_split_where_they_end(texts):
    """Ids that were encoded together are those encoded alone, without quotes; where one has an escape, none is."""
    alone = [msgspec.json.encode(text) for text in texts]
    split = split_texts(texts)
    assert (split is None) == any(b"\\" in text for text in alone)
    if split is not None:
        assert [b'"%b"' % text for text in split] == alone


@_examples(200)
@given(first=st.one_of(st.integers(0, 3_000), st.integers(0, 10**15)), count=st.integers(0, 2_500))
def test_rounds_are_decimal(first, count):
    """Consecutive numbers are written as Python writes them."""
    assert encode_rounds(first, count) == [b"%d" % number for number in range(first, first + count)]
