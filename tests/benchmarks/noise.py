"""The noise: keyed, addressed and exact, against OpenDP's exact discrete Laplace mechanism of the same scale."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import opendp.prelude as dp

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import sample
from tests.benchmarks.pairs import Floor, Row, Settings, cpu_rate, paired
from tests.support.shards import SECRET

_SCALE: Final = 0.5
"""Nats per unit; a Laplace scale of 2."""

_ROUNDS: Final = 16_384
_SIDES: Final = 4

DRAWS: Final = _ROUNDS * _SIDES
"""Draws in one call of what `drawing` returns."""

_OPENDP_DRAWS: Final = 20_000


def drawing() -> Callable[[], object]:
    """Return what makes one batch of draws, from the address to the integer."""
    addresses = Addresses(PhaseKey(SECRET), 1)
    rounds, sides = np.arange(_ROUNDS, dtype=np.uint64), np.arange(_SIDES, dtype=np.uint64)
    hashes = rounds * np.uint64(7)
    return lambda: sample("discrete-laplace", _SCALE, addresses.words(Purpose.DEPTH, rounds, sides, hashes))


def _opendp() -> Callable[[], object]:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    mechanism = dp.m.make_laplace(*space, scale=1.0 / _SCALE)
    zeros = [0] * _OPENDP_DRAWS
    return lambda: mechanism(zeros)


def measure(settings: Settings) -> Iterator[Row]:
    """Measure draws a second."""
    ours = cpu_rate(DRAWS, drawing())
    theirs = cpu_rate(_OPENDP_DRAWS, _opendp())
    name = "noise: exact discrete Laplace, against OpenDP's"
    value, baseline = paired(settings, ours, theirs)
    yield Row(name, value, "draws/s", baseline, Floor("ratio", 60.0))
