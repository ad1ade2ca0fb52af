"""The `paper` profile is a predictor like any other; the audit compares it with a plain re-implementation."""

import numpy as np
from msgspec.structs import replace

from oracle.accounting.ledger import PhaseStarted
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.paper import _Constants, _Phase, _write_phase, plan_paper
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from tests.predictors.plans import feature
from tests.predictors.test_rectangles import RectanglesSuite, box_data

NOISY = 100.0
"""A nominal epsilon at which noise often changes an answer."""

DELTA = 0.01


def toy_plan(features: tuple[Feature, ...], epsilon: float, points: tuple[int, ...] = (12, 10, 11)) -> BoxPlan:
    """Return a plan of the `paper` profile with sides of a dozen points: its m_p are far below what the proofs ask."""
    model = BoxModel(
        name="toy",
        predictor="rectangles",
        profile="paper",
        slicing="rsc",
        epsilon=epsilon,
        examples=400,
        features=features,
    )
    plan = plan_paper(model)
    phases = tuple(
        _write_phase(model, len(plan.sides), index, _Phase(400 + 30 * index, DELTA, _Constants(size, size / 4.0)))
        for index, size in enumerate(points)
    )
    return replace(plan, phases=phases, declared=400)


class TestPaper(RectanglesSuite):
    """The contract of every predictor: batches, restored states, sizes."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return toy_plan((feature("a", "upper"), feature("b", "none"), feature("c")), NOISY, (6, 4, 5))


def test_a_phase_of_the_paper_is_called_nominal():
    """Whoever reads the ledger sees that no proof bounds this epsilon."""
    plan = toy_plan((feature("a"), feature("b")), NOISY)
    trainer = RectanglesTrainer(plan, bytes(32))
    trainer.add(box_data(plan, plan.declared, 1), np.ones(plan.declared, dtype=np.bool_))
    predictor: RectanglesPERP = trainer.finish()
    count = plan.phases[0].rounds
    events = predictor.answer(box_data(plan, count, 2), np.ones(count, dtype=np.bool_)).events
    started = [event for event in events if isinstance(event, PhaseStarted)]
    assert [event.nominal for event in started] == [True]
