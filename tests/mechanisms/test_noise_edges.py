"""Edge tables against high-precision arithmetic, and draws against edges."""

import mpmath
import numpy as np
import pytest

from oracle.errors import InputError
from oracle.mechanisms.noise.tables import EDGE_DISTANCE, Edges, IntegerLaw, Law, edges, geometric, sample, tail_reach

LAWS: tuple[Law, ...] = ("logistic", "discrete-laplace")
ALL_LAWS: tuple[IntegerLaw, ...] = (*LAWS, "laplace", "gumbel")
SCALES = (2.0**-18, 1e-4, 0.0137, 0.3, 1.0, 7.5, 64.0)
WORD = 1 << 64


def below(law: IntegerLaw, scale: float, z: int) -> mpmath.mpf:
    """Return P(Z < z) from the law's definition; call it with enough precision set."""
    e = mpmath.mpf(scale)
    if law == "logistic":
        return mpmath.exp(e * (z - mpmath.mpf(0.5))) / (1 + mpmath.exp(e * (z - mpmath.mpf(0.5))))
    if law == "gumbel":
        return mpmath.exp(-mpmath.exp(-e * z))
    if law == "laplace":
        return mpmath.exp(e * z) / 2 if z <= 0 else 1 - mpmath.exp(-e * z) / 2
    if z >= 1:
        return 1 - mpmath.exp(-e * z) / (1 + mpmath.exp(-e))
    return mpmath.exp(-e * (1 - z)) / (1 + mpmath.exp(-e))


def as_integers(table: Edges) -> list[int]:
    """Return the table's 128-bit edges."""
    return [int(high) * WORD + int(low) for high, low in zip(table.high, table.low, strict=True)]


@pytest.mark.parametrize("law", ALL_LAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_edge_is_within_the_stated_distance(law: IntegerLaw, scale: float) -> None:
    """Near 0 and out to the tails, an edge is within one unit of 2^-128 of the exact probability."""
    span = min(tail_reach(scale) + 3, 300)
    table = edges(law, scale, -span, span)
    with mpmath.workprec(700):
        for z, value in zip(range(-span, span + 1), as_integers(table), strict=True):
            error = abs(mpmath.ldexp(mpmath.mpf(value), -128) - below(law, scale, z))
            assert error <= mpmath.mpf(EDGE_DISTANCE.numerator) / EDGE_DISTANCE.denominator


@pytest.mark.parametrize("law", ALL_LAWS)
def test_edges_stay_exact_after_many_steps_of_the_recurrence(law: IntegerLaw) -> None:
    """The recurrence of a small scale is still exact two hundred thousand steps out."""
    table = edges(law, 4e-4, 199_990, 200_010)
    with mpmath.workprec(700):
        for z, value in zip(range(199_990, 200_011), as_integers(table), strict=True):
            assert abs(mpmath.mpf(value) - mpmath.ldexp(below(law, 4e-4, z), 128)) <= 1


@pytest.mark.parametrize("law", ALL_LAWS)
def test_edges_rise_and_both_ends_are_closed(law: IntegerLaw) -> None:
    """Edges never fall, and beyond the reach they are 0 or all ones."""
    reach = tail_reach(0.9)
    values = as_integers(edges(law, 0.9, -reach - 2, reach + 2))
    assert values == sorted(values)
    assert values[0] == 0
    assert values[-1] == 2**128 - 1


@pytest.mark.parametrize("law", ALL_LAWS)
@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_a_draw_is_below_z_exactly_if_its_bits_are_below_the_edge(law: IntegerLaw, scale: float) -> None:
    """On an edge, one below and one above it, sample, exceed and integer comparison agree for every z."""
    reach = tail_reach(scale)
    table = edges(law, scale, 1 - reach, reach)
    exact = as_integers(table)
    numbers = sorted({min(max(value + step, 0), 2**128 - 1) for value in exact for step in (-1, 0, 1)})
    words = np.array([[number // WORD, number % WORD] for number in numbers], dtype=np.uint64)
    drawn = sample(law, scale, words)
    for index, edge in enumerate(exact):
        wanted = np.array([number < edge for number in numbers])
        column = np.full(len(numbers), index, dtype=np.intp)
        assert np.array_equal(table.exceed(column, words), wanted)
        assert np.array_equal(drawn < table.first + index, wanted)


@pytest.mark.parametrize("law", ALL_LAWS)
def test_the_second_word_matters_only_on_an_edge(law: IntegerLaw) -> None:
    """With another first word the second one changes nothing; with the edge's it decides."""
    table = edges(law, 1.0, 1, 4)
    index = np.arange(4).repeat(2)
    second = np.tile(np.array([0, WORD - 1], dtype=np.uint64), 4)
    for shift, wanted in ((-1, [True, True]), (0, [True, False]), (1, [False, False])):
        first = (table.high[index].astype(object) + shift).astype(np.uint64)
        assert table.exceed(index, np.stack([first, second], axis=1)).tolist() == wanted * 4


def test_an_index_outside_the_table_stands_for_its_nearer_end() -> None:
    """On the end's edge and one below it, with an index far out as with the end's own."""
    table = edges("discrete-laplace", 1.0, -3, 3)
    for index, end in ((-9, 0), (-1, 0), (7, 6), (10**6, 6)):
        edge = as_integers(table)[end]
        words = np.array([[number // WORD, number % WORD] for number in (edge - 1, edge)], dtype=np.uint64)
        assert table.exceed(np.full(2, index), words).tolist() == [True, False]


@pytest.mark.parametrize("scale", [0.01, 0.8])
def test_geometric_draws_follow_their_law(scale: float) -> None:
    """P(G >= g) = exp(-scale g), within four standard errors, and not that of a scale a twentieth off."""
    words = np.random.default_rng(3).integers(0, 2**64, size=(200_000, 2), dtype=np.uint64)
    drawn = geometric(scale, words)
    assert drawn.min() == 0
    assert drawn.max() < tail_reach(scale)
    for quantile in (0.9, 0.5, 0.1):
        g = max(round(-np.log(quantile) / scale), 1)
        tail, seen = np.exp(-scale * g), np.mean(drawn >= g)
        assert abs(seen - tail) < 4 * np.sqrt(tail / len(words))
    g = round(1 / scale)
    assert abs(np.mean(drawn >= g) - np.exp(-1.05 * scale * g)) > 4 * np.sqrt(np.exp(-1.0) / len(words))


def test_draws_keep_the_shape_of_the_words() -> None:
    """A block of words gives a block of draws, each as if alone."""
    words = np.random.default_rng(1).integers(0, 2**64, size=(3, 5, 2), dtype=np.uint64)
    block = sample("logistic", 0.3, words)
    assert block.shape == (3, 5)
    assert block[1, 2] == sample("logistic", 0.3, words[1:2, 2])[0]


@pytest.mark.parametrize("scale", [0.0, 2.0**-19, 65.0, float("nan"), -1.0])
def test_a_scale_outside_its_range_is_refused(scale: float) -> None:
    """The message names the field, the value and the bound."""
    with pytest.raises(InputError, match=r"noise scale = .*: must be from 3\.8147e-06 to 64"):
        edges("logistic", scale, 0, 1)
