"""The `paper` profile runs the paper's algorithms as written: compared with a plain reference, round by round."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oracle.accounting.ledger import PhaseStarted, SideRearmed
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.paper import _Constants, _Phase, _write_phase, plan_paper
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from tests.predictors.paper_reference import PaperPhase, PaperReference, Query
from tests.predictors.plans import feature
from tests.predictors.test_rectangles import RectanglesSuite, box_data, labels_of

HUGE, NOISY = 250.0, 100.0
"""Nominal epsilons: with the first, noise hardly ever changes an answer; with the second it often does."""

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


PLANS = {
    "one side": toy_plan((feature("a", "lower"),), HUGE, (5, 4, 6)),
    "box": toy_plan((feature("a"), feature("b")), HUGE),
    "box, noisy": toy_plan((feature("a"), feature("b")), NOISY),
    "three features": toy_plan((feature("a", "lower"), feature("b", "lower"), feature("c", "lower")), HUGE),
    "halts at once": toy_plan((feature("a"), feature("b")), 20.0, (8, 8, 8)),
    "some sides, noisy": toy_plan((feature("a", "upper"), feature("b", "none"), feature("c")), NOISY, (6, 4, 5)),
}


class TestPaper(RectanglesSuite):
    """The contract of every predictor: batches, restored states, sizes."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return PLANS["some sides, noisy"]


class AddressedChance:
    """The product's addressed uniform bits, turned into real draws by the inverse of their laws."""

    def __init__(self, secret: bytes, dimension: int) -> None:
        self._key = PhaseKey(secret)
        self._dimension = dimension
        self._addresses = Addresses(self._key, dimension)

    def next_phase(self) -> None:
        """Ratchet the key."""
        self._key = self._key.ratchet()
        self._addresses = Addresses(self._key, self._dimension)

    def _laplace(self, scale: float, purpose: Purpose, side: int, number: int, query: Query | None = None) -> float:
        hashes = None if query is None else self._addresses.hashes(np.array([query]), np.array([True]))
        rounds, sides = np.array([number], dtype=np.uint64), np.array([side], dtype=np.uint64)
        high, low = (int(word) for word in self._addresses.words(purpose, rounds, sides, hashes)[0, 0])
        bits = (high << 64) | low
        if bits < 1 << 127:
            return scale * math.log(math.ldexp(bits, -127))
        return -scale * math.log(math.ldexp((1 << 128) - bits, -127))

    def stopping(self, side: int, number: int, scale: float) -> float:
        """Return the Stopper's draw."""
        return self._laplace(scale, Purpose.STOPPER, side, number)

    def depth(self, side: int, number: int, query: Query, scale: float) -> float:
        """Return the draw of an answer."""
        return self._laplace(scale, Purpose.DEPTH, side, number, query)

    def slice(self, side: int, parameter: float) -> int:
        """Return the size of a Laplace draw, rounded down."""
        return math.floor(abs(self._laplace(1.0 / parameter, Purpose.SLICE, side, 0)))


def reference_of(plan: BoxPlan, secret: bytes, rows: np.ndarray) -> PaperReference:
    """Return the plain algorithm with the plan's constants and the product's randomness."""
    names = [one.name for one in plan.features]
    split = [side.rsplit(":", 1) for side in plan.sides]
    phases = [
        PaperPhase(phase.rounds, DELTA, int(phase.start.base), phase.start.low)  # type: ignore[arg-type]  # is set here
        for phase in plan.phases
    ]
    examples = [(tuple(row), bool(label)) for row, label in zip(rows.tolist(), labels_of(plan, rows), strict=True)]
    sides = [(names.index(name), side == "lower") for name, side in split]
    return PaperReference(plan.epsilon, phases, sides, AddressedChance(secret, len(names)), examples)


def run(plan: BoxPlan, secret: bytes, seed: int) -> tuple[list[int | None], list[tuple[int, int]], int]:
    """Run both to the plan's end, compare, and return labels, re-arms and the number of phases entered."""
    rows = box_data(plan, plan.declared, seed)
    features = box_data(plan, plan.rounds, seed + 1)
    present = np.random.default_rng(seed).random(plan.rounds) >= 0.1
    trainer = RectanglesTrainer(plan, secret)
    trainer.add(rows, labels_of(plan, rows))
    answers = trainer.finish().answer(features, present)
    reference = reference_of(plan, secret, rows)
    labels = [
        reference.answer(tuple(query) if there else None)
        for query, there in zip(features.tolist(), present.tolist(), strict=True)
    ]
    rearms = [(event.round, event.side) for event in answers.events if isinstance(event, SideRearmed)]
    assert [label if label >= 0 else None for label in answers.labels.tolist()] == labels
    assert rearms == reference.restarts
    return labels, rearms, 1 + sum(isinstance(event, PhaseStarted) for event in answers.events)


@pytest.mark.parametrize("name", PLANS)
def test_the_paper_profile_is_the_plain_algorithm(name):
    """Every label and every restart is the plain algorithm's, to the last phase's end."""
    plan, seen = PLANS[name], []

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(secret=st.binary(min_size=32, max_size=32), seed=st.integers(0, 2**32 - 1))
    def check(secret: bytes, seed: int) -> None:
        labels, rearms, phases = run(plan, secret, seed)
        seen.append((labels.count(1), labels.count(0), len(rearms)))
        assert phases == len(plan.phases)

    check()
    assert name == "halts at once" or sum(ones for ones, _, _ in seen) >= 40 * len(seen)
    assert sum(zeros for _, zeros, _ in seen) >= 40 * len(seen)
    assert sum(rearms for _, _, rearms in seen) >= len(seen)


@pytest.mark.parametrize(
    "change", ["law", "stopper law", "scale", "stopper scale", "slice scale", "base", "low", "high"]
)
def test_the_comparison_is_sharp(change):
    """With one number or law off, the two part."""
    plan = PLANS["box, noisy"]
    phases = []
    for phase in plan.phases:
        start, rearmed, stopper = phase.start, phase.rearmed, phase.stopper
        match change:
            case "law":
                start, rearmed = (replace(kind, law="discrete-laplace") for kind in (start, rearmed))
            case "stopper law":
                stopper = replace(stopper, law="discrete-laplace")
            case "scale":
                start, rearmed = (replace(kind, scale=kind.scale * 1.05) for kind in (start, rearmed))
            case "stopper scale":
                stopper = replace(stopper, scale=stopper.scale * 1.2)  # type: ignore[operator]  # is set here
            case "slice scale":
                start = replace(start, slice_scale=0.3, points=600)
            case "base":
                start = replace(start, base=start.base + 1)  # type: ignore[operator]  # is set here
            case _:
                start = replace(start, **{change: getattr(start, change) + 1})
        phases.append(replace(phase, start=start, rearmed=rearmed, stopper=stopper))
    off = replace(plan, phases=tuple(phases))
    rows, features = box_data(plan, plan.declared, 5), box_data(plan, plan.rounds, 6)
    runs = []
    for one in (plan, off):
        trainer = RectanglesTrainer(one, bytes(32))
        trainer.add(rows, labels_of(plan, rows))
        runs.append(trainer.finish().answer(features, np.ones(plan.rounds, dtype=np.bool_)).labels.tolist())
    reference = reference_of(plan, bytes(32), rows)
    wanted = [reference.answer(tuple(query)) for query in features.tolist()]
    assert runs[0] == wanted
    assert runs[1] != wanted


def test_a_phase_of_the_paper_is_called_nominal():
    """Whoever reads the ledger sees that no proof bounds this epsilon."""
    plan = PLANS["box"]
    trainer = RectanglesTrainer(plan, bytes(32))
    trainer.add(box_data(plan, plan.declared, 1), np.ones(plan.declared, dtype=np.bool_))
    predictor: RectanglesPERP = trainer.finish()
    count = plan.phases[0].rounds
    events = predictor.answer(box_data(plan, count, 2), np.ones(count, dtype=np.bool_)).events
    started = [event for event in events if isinstance(event, PhaseStarted)]
    assert [event.nominal for event in started] == [True]
