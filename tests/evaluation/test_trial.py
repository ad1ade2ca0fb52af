import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.evaluation.baselines import baselines, best_box, best_stump
from oracle.evaluation.report import report_of
from oracle.evaluation.trial import Table, Trial, interval, order_of
from oracle.planning.boxes.model import BoxModel
from oracle.planning.features import Feature
from oracle.planning.promise import promise_of
from tests.support.folders import long_plan


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


def test_best_box_is_no_worse_than_the_best_stump():
    """Where few rows are labelled 1, moving any one side first leaves nothing inside."""
    generator = np.random.default_rng(3)
    rows = generator.uniform(size=(2_000, 3))
    labels = ((rows[:, 1] >= 0.7) ^ (generator.random(2_000) < 0.2)) & (generator.random(2_000) < 0.7)
    train, sides = Table(rows, labels), ["both"] * 3
    wrong = [int((rule(train, sides)(rows) != labels).sum()) for rule in (best_box, best_stump)]
    assert wrong[0] <= wrong[1] < 0.95 * labels.sum()


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


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        (
            ("number", "string"),
            [
                *["always 1", "best stump, best box", "classical, same epsilon", "logistic regression"],
                *["gradient boosting", "logistic regression of diffprivlib", "random forest of diffprivlib"],
            ],
        ),
        (
            ("string", "string"),
            ["always 1", "best stump, best box", "classical, same epsilon", "scikit-learn, diffprivlib"],
        ),
    ],
)
def test_baselines_beside_strings(kinds, names):
    """What cannot be tried says why, and what can leaves the strings out; the codes of these are no numbers."""
    features = tuple(
        Feature(name=name, type=kind, max_bytes=7) if kind == "string" else Feature(name=name, bounds=(-1.0, 1.0))
        for name, kind in zip("ab", kinds, strict=True)
    )
    model = BoxModel(
        name="m", predictor="rectangles", epsilon=4.0, examples=400, features=features, slicing="sequential"
    )
    rows = np.random.default_rng(2).normal(size=(400, sum(feature.width for feature in features)))
    rows[:, -1] = np.nan  # of a string's code: no learner may look at it
    table = Table(rows, rows[:, 0] > -0.5)
    found = list(baselines(model, table, table, bytes(32)))
    assert [one.name for one in found] == names
    for one in found:
        assert (one.error is None) == (one.name in {names[1], names[2], "scikit-learn, diffprivlib"})
        assert "string" in one.note or one.name == "always 1"
    assert all(one.error is not None and one.error < 0.05 for one in found if one.name == "gradient boosting")


@pytest.mark.parametrize(("wrong", "told"), [(20, ()), (90, ("nothing that",))])
def test_a_broken_promise_is_never_said_to_be_in_order(wrong, told):
    """Where no cause is found, that is what is said."""
    plan = long_plan()
    truth = np.zeros(100, dtype=np.bool_)
    phases, rows = np.ones(100, dtype=np.int64), np.arange(100)
    trial = Trial(np.arange(100) < wrong, truth, phases, rows, (), 100)
    report = report_of(plan, promise_of(plan), trial, [], [], "", None)
    assert report.kept == (not told)
    assert tuple(cause[:12] for cause in report.causes) == told
