import numpy as np
import pytest

from oracle.evaluation.causes import _shared
from oracle.evaluation.trial import Table


def _table(values):
    return Table(np.column_stack([values, values]), np.asarray(values) > 0.5)


@pytest.mark.parametrize(("copied", "told"), [(0, ""), (3, ""), (60, "60 of 1,000"), (1_000, "1,000 of 1,000")])
def test_rows_that_are_in_both_files(copied, told):
    """Copies are counted and told; a few may be chance."""
    generator = np.random.default_rng(1)
    train, test = _table(generator.random(5_000)), generator.random(1_000)
    test[:copied] = train.features[:copied, 0]
    (*causes,) = _shared(train, _table(test))
    assert [cause.partition(": ")[2].partition(" are in both")[0] for cause in causes] == ([told] if told else [])


def test_rows_that_are_alike_by_their_nature():
    """Of a feature with ten values every test row is a training row, and that says nothing."""
    generator = np.random.default_rng(1)
    train, test = (_table(generator.integers(0, 10, count) / 10.0) for count in (5_000, 1_000))
    assert not list(_shared(train, test))
    assert list(_shared(_table(generator.random(5_000)), _table(generator.random(1_000)))) == []
