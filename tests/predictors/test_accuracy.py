from functools import cache

import numpy as np
import pytest

from oracle.accounting.ledger import PhaseEnded, SideRearmed
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_tight
from oracle.planning.plan import BoxPlan
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from tests.predictors.plans import feature
from tests.predictors.suite import Features, Present

BATCH = 4096
CHECKS = 20
"""Parts of a phase whose error is looked at one by one."""


@cache
def plan() -> BoxPlan:
    """Return a real plan: a box on two features, half of the stream hostile."""
    return plan_tight(
        BoxModel(
            name="box",
            predictor="rectangles",
            epsilon=8.0,
            alpha=0.3,
            gamma=0.5,
            examples=18_000,
            first_share=0.5,
            features=(feature("a"), feature("b")),
        )
    )


def concept(features: Features) -> Present:
    """Label with the box [0.1, 0.9] x [0.05, 0.95]."""
    within = (features >= [0.1, 0.05]) & (features <= [0.9, 0.95])
    return within[:, 0] & within[:, 1]


def trained(generator: np.random.Generator) -> RectanglesPERP:
    """Return a predictor trained on uniform examples."""
    trainer = RectanglesTrainer(plan(), bytes(range(32)))
    rows = generator.random((plan().declared, 2))
    trainer.add(rows, concept(rows))
    return trainer.finish()


def far_outside(generator: np.random.Generator, rows: int) -> Features:
    """Return hostile queries as far outside as can be, on any side."""
    hostile = generator.uniform(0.3, 0.7, (rows, 2))
    hostile[np.arange(rows), generator.integers(0, 2, rows)] = generator.choice([-1e9, 1e9], rows)
    return hostile


def between_thresholds(predictor: RectanglesPERP, generator: np.random.Generator, rows: int) -> Features:
    """Return hostile queries of one that sees the first side's points: a quarter of them between its thresholds.

    Not more, as each life's points then lie in the former one's zone, which soon is too narrow for a float.
    """
    state = predictor.export()
    phase = plan().phases[predictor.facts().phase - 1]
    instance = phase.rearmed if state["fresh"][0] else phase.start
    first, last = state["points"][0, [instance.low, instance.high]].astype(np.float64)
    hostile = far_outside(generator, rows)
    hostile[: rows // 4] = 0.5
    hostile[: rows // 4, 0] = generator.uniform(first, last, rows // 4) if np.isfinite(last) else 0.1
    return hostile


def run(attack, rounds: int) -> tuple[list[float], float, list[object]]:
    """Return the error on honest queries in each part of the stretch, the rate of wrong 1s, and the events."""
    generator = np.random.default_rng(11)
    predictor = trained(generator)
    wrong, honest, false_ones = np.zeros(CHECKS), np.zeros(CHECKS), 0
    events: list[object] = []
    for start in range(0, rounds, BATCH):
        rows = min(BATCH, rounds - start)
        features = generator.random((rows, 2))
        hostile = generator.random(rows) < 1.0 - plan().gamma
        features[hostile] = attack(predictor, generator, int(hostile.sum()))
        answers = predictor.answer(features, np.ones(rows, dtype=np.bool_))
        events += answers.events
        misses = (answers.labels == 1) != concept(features)
        part = start * CHECKS // rounds
        wrong[part] += np.count_nonzero(misses & ~hostile)
        honest[part] += np.count_nonzero(~hostile)
        false_ones += int(np.count_nonzero(misses & ~hostile & (answers.labels == 1)))
    return (wrong / honest).tolist(), false_ones / float(honest.sum()), events


def test_error_stays_within_alpha_under_a_flood():
    """Three whole phases and a part of the fourth, half the queries far outside: each part errs at most alpha."""
    rounds = sum(phase.rounds for phase in plan().phases[:3]) + 50_000
    errors, false_ones, events = run(lambda _, generator, rows: far_outside(generator, rows), rounds)
    assert sum(isinstance(event, PhaseEnded) for event in events) == 3
    assert max(errors) <= plan().alpha
    assert min(errors) > 0.0
    assert false_ones <= plan().deep_error  # labels err on one side
    assert plan().expected_error <= plan().alpha


def test_error_stays_within_alpha_when_a_side_is_exhausted():
    """One who sees the private points asks between the thresholds: a side, re-armed again and again, still serves."""
    rounds = plan().phases[0].rounds + plan().phases[1].rounds
    errors, false_ones, events = run(between_thresholds, rounds)
    rearms = [event for event in events if isinstance(event, SideRearmed)]
    assert {event.phase for event in rearms if event.side == 0} == {1, 2}
    assert len(rearms) >= 10
    assert max(errors) <= plan().alpha
    assert false_ones <= plan().deep_error


@pytest.mark.parametrize("side", range(4))
def test_untrained_side_shows(side):
    """The check can fail: with the examples of one side's stripe missing, the error exceeds its plan's bound there."""
    generator = np.random.default_rng(5)
    rows = generator.random((plan().declared, 2))
    column, upper = divmod(side, 2)
    rows[:, column] = rows[:, column] / 2.0 + (0.0 if upper else 0.5)
    trainer = RectanglesTrainer(plan(), bytes(32))
    trainer.add(rows, concept(rows))
    queries = generator.random((20_000, 2))
    labels = trainer.finish().answer(queries, np.ones(20_000, dtype=np.bool_)).labels
    assert np.mean((labels == 1) != concept(queries)) > plan().alpha
