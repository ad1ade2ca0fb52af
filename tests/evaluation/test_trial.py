import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.evaluation.baselines import best_box, best_stump
from oracle.evaluation.trial import Table, interval, order_of


@settings(deadline=None)
@given(
    st.integers(1, 60).flatmap(
        lambda count: st.tuples(
            st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=count, max_size=count),
            st.lists(st.booleans(), min_size=count, max_size=count),
            st.lists(st.sampled_from(["lower", "upper", "both", "none"]), min_size=2, max_size=2),
        )
    )
)
def test_best_stump_is_the_best(case):
    """No stump on these features and sides gets fewer rows wrong; ties, one label and one row included."""
    rows, labels, sides = case
    train = Table(np.array(rows, dtype=np.float64), np.array(labels))
    wrong = int((best_stump(train, sides)(train.features) != train.labels).sum())
    tried = [int(train.labels.sum())]  # none has a side: always 0
    for column, ways in enumerate(sides):
        for sign in {"lower": (1,), "upper": (-1,), "both": (1, -1), "none": ()}[ways]:
            says = [sign * train.features[:, column] >= edge for edge in (*range(-3, 4), np.inf)]
            tried += [int((said != train.labels).sum()) for said in says]
    assert wrong == min(tried[1:] or tried)


def test_best_box_finds_a_box():
    """Where a box fits every label it is found, to the training rows."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(4_000, 3))
    labels = (rows[:, 0] > -1.0) & (rows[:, 0] < 0.9) & (rows[:, 1] < 0.5)
    train = Table(rows, labels)
    assert (best_box(train, ["both", "both", "none"])(rows) == labels).all()


@pytest.mark.parametrize(("error", "count"), [(0.0, 10), (1.0, 10), (0.3, 10), (0.013, 20_000)])
def test_interval_is_that_of_clopper_and_pearson(error, count):
    """As SciPy's exact binomial test has it."""
    expected = scipy.stats.binomtest(round(error * count), count).proportion_ci(method="exact")
    assert interval(error, count) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_order_of_rounds():
    """In the file's order and again from its beginning; or with replacement, by the seed alone."""
    assert order_of(3, 7, b"", resampled=False).tolist() == [0, 1, 2, 0, 1, 2, 0]
    drawn = order_of(50, 100_000, b"a", resampled=True)
    np.testing.assert_array_equal(drawn, order_of(50, 100_000, b"a", resampled=True))
    assert (drawn != order_of(50, 100_000, b"b", resampled=True)).any()
    counts = np.bincount(drawn, minlength=50)
    assert scipy.stats.chisquare(counts).pvalue > 1e-6
