"""The Stopper: halt, privately, once a running count has about reached its threshold.

Source: Stemmer (2024), Algorithm 2 and Theorem 4.2 (AboveThreshold of Dwork et al., 2009), in the monotone form of the
PRIVACY.md, Theorem 7: rho ~ DLap(eps_S) once per instance, nu_i ~ DLap(eps_S) before every query; halt if
c + nu_i >= k + rho. For adding or removing one bit this is (eps_S, 0)-DP over the instance's whole life. With Laplace's
law it is Algorithm 2 as written: nu_i ~ Lap(1/eps_S), and the threshold is k itself.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.mechanisms.noise.tables import Edges, Law, edges, sample, tail_reach

__all__ = ["Stopper"]


@dataclass(frozen=True)
class Stopper:
    """The public parameters of one Stopper.

    Formal guarantees:
        * (epsilon, 0)-DP for one bit added to or removed from its stream, at any number of rounds (PRIVACY.md,
          Theorem 7; absent to present: shift rho by 1; present to absent: shift the halting nu by 1). Laplace's law,
          with no rho, has no such bound here: Theorem 4.2 of Stemmer (2024) is what there is.

    Args:
        epsilon: eps_S, the noise's inverse scale (nats).
        threshold: k, at least 1.
        law: Law of the noise; discrete Laplace noise comes with a noisy threshold, Laplace's without.
    """

    epsilon: float
    threshold: int
    law: Law = "discrete-laplace"

    def __post_init__(self) -> None:
        """Check the threshold."""
        if self.threshold < 1:
            raise InputError("stopper threshold", self.threshold, "must be at least 1")

    @cached_property
    def _reach(self) -> int:
        return tail_reach(self.epsilon)

    @cached_property
    def _edges(self) -> Edges:
        return edges(self.law, self.epsilon, -self._reach, self._reach)

    @property
    def noisy_threshold(self) -> bool:
        """True if `level` draws a rho."""
        return self.law != "laplace"

    @property
    def most(self) -> int:
        """Count at which it halts for certain, noisy threshold apart."""
        return self.threshold + self._reach

    def level(self, words: NDArray[np.uint64]) -> int:
        """Return the noisy threshold k + rho of one instance.

        Args:
            words: uint64[2], the uniform bits of its rho.
        """
        return self.threshold + int(sample("discrete-laplace", self.epsilon, words.reshape(1, 2))[0])

    def halts(self, counts: NDArray[np.int64], level: int, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each round whether the Stopper halts before its query.

        Args:
            counts: int64[n], mediums of the instance before each round.
            level: k + rho.
            words: uint64[n, 2], fresh uniform bits for each round.
        """
        # halt iff nu >= level - c, that is iff not (nu < level - c)
        return ~self._edges.exceed(level + self._reach - counts, words)
