"""What an ensemble's plan proves: every figure is made again, and none is taken on trust."""

import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import Composed, PaidQuestionsEvent
from oracle.accounting.race import between_log_delta, race_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.errors import PlanError
from oracle.planning.ensemble.guarantees import query_event, training_event
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.tight import plan_ensemble
from oracle.planning.ensemble.verification import verify_ensemble
from tests.planning.ensemble.models import ensemble_model

PLAN = plan_ensemble(ensemble_model(classes=["a", "b", "c"], examples=40_000))


def changed(plan: EnsemblePlan, index: int | None, **fields: Any) -> EnsemblePlan:
    """Return a plan with other fields, of one of its phases or its own."""
    if index is None:
        return msgspec.structs.replace(plan, **fields)
    phases = list(plan.phases)
    phases[index] = msgspec.structs.replace(phases[index], **fields)
    return msgspec.structs.replace(plan, phases=tuple(phases))


def stopper(index: int, **fields: Any) -> dict[str, Any]:
    """Return a phase's Stopper with other fields."""
    return {"stopper": msgspec.structs.replace(PLAN.phases[index].stopper, **fields)}


def test_every_record_is_within_its_phase() -> None:
    """Training rows and queries of each phase, at the plan's epsilon; with any more slope not."""
    assert delta_at(training_event(PLAN), PLAN.epsilon) <= PLAN.phases[0].delta
    for index, phase in enumerate(PLAN.phases):
        assert delta_at(query_event(PLAN, index), PLAN.epsilon) <= phase.delta
    first = PLAN.phases[0]
    steeper = changed(PLAN, 0, slope=1.01 * first.slope)
    assert delta_at(training_event(steeper), PLAN.epsilon) > first.delta


def test_a_query_pays_for_the_lives_of_its_phase_and_the_next_two() -> None:
    """A later life with less noise than its plan says is found in the phases before it."""
    weaker = changed(PLAN, 4, slope=1.5 * PLAN.phases[4].slope)
    assert [delta_at(query_event(weaker, index), PLAN.epsilon) <= PLAN.phases[index].delta for index in range(6)] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]


def test_getting_to_the_cap_is_charged_to_what_the_stopper_counts() -> None:
    """There it halts in any case, which tells of one query more; one in less slack is more than delta allows."""
    phase = PLAN.phases[0]
    near = changed(PLAN, 0, **stopper(0, threshold=phase.stopper.cap - 2))
    reached = math.exp(log_overflow(phase.stopper.epsilon, phase.stopper.cap - 2, phase.stopper.cap - 1))
    assert delta_at(query_event(near, 0), PLAN.epsilon) >= reached > phase.delta
    assert delta_at(training_event(near), PLAN.epsilon) <= phase.delta


def test_the_stopper_of_the_phase_before_counts_too() -> None:
    """A life may go on into the next phase, and a query of that is a bit of its Stopper."""
    dear = changed(PLAN, 2, **stopper(2, epsilon=PLAN.epsilon))  # and nothing is left for the counts
    dearer = [delta_at(query_event(dear, index), PLAN.epsilon) for index in range(5)]
    assert [delta == 1.0 for delta in dearer] == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("index", "fields", "named"),
    [
        (1, {"paid": PLAN.phases[1].paid // 2}, r"phases\[1\]\.paid"),
        (
            1,
            stopper(1, cap=2 * PLAN.phases[1].stopper.cap) | {"paid": 4 * PLAN.phases[1].stopper.cap},
            r"phases\[\d\]\.delta",
        ),
        (0, stopper(0, threshold=PLAN.phases[0].stopper.cap - 1), r"phases\[0\]\.stopper\.delta_cap"),
        (0, stopper(0, threshold=PLAN.phases[0].stopper.cap), r"phases\[0\]\.stopper\.threshold"),
        (0, stopper(0, epsilon=2 * PLAN.epsilon), r"phases\[0\]\.delta "),
        (0, {"slope": 1.02 * PLAN.phases[0].slope}, r"phases\[0\]\.delta "),
        (0, {"gap": 1}, r"phases\[0\]\.delta "),
        (0, {"delta": 0.5 * PLAN.phases[0].delta}, r"phases\[0\]\.delta "),
        (3, {"delta": 1.1 * PLAN.phases[3].delta}, r"plan\.delta "),
        (2, {"delta_noise": 0.0}, r"phases\[2\]\.delta_noise"),
        (0, {"lag": PLAN.phases[0].rounds}, r"phases\[0\]\.lag"),
        (2, {"lag": PLAN.phases[2].rounds - PLAN.phases[1].least_rounds + 1}, r"phases\[1\]\.least_rounds"),
        (2, {"least_rounds": 0}, r"phases\[2\]\.least_rounds"),
        (4, {"rounds": PLAN.phases[3].least_rounds - 1, "lag": 1}, r"phases\[3\]\.least_rounds"),
        (2, {"keep": 0.0}, r"phases\[2\]\.keep"),
        (2, {"kept_rows": 0}, r"phases\[2\]\.kept_rows"),
        (2, {"phase": 2}, r"plan\.phases"),
        (2, {"memory_bytes": 1}, r"phases\[2\]\.memory_bytes"),
        (None, {"questions": 1}, r"plan\.questions"),
        (None, {"teachers": 10**6}, r"plan\.teachers"),
        (None, {"share_slope": 3.0}, r"phases\[0\]\.delta "),
        (None, {"share_slope": msgspec.UNSET}, r"plan\.share_slope"),
        (None, {"control": msgspec.structs.replace(PLAN.control, epsilon=3.0)}, r"phases\[0\]\.delta "),
        (None, {"control": msgspec.structs.replace(PLAN.control, leak=1.0)}, r"plan\.control\.leak"),
        (None, {"changed": 0.5 * PLAN.changed}, r"plan\.changed"),
        (None, {"examples": 10**9}, r"plan\.examples"),
        (None, {"declared": 10 * PLAN.declared}, r"memory_bytes"),
        (None, {"epsilon": 0.99 * PLAN.epsilon}, r"phases\[0\]\.delta "),
        (None, {"epsilon": -1.0}, r"no model declares this .*epsilon"),
        (None, {"teacher_rows": 0}, r"no model declares this .*teacher_rows"),
        (None, {"contested": -0.1}, r"no model declares this .*contested"),
        (None, {"gamma": 2.0}, r"no model declares this .*gamma"),
        (None, {"gamma": 0.99}, r"phases\[0\]\.stopper\.threshold"),
        (None, {"beta": 1e-12}, r"phases\[0\]\.stopper\.threshold"),
        (1, stopper(1, threshold=PLAN.phases[1].stopper.threshold // 2), r"phases\[1\]\.stopper\.threshold"),
        (1, {"gap": 100 * PLAN.phases[1].gap}, r"phases\[1\]\.stopper\.threshold"),
        (None, {"beta": 0.0}, r"no model declares this .*beta"),
        (None, {"classes": ("a", "a", "c")}, r"no model declares this .*classes"),
        (None, {"share_slope": msgspec.UNSET, "shares": (0.5, 0.5)}, r"no model declares this .*shares"),
        (None, {"alpha": math.nan}, r"plan\.alpha"),
        (None, {"share_slope": 1e300}, r"plan\.share_slope"),
        (None, {"control": msgspec.structs.replace(PLAN.control, epsilon=1e-300)}, r"plan\.control\.epsilon"),
        (0, {"slope": 0.0}, r"phases\[0\]\.slope"),
        (0, {"slope": -1.0}, r"phases\[0\]\.slope"),
        (1, {"slope": 1e300}, r"phases\[1\]\.slope"),
        (0, stopper(0, epsilon=0.0), r"phases\[0\]\.stopper\.epsilon"),
        (0, stopper(0, epsilon=-1.0), r"phases\[0\]\.stopper\.epsilon"),
        (1, stopper(1, epsilon=1e-300), r"phases\[1\]\.stopper\.epsilon"),
    ],
)
def test_a_figure_that_does_not_hold_is_refused(index: int | None, fields: dict[str, Any], named: str) -> None:
    """Whatever the plan says of it."""
    verify_ensemble(PLAN)
    with pytest.raises(PlanError, match=named):
        verify_ensemble(changed(PLAN, index, **fields))


def test_every_question_of_a_life_is_charged_for_its_table() -> None:
    """A life may go on through the phase behind that of its arming, and asks about all classes but one."""
    whole = training_event(PLAN)
    assert isinstance(whole, Composed)
    (event,) = [part for part in whole.events if isinstance(part, PaidQuestionsEvent)]
    assert event.questions == 2 * (PLAN.phases[0].rounds + PLAN.phases[1].rounds)


def test_tables_are_charged() -> None:
    """Lemma 27: a factor next to 1 within its reach, for 2^50 questions; beyond it an addend for each."""
    event = PaidQuestionsEvent("logistic", 0.02, 100, gap=20, questions=1 << 50, points=1000)
    ideal = math.exp(between_log_delta(0.02, 20, 100, 1.0))
    assert ideal <= delta_at(event, 1.0) <= ideal * (1.0 + 1e-11)
    ideal = math.exp(race_log_delta(0.02, 20, 100, 1.0))
    far = PaidQuestionsEvent("logistic", 0.02, 100, gap=20, questions=1 << 50, points=4000)
    assert delta_at(far, 1.0) > ideal + 1e-21
    assert delta_at(far, 1.0) == delta_at(PaidQuestionsEvent("logistic", 0.02, 100, gap=20, questions=1 << 50), 1.0)


@pytest.mark.parametrize(("slope", "gap", "points"), [(0.02, 15, 3100), (1.0, 1, 55), (0.3, 1, 200)])
def test_within_reach_every_answer_dwarfs_the_tables_distance(slope: float, gap: int, points: int) -> None:
    """Lemma 27, at the worst counts and middles, with each side of a zone told."""
    assert slope * (points + gap + 3) <= 63.0
    least = 1.0
    for middle in (0, points):
        cuts = (middle - gap // 2, middle + 1, middle - gap // 2 + gap + 1)
        for votes in (0, points):
            tails = [1.0, *(1.0 / (1.0 + math.exp(slope * (cut - votes - 0.5))) for cut in cuts)]
            odds = [math.exp(slope * (cut - votes - 0.5)) for cut in cuts]
            laws = [odds[0] / (1.0 + odds[0]), tails[3]]
            laws += [(b - a) / ((1.0 + a) * (1.0 + b)) for a, b in pairwise(odds)]
            least = min(least, *laws)
    assert 2.0**-127 / least <= 2.0**-30
