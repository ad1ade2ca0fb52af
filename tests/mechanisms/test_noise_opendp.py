"""The discrete Laplace law against an independent exact sampler: OpenDP's."""

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import sample

dp.enable_features("contrib")

COUNT = 20_000
SCALE = 0.25


def opendp_draws(scale: float) -> list[int]:
    """OpenDP's discrete Laplace noise, drawn from the system's randomness."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return list(dp.m.make_laplace(*space, scale=1.0 / scale)([0] * COUNT))


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (1.5, False), (2.0 / 3.0, False)])
def test_our_discrete_laplace_is_opendps(factor: float, same: bool) -> None:  # noqa: FBT001 -- a table's column
    """Both samplers agree on the right scale, and the comparison rejects a wrong one."""
    words = Addresses(PhaseKey(bytes(32)), 1).words(
        Purpose.DEPTH, np.arange(COUNT, dtype=np.uint64), np.zeros(1, dtype=np.uint64), None
    )
    ours = sample("discrete-laplace", SCALE * factor, words[0])
    theirs = np.array(opendp_draws(SCALE))
    edges = np.arange(-12, 14) - 0.5
    table = [np.histogram(np.clip(part, -12, 12), bins=edges)[0] for part in (ours, theirs)]
    agreement = stats.chi2_contingency(table).pvalue
    assert bool(agreement > 1e-6) == same  # OpenDP's draws cannot be seeded: one false alarm in a million runs
