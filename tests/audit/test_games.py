"""The games against what is shipped: no claim is refuted, and somebody comes near every kind of claim."""

import numpy as np
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import BetweenThresholdsEvent
from oracle.audit.adversaries import ADVERSARIES
from oracle.audit.cells import Cell, all_cells, run_cell
from oracle.audit.findings import NEAR
from oracle.audit.games import Game
from oracle.audit.plans import TARGETS, between_instance, small_plan
from oracle.audit.policies import between_policy, halting_law, stopper_shapes, worst_depth
from oracle.errors import InputError
from oracle.mechanisms.stopper import Stopper
from oracle.planning.guarantees import query_guarantee
from oracle.planning.kinds import KINDS
from tests.accounting.worst_case import worst_delta

SEED = bytes(range(16, 32))


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("law", ["logistic", "discrete-laplace"])
def test_between_thresholds_stays_below_its_claim_and_comes_near(law, epsilon):
    """The exact worst strategy proves more than a quarter of the claim, and not more than all of it."""
    found = run_cell(Cell("between-thresholds", law, "dynamic program", epsilon, 0.01, 20_000), SEED, 1e-3)
    assert epsilon / NEAR < found.lowest <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_stopper_stays_below_its_claim_and_comes_near(epsilon):
    """The strongest attack by the exact law of halting proves more than a quarter of the claim."""
    shape = next(iter(stopper_shapes(Stopper(epsilon, 20), 4_000)))
    cell = Cell(
        "stopper",
        "discrete-laplace",
        f"{shape.count} of 20 mediums held for {shape.rounds} rounds",
        epsilon,
        0.0,
        8_000,
    )
    found = run_cell(cell, SEED, 1e-3)
    assert epsilon / NEAR < found.lowest <= epsilon


@pytest.mark.slow
def test_a_whole_predictor_stays_below_its_claim_and_comes_near():
    """Against a whole predictor the strongest adversary proves more than a quarter of the claim."""
    cell = Cell("predictor", TARGETS[0].name, "training row, extreme", 4.0, 0.01, 5_000)
    found = run_cell(cell, SEED, 1e-3)
    assert 4.0 / NEAR < found.lowest <= 4.0


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_every_adversary_plays_every_predictor(target, adversary):
    """A few games of each: the same numbers of features, and no refuted claim."""
    cell = Cell("predictor", target.name, adversary, 8.0, 0.05, 16)
    found = run_cell(cell, SEED, 1e-6)
    assert found.lowest <= 8.0
    assert found.nominal == (target.profile == "paper")


@pytest.mark.parametrize("target", [one for one in TARGETS if one.profile == "tight"], ids=lambda one: one.name)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_small_plans_are_proved(target, epsilon):
    """The accountant passes every figure of the plans under attack, and none of one that claims a tenth less."""
    plan = small_plan(target, epsilon, 0.01)
    KINDS[target.predictor].verify(plan)
    for index in range(len(plan.phases)):
        assert query_guarantee(plan, index).delta <= 0.01
    training = plan.phases[0].start
    event = BetweenThresholdsEvent("logistic", training.scale, training.high - training.low, training.mediums)
    assert delta_at(event, 0.9 * training.epsilon) > 0.7 * 0.01


def test_the_policy_reaches_what_the_accountants_dynamic_program_says():
    """Its value is no more than the worst case over both orders, and not far below it."""
    instance = between_instance("discrete-laplace", 2.0, 0.01, 4)
    ours = between_policy(instance, 4, 2.0).value
    worst = worst_delta("discrete-laplace", instance.scale, instance.gap, 4, 2.0, cells=6, reach=6)
    assert 0.8 * worst < ours < 1.05 * worst


def test_the_law_of_halting_is_the_mechanisms():
    """Frequencies of the real Stopper's halting rounds agree with the exact law that steers the attacks."""
    stopper = Stopper(1.0, 20)
    law = halting_law(stopper, 18, 6)
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    rng = np.random.default_rng(6)
    halted = np.zeros(7)
    for _ in range(3_000):
        level = stopper.level(rng.integers(0, 2**64, 2, dtype=np.uint64))
        words = rng.integers(0, 2**64, (6, 2), dtype=np.uint64)
        halts = stopper.halts(np.full(6, 18), level, words)
        halted[int(halts.argmax()) if halts.any() else 6] += 1
    expected = 3_000 * law
    assert float(((halted - expected) ** 2 / expected).sum()) < 28.0  # chi-squared of 6 degrees, 1e-4


def test_the_worst_depth_is_above_the_window():
    """Where mediums are rare, many answers come before the halt."""
    instance = between_instance("logistic", 2.0, 0.01, 12)
    assert instance.high <= worst_depth(instance, 12, 10_000) < instance.points


def test_the_adversary_has_one_record():
    """A second hidden record is refused, and so are queries before the training rows."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    game = Game(plan, bytes(32), present=True)
    with pytest.raises(InputError, match="rows"):
        game.ask(np.array([1.0]))
    game.train(np.array([1.0]), np.array([True]), challenge=0)
    with pytest.raises(InputError, match="challenge"):
        game.challenge(1.0)


def test_the_hidden_record_is_all_that_differs():
    """Without the record its row is blanked, or its round has no query; all else is the same, round for round."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    rounds = []
    for present in (False, True):
        game = Game(plan, bytes(32), present=present)
        game.train(np.array([1.0, 2.0]), np.array([True, True]))
        game.challenge(1.5)
        assert len(game.ask(np.array([1.0, 5.0]))) == 2
        rounds.append(game.round)
    assert rounds == [3, 3]


def test_the_matrix_holds_every_predictor_and_profile():
    """Every kind with armed sides, in every profile, meets every adversary at every claim, and no cell comes twice."""
    cells = all_cells(1_000, (2.0, 4.0))
    assert len({cell.name for cell in cells}) == len(cells)
    assert {target.predictor for target in TARGETS} == {"rectangles", "stumps"} <= set(KINDS)
    attacked = {(cell.target, cell.adversary, cell.epsilon) for cell in cells if cell.level == "predictor"}
    assert len(attacked) == 2 * len(TARGETS) * len(ADVERSARIES)
