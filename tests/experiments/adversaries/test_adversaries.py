import msgspec
import numpy as np
import pytest

from oracle.planning.plan import BoxPlan
from tests.experiments.adversaries import attacks
from tests.experiments.adversaries.compressed import Compressed
from tests.experiments.adversaries.figures import broken_bounds, worst
from tests.experiments.adversaries.honest import HIGH, LOW, Atoms, Duplicates, Law
from tests.experiments.adversaries.matrix import PREDICTORS, cells, run_cell, table
from tests.experiments.adversaries.real import Real
from tests.experiments.adversaries.scenarios import SCENARIOS
from tests.experiments.adversaries.small import narrow, small_plan

ATTACKS = [
    attacks.FloodFace,
    attacks.EdgeHammer,
    attacks.PushIn,
    attacks.DeepFlood,
    attacks.ExhaustFace,
    attacks.FloodAll,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_real_interval_holds_for_six_phases(attack):
    """The real predictor at d = 1: error, fill and contamination keep their bounds, and the attack costs something."""
    plan = small_plan(1)
    figures = Real(plan, Law(1), attack(), 21, batch=8192).run(6)
    assert broken_bounds(plan, figures) == []
    assert worst(figures)[0] > 0.02
    # every round of the six phases was played, the honest part of them honest: 1 % is above ten standard deviations
    assert sum(phase.honest for phase in figures) == pytest.approx(plan.gamma * plan.first_round(7), rel=0.01)


@pytest.mark.parametrize("law", [Law, Duplicates, Atoms])
def test_real_box_holds(law):
    """The real predictor at d = 2, for honest queries of every kind, flooded and pushed in: the bounds hold."""
    plan = small_plan(2, share=law(2).share)
    figures = Real(plan, law(2), attacks.FloodAndPush(), 22, batch=8192).run(4)
    assert broken_bounds(plan, figures) == []
    assert worst(figures)[0] > 0.02


def test_real_interval_with_wrong_labels_holds():
    """Two in a hundred training labels are wrong; each side skips its outermost ten points."""
    plan = small_plan(1, trim=10)
    figures = Real(plan, Law(1), attacks.FloodAndPush(), 23, flipped=0.02, batch=8192).run(3)
    assert broken_bounds(plan, figures) == []


@pytest.mark.parametrize(("name", "dimension"), [("label noise 2 %", 1), ("push-in", 2)])
def test_planned_sizes_hold_for_six_phases(name, dimension):
    """Compressed, at the real sizes for epsilon 4 and alpha 0.1: a hundred million rounds."""
    number = next(index for index, scenario in enumerate(SCENARIOS) if scenario.name == name)
    row = run_cell((number, dimension, 4.0))
    assert row.broken == []
    assert row.fill == 1.0
    assert row.rounds > 1e8
    assert "holds" in table([row])


def test_every_adversary_is_in_the_matrix():
    """Ten adversaries of each predictor; where there is one feature, none can be a copy of another."""
    for predictor in PREDICTORS:
        assert sum(scenario.predictor == predictor for scenario in SCENARIOS) == 10
        assert len(cells((1, 2, 5), (1.0, 4.0), [predictor], long=True)) == 56
    assert len(cells((1, 2, 5), (1.0, 4.0))) == 111


def _declared(plan: BoxPlan, coin: float) -> BoxPlan:
    """Return a plan as they were before edges were learned: declared bounds say which side is nearest, or a coin."""
    return msgspec.structs.replace(plan, scale=msgspec.UNSET, coin=coin)


def test_learned_edges_feed_a_copy():
    """A copy with bounds three times too wide holds what it needs, with no coin; assigned by its bounds it starves."""
    law = Duplicates(2)
    plan = small_plan(2, share=law.share, width=3.0)
    assert broken_bounds(plan, Real(plan, law, attacks.FloodAll(), 24, batch=8192).run(4)) == []
    old = _declared(plan, plan.coin)
    assert old.coin == 0.0
    assert "starved" in broken_bounds(old, Real(old, law, attacks.FloodAll(), 24, batch=8192).run(1))


def test_without_the_coin_a_copy_starves():
    """By declared bounds, a copy whose bounds are three times too wide is never the nearest: only the coin feeds it."""
    law = Duplicates(2)
    plan = _declared(small_plan(2, share=0.05, width=3.0), 0.2)
    assert broken_bounds(plan, Real(plan, law, attacks.FloodAll(), 24, batch=8192).run(1)) == []
    broken = _declared(plan, 0.0)
    assert "starved" in broken_bounds(broken, Real(broken, law, attacks.FloodAll(), 24, batch=8192).run(1))


@pytest.mark.parametrize("driver", [Real, Compressed])
def test_a_margin_too_small_breaks_the_bound_on_contamination(driver):
    """With a quarter of the margin, a flood from outside places more points in a side than it may."""
    plan = narrow(small_plan(1), 0.25)
    figures = driver(plan, Law(1), attacks.FloodAll(), 25).run(3)
    assert "contamination" in broken_bounds(plan, figures)


def test_wrong_labels_without_trim_contaminate():
    """Without trim, labels two fifths of which are wrong put more outside points into the sides than they may hold."""
    plan = small_plan(1)
    figures = Real(plan, Law(1), attacks.FloodAll(), 26, flipped=0.4).run(1)
    assert "contamination" in broken_bounds(plan, figures)


def test_an_error_beyond_alpha_shows():
    """A plan that starts too far inside errs more than alpha."""
    plan = small_plan(1)
    run = Real(plan, Law(1), attacks.FloodAll(), 27)
    for side, armed in enumerate(run._boxes._bank.armed):
        armed.points[:] = np.where(side % 2, -HIGH, LOW) + 0.3
    assert "error" in broken_bounds(plan, run.run(1))
