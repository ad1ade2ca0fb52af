"""The learners, alone: against references, for any law, in any cut."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.noise.laws import frozen_law, named_law
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.predictors.bisection.basis import BasisFinder, principal_axes
from oracle.predictors.bisection.hypercube import OnlineBisection, closed_form
from oracle.predictors.bisection.newton import StochasticNewton, block_length, solve
from tests.experiments.bisection.streams import blocks, queries

_LAWS = {
    "laplace": named_law("laplace", 0.05),
    "gaussian": named_law("gaussian", 0.05),
    "uniform": named_law("uniform", 0.1),
    "student": frozen_law(scipy.stats.t(3, scale=0.05)),
    "skewed": frozen_law(scipy.stats.gumbel_r(loc=-0.04, scale=0.05)),
}
_ROUNDS = 6_000


def _stream(kind, directions, dimension, seed=1, rounds=_ROUNDS):
    return np.concatenate(list(queries(kind, directions, dimension, rounds, np.random.default_rng(seed))))


def _run(learner, law, stream, usable, cuts=()):
    """Return the answers over a stream cut into batches; noise belongs to the round."""
    generator = np.random.default_rng(5)
    database = generator.random(stream.shape[1])
    words = generator.integers(0, 2**64, (len(stream), 2), dtype=np.uint64)
    oracle = BinaryThresholdOracle(database, law, most_bits=len(stream))
    bounds = [0, *sorted(cuts), len(stream)]
    values = [
        learner.learn(
            stream[start:stop],
            usable[start:stop],
            lambda rows, at, start=start: oracle.ask(stream[start + rows], at, words[start + rows]),
        )
        for start, stop in itertools.pairwise(bounds)
    ]
    return np.concatenate(values), database, oracle


@pytest.mark.parametrize("seed", range(5))
def test_the_closed_form_solves_the_linear_program(seed):
    """Lemma 5.1 against a solver of linear programs, with signs of both kinds."""
    generator = np.random.default_rng(seed)
    low = generator.normal(size=4)
    high = low + generator.random(4)
    coordinates = generator.normal(size=(4, 3))
    least, most = closed_form(low, high, coordinates)
    for column in range(3):
        weights, bounds = coordinates[:, column], list(zip(low, high, strict=True))
        lowest, negated = (scipy.optimize.linprog(sign * weights, bounds=bounds).fun for sign in (1.0, -1.0))
        assert lowest is not None
        assert negated is not None
        assert least[column] == pytest.approx(lowest)
        assert most[column] == pytest.approx(-negated)


def test_a_query_without_a_direction_is_in_no_cone():
    """Zeros, also where they are all that is left of tiny squares, are answered and never asked about."""
    law, tiny = named_law("laplace", 0.001), np.array([[0.0, 0.0], [0.0, 1e-200], [0.0, 5e-324]])
    learner = OnlineBisection(np.eye(2), law, 20_000)
    values, _, oracle = _run(learner, law, tiny, np.ones(3, dtype=np.bool_))
    assert values.tolist() == [0.0, 0.0, 0.0]
    assert oracle.ledger.bits == 0
    assert not learner.export()["votes"].any()
    _, _, oracle = _run(learner, law, np.array([[0.0, 1e-100]]), np.ones(1, dtype=np.bool_))
    assert learner.export()["votes"].sum(axis=0).tolist() == [0, 1]


def test_the_hypercube_stops_when_it_is_small():
    """At |I_i| <= ln T / sqrt(T d) nothing is asked any more, and w* is still inside."""
    law, basis = named_law("laplace", 0.001), np.eye(1)
    learner = OnlineBisection(basis, law, 20_000)
    stream = np.ones((20_000, 1))
    _, database, oracle = _run(learner, law, stream, np.ones(20_000, dtype=np.bool_))
    assert learner.finished
    assert oracle.ledger.bits < 15_000
    final = math.log(20_000) / math.sqrt(20_000)
    assert 0.75 * final < learner.sides[0] <= final
    assert abs(learner.hypothesis()[0] - database[0]) <= 0.5 * final


@pytest.mark.parametrize("law", _LAWS.values(), ids=_LAWS)
@pytest.mark.parametrize("profile", ["paper", "efficient"])
def test_any_known_law_will_do(profile, law):
    """Both learners come close under each, also where the median of E is not 0."""
    basis = blocks(2, 4)
    learner = OnlineBisection(basis, law, _ROUNDS) if profile == "paper" else StochasticNewton(basis, law)
    start = learner.hypothesis()
    stream = _stream("concentrated", 2, 4)
    _, database, _ = _run(learner, law, stream, np.ones(_ROUNDS, dtype=np.bool_))
    before, after = (np.abs(stream @ (each - database)).mean() for each in (start, learner.hypothesis()))
    assert after < (0.8 if profile == "paper" else 0.15) * before


@pytest.mark.parametrize("profile", ["paper", "efficient"])
def test_answers_do_not_depend_on_the_cut(profile):
    """Any batches, also empty ones and of one row: answers and states are the same bits, and so are the bits asked."""
    basis, law, rounds = blocks(2, 4), named_law("laplace", 0.02), 2_500
    stream = _stream("concentrated", 2, 4, rounds=rounds)
    usable = np.random.default_rng(3).random(rounds) < 0.9

    def fresh():
        return OnlineBisection(basis, law, rounds) if profile == "paper" else StochasticNewton(basis, law)

    whole = fresh()
    expected, _, asked = _run(whole, law, stream, usable)

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(cuts=st.lists(st.integers(0, rounds), max_size=30))
    def check(cuts):
        parts = fresh()
        values, _, oracle = _run(parts, law, stream, usable, cuts)
        assert values.tobytes() == expected.tobytes()
        assert {name: array.tobytes() for name, array in parts.export().items()} == {
            name: array.tobytes() for name, array in whole.export().items()
        }
        assert oracle.ledger == asked.ledger

    check()


def test_blocks_grow_and_end():
    """One query at a time at first, an eighth of what was asked later, 256 at most."""
    assert [block_length(asked) for asked in (0, 8, 15, 16, 800, 2048, 10**9)] == [1, 1, 1, 2, 100, 256, 256]


def test_systems_are_solved():
    """Against NumPy; only the upper triangle is read."""
    generator = np.random.default_rng(1)
    for size in (1, 2, 7, 12):
        half = generator.normal(size=(size, size + 3))
        matrix, right = half @ half.T, generator.normal(size=size)
        mine = solve(np.triu(matrix).tolist(), right.tolist())
        np.testing.assert_allclose(mine, np.linalg.solve(matrix, right), rtol=1e-9)


@pytest.mark.parametrize("query", [(1.0, 1.0, 1.0), (1.0, 0.7, 0.3), (0.1, 0.0, 1.0)])
@pytest.mark.parametrize("scale", [1e-5, 1e-9])
def test_queries_in_one_line_are_learned_from(scale, query):
    """With so little noise that no ridge of its size keeps the system regular."""
    law = named_law("laplace", scale)
    stream = np.tile(query, (12_000, 1))
    stream[::2] *= 0.3
    learner = StochasticNewton(np.eye(3), law)
    values, database, _ = _run(learner, law, stream, np.ones(len(stream), dtype=np.bool_))
    assert np.abs(values - stream @ database)[-1_000:].mean() < 5e-3
    assert np.abs(learner.hypothesis()).max() <= 3.0**0.5


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_axes_are_eigenvectors(size):
    """Against LAPACK, but for the sign, and orthonormal."""
    half = np.random.default_rng(size).normal(size=(size, 2 * size))
    matrix = half @ half.T
    axes = principal_axes(matrix)
    _, expected = np.linalg.eigh(matrix)
    np.testing.assert_allclose(axes @ axes.T, np.eye(size), atol=1e-13)
    np.testing.assert_allclose(np.abs(np.sum(axes * expected.T[::-1], axis=1)), 1.0, rtol=1e-9)


def test_the_subspace_is_found():
    """From a window of queries in it: it holds all of them, and every axis points to where they are."""
    stream = _stream("uniform", 3, 12, rounds=500)
    finder = BasisFinder(12, 3, 500)
    for start in range(0, 500, 77):
        finder.add(stream[start : start + 77])
    assert finder.missing == 0
    basis = finder.basis()
    np.testing.assert_allclose(stream @ basis.T @ basis, stream, atol=1e-9)
    assert ((stream @ basis.T).sum(axis=0) >= 0.0).all()


def test_weights_tell_the_axes_apart():
    """Where basis vectors get different parts of the stream, PCA finds these very vectors, and the cones are fed."""
    basis = blocks(2, 4)
    window = np.concatenate([_stream("concentrated", 2, 4, rounds=300), np.tile(basis[:1] * math.sqrt(2.0), (300, 1))])
    finder = BasisFinder(4, 2, 600)
    finder.add(window)
    np.testing.assert_allclose(finder.basis() @ basis.T, np.eye(2), atol=3e-2)
