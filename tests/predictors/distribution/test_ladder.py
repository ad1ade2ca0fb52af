"""The ladder: what it knows follows from outcomes alone, and holds whatever these are."""

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.accounting.ledger import AnswerPaid
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.domains import Dates
from oracle.mechanisms.orders import NUMBERS
from oracle.mechanisms.thresholds.paid import HIGH, LOW, PAID
from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.planning.features import Feature
from oracle.predictors.distribution.ladder import Ladder, Outcome
from oracle.predictors.distribution.predictor import Distribution
from oracle.predictors.kinds import restore_predictor
from oracle.predictors.phased import Segment
from oracle.predictors.values import Values
from tests.predictors.distribution.values import FEATURES, any_questions, ask, at, draw_values, quantiles
from tests.predictors.plans import tiny_distribution_plan
from tests.predictors.suite import train

_DATES = tiny_distribution_plan(of=FEATURES["date"])


def _trained(plan: DistributionPlan, seed: int) -> Distribution:
    rows = draw_values(plan.feature, plan.declared, np.random.default_rng(seed))
    predictor = train(plan, rows, np.ones(len(rows), dtype=np.bool_), bytes([seed]) * 32)
    assert isinstance(predictor, Distribution)
    return predictor


class _Drawn:
    """Any outcomes at all, whatever is compared, and what was compared."""

    def __init__(self, plan: DistributionPlan, data: st.DataObject) -> None:
        self._plan, self._data = plan, data
        self.asked: list[tuple[float, int]] = []

    def __call__(self, key: float, threshold: int) -> Outcome:
        self.asked.append((key, threshold))
        answer = self._data.draw(st.sampled_from([LOW, HIGH, PAID]))
        value = self._data.draw(st.integers(0, self._plan.thresholds.gap))
        return Outcome(answer, self._plan.lows[threshold] + value)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=30))
def test_any_outcomes_keep_the_order(data, questions):
    """Columns stay in order, answers rise with values, nothing is compared twice, and each threshold is paid once."""
    plan = _DATES
    ladder, outcomes = Ladder(plan, NUMBERS, Dates()), _Drawn(plan, data)
    days = np.arange(-1.0, 42.0)
    for is_share, number in questions:
        before = len(outcomes.asked)
        if is_share:
            slot = ladder.close(float(number), outcomes)
            assert ladder.slot(float(number)) == slot
            assert len(outcomes.asked) - before <= plan.paid.bit_length()
        else:
            threshold = number % plan.paid
            rank = ladder.search(threshold, outcomes, lambda rank: Dates().row(rank)[0])
            assert ladder.found(threshold) == rank
            assert len(outcomes.asked) - before <= Dates().size.bit_length()
        below, above = (np.asarray(ladder.export()[name], dtype=np.float64) for name in ("below", "above"))
        assert (np.diff(below[np.isfinite(below)]) >= 0.0).all()
        assert (np.diff(above[np.isfinite(above)]) >= 0.0).all()
        retired = np.asarray(ladder.export()["values"], dtype=np.int64) >= 0
        assert ((below < above) | ((below == above) & retired)).all()
        slots, closed = ladder.slots(days)
        assert (np.diff(ladder.shares[slots[closed]]) >= 0.0).all()
        assert [ladder.slot(float(day)) for day in days] == [
            int(slot) if known else None for slot, known in zip(slots, closed, strict=True)
        ]
    assert len(set(outcomes.asked)) == len(outcomes.asked) == ladder.comparisons
    assert ladder.paid <= plan.paid
    again = Ladder(plan, NUMBERS, Dates())
    again.take_back(ladder.export(), ladder.comparisons)
    assert again.shares.tolist() == ladder.shares.tolist()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.lists(st.integers(0, 60), max_size=25))
def test_shares_are_the_middles_of_what_is_known(data, days):
    """Of each closed value, by the definition: the tightest of all that was told, threshold by threshold."""
    plan = _DATES
    ladder, outcomes = Ladder(plan, NUMBERS, Dates()), _Drawn(plan, data)
    for day in days:
        ladder.close(float(day), outcomes)
    state, sizes, n = ladder.export(), plan.thresholds, plan.declared
    for day in days:
        low, high, pivot = 0, n, None
        for threshold, a in enumerate(plan.lows):
            value = int(state["values"][threshold])
            if day == state["below"][threshold] == state["above"][threshold]:
                pivot = value
            elif day >= state["above"][threshold]:
                low = value - sizes.margin if value >= 0 else a + sizes.gap + 1 - sizes.margin
            elif high == n and day <= state["below"][threshold]:
                high = value + sizes.margin if value >= 0 else a - 1 + sizes.margin
        slot = ladder.slot(float(day))
        assert slot is not None
        assert ladder.shares[slot] == (pivot / n if pivot is not None else (low + high) / (2.0 * n))
        assert 0 <= low < high <= n
        assert pivot is not None or high - low <= sizes.width


class _Replayed:
    """Outcomes that were told before, in order."""

    def __init__(self, told: Iterator[Outcome]) -> None:
        self._told = told

    def __call__(self, _key: object, _threshold: int) -> Outcome:
        return next(self._told)


def _simulated(
    plan: DistributionPlan, rows: np.ndarray, told: list[Outcome]
) -> Iterator[tuple[float, list[float], bool]]:
    """Answer questions one by one from what was told: by whoever never saw a row."""
    values, domain = Values(plan.features), domain_of(plan.feature)
    ladder, outcomes = Ladder(plan, values.kind, domain), _Replayed(iter(told))

    def key_of(row: object) -> object:
        return values.column(np.array([row]), 0)[0].item()

    middles = [(2 * low + plan.thresholds.gap) / (2.0 * plan.declared) for low in plan.lows]
    for *value, share in rows.tolist():
        found = value
        if share >= 0.0:
            if share < plan.error:
                rank = 0
            elif share >= 1.0 - plan.error:
                rank = domain.size - 1
            else:
                nearest = min(range(plan.paid), key=lambda number: (abs(middles[number] - share), -number))
                rank = ladder.search(nearest, outcomes, lambda rank: key_of(domain.row(rank)))
            found = list(domain.row(rank))
        slot = ladder.close(key_of(found), outcomes)
        yield float(ladder.shares[slot]), found, ladder.verified


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("seed", [1, 2])
def test_answers_follow_from_what_was_told(kind, seed, monkeypatch):
    """Low, paid with its value, or high: from these and the questions alone the same answers, bit for bit."""
    plan, told = tiny_distribution_plan(2000, of=FEATURES[kind], questions=100), []
    predictor, compare = _trained(plan, seed), Distribution.compare

    def noting(self, key, threshold, words):
        told.append(compare(self, key, threshold, words))
        return told[-1]

    monkeypatch.setattr(Distribution, "compare", noting)
    rows = any_questions(plan, 600, np.random.default_rng(seed))
    given_answers = ask(predictor, rows)
    again = list(_simulated(plan, rows, told))
    assert given_answers.values.tolist() == [one[0] for one in again]
    assert given_answers.found.tolist() == [one[1] for one in again]
    assert given_answers.verified.tolist() == [one[2] for one in again]
    assert 3 < given_answers.paid[-1] == sum(outcome.answer == PAID for outcome in told) <= plan.paid
    assert len({outcome.answer for outcome in told}) == 3


@pytest.mark.parametrize("kind", FEATURES)
def test_a_repeated_question_is_free(kind):
    """Nothing is compared for a question that was asked before, and its share moves only by what was paid since."""
    plan = tiny_distribution_plan(2000, of=FEATURES[kind])
    predictor = _trained(plan, 3)
    rows = any_questions(plan, 400, np.random.default_rng(3))
    first = ask(predictor, rows)
    before = predictor.export()
    second, third = ask(predictor, rows), ask(predictor, rows)
    assert second.values.tolist() == third.values.tolist()
    assert second.found.tolist() == third.found.tolist()
    after = predictor.export()
    for name in ("below", "above", "values"):
        assert before[name].tobytes() == after[name].tobytes()
    assert before["counters"][3:].tolist() == after["counters"][3:].tolist()
    assert first.paid[-1] == third.paid[-1]
    shares = rows[:, -1] < 0.0
    assert first.found[shares].tolist() == third.found[shares].tolist()


def test_promises_end_after_so_many_comparisons():
    """From the comparison beyond N on nothing is verified, also of rows before which nothing else was asked."""
    plan = tiny_distribution_plan(2000, questions=2)
    predictor, rows = _trained(plan, 4), at(np.linspace(-3.0, 3.0, 300)[:, None])
    comparisons, verified = [], []
    for row in rows:
        verified.append(bool(ask(predictor, row[None]).verified[0]))
        comparisons.append(int(predictor.export()["counters"][4]))
    assert plan.comparisons == 2 * plan.paid.bit_length()
    assert verified == [count <= plan.comparisons for count in comparisons]
    assert len(set(verified)) == 2
    assert ask(_trained(plan, 4), rows).verified.tolist() == verified


def test_events_tell_each_paid_count_once():
    """In the round that paid, with the running number; from the count follows which threshold it was."""
    plan = tiny_distribution_plan(2000)
    predictor = _trained(plan, 5)
    rows = any_questions(plan, 500, np.random.default_rng(5))
    answers = predictor.answer(rows, np.ones(len(rows), dtype=np.bool_))
    paid = [event for event in answers.events if isinstance(event, AnswerPaid)]
    assert [event.paid for event in paid] == list(range(1, predictor.paid + 1))
    assert len({event.round for event in paid}) == len(paid)
    assert all(event.above is msgspec.UNSET for event in paid)
    lows = np.array(plan.lows)
    thresholds = [int(np.searchsorted(lows, event.count, side="right")) - 1 for event in paid]
    assert len(set(thresholds)) == len(thresholds)
    assert all(
        0 <= event.count - lows[number] <= plan.thresholds.gap for event, number in zip(paid, thresholds, strict=True)
    )
    values = np.asarray(predictor.export()["values"], dtype=np.int64)
    assert {int(value) for value in values[values >= 0]} == {event.count for event in paid}


@pytest.mark.parametrize("name", ["rows", "below", "above", "values", "counters"])
def test_a_state_of_another_plan_is_refused(name):
    """Too few rows or thresholds, or another number of paid answers than it holds."""
    plan = tiny_distribution_plan(2000)
    predictor = _trained(plan, 6)
    ask(predictor, any_questions(plan, 50, np.random.default_rng(6)))
    state = dict(predictor.export())
    if name == "counters":
        state[name] = state[name].copy()
        state[name][3] += 1
    else:
        state[name] = state[name][:-1]
    with pytest.raises(CorruptSnapshotError):
        restore_predictor(plan, state)


@pytest.mark.parametrize("longest", [6, 256])
def test_searches_for_strings_have_words_for_each_step(longest):
    """A search takes up to seven comparisons a byte: more than an address has sides, and each has bits of its own."""
    plan = tiny_distribution_plan(2000, of=Feature(name="a", type="string", max_bytes=longest))
    predictor = _trained(plan, 7)
    rounds, hashes = np.zeros(1, dtype=np.uint64), np.array([123456789], dtype=np.uint64)
    question = Segment(np.zeros((1, plan.width)), np.ones(1, dtype=np.bool_), rounds, hashes)
    steps = 7 * longest + 30
    words = np.concatenate([predictor.words(question, step) for step in range(0, steps, 16)]).reshape(-1, 2)
    assert len(np.unique(words, axis=0)) == len(words) >= steps
    found = ask(predictor, quantiles(plan.feature, np.array([0.25, 0.5, 0.75]))).found
    assert len(found) == 3
