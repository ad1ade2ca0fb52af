"""Declaring more training examples than a model needs."""

import pytest

from tests.planning.conftest import Planner, model_of


@pytest.mark.parametrize("examples", [200_000, 1_000_000, 10**8])
def test_more_examples_than_needed_are_accepted(planned: Planner, examples: int) -> None:
    """Many declared examples share delta_1 thinner and need a little more each; they never make a plan impossible."""
    plan = planned(model_of(1, 4.0, examples))
    assert plan.examples <= 1.5 * planned(model_of(1, 4.0, 16_000)).examples
