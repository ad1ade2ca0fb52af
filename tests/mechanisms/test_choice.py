"""The exponential mechanism: its law, its privacy, and OpenDP's beside it."""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oracle.errors import InputError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice.exponential import CHOICE_WORDS, choose
from oracle.mechanisms.keys import PhaseKey

dp.enable_features("contrib")

LOSSES = np.array([7, 3, 4, 3, 12, 1000, 5], dtype=np.int64)


def words(count: int, seed: int = 0) -> np.ndarray:
    """Return keyed bits for so many choices."""
    rounds = np.arange(count * CHOICE_WORDS // 2, dtype=np.uint64)
    blocks = Addresses(PhaseKey(bytes([seed] * 32)), 1).words(Purpose.CHOICE, rounds, np.zeros(1, np.uint64), None)
    return blocks.reshape(count, CHOICE_WORDS)


def law(scale, losses):
    """Return the probabilities, from the definition."""
    weights = np.exp(-scale * (losses - losses.min()))
    return weights / weights.sum()


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (1.3, False), (0.75, False)])
def test_law(factor: float, same: bool) -> None:  # noqa: FBT001 -- a table's column
    """Choices come as often as exp(-e loss) says, and the test rejects another e; hopeless candidates never come."""
    count = 20_000
    found = np.bincount([choose(0.4 * factor, LOSSES, row) for row in words(count)], minlength=len(LOSSES))
    assert found[5] == 0
    kept = np.arange(len(LOSSES)) != 5
    assert bool(stats.chisquare(found[kept], count * law(0.4, LOSSES)[kept]).pvalue > 1e-4) == same


@given(
    losses=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    scale=st.sampled_from([2.0**-18, 0.01, 0.3, 1.0, 64.0]),
    shift=st.integers(-(2**40), 2**40),
)
def test_quantiles_are_the_exact_ones(losses, scale, shift):
    """The candidates in order of loss share the range of the uniform bits by their weights, wherever zero is."""
    array = np.array(losses, dtype=np.int64) + shift
    order = np.lexsort((np.arange(len(array)), array))
    ends = np.cumsum(law(scale, array)[order])
    for candidate, below, above in zip(order, [0.0, *ends[:-1]], ends, strict=True):
        if above - below > 1e-9:
            uniform = int((below + above) / 2.0 * 2.0**53) << (64 * CHOICE_WORDS - 53)
            bits = np.frombuffer(uniform.to_bytes(8 * CHOICE_WORDS, "little"), dtype="<u8")
            assert choose(scale, array, bits) == candidate


@pytest.mark.parametrize("bits", [0, 2**512 - 1])
def test_extreme_bits_choose_someone(bits):
    """The least and the largest uniform integer fall to the first and the last that can be chosen."""
    drawn = np.frombuffer(bits.to_bytes(64, "little"), dtype="<u8")
    assert choose(1.0, LOSSES, drawn) == (1 if bits == 0 else 4)


@pytest.mark.parametrize("scale", [0.0, math.nan, 65.0, 2.0**-19])
def test_scales_out_of_range_are_refused(scale):
    """Before anything is chosen."""
    with pytest.raises(InputError, match=r"choice scale = .*: must be from"):
        choose(scale, LOSSES, words(1)[0])


def test_many_candidates_take_no_loop_over_them():
    """Two million cuts, of which most are hopeless: the weights of whole levels are counted together."""
    losses = np.abs(np.arange(-1_000_000, 1_000_001))
    chosen = [choose(0.01, losses, row) - 1_000_000 for row in words(40, seed=3)]
    assert 30 < np.abs(chosen).mean() < 300  # the law of |DLap(0.01)|, mean 100


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (1.5, False)])
def test_our_choice_is_opendps(factor: float, same: bool) -> None:  # noqa: FBT001 -- a table's column
    """OpenDP's noisy maximum with Gumbel noise has the same law, and the comparison rejects another scale."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    theirs = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=1 / 0.4, negate=True)
    count = 4_000
    drawn = np.bincount([theirs(LOSSES.tolist()) for _ in range(count)], minlength=len(LOSSES))
    ours = np.bincount([choose(0.4 * factor, LOSSES, row) for row in words(count)], minlength=len(LOSSES))
    table = np.array([drawn, ours])[:, law(0.4, LOSSES) > 1e-3]
    assert bool(stats.chi2_contingency(table).pvalue > 1e-6) == same  # one false alarm in a million runs


def test_opendp_takes_no_factor_of_two_either():
    """For losses that one record changes monotonely by at most 1, its noisy maximum of scale 1/e is (e, 0)-DP."""
    for monotonic, factor in ((True, 1.0), (False, 2.0)):
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=monotonic)
        mechanism = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=1 / 0.4, negate=True)
        assert mechanism.map(1) == pytest.approx(0.4 * factor)
