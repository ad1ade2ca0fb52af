from abc import abstractmethod
from typing import Any

import msgspec
import numpy as np
import pytest

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice.stumps import ranking
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.stumps.model import SelectionPlan, StumpsPlan
from oracle.predictors.stumps import StumpsPERP, StumpsTrainer, _coins
from tests.predictors.everlasting import EverlastingSuite
from tests.predictors.plans import feature, tiny_stumps_plan
from tests.predictors.suite import (
    OTHER_SECRET,
    SECRET,
    Features,
    Present,
    answer_in_batches,
    assert_same_state,
    train,
)
from tests.predictors.test_paper import toy_plan

EDGE = 0.3
NOISY = 170.0


def stump_data(plan: StumpsPlan, rows: int, seed: int) -> Features:
    """Return uniform rows, half of them with every feature near some edge, some on a coarse grid."""
    generator = np.random.default_rng(seed)
    features = generator.uniform(0.0, 1.0, (rows, len(plan.features)))
    near = generator.random(rows) < 0.5
    places = np.where(generator.random(features.shape) < 0.5, EDGE, 1.0 - EDGE) + generator.normal(
        0, 0.03, features.shape
    )
    features[near] = places[near]
    ties = generator.random(rows) < 0.3
    features[ties] = np.round(features[ties] * 32) / 32
    return features


class StumpsSuite(EverlastingSuite):
    """The suite over a plan of stumps; the labels are those of a stump on feature b."""

    upward = True

    @abstractmethod
    def plan(self) -> StumpsPlan:
        """Return the plan."""

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a predictor trained on the labels of a stump, of which every twentieth is wrong."""
        features = stump_data(self.plan(), self.plan().declared, 1000 + seed)
        labels = features[:, 1] >= EDGE if self.upward else features[:, 1] <= 1.0 - EDGE
        labels[::20] ^= True
        return train(self.plan(), features, labels, secret)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return rows like the trainer's with a tenth of the rounds absent."""
        features = stump_data(self.plan(), rounds, seed)
        present = np.random.default_rng(seed).random(rounds) > 0.1
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries far outside: depth 0."""
        far = np.linspace(10.0, 20.0, rows * len(self.plan().features)).reshape(rows, -1)
        return -far if self.upward else far

    def test_the_right_stump_is_found(self):
        """The feature and the direction of the labels, in the state and in the answers."""
        predictor = self.train()
        assert predictor.export()["stump"].tolist() == [1, int(self.upward)]
        queries = np.full((2, len(self.plan().features)), 0.5)
        queries[:, 1] = (0.95, 0.05)
        labels = predictor.answer(queries, np.ones(2, dtype=np.bool_)).labels
        assert labels.tolist() == ([1, 0] if self.upward else [0, 1])


class TestUpward(StumpsSuite):
    """sigma = +1: the largest values are labelled 1."""

    def plan(self) -> StumpsPlan:
        """Return the plan."""
        return tiny_stumps_plan([feature("a"), feature("b")])


class TestDownward(StumpsSuite):
    """sigma = -1, and a feature that no stump may cut on."""

    upward = False

    def plan(self) -> StumpsPlan:
        """Return the plan."""
        return tiny_stumps_plan([feature("a", "none"), feature("b"), feature("c", "upper")])


def paper_plan(epsilon: float = NOISY) -> StumpsPlan:
    """Return a plan of the `paper` profile with two sides of a dozen points, far fewer than the proofs ask."""
    side = toy_plan((feature("stump"),), epsilon, (6, 4, 5))
    fields = msgspec.structs.asdict(side) | {
        "predictor": "stumps",
        "features": (feature("a"), feature("b")),
        "selection": SelectionPlan(
            candidates=4,
            scale=epsilon / 8.0,
            epsilon=epsilon / 4.0,
            cut_law="laplace",
            cut_scale=epsilon / 4.0,
            cut_epsilon=epsilon / 4.0,
            error=0.1,
        ),
    }
    return StumpsPlan(**fields)


class TestPaper(StumpsSuite):
    """Algorithm 7 as written: RectanglesPERP on the relabelled data, with both its sides."""

    def plan(self) -> StumpsPlan:
        """Return the plan."""
        return paper_plan()

    def test_as_many_are_relabelled_as_are_positive(self):
        """But for Laplace's noise, here less than one: the sides hold the ends of the largest p values."""
        plan = self.plan()
        features = stump_data(plan, plan.declared, 4)
        labels = features[:, 1] >= EDGE
        labels[::20] ^= True
        state = train(plan, features, labels).export()
        values = np.sort(features[:, 1])[-int(labels.sum()) :]
        lower, upper = (points[np.isfinite(points)] for points in state["points"])
        assert 3 < len(lower) < 20
        assert lower.tolist() == values[: len(lower)].tolist()
        assert (-upper).tolist() == values[::-1][: len(upper)].tolist()


PLAN = tiny_stumps_plan([feature("a"), feature("b")])


def window_of(features, labels, p_hat, plan=PLAN):
    """Return the points that the side is armed with if the stump (b, +1) and a number of records are released."""

    class Fixed(StumpsTrainer):
        def _count(self, ranked, words):
            assert (len(ranked), len(words)) == (len(features), 8)
            return p_hat

    trainer = Fixed(msgspec.structs.replace(plan, declared=len(features)), SECRET)
    trainer.add(features, labels)
    state = trainer.finish().export()
    assert state["stump"].tolist() == [1, 1]
    return state["points"][0, : plan.phases[0].start.points]


def test_the_window_holds_the_records_inside_the_cut():
    """Those ranked p-hat - M + 1, ..., p-hat, whatever their labels; fewer where there are fewer."""
    features = stump_data(PLAN, 400, 5)
    labels = features[:, 1] >= EDGE
    values = features[ranking(features[:, 1], upward=True), 1]
    assert window_of(features, labels, 250).tolist() == values[250 - 12 : 250][::-1].tolist()
    assert window_of(features, labels, 5)[:6].tolist() == [*values[:5][::-1].tolist(), np.inf]
    assert window_of(features, labels, 999).tolist() == values[-12:][::-1].tolist()


def test_one_record_moves_every_depth_by_at_most_one():
    """Given the stump and p-hat, with ties and with more or fewer records than p-hat: no factor of two."""
    generator = np.random.default_rng(2)
    worst = set()
    for trial in range(150):
        rows = int(generator.integers(14, 40))
        features = np.round(generator.random((rows, 2)) * generator.choice([6, 1000])) / 6
        labels = features[:, 1] >= np.median(features[:, 1])
        features[0, 1], labels[0] = 500.0, True
        p_hat = int(generator.integers(0, rows + 5))
        record = trial % rows or 1
        without = np.delete(features, record, axis=0), np.delete(labels, record)
        one, other = window_of(features, labels, p_hat), window_of(*without, p_hat)
        for query in np.unique(features[:, 1]):
            difference = int((one <= query).sum() - (other <= query).sum())
            assert abs(difference) <= 1
            worst.add(difference)
    assert {-1, 0} <= worst


@pytest.mark.parametrize("label", [False, True])
def test_labels_of_one_kind_are_no_error(label):
    """Counts are private: it runs, gives about that label to all that is well inside the data, and raises nothing."""
    features = stump_data(PLAN, 400, 1)
    labels = np.full(400, label)
    predictor = train(PLAN, features, labels)
    answers = answer_in_batches(predictor, features, np.ones(400, dtype=np.bool_)).labels
    assert np.mean(np.array(answers) == label) > 0.7


def test_choice_and_cut_are_drawn_from_the_secret():
    """With no scale to speak of another secret chooses otherwise; the draws have an address of their own."""
    plan = tiny_stumps_plan([feature(name) for name in "abcd"], scale=2.0**-18)
    features = stump_data(plan, 400, 3)
    labels = features[:, 0] > EDGE
    stumps = {
        tuple(train(plan, features, labels, bytes([number] * 32)).export()["stump"].tolist()) for number in range(20)
    }
    assert len(stumps) >= 5
    assert Purpose.CHOICE not in {Purpose.DEPTH, Purpose.STOPPER, Purpose.THRESHOLD, Purpose.COIN, Purpose.SLICE}
    one = train(plan, features, labels, SECRET).export()
    again, other = (train(plan, features, labels, secret).export() for secret in (SECRET, OTHER_SECRET))
    assert_same_state(one, again)
    assert one["points"].tobytes() != other["points"].tobytes()


def test_a_state_without_its_stump_is_corrupt():
    """One that the plan does not allow is refused too."""
    plan = tiny_stumps_plan([feature("a"), feature("b", "lower")])
    features = stump_data(plan, 400, 1)
    state = dict(train(plan, features, features[:, 1] >= EDGE).export())
    for stump in (None, [1, 0], [2, 1], [-1, 1]):
        changed = {name: array for name, array in state.items() if name != "stump"}
        if stump is not None:
            changed["stump"] = np.array(stump)
        with pytest.raises(CorruptSnapshotError, match="no stump of its plan"):
            StumpsPERP.restore(plan, changed)
    assert StumpsPERP.restore(plan, state).export()["stump"].tolist() == [1, 1]


def test_names_with_colons_are_told_apart():
    """A feature may be called like a side of another one."""
    plan = tiny_stumps_plan([feature("x:lower", "lower"), feature("x", "lower")])
    features = stump_data(plan, 400, 1)
    for column in (0, 1):
        state = train(plan, features, features[:, column] >= EDGE).export()
        assert state["stump"].tolist() == [column, 1]


def test_each_of_many_rows_has_a_coin_of_its_own():
    """Also where their coins are made in several pieces: one that two rows share is no coin."""
    coins = _coins(Addresses(PhaseKey(SECRET), 2), 200_000)
    assert len(np.unique(coins)) == len(coins)
