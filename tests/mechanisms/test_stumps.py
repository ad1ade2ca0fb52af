"""Losses of stumps: against the definition, and what one record can do to them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.mechanisms.choice.stumps import cut_losses, least_losses, ranking

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), max_size=12)


def arrays(rows):
    """Return the columns and the labels of rows."""
    values = np.array([row[:-1] for row in rows], dtype=np.float64).reshape(len(rows), 2)
    return list(values.T), np.array([row[-1] for row in rows], dtype=np.bool_)


def least_by_definition(column, labels, sign):
    """Return the least number of errors over all thresholds of Definition 4.16, beyond the data too."""
    positions = [*column, *(column + 0.5), *(column - 0.5), 100.0, -100.0]
    return min(int(((sign * (column - threshold) >= 0) != labels).sum()) for threshold in positions)


@given(rows=ROWS)
def test_least_losses_are_those_of_the_best_threshold(rows):
    """With ties, without examples, with labels of one kind."""
    columns, labels = arrays(rows)
    expected = [[least_by_definition(column, labels, sign) for sign in (1, -1)] for column in columns]
    assert least_losses(columns, labels).tolist() == expected


FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXTREME = st.sampled_from([0.0, 5e-324, -5e-324, 1.0, -1.0, np.nextafter(1.0, 2.0), 1.7976931348623157e308, -1e308])


@given(rows=st.lists(st.tuples(FINITE | EXTREME, st.booleans()), max_size=12))
def test_least_losses_of_any_numbers(rows):
    """Numbers as close or as far from each other as there are, on both sides of zero: as by their ranks alone."""
    column = np.array([value for value, _ in rows], dtype=np.float64) + 0.0
    labels = np.array([label for _, label in rows], dtype=np.bool_)
    ranks = np.unique(column, return_inverse=True)[1].astype(np.float64)
    expected = [least_by_definition(ranks, labels, sign) for sign in (1, -1)]
    assert least_losses([column], labels).tolist() == [expected]


@given(rows=ROWS, record=st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), position=st.integers(0, 12))
def test_one_record_raises_every_least_loss_by_at_most_one(rows, record, position):
    """Monotone: the choice pays e, not 2 e."""
    more = [*rows[:position], record, *rows[position:]]
    change = least_losses(*arrays(more)) - least_losses(*arrays(rows))
    assert set(change.ravel().tolist()) <= {0, 1}


def ranked_labels(rows, size):
    """Return the losses of all cuts 0, ..., size of the ranking by the first column; beyond the last, all are in."""
    columns, labels = arrays(rows)
    losses = cut_losses(labels[ranking(columns[0], upward=True)])
    return np.concatenate([losses, np.full(size - len(rows), losses[-1])])


@given(rows=ROWS, record=st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), position=st.integers(0, 12))
def test_one_record_changes_all_cuts_within_two(rows, record, position):
    """By -1, 0 or 1 if it is positive, by 0, 1 or 2 if not; ties keep the order of the records."""
    more = [*rows[:position], record, *rows[position:]]
    change = ranked_labels(more, len(rows) + 1) - ranked_labels(rows, len(rows) + 1)
    assert set(change.tolist()) <= ({-1, 0, 1} if record[-1] else {0, 1, 2})


@given(rows=ROWS, record=st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), data=st.data())
def test_one_record_changes_all_cuts_within_two_with_coins(rows, record, data):
    """The same where ties go by coins, which the other records keep."""
    position = data.draw(st.integers(0, len(rows)))
    coins = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), dtype=np.uint64)
    more = [*rows[:position], record, *rows[position:]]
    (columns, labels), (others, their_labels) = arrays(rows), arrays(more)
    mine = cut_losses(labels[ranking(columns[0], upward=False, coins=coins)])
    theirs = cut_losses(their_labels[ranking(others[0], upward=False, coins=np.insert(coins, position, np.uint64(2)))])
    change = theirs - np.append(mine, mine[-1])
    assert set(change.tolist()) <= ({-1, 0, 1} if record[-1] else {0, 1, 2})


@pytest.mark.parametrize("scale", [0.1, 0.5])
def test_privacy_of_the_cut_is_exact_and_tight(scale):
    """Over all data sets of up to 4 records: no probability changes by more than exp(2 e), and some by nearly that.

    This is of a choice among one candidate more, so that both worlds have the same ones. The cut that runs has no such
    bound alone; cuts of two worlds are paired instead (`test_cut_coupling.py`).
    """

    def law(labels, size):
        losses = cut_losses(np.array(labels, dtype=np.bool_))
        losses = np.concatenate([losses, np.full(size + 1 - len(losses), losses[-1])])
        table = np.exp(-scale * losses)
        return table / table.sum()

    worst = 0.0
    for size in range(5):
        for labels in itertools.product((False, True), repeat=size):
            for position, label in itertools.product(range(size + 1), (False, True)):
                more = [*labels[:position], label, *labels[position:]]
                worst = max(worst, float(np.abs(np.log(law(more, size + 1) / law(labels, size + 1))).max()))
    assert 1.2 * scale < worst <= 2.0 * scale + 1e-12


def test_a_counted_cut_gets_up_to_twice_as_many_wrong_as_the_best():
    """All rankings of up to 10 labels: never more than twice, and exactly twice in some; none where a cut fits all."""
    worst = 0.0
    for size in range(11):
        for labels in itertools.product((False, True), repeat=size):
            losses = cut_losses(np.array(labels, dtype=np.bool_))
            counted, best = int(losses[sum(labels)]), int(losses.min())
            assert counted <= 2 * best
            worst = max(worst, counted / max(best, 1))
    assert worst == 2.0


def test_counting_positives_is_no_cut_for_wrong_labels():
    """Why p-hat is chosen and not counted: where wrong labels are on one side, their number moves the edge.

    Three of ten examples above 0.5 are labelled 0. The best stump errs on 15 %; labelling as many 1 as there are
    positive ones errs on 21 %.
    """
    rows = 20_000
    values = np.linspace(0.0, 1.0, rows)
    labels = (values >= 0.5) & (np.arange(rows) % 10 >= 3)
    losses = cut_losses(labels[ranking(values, upward=True)]) / rows
    assert losses.min() == pytest.approx(0.15, abs=0.001)
    assert losses[int(labels.sum())] == pytest.approx(0.21, abs=0.001)


def test_coins_order_what_is_equal_and_nothing_else():
    """Values first, coins next, and numbers where coins are equal too."""
    column = np.array([1.0, 3.0, 1.0, 3.0, 2.0, 1.0])
    coins = np.array([9, 5, 7, 4, 0, 7], dtype=np.uint64)
    assert ranking(column, upward=True, coins=coins).tolist() == [3, 1, 4, 2, 5, 0]
    assert ranking(column, upward=False, coins=coins).tolist() == [2, 5, 0, 4, 3, 1]
    assert ranking(column, upward=True).tolist() == [1, 3, 4, 0, 2, 5]
