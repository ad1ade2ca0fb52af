"""Right and wrong answers of periods: what is counted, how far one record moves it, and nothing twice."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.truth import NoisyPeriod, noisy_period, reach
from oracle.planning.model import Truth
from oracle.runtime.truths.tally import Tally
from tests.truths.logs import NOISELESS, SECRET, answer, count, truth

_BARE = Truth(epsilon=NOISELESS, rounds=4, lag=2)


def test_right_and_wrong_answers_of_each_period():
    """Each closed period once; the open ones are not told."""
    answers = [answer(number, number % 2) for number in range(16)]
    told = count(_BARE, answers, [truth(number, 1) for number in range(10)])
    assert told.released == [NoisyPeriod(0, 2, 2), NoisyPeriod(1, 2, 2), NoisyPeriod(2, 1, 1)]


def test_what_is_not_counted():
    """Later ones of a round, wrong ids, unknown rounds, rounds without a query, what comes too late, and no JSON."""
    answers = [answer(number, None if number == 1 else 0) for number in range(8)]
    told = count(
        _BARE,
        answers,
        [
            *[truth(0, 1), truth(0, 0), truth(0, 0)],
            *[truth(1), truth(1, identifier="x"), b'{"round":1,"label":0}'],
            *[truth(2, identifier="another"), truth(2**62), b'{"id":"q3","round":3}', b"\xff", b"null", None],
            *[
                b'{"id":"q3","round":3,"label":7}',
                b'{"id":"q3","round":-1,"label":0}',
                b'{"id":1.5,"round":3,"label":0}',
            ],
            *[b'{"id":"q3","round":3,"label":0,"model":"other"}', b"[" * 70 + b"]" * 70, b"x" * 100_000],
            truth(3),
        ],
    )
    assert told.released == [NoisyPeriod(0, 0, 1)]  # the last one is late: one before it named a round far ahead
    faults = [(one.field, one.reason.value) for one in told.rejected]
    assert faults == [
        *[("label", "wrong-type"), ("body", "not-utf8"), ("body", "wrong-type"), ("body", "malformed")],
        *[("label", "wrong-type"), ("round", "wrong-type"), ("id", "bad-id"), ("model", "wrong-type")],
        *[("body", "malformed"), ("body", "oversized")],
    ]


@pytest.mark.parametrize("line", [b'{"x":' + b"[" * 100_000, b'{"id":"\xff"}', b'{"id":"\\ud800"}', b"{", b"9" * 5000])
def test_a_line_that_is_no_answer_is_passed_over(line):
    """Nested however deep, not UTF-8, or half written: it does not end the process, now and at each start."""
    answers = [answer(number) for number in range(8)]
    told = [truth(number) for number in range(4)]
    assert count(_BARE, [line, *answers], told).released == count(_BARE, answers, told).released != []


def test_a_label_before_its_period_closes_counts_however_far_behind_the_reader_is():
    """A log is caught up with: each label stands behind the answers that were there when it was sent."""
    answers = [answer(number) for number in range(400)]
    told = count(_BARE, answers, [truth(number) for number in range(396)], size=50)
    assert told.released == [NoisyPeriod(period, 4, 0) for period in range(99)]


def test_periods_of_which_nothing_was_read_are_passed_over():
    """A log that begins late, and one with a hole."""
    answers = [answer(number) for number in (*range(1000, 1008), *range(5000, 5020))]
    told = count(_BARE, answers, [truth(1001), truth(5001)])
    assert [one.period for one in told.released] == [250, 251, *range(1250, 1254)]
    assert sum(one.right for one in told.released) == 2


_QUERY = st.sampled_from([None, 0, 1])
_SENT = st.tuples(st.integers(0, 12), st.integers(0, 1), st.booleans())


@settings(deadline=None, max_examples=100)
@given(st.lists(_QUERY, min_size=1, max_size=12), st.lists(_SENT, max_size=14), st.data())
def test_one_record_moves_one_count_by_one(labels, sent, data):
    """Beside a world without a query's content, and without that of all that was sent of it: every neighbour."""
    bodies = [truth(number, label, None if right else "other") for number, label, right in sent]
    whole = count(_BARE, [answer(number, label) for number, label in enumerate(labels)], bodies).released
    record = data.draw(st.integers(0, len(labels) - 1))
    blank = [answer(number, None if number == record else label) for number, label in enumerate(labels)]
    for blanked in (
        bodies,
        [truth(n, 0, "nobody") if n == record else body for (n, _, _), body in zip(sent, bodies, strict=True)],
    ):
        without = count(_BARE, blank, blanked).released
        assert [one.period for one in without] == [one.period for one in whole]
        moves = [
            abs(a - b)
            for one, other in zip(whole, without, strict=True)
            for a, b in zip(one[1:], other[1:], strict=True)
        ]
        assert sum(moves) <= 1


@pytest.mark.parametrize("length", [3, 5])
def test_one_record_moves_one_count_by_one_exhaustively(length):
    """All answers, and every order of right and wrong labels of the record among those of others."""
    truths = Truth(epsilon=NOISELESS, rounds=2, lag=1)
    for labels in itertools.product((0, 1), repeat=length):
        for mine in itertools.product((0, 1), repeat=2):
            others = [truth(number, 0) for number in range(1, length)]
            sent = [truth(0, mine[0]), *others[:1], truth(0, mine[1]), *others[1:]]
            whole = count(truths, [answer(*pair) for pair in enumerate(labels)], sent).released
            blank = [answer(0, None), *(answer(*pair) for pair in list(enumerate(labels))[1:])]
            without = count(truths, blank, sent).released
            assert (
                sum(abs(a - b) for one, two in zip(whole, without, strict=True) for a, b in zip(one, two, strict=True))
                <= 1
            )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(_QUERY, min_size=1, max_size=30),
    st.lists(_SENT, max_size=30),
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=5),
    st.integers(1, 9),
)
def test_the_same_logs_are_counted_the_same_whatever_the_batches_and_kills(labels, sent, kills, size):
    """With noise, to the last one: processes that die before or behind a write tell nothing else, and all of it."""
    truths = Truth(epsilon=0.5, rounds=3, lag=2)
    logs = [answer(*pair) for pair in enumerate(labels)], [truth(n, label) for n, label, _ in sent]
    whole = count(truths, *logs).released
    assert list(dict.fromkeys(count(truths, *logs, kills, size).released)) == whole


def test_noise_has_exactly_its_law():
    """Over many periods, by chi-square; and both counts' noise differs."""
    epsilon, number = 0.7, 4000
    drawn = [noisy_period(SECRET, epsilon, period, 10, 20) for period in range(number)]
    for values in ([one.right - 10 for one in drawn], [one.wrong - 20 for one in drawn]):
        seen = Counter(max(min(value, 6), -6) for value in values)
        square = 0.0
        for z in range(-6, 7):
            inside = math.tanh(epsilon / 2) * math.exp(-epsilon * abs(z))
            tail = math.exp(-6 * epsilon) / (1 + math.exp(-epsilon))
            expected = number * (tail if abs(z) == 6 else inside)
            square += (seen[z] - expected) ** 2 / expected
        assert square < 32.9  # 12 degrees of freedom: passed with probability 0.001
    assert abs(np.corrcoef([one.right for one in drawn], [one.wrong for one in drawn])[0, 1]) < 0.05


def test_noise_follows_key_period_and_counts():
    """The same again; another one for another key, period, or count: a state set back shows no difference bare."""
    first = noisy_period(SECRET, 0.1, 3, 100, 10)
    assert noisy_period(SECRET, 0.1, 3, 100, 10) == first
    others = [noisy_period(SECRET, 0.1, 3, 100, 11), noisy_period(SECRET, 0.1, 3, 101, 10)]
    others += [noisy_period(SECRET, 0.1, 4, 100, 10), noisy_period(bytes(32), 0.1, 3, 100, 10)]
    assert all(one.right - 100 != first.right - 100 or one.wrong - 10 != first.wrong - 10 for one in others)
    assert len({one.right for one in others}) > 1


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.7, 3.0, 10.0])
def test_reach_is_passed_once_in_forty(epsilon):
    """And the number below it is passed more often."""

    def passed(z):
        return 2 * math.exp(-epsilon * (z + 1)) / (1 + math.exp(-epsilon))

    assert passed(reach(epsilon)) <= 0.025 * (1 + 1e-9)
    assert reach(epsilon) == 0 or passed(reach(epsilon) - 1) > 0.025


def test_a_share_is_told_where_noise_leaves_any():
    """With its half width; it is never outside 0 and 1."""
    assert NoisyPeriod(0, 4, 4).error(1.0) is None
    assert NoisyPeriod(0, 90, -2).error(1.0) == (0.0, 4 / 88)
    assert NoisyPeriod(0, -2, 90).error(1.0) == (1.0, 4 / 88)


def test_memory_is_that_of_the_open_rounds():
    """Whatever is sent: arrays of one size, before and behind any answer."""
    tally = Tally(Truth(epsilon=1.0, rounds=1000, lag=500), SECRET)
    assert {array.size for name, array in tally.arrays().items() if name != "places"} == {1500}
