"""Boxes and stumps on strings: the suites of both, a plain reference with Python's own order, states of one size."""

from bisect import bisect_left
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from oracle.errors import DataError
from oracle.mechanisms.orders import text_digits
from oracle.planning.features import key_bytes
from oracle.planning.plan import BoxPlan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.rectangles import RectanglesTrainer
from tests.predictors.everlasting import EverlastingSuite
from tests.predictors.plans import feature, tiny_plan, tiny_stumps_plan
from tests.predictors.suite import SECRET, Features, Present, answer_in_batches, train
from tests.predictors.test_rectangles import HIGHEST, LOWEST, box_data
from tests.predictors.test_stumps import EDGE, stump_data
from tests.predictors.texts import as_rows, text


def _numbers(plan: BoxPlan, rows: int, seed: int) -> Features:
    return np.clip(box_data(plan, rows, seed), 0.0, 1.0)


def _positive(plan: BoxPlan, numbers: Features) -> Present:
    """Return which rows the plan's sides have within [0.2, 0.8]^d."""
    inside = np.ones(len(numbers), dtype=np.bool_)
    names = [each.name for each in plan.features]
    for side in plan.sides:
        name, end = side.rsplit(":", 1)
        column = numbers[:, names.index(name)]
        inside &= (column >= LOWEST) if end == "lower" else (column <= HIGHEST)
    return inside


def train_box(plan: BoxPlan, secret: bytes = SECRET, seed: int = 1) -> Any:
    """Return a predictor of a box around texts and numbers."""
    numbers = _numbers(plan, plan.declared, 1000 + seed)
    return train(plan, as_rows(plan.features, numbers), _positive(plan, numbers), secret)


class TestTextAndNumber(EverlastingSuite):
    """A box with both sides of a string and one of a number: all keys are bytes."""

    def plan(self) -> BoxPlan:
        """Return the plan."""
        features = [text("a"), feature("b", "lower")]
        return tiny_plan(features, slicing="sequential", points=(8, 7, 8), threshold=5, rearmed=5, rounds=300)

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a predictor trained on box data."""
        return train_box(self.plan(), secret, seed)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return box data with a tenth of the rounds absent."""
        features = as_rows(self.plan().features, _numbers(self.plan(), rounds, seed))
        present = np.random.default_rng(seed).random(rounds) > 0.1
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries far outside on the side asked first."""
        far = np.linspace(0.0, 0.01, rows * len(self.plan().features)).reshape(rows, -1)
        return as_rows(self.plan().features, far)


class TestStringStump(EverlastingSuite):
    """A stump on the second of three features, a string."""

    def plan(self) -> StumpsPlan:
        """Return the plan."""
        features = [feature("a"), text("b"), text("c", max_bytes=31)]
        return tiny_stumps_plan(features, threshold=4, rearmed=4, rounds=150)

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a predictor trained on the labels of a stump, of which every twentieth is wrong."""
        return train_stump(self.plan(), 1, secret, seed)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return rows like the trainer's with a tenth of the rounds absent."""
        numbers = np.clip(stump_data(self.plan(), rounds, seed), 0.0, 0.999)
        features = as_rows(self.plan().features, numbers)
        present = np.random.default_rng(seed).random(rounds) > 0.1
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries far outside: depth 0."""
        return as_rows(self.plan().features, np.linspace(0.0, 0.01, rows * 3).reshape(rows, -1))

    def test_size_of_a_state_does_not_tell_the_chosen_feature(self):
        """Whichever feature the labels follow is chosen, number or string, and all states have one shape."""
        states = [train_stump(self.plan(), column).export() for column in range(3)]
        assert [state["stump"].tolist() for state in states] == [[0, 1], [1, 1], [2, 1]]
        shapes = [{name: (array.dtype, array.shape) for name, array in state.items()} for state in states]
        assert shapes[0] == shapes[1] == shapes[2]


def train_stump(plan: StumpsPlan, column: int, secret: bytes = SECRET, seed: int = 1) -> Any:
    """Return a predictor trained on the labels of a stump on one feature, of which every twentieth is wrong."""
    numbers = np.clip(stump_data(plan, plan.declared, 1000 + seed), 0.0, 0.999)
    labels = numbers[:, column] >= EDGE
    labels[::20] ^= True
    return train(plan, as_rows(plan.features, numbers), labels, secret)


def test_state_holds_keys_of_the_longest_string():
    """Keys of all sides are bytes of one length, that of the longest string with a side, whatever was asked."""
    plan = tiny_plan([text("a", max_bytes=13), feature("b")], slicing="sequential")
    size = key_bytes(plan.features)
    assert size == 1 + 18
    state = train_box(plan).export()
    assert state["points"].shape[-1] == size
    assert {array.shape[-1] for name, array in state.items() if "_keys_" in name} == {size}
    plain = tiny_plan([replace(text("a", max_bytes=13), sides="none"), feature("b")], slicing="sequential")
    assert train_box(plain).export()["points"].dtype == np.float64


def test_order_is_that_of_code_points_and_nothing_else():
    """Thresholds between texts that a collation would order otherwise: 'Z' before 'a', 'z' before 'é', no folding."""
    words = ["", "\0", "A", "Z", "Zz", "a", "z", "z\u0301", "\u00e9", "\uffff", "\U00010000"]
    plan = tiny_plan([replace(text("a"), sides="lower")], slicing="sequential", examples=len(words) * 40)
    edge = bisect_left(words, "a")
    rows = np.array([_digits(word, plan) for word in words for _ in range(40)])
    trainer = RectanglesTrainer(plan, SECRET)
    trainer.add(rows, np.arange(len(rows)) >= 40 * edge)
    answers = trainer.finish().answer(np.array([_digits(word, plan) for word in words]), np.ones(11, dtype=np.bool_))
    assert answers.labels.tolist() == [int(index >= edge) for index in range(11)]


def _digits(word: str, plan: BoxPlan) -> list[float]:
    return text_digits(word.encode(), plan.width)


def test_a_bad_number_names_its_feature():
    """Behind a string of many numbers, the name is still the column's own."""
    plan = tiny_plan([text("a"), feature("b")], slicing="sequential")
    rows = np.zeros((3, plan.width))
    rows[1, -1] = np.inf
    with pytest.raises(DataError, match="column b: every value must be a finite number"):
        RectanglesTrainer(plan, SECRET).add(rows, np.ones(3, dtype=np.bool_))


def test_stump_on_strings_answers_right():
    """Far from the edge on both sides, a trained stump answers as its labels were, and rounds of no query get none."""
    plan = TestStringStump().plan()
    asked = np.array([[0.5, 0.95, 0.5], [0.5, 0.05, 0.5], [0.5, 0.5, 0.5]])
    run = answer_in_batches(train_stump(plan, 1), as_rows(plan.features, asked), np.array([True, True, False]))
    assert run.labels == [1, 0, NO_LABEL]
