from functools import cache
from typing import Literal

import msgspec
import numpy as np
import pytest
from scipy import stats

from oracle.mechanisms.slicing import Faces
from oracle.planning.plan import BoxPlan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.sides import Geometry
from tests.experiments.adversaries.compressed import Compressed
from tests.experiments.adversaries.groups import face_weights
from tests.experiments.adversaries.halting import draw_level, first_halt, log_survival
from tests.experiments.adversaries.honest import HIGH, LOW, Atoms, Correlated, Duplicates, Law
from tests.experiments.adversaries.matrix import PREDICTORS
from tests.experiments.adversaries.real import Real
from tests.experiments.adversaries.small import small_plan
from tests.experiments.adversaries.stumps import Examples, compressed_stump
from tests.experiments.adversaries.views import Adversary, Mix, View
from tests.predictors.plans import feature, tiny_plan, tiny_stumps_plan

RUNS = 40


class Steady(Adversary):
    """Asks the same for ever, so that both drivers ask the same: far outside, and all over the first side's stripe."""

    def mix(self, view: View) -> Mix:
        """Spread over fixed keys."""
        keys = [-9.0, *np.linspace(LOW, LOW + 0.03, 30)]
        return Mix(np.array([view.query(0, key) for key in keys]), np.full(31, 1.0 / 31.0))


def with_phases(plan: BoxPlan, **changes: float) -> BoxPlan:
    """Return a plan whose instances' scale, or whose Stoppers' threshold, is multiplied."""
    phases = []
    for phase in plan.phases:
        scale = phase.start.scale * changes.get("scale", 1.0)
        threshold = round(phase.stopper.threshold * changes.get("threshold", 1.0))
        phases.append(
            msgspec.structs.replace(
                phase,
                start=msgspec.structs.replace(phase.start, scale=scale),
                rearmed=msgspec.structs.replace(phase.rearmed, scale=scale),
                stopper=msgspec.structs.replace(phase.stopper, threshold=threshold),
            )
        )
    return msgspec.structs.replace(plan, phases=tuple(phases))


@cache
def busy_plan(predictor: str) -> BoxPlan:
    """Return a plan in form only, whose sides are armed afresh every few hundred rounds."""
    sides: Literal["lower", "both"] = "both" if predictor == "rectangles" else "lower"
    edges = [feature("a", sides)]
    plan = tiny_plan(edges, points=(100, 100, 100), rearmed=100, threshold=106, rounds=12_000, examples=4000)
    if predictor == "stumps":
        plan = msgspec.structs.replace(tiny_stumps_plan([feature("a")], examples=4000), phases=plan.phases)
    return msgspec.structs.replace(with_phases(plan, scale=0.1), gamma=0.5, share=1.0)


def simulator(plan: BoxPlan, seed: int) -> Compressed:
    """Return the simulator of a plan."""
    if isinstance(plan, StumpsPlan):
        return compressed_stump(plan, Examples(1), Steady(), seed, blocks=1, tail=2.0)
    return Compressed(plan, Law(1), Steady(), seed, blocks=1, tail=2.0)


def simulated(plan: BoxPlan) -> np.ndarray:
    """Return the errors of phases 1 and 2, re-arms, the first one's round and where phase 3 starts, for each seed."""
    rows = []
    for seed in range(RUNS):
        run = simulator(plan, seed)
        first, second = run.run(2)
        keys, counts = run._slices[0]
        middle = float(np.repeat(keys, counts)[counts.sum() // 2])
        rows.append([first.error, second.error, first.rearms + second.rearms, first.first_rearm, middle])
    return np.array(rows)


@cache
def real(predictor: str) -> np.ndarray:
    """Return the same of the real predictor."""
    rows = []
    for seed in range(RUNS):
        law = Examples(1) if predictor == "stumps" else Law(1)
        run = Real(busy_plan(predictor), law, Steady(), 1000 + seed)
        first, second = run.run(2)
        points = run._boxes._bank.armed[0].points
        middle = float(points[len(points) // 2])
        rows.append([first.error, second.error, first.rearms + second.rearms, first.first_rearm, middle])
    return np.array(rows)


def agreement(plan: BoxPlan) -> float:
    """Return the least p-value of two-sample Kolmogorov-Smirnov tests of the simulator and the real predictor."""
    pairs = zip(simulated(plan).T, real(plan.predictor).T, strict=True)
    return min(float(stats.ks_2samp(left, right).pvalue) for left, right in pairs)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_it_agrees_with_the_real_predictor(predictor):
    """Errors, re-arms and the next window's place have the same law, as far as forty runs each can tell."""
    assert np.median(real(predictor)[:, 2]) >= 2
    assert agreement(busy_plan(predictor)) > 1e-3


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("wrong", [{"scale": 0.6}, {"threshold": 1.3}], ids=["noise scale", "Stopper"])
def test_the_comparison_notices(predictor, wrong):
    """A simulator with another noise scale, or another Stopper, would not agree."""
    assert agreement(with_phases(busy_plan(predictor), **wrong)) < 1e-4


def test_plateaus_have_the_law_of_rounds():
    """Where the Stopper halts has the law of asking it in every round."""
    generator = np.random.default_rng(3)
    positions, rounds, level, epsilon = np.array([3, 4, 9, 15, 16, 30]), 40, 5, 0.7
    counts = np.searchsorted(positions, np.arange(rounds))  # mediums before each round
    hazard = -np.expm1(-log_survival(epsilon, level - counts))
    hazard[0] = 0.0  # fresh
    law = np.append(hazard, 1.0) * np.concatenate([[1.0], np.cumprod(1.0 - hazard)])
    halts = [first_halt(generator, epsilon, level, 0, positions, rounds, True) for _ in range(20_000)]  # noqa: FBT003
    seen = np.bincount([rounds if halt is None else halt for halt in halts], minlength=rounds + 1)
    wanted = law * len(halts)
    assert seen[wanted == 0.0].sum() == 0
    rare = (wanted < 10.0) & (wanted > 0.0)
    common = wanted >= 10.0
    score = ((seen - wanted)[common] ** 2 / wanted[common]).sum() + (seen[rare].sum() - wanted[rare].sum()) ** 2 / max(
        wanted[rare].sum(), 1.0
    )
    assert stats.chi2.sf(score, common.sum()) > 1e-3


def test_levels_have_the_stoppers_law():
    """A level is the threshold and rho, which is discrete Laplace."""
    generator = np.random.default_rng(4)
    samples = np.array([draw_level(generator, 0.5, 100) for _ in range(20_000)]) - 100
    expected = np.exp(-1.0) / (1.0 + np.exp(-0.5))
    assert np.mean(samples >= 2) == pytest.approx(expected, abs=0.015)
    assert np.mean(samples <= -2) == pytest.approx(expected, abs=0.015)


def test_face_weights_are_the_rules():
    """A group is shared among the sides as `Faces.choose` shares its queries one by one."""
    geometry = Geometry(small_plan(2))
    faces = geometry.faces
    generator = np.random.default_rng(6)
    queries = generator.random((6, 2))
    queries[5] = 0.9  # two faces are near
    for keys in geometry.keys(queries).T:
        words = generator.integers(0, 2**64, (20_000, 2), dtype=np.uint64)
        chosen = faces.choose(np.repeat(keys[:, None], len(words), axis=1), words)
        shares = np.bincount(chosen, minlength=4) / len(words)
        assert shares == pytest.approx(face_weights(faces, keys[:, None])[0], abs=0.02)
    assert isinstance(faces, Faces)


@pytest.mark.parametrize(
    "law", [Law(1), Law(3), Duplicates(3), Correlated(3)], ids=["one", "three", "copies", "correlated"]
)
def test_outer_points_are_the_laws(law):
    """What is drawn in the tails has the law of all points, given that they lie there."""
    generator = np.random.default_rng(7)
    cuts = np.linspace(0.02, 0.05, law.sides)
    points = law.inside(generator, 200_000)
    inside = ((points >= cuts[::2]) & (points <= 1.0 - cuts[1::2])).all(axis=1)
    outer = law.outer(generator, 20_000, cuts)
    assert outer.shape == (law.dimension, 20_000)
    assert law.outer_mass(cuts) == pytest.approx(1.0 - inside.mean(), rel=0.03)
    for column in range(law.dimension):
        assert stats.ks_2samp(outer[column], points[~inside, column]).pvalue > 1e-3
        assert stats.ks_2samp(outer.sum(axis=0), points[~inside].sum(axis=1)).pvalue > 1e-3
        assert stats.ks_2samp(outer[column], points[:, column]).pvalue < 1e-9


def test_outer_keys_are_the_geometrys():
    """The simulator's keys of a point are those of the predictor."""
    run = Compressed(small_plan(2), Law(2), Steady(), 1)
    keys = run._tails.draw(100)
    assert np.array_equal(keys, Geometry(small_plan(2)).keys(keys[::2].T))
    assert keys[::2].min() >= LOW
    assert keys[::2].max() <= HIGH


def test_atoms_masses_sum_to_one():
    """The atoms' law is one, with rare values at every edge."""
    points, masses = Atoms(2).atoms()
    assert masses.sum() == pytest.approx(1.0)
    assert (masses > 0.0).all()
    assert masses[points[:, 0] == points[:, 0].min()].sum() < 1e-3
