"""Two noisy counts of a period: of the answers that agreed with labels which came later, and of those that did not.

A query is in one of the two, or in neither, so that it moves one of them by 1 (PRIVACY.md, Theorem 32).
"""

import math
import struct
from typing import Final, NamedTuple

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.exponential import KeyedBits
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.exact import discrete_laplace

__all__ = ["NoisyPeriod", "noisy_period", "reach"]

_ADDRESS: Final = struct.Struct("<qqq")
_MISSED: Final = 0.025


class NoisyPeriod(NamedTuple):
    """What is released of a period: all of it is public.

    Attributes:
        period: Its number, from 0.
        right: Noisy count of answers that agreed with their truth.
        wrong: Noisy count of those that did not.
    """

    period: int
    right: int
    wrong: int

    def error(self, epsilon: float) -> tuple[float, float] | None:
        """Return the share of wrong answers, and how far noise may have moved it (19 times in 20).

        None where noise is all that there may be.

        >>> NoisyPeriod(0, 950, 50).error(1.0)
        (0.05, 0.004)
        """
        known, within = self.right + self.wrong, reach(epsilon)
        if known <= 2 * within:
            return None
        return min(max(self.wrong / known, 0.0), 1.0), within / known


def reach(epsilon: float) -> int:
    """Return the least z that noise passes, either way, with probability 1/40 at most.

    >>> [reach(epsilon) for epsilon in (0.1, 0.5, 1.0)]
    [37, 7, 4]
    """
    # P(|Z| > z) = 2 exp(-e (z + 1))/(1 + exp(-e))
    return max(math.ceil(math.log(2.0 / (_MISSED * (1.0 + math.exp(-epsilon)))) / epsilon - 1.0), 0)


def noisy_period(secret: bytes, epsilon: float, period: int, right: int, wrong: int) -> NoisyPeriod:
    """Release a period's counts.

    Formal guarantees:
        * Each has discrete Laplace noise of inverse scale epsilon, exactly, if the keyed function is uniform: together
          they are (epsilon, 0)-private for a query that is in one of them or in none (PRIVACY.md, Theorem 32).
        * The noise is a function of key, period and both counts. So the same period is released the same again; and one
          that was counted otherwise, from a state that was set back, has noise of its own: no difference is shown bare.

    Args:
        secret: 32 bytes, of one shard of one model.
        epsilon: Above 0 (nats).
        period: Its number, from 0.
        right: Rounds whose truth agreed.
        wrong: Rounds whose truth did not.
    """
    key = PhaseKey(PhaseKey(secret).subkey(b"truth/" + _ADDRESS.pack(period, right, wrong)))
    addresses = Addresses(key, 1)
    noise = [discrete_laplace(epsilon, KeyedBits(addresses, side)) for side in (0, 1)]
    return NoisyPeriod(period, right + noise[0], wrong + noise[1])
