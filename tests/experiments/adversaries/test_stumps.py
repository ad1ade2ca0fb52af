import msgspec
import numpy as np
import pytest

from tests.experiments.adversaries import attacks
from tests.experiments.adversaries.figures import broken_bounds, worst
from tests.experiments.adversaries.honest import LOW, Atoms, Correlated, Duplicates, Law
from tests.experiments.adversaries.matrix import run_cell, table
from tests.experiments.adversaries.real import Real
from tests.experiments.adversaries.scenarios import SCENARIOS
from tests.experiments.adversaries.small import narrow
from tests.experiments.adversaries.stumps import BELOW, Examples, WrongStumpError, compressed_stump, small_stumps_plan

ATTACKS = [
    attacks.FloodFace,
    attacks.EdgeHammer,
    attacks.PushIn,
    attacks.DeepFlood,
    attacks.ExhaustFace,
    attacks.FloodAndPush,
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(("flipped", "unfit"), [(0.0, False), (0.02, False), (0.0, True)], ids=["fit", "2 %", "unfit"])
def test_real_stump_holds_for_six_phases(attack, flipped, unfit):
    """The real predictor, over all its features: error, fill and contamination keep their bounds, at some cost."""
    plan = small_stumps_plan()
    figures = Real(plan, Examples(2, unfit=unfit), attack(), 31, flipped=flipped, batch=8192).run(6)
    assert broken_bounds(plan, figures) == []
    assert worst(figures)[0] > 0.02
    assert sum(phase.rounds for phase in figures) > 500_000


@pytest.mark.parametrize("law", [Duplicates, Correlated, Atoms])
def test_real_stump_holds_for_every_kind_of_features(law):
    """Copies, of which any may be chosen, features of correlation 0.99, and few distinct values."""
    plan = small_stumps_plan()
    figures = Real(plan, Examples(2, law), attacks.FloodAndPush(), 32, batch=8192).run(6)
    assert broken_bounds(plan, figures) == []


def test_planned_sizes_hold_for_six_phases():
    """Behind a real trainer, at the real size for epsilon 4 and alpha 0.1: eighty million rounds."""
    wanted = ("stumps", "labels that no stump fits")
    number = next(n for n, scenario in enumerate(SCENARIOS) if (scenario.predictor, scenario.name) == wanted)
    row = run_cell((number, 2, 4.0))
    assert row.broken == []
    assert row.fill == 1.0
    assert row.rounds > 5e7
    assert 0.2 < row.error < 1.0
    assert "holds" in table([row])


@pytest.mark.parametrize("law", [Law, Duplicates, Correlated])
def test_examples_are_what_they_say(law):
    """Every feature has the same law, four of ten values lie below the edge, and labels are wrong as declared."""
    generator = np.random.default_rng(1)
    points, best = Examples(2, law).sample(generator, 50_000)
    assert np.mean(points < LOW, axis=0) == pytest.approx([BELOW, BELOW], abs=0.01)
    assert (best == (points[:, 0] >= LOW)).all()
    both = np.mean((points[:, 0] < LOW) == (points[:, 1] < LOW))
    assert both == pytest.approx({Law: 0.52, Duplicates: 1.0, Correlated: 0.956}[law], abs=0.01)
    _, unfit = Examples(2, unfit=True).examples(generator, 50_000, 0.0)
    _, flipped = Examples(2).examples(generator, 50_000, 0.02)
    assert np.mean(unfit) == pytest.approx(0.8 * (1.0 - BELOW), abs=0.01)
    assert np.mean(flipped) == pytest.approx(0.98 * (1.0 - BELOW) + 0.02 * BELOW, abs=0.01)


def test_a_margin_too_small_breaks_the_bound_on_contamination():
    """With a quarter of the margin, a flood from outside places more points in the side than it may."""
    plan = narrow(small_stumps_plan(), 0.25)
    figures = Real(plan, Examples(2), attacks.FloodFace(), 33, batch=8192).run(4)
    assert "contamination" in broken_bounds(plan, figures)
    figures = compressed_stump(plan, Examples(2), attacks.FloodFace(), 33).run(4)
    assert "contamination" in broken_bounds(plan, figures)


def test_an_error_beyond_alpha_shows():
    """A side that begins too far inside errs more than alpha."""
    plan = small_stumps_plan()
    run = Real(plan, Examples(2), attacks.FloodFace(), 34)
    run._boxes._bank.armed[0].points[:] = 0.95
    assert "error" in broken_bounds(plan, run.run(1))


def test_a_choice_at_random_is_told():
    """If errors hardly weigh in the choice, another stump is chosen, and there is nothing to simulate."""
    plan = small_stumps_plan()
    blind = msgspec.structs.replace(plan, selection=msgspec.structs.replace(plan.selection, scale=1e-5))
    with pytest.raises(WrongStumpError, match="another stump"):
        compressed_stump(blind, Examples(2), attacks.FloodFace(), 35)
