"""A cut of `python -m tests.experiments.bisection`: the rates, the bound, the conversion."""

import numpy as np
import pytest

from oracle.mechanisms.noise.laws import named_law
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.predictors.bisection.newton import StochasticNewton
from tests.experiments.bisection.runs import DIMENSION, LAW, Outcome, learn, play, slope
from tests.experiments.bisection.streams import KINDS, blocks, cone_probability, queries


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """Return runs of both profiles over both streams."""
    runs = [
        play("efficient", kind, directions, rounds, seed)
        for kind in KINDS
        for directions in (1, 2, 4)
        for rounds in (3_000, 10_000, 30_000, 100_000)
        for seed in range(2)
    ]
    runs += [
        play("paper", "concentrated", directions, rounds, 1)
        for directions in (1, 2, 4)
        for rounds in (30_000, 100_000, 300_000)
    ]
    runs += [play("paper", "uniform", 2, rounds, 1) for rounds in (300_000, 1_000_000)]
    return [*runs, play("paper", "uniform", 1, 100_000, 1), play("paper", "uniform", 4, 200_000, 1)]


def _of(outcomes, profile, kind, directions):
    return [each for each in outcomes if (each.profile, each.kind, each.directions) == (profile, kind, directions)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directions", [1, 2, 4])
def test_every_query_asked_gives_the_rate(outcomes, kind, directions):
    """`efficient`: average error of order 1/sqrt(T) over either stream, near the scale that theory gives."""
    mine = _of(outcomes, "efficient", kind, directions)
    assert slope(mine, 3_000) == pytest.approx(-0.5, abs=0.1)
    longest = [outcome for outcome in mine if outcome.rounds == 100_000]
    scale = 2.0 * np.sqrt(2.0 / np.pi) * DIMENSION * np.sqrt(directions) * 0.5 / LAW.density / np.sqrt(100_000)
    assert 0.4 < np.mean([outcome.error for outcome in longest]) / scale < 1.6
    assert all(outcome.bits == outcome.rounds for outcome in mine)


@pytest.mark.parametrize(
    ("kind", "directions"), [("concentrated", 1), ("concentrated", 2), ("concentrated", 4), ("uniform", 2)]
)
def test_the_algorithm_as_written_gives_the_rate(outcomes, kind, directions):
    """`paper`: slope -1/2 but for ln T wherever the cones are fed, with T that are large enough for a few shrinks."""
    mine = _of(outcomes, "paper", kind, directions)
    assert slope(mine, 1) == pytest.approx(-0.5, abs=0.15)


def test_one_direction_is_one_stream(outcomes):
    """At d = 1 every query is in the cone, also of a uniform stream: it is the concentrated one."""
    (uniform,) = _of(outcomes, "paper", "uniform", 1)
    concentrated = next(each for each in _of(outcomes, "paper", "concentrated", 1) if each.rounds == uniform.rounds)
    assert uniform.error == concentrated.error
    assert uniform.bits == uniform.rounds


def test_cones_of_four_directions_starve(outcomes):
    """`paper`, uniform, d = 4: about one query in 200,000 is in a cone, and nothing is learned; `efficient` learns."""
    (starved,) = _of(outcomes, "paper", "uniform", 4)
    assert starved.bits < 10
    assert starved.error == pytest.approx(starved.start, rel=0.02)
    fed = [each for each in _of(outcomes, "efficient", "uniform", 4) if each.rounds == 100_000]
    assert max(each.error for each in fed) < starved.error / 50


def test_every_run_is_below_theorem_2_1(outcomes):
    """The average error of `paper` stays below the bound, which falls with T where the cones are fed."""
    mine = [each for each in outcomes if each.profile == "paper"]
    assert all(each.error <= each.bound for each in mine)
    bounds = [each.bound for each in _of(outcomes, "paper", "concentrated", 2)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < bounds[0] / 1.5


def test_the_last_hypothesis_is_better_than_the_average(outcomes):
    """Corollary 2.1: on fresh queries w_T errs less than the stream did on the way, in nearly every run."""
    learned = [each for each in outcomes if each.error < each.start / 2]
    assert len(learned) > 45
    assert sum(each.last < each.error for each in learned) > 0.85 * len(learned)
    assert np.mean([each.last / each.error for each in learned]) < 0.75


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directions", [1, 2, 4])
def test_streams_are_what_they_say(kind, directions):
    """In [0, 1]^D, within the span, of one length, and as often in the cones as the formula says."""
    generator = np.random.default_rng(3)
    basis = blocks(directions, DIMENSION)
    stream = np.concatenate(list(queries(kind, directions, DIMENSION, 100_000, generator)))
    assert stream.min() >= 0.0
    assert stream.max() <= 1.0
    np.testing.assert_allclose(stream @ basis.T @ basis, stream, atol=1e-3)
    lengths = np.linalg.norm(stream, axis=1)
    np.testing.assert_allclose(lengths, np.sqrt(DIMENSION / directions), rtol=1e-4)
    cosines = stream @ basis.T / lengths[:, None]
    inside = (cosines >= np.cos(2.0 * np.arcsin(1.0 / (64.0 * np.sqrt(directions))))).mean(axis=0)
    expected = cone_probability(kind, directions)
    assert np.abs(inside - expected).max() <= 5.0 * np.sqrt(expected / 100_000) + 1e-9


def test_a_learner_must_know_its_noise():
    """Told a tenth of the noise there is, it takes its steps too short and is worse than one that is told the truth."""
    database, basis = np.random.default_rng(8).random(DIMENSION), blocks(2, DIMENSION)
    truth, errors = named_law("laplace", 1.0), []
    for law in (truth, named_law("laplace", 0.001)):
        learner, total = StochasticNewton(basis, law), 0.0
        oracle = BinaryThresholdOracle(database, truth, most_bits=30_000)
        generator = np.random.default_rng(9)
        for batch in queries("uniform", 2, DIMENSION, 30_000, generator):
            total += float(np.abs(learn(learner, oracle, batch, generator) - batch @ database).sum())
        errors.append(total / 30_000)
    assert errors[0] < 0.7 * errors[1]
