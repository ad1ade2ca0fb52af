"""What a plan says was spent, against a sum over every single record, in exact arithmetic."""

from fractions import Fraction
from functools import cache

import msgspec
import pytest

from oracle.planning.plan import Plan
from tests.predictors.plans import feature, planned, tiny_plan


@cache
def _falling() -> Plan:
    """Return a plan of three phases, of 400, 430 and 460 rounds, each with a delta of its own."""
    plan = tiny_plan([feature("a")])
    phases = tuple(msgspec.structs.replace(part, delta=1e-6 / part.phase**3) for part in plan.phases)
    return msgspec.structs.replace(plan, phases=phases)


def _one_by_one(plan: Plan, answered: int) -> Fraction:
    """Add up delta_1 for each training record and delta_p for each of the rounds answered in all."""
    deltas = [Fraction(phase.delta) for phase in plan.phases for _ in range(phase.rounds)]
    return plan.declared * Fraction(plan.phases[0].delta) + sum(deltas[:answered])


@pytest.mark.parametrize("rounds", [0, 1, 399])
@pytest.mark.parametrize(("phase", "before"), [(1, 0), (2, 400), (3, 830)])
def test_spent_is_the_sum_over_every_record_and_round_so_far(phase: int, before: int, rounds: int) -> None:
    """The training records pay once, the rounds of each phase its own delta, those to come nothing."""
    plan = _falling()
    assert plan.first_round(phase) == before
    assert plan.delta_spent(phase, rounds) == pytest.approx(float(_one_by_one(plan, before + rounds)), rel=1e-12)


def test_a_phase_that_is_over_is_spent_when_the_next_one_begins() -> None:
    """The last round of a phase and the beginning of the next are one moment."""
    plan = _falling()
    for phase in plan.phases[:-1]:
        begun = plan.delta_spent(phase.phase + 1, 0)
        assert plan.delta_spent(phase.phase, phase.rounds) == pytest.approx(begun, rel=1e-12)


def test_the_end_of_a_real_plan_stays_below_its_delta() -> None:
    """After the last round of all no more is spent than was promised for ever."""
    plan = planned()
    assert plan.delta_spent(len(plan.phases), plan.phases[-1].rounds) <= plan.delta
