from abc import abstractmethod

import numpy as np
import pytest

from oracle.accounting.ledger import PhaseEnded, SideRearmed
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from oracle.predictors.sides import Geometry
from tests.predictors.everlasting import EverlastingSuite
from tests.predictors.plans import feature, planned, tiny_plan
from tests.predictors.suite import SECRET, Features, Present, answer_in_batches, assert_same_state

INSIDE, LOWEST, HIGHEST = 0.5, 0.2, 0.8


def box_data(plan: BoxPlan, rows: int, seed: int) -> Features:
    """Return uniform rows, every third of them near an edge of the box [0.2, 0.8]^d, some on a coarse grid."""
    generator = np.random.default_rng(seed)
    features = generator.uniform(0.1, 0.9, (rows, len(plan.features)))
    near = generator.random(rows) < INSIDE
    column = generator.integers(0, len(plan.features), rows)
    edge = np.where(generator.random(rows) < 0.5, LOWEST + 0.02, HIGHEST - 0.02) + generator.normal(0, 0.02, rows)
    features[near, column[near]] = edge[near]
    ties = generator.random(rows) < 0.3
    features[ties] = np.round(features[ties] * 32) / 32
    return features


def labels_of(plan: BoxPlan, features: Features) -> Present:
    """Return which rows are in the box that the plan's sides make of [0.2, 0.8]^d."""
    keys = Geometry(plan).keys(features)
    limits = np.array([LOWEST if side.endswith(":lower") else -HIGHEST for side in plan.sides])
    beyond: Present = np.any(keys < limits[:, None], axis=0)
    return ~beyond


def train(plan: BoxPlan, secret: bytes = SECRET, seed: int = 1, rows: Features | None = None) -> RectanglesPERP:
    """Return a predictor trained on box data."""
    features = box_data(plan, plan.declared, 1000 + seed) if rows is None else rows
    trainer = RectanglesTrainer(plan, secret)
    trainer.add(features, labels_of(plan, features))
    return trainer.finish()


class RectanglesSuite(EverlastingSuite):
    """The suite over a plan of boxes."""

    @abstractmethod
    def plan(self) -> BoxPlan:
        """Return the plan."""

    def train(self, secret: bytes = SECRET, seed: int = 1) -> RectanglesPERP:
        """Return a predictor trained on box data."""
        return train(self.plan(), secret, seed)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return box data with a tenth of the rounds absent."""
        features = box_data(self.plan(), rounds, seed)
        present = np.random.default_rng(seed).random(rounds) > 0.1
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries far outside on every side: depth 0 on the side asked first."""
        sign = -1.0 if self.plan().sides[0].endswith(":lower") else 1.0
        return sign * np.linspace(10.0, 20.0, rows * len(self.plan().features)).reshape(rows, -1)


class TestOneSide(RectanglesSuite):
    """A one-sided threshold: all positives go to the one side, with no coin."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a", "lower")])


class TestOneUpperSide(RectanglesSuite):
    """As one side, but mirrored, and with discrete Laplace noise."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a", "upper")], law="discrete-laplace")


class TestBox(RectanglesSuite):
    """Two features, four sides."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a"), feature("b")])


class TestLearned(RectanglesSuite):
    """Four sides that get positive records by learned edges."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a"), feature("b")], learned=True)


class TestSomeSides(RectanglesSuite):
    """A side here, a side there, and a feature that no side looks at."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a", "upper"), feature("b", "none"), feature("c", "lower")], rearmed=12)

    def test_unused_feature_draws_other_noise(self):
        """A feature that no side looks at is part of the query: other bits there, other noise, another tag."""
        features, present = self.whole()
        other = features.copy()
        other[:, 1] = 1.0 - other[:, 1]
        left = answer_in_batches(self.train(), features, present)
        right = answer_in_batches(self.train(), other, present)
        assert left.labels != right.labels
        assert left.tag != right.tag


class TestSequential(RectanglesSuite):
    """Noise-free slices, one after another."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a"), feature("b")], slicing="sequential")


class TestTrim(RectanglesSuite):
    """The outermost points of each side are skipped when a phase starts."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a"), feature("b", "lower")], trim=3)

    def test_trim_skips_the_outermost_points(self):
        """The first phase holds the positives ranked 4 to 15 on each side."""
        plan = tiny_plan([feature("a", "lower")], trim=3)
        rows = box_data(plan, plan.declared, 5)
        points = train(plan, rows=rows).export()["points"][0, :12]
        assert points.tolist() == sorted(rows[labels_of(plan, rows), 0])[3:15]


class TestSequentialTrim(RectanglesSuite):
    """Both at once, with a side missing."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        return tiny_plan([feature("a", "lower"), feature("b")], slicing="sequential", trim=2)


def long_stream(predictor: RectanglesPERP, rounds: int) -> tuple[Features, Present]:
    """Return uniform queries mixed with many between the thresholds of the two sides as they are armed now."""
    generator = np.random.default_rng(3)
    start = planned().phases[0].start
    zone = predictor.export()["points"][:, start.low : start.high].astype(np.float64) * [[1.0], [-1.0]]
    features = np.where(
        generator.random(rounds) < 0.2, generator.choice(zone.ravel(), rounds), generator.uniform(0.1, 0.9, rounds)
    )
    return features[:, None], generator.random(rounds) > 0.05


def test_long_batches_are_cut_into_segments():
    """Under a real plan: one batch of many segments, two phases and re-arms equals batches of any other size."""
    plan = planned()
    rounds = plan.phases[0].rounds + 3 * plan.phases[1].rounds // 4
    one = train(plan)
    features, present = long_stream(one, rounds)
    expected = answer_in_batches(one, features, present)
    assert sum(isinstance(event, SideRearmed) for event in expected.events) >= 2
    assert sum(isinstance(event, PhaseEnded) for event in expected.events) == 1
    assert plan.phases[0].rounds % plan.segment_rows != 0
    assert rounds > plan.segment_rows
    for step in (997, 16_384):
        other = train(plan)
        assert answer_in_batches(other, features, present, range(step, rounds, step)) == expected
        assert_same_state(other.export(), one.export())


@pytest.mark.parametrize("segment", [1, 2, 37])
def test_segments_do_not_matter(segment, monkeypatch):
    """However few rows are worked on at once, all is the same."""
    plan = tiny_plan([feature("a"), feature("b")])
    features, present = TestBox().whole()
    one, other = train(plan), train(plan)
    expected = answer_in_batches(one, features, present)
    monkeypatch.setattr(BoxPlan, "segment_rows", segment)
    assert answer_in_batches(other, features, present) == expected
    assert_same_state(other.export(), one.export())


def test_no_positive_example_is_no_error():
    """Counts are private: with no positive at all the predictor runs, says 0, and raises nothing."""
    plan = tiny_plan([feature("a"), feature("b")])
    trainer = RectanglesTrainer(plan, SECRET)
    trainer.add(box_data(plan, plan.declared, 1), np.zeros(plan.declared, dtype=np.bool_))
    features, present = TestBox().whole()
    labels = answer_in_batches(trainer.finish(), features, present).labels
    assert labels.count(1) < 10
    assert labels.count(NO_LABEL) == (~present).sum()


@pytest.mark.parametrize("slicing", ["faces", "sequential"])
def test_query_leaves_its_mark_in_one_place(slicing):
    """A query changes one side's mediums (label 0), or what is harvested (label 1), or nothing (label 0)."""
    plan = tiny_plan([feature("a"), feature("b")], slicing=slicing, threshold=300)
    predictor, seen = train(plan), set()
    features, present = TestBox().whole()
    before = predictor.export()
    for row in range(plan.phases[0].rounds - 1):
        label = int(predictor.answer(features[row : row + 1], present[row : row + 1]).labels[0])
        after = predictor.export()
        assert after["points"].tobytes() == before["points"].tobytes()
        mediums = np.subtract(after["mediums"], before["mediums"], dtype=np.int64).tolist()
        keys = Geometry(plan).keys(features[row : row + 1])[:, 0]
        changed = {name for name in before if before[name].tobytes() != after[name].tobytes()} - {"counters"}
        collected = {name for name in changed if name.startswith("collected_")}
        harvested = {name for name in changed if name.startswith("harvest_keys")}
        if sum(mediums):
            side = mediums.index(1)
            seen.add("medium")
            assert (label, sorted(mediums)) == (0, [0, 0, 0, 1])
            assert collected <= {f"collected_keys_{side}", f"collected_records_{side}", "collected_counts"}
            assert collected == changed - {"mediums"}
            if collected:
                new = set(after[f"collected_records_{side}"].tolist()) - set(
                    before[f"collected_records_{side}"].tolist()
                )
                assert new <= {row, 0}
                assert keys[side] in after[f"collected_keys_{side}"]
        elif label == 1:
            seen.add("high")
            assert not collected
            if slicing == "faces":
                assert len(harvested) <= 1
        else:
            seen.add("nothing")
            assert not changed
        before = after
    assert seen == {"medium", "high", "nothing"}


def test_no_round_is_armed_twice_on_one_threshold():
    """Every life of a side has a threshold draw of its own: lives are armed before different rounds."""
    plan = tiny_plan([feature("a"), feature("b")], threshold=1)
    predictor = train(plan)
    events = answer_in_batches(predictor, *TestBox().whole()).events
    starts = np.cumsum([0, *(phase.rounds for phase in plan.phases)])
    lives = [(event.phase, event.side, event.round) for event in events if isinstance(event, SideRearmed)]
    assert len(lives) > 100
    assert len(set(lives)) == len(lives)
    assert all(moment > starts[phase - 1] for phase, _, moment in lives)  # round 0 belongs to the phase's start
