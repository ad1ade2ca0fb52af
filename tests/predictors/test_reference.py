import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oracle.accounting.ledger import PhaseStarted, SideRearmed
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.rectangles import RectanglesTrainer
from tests.predictors.plans import feature, planned, tiny_plan
from tests.predictors.reference import Reference
from tests.predictors.suite import Features, Present
from tests.predictors.test_rectangles import box_data, labels_of

PLANS = {
    "one side": tiny_plan([feature("a", "lower")], threshold=5, rearmed=5),
    "box": tiny_plan([feature("a"), feature("b")]),
    "laplace": tiny_plan([feature("a"), feature("b", "upper")], law="discrete-laplace"),
    "an unused feature": tiny_plan([feature("a", "upper"), feature("b", "none"), feature("c", "lower")], threshold=6),
    "trim": tiny_plan([feature("a"), feature("b", "lower")], trim=3),
    "sequential": tiny_plan([feature("a"), feature("b")], slicing="sequential"),
    "sequential, trim": tiny_plan([feature("a", "lower"), feature("b")], slicing="sequential", trim=2),
    "short phases": tiny_plan([feature("a", "lower")], points=(8, 6) * 3, rounds=80, threshold=5, rearmed=5),
    "many re-arms": tiny_plan([feature("a"), feature("b", "lower")], threshold=5, rearmed=5),
}


def compare(plan: BoxPlan, secret: bytes, rows: Features, features: Features, present: Present) -> tuple[int, int, int]:
    """Run both over the same rounds; return the re-arms, the phase changes and the 1s after the first of these."""
    positive = labels_of(plan, rows)
    trainer = RectanglesTrainer(plan, secret)
    trainer.add(rows, positive)
    answers = trainer.finish().answer(features, present)
    reference = Reference(plan, secret, rows.tolist(), positive.tolist())
    labels = [
        reference.answer(query if there else None)
        for query, there in zip(features.tolist(), present.tolist(), strict=True)
    ]
    rearms = [(event.round, event.side) for event in answers.events if isinstance(event, SideRearmed)]
    changes = [event.round for event in answers.events if isinstance(event, PhaseStarted)]
    assert [None if label == NO_LABEL else label for label in answers.labels.tolist()] == labels
    assert rearms == reference.rearms
    assert changes == reference.changes
    return len(rearms), len(changes), labels[plan.phases[0].rounds :].count(1)


@pytest.mark.parametrize("name", PLANS)
def test_reference_agrees(name):
    """Labels, re-arms and phase changes are those of the plain algorithm, to the plan's end."""
    plan, seen = PLANS[name], []

    @settings(max_examples=14, deadline=None, derandomize=True, database=None)
    @given(
        secret=st.binary(min_size=32, max_size=32),
        seed=st.integers(0, 2**32 - 1),
        absent=st.sampled_from([0.0, 0.1, 0.5]),
        grid=st.sampled_from([0, 0, 8, 40]),
        shift=st.sampled_from([0.0, 0.0, 0.03, -0.03]),
    )
    def check(secret: bytes, seed: int, absent: float, grid: int, shift: float) -> None:
        rows = box_data(plan, plan.declared, seed)
        features = box_data(plan, plan.rounds, seed + 1) + shift
        if grid:  # ties everywhere, zeros of both signs among them
            rows, features = np.round(rows * grid) / grid, np.round((features - 0.5) * grid) / grid + 0.5
            features[::11] -= 0.5
            features[::22] *= -1.0
        present = np.random.default_rng(seed).random(plan.rounds) >= absent
        seen.append(compare(plan, secret, rows, features, present))

    check()
    assert all(changes == len(plan.phases) - 1 for _, changes, _ in seen)
    assert sum(rearms for rearms, _, _ in seen) >= 2 * len(seen)
    assert sum(ones for _, _, ones in seen) >= 40 * len(seen)  # later phases live on what was harvested


def test_reference_agrees_on_a_real_plan():
    """A plan that the accountant has passed: some thousand rounds of its first phase, up to the first re-arms."""
    plan = planned()
    rows = box_data(plan, plan.declared, 7)
    first = plan.phases[0].start
    ordered = np.sort(rows[labels_of(plan, rows), 0])
    features = np.random.default_rng(8).choice(ordered[first.low : first.high], (3000, 1))
    rearms, _, _ = compare(plan, bytes(range(32)), rows, features, np.ones(3000, dtype=np.bool_))
    assert rearms >= 1


@pytest.mark.parametrize("change", ["low", "trim", "points", "threshold", "coin"])
def test_reference_can_disagree(change):
    """The comparison is sharp: a reference with one number off is found out."""
    plan = PLANS["box"]
    rows = box_data(plan, plan.declared, 3)
    features = box_data(plan, plan.rounds, 4)
    positive = labels_of(plan, rows).tolist()
    runs = []
    for numbers in (plan, plan, altered(plan, change)):
        reference = Reference(numbers, bytes(32), rows.tolist(), positive)
        runs.append(([reference.answer(query) for query in features.tolist()], reference.rearms))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def altered(plan: BoxPlan, change: str) -> BoxPlan:
    """Return the plan with one number changed."""
    if change == "coin":
        return replace(plan, coin=0.4)
    phases = []
    for phase in plan.phases:
        start, rearmed, stopper = phase.start, phase.rearmed, phase.stopper
        if change == "threshold":
            stopper = replace(stopper, threshold=stopper.threshold + 1)
        elif change == "points":
            rearmed = replace(rearmed, points=rearmed.points - 4)
        else:
            start = replace(start, **{change: getattr(start, change) + 1})
        phases.append(replace(phase, start=start, rearmed=rearmed, stopper=stopper))
    return replace(plan, phases=tuple(phases))
