"""Ensembles against a tenth of a stream that is chosen against the others."""

from typing import Final

import msgspec
import pytest

from tests.experiments.adversaries.ensembles import ATTACKS, CONTESTED, planned, play

_PHASES = 3


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_promise_holds_for_the_honest(attack):
    """Noise changes at most alpha of their answers, they are as contested as declared, and hardly a round rests."""
    plan = planned()
    for phase in play(plan, ATTACKS[attack], 4, _PHASES):
        assert phase.changed <= plan.alpha
        assert phase.contested <= CONTESTED
        assert phase.resting <= 0.01


_LABELLED: Final = 0.3 * 0.95 + 0.7 * 0.05
"""Share of class 1 among the training labels, towards which thresholds are steered."""

_STEERED: Final = {"only class 1": (_LABELLED - 0.1) / 0.9, "only class 0": _LABELLED / 0.9}
"""Share of class 1 that is left to the honest where a tenth of all answers is of one class."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_promised_stays_near(attack):
    """Teachers learn the honest labels; answers are of class 1 as often as labels are, and wrong by that and 2 %."""
    steered = _STEERED.get(attack, _LABELLED)
    for phase in play(planned(), ATTACKS[attack], 5, _PHASES):
        assert min(steered, 0.3) - 0.015 <= phase.ones <= max(steered, 0.3) + 0.015
        assert phase.wrong <= abs(steered - 0.3) + 0.02


def test_a_plan_is_exhausted_by_more_than_it_is_for():
    """Where half of the stream is contested, and none of it was planned for, K is soon spent, and most rounds rest."""
    alone = planned(1.0)
    assert alone.declared < planned().declared / 2
    attacked = msgspec.structs.replace(alone, gamma=0.5)
    assert max(phase.resting for phase in play(attacked, ATTACKS["contested queries"], 4, _PHASES)) > 0.3
