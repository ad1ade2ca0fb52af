"""Errors under adversaries who know the rows: within the promise, and K answers are enough for ever.

More runs of each are in `tests.experiments.adversaries`. Beta is 0.05 for all questions of a run together, and is
reached by nobody here: a union bound is far from what happens.
"""

import itertools

import msgspec
import pytest

from oracle.planning.distribution.sizes import Sizes
from tests.predictors.distribution.adversaries import ADVERSARIES, DATA, play
from tests.predictors.distribution.values import FEATURES
from tests.predictors.plans import tiny_distribution_plan


@pytest.mark.slow
@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize(("data", "adversary"), list(itertools.product(DATA, ADVERSARIES)))
def test_nobody_finds_a_larger_error(kind, data, adversary):
    """Two runs of each, at sizes at which noise is a third of the error."""
    plan = tiny_distribution_plan(2**40, of=FEATURES[kind], questions=10_000)
    for seed in range(2):
        found = play(plan, data, adversary, seed)
        assert found.error <= 1.0
        assert found.missed <= 1.0
        assert found.paid <= plan.paid
        assert found.verified == (found.comparisons <= plan.comparisons)


@pytest.mark.parametrize("adversary", ["hammer", "pivots"])
def test_too_narrow_a_margin_is_found(adversary):
    """With an eighth of l somebody errs by more than is promised: the adversaries are worth something."""
    plan = tiny_distribution_plan(2**40, questions=10_000)
    ladder = plan.thresholds
    sizes = Sizes(plan.paid, ladder.slope, ladder.gap, ladder.margin // 8)
    narrow = msgspec.structs.replace(
        plan,
        error=sizes.error(plan.declared),
        ladder=msgspec.structs.replace(ladder, margin=sizes.margin, width=sizes.width(plan.declared)),
    )
    assert max(play(narrow, "normal", adversary, seed).error for seed in range(4)) > 1.0
