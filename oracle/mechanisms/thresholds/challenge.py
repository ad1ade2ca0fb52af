"""One armed side: its points, BetweenThresholds over their depths, and the Stopper that counts the mediums.

Source: Stemmer (2024), Algorithm 4 (ChallengeBT). Keys are oriented: the outermost point has the smallest key, and a
query's depth is the number of points whose key is at most its own (ties count).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import Keys, ordinals
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper

__all__ = ["ArmedSide"]


@dataclass(slots=True)
class ArmedSide:
    """The state of one ChallengeBT: plain data beside its public parameters.

    Formal guarantees:
        * For a record among the points: (epsilon, delta_between + delta_cap) over the whole life
          (PRIVACY.md, Theorem 5 and Theorem 7).
        * For a query whose medium answer the Stopper counts: (eps_S, 0).
        * Changing one point moves every depth by at most 1.

    Attributes:
        thresholds: Public parameters of BetweenThresholds.
        stopper: Public parameters of the Stopper.
        points: [M] sorted oriented keys, padded with the last one (+inf): a padded point is never reached past.
        mediums: Medium answers so far.
        level: k + rho of this life.
        armed: Round of the phase before whose query it was armed.
    """

    thresholds: BetweenThresholds
    stopper: Stopper
    points: Keys
    mediums: int
    level: int
    armed: int

    def answers(self, keys: Keys, words: NDArray[np.uint64]) -> NDArray[np.int8]:
        """Answer "how many of your points does it reach past" for each oriented query key: int8[n].

        Args:
            keys: [n] keys, none the last one.
            words: uint64[n, 2].
        """
        return self.thresholds.answers(self._depths(keys), words)

    def _depths(self, keys: Keys) -> NDArray[np.intp]:
        points = self.points
        if len(keys) > len(points):  # only then is what searching integers saves more than what making them costs
            points, keys = ordinals(points), ordinals(keys)
        return points.searchsorted(keys, side="right")

    def first_halt(
        self, medium: NDArray[np.bool_], rounds: NDArray[np.uint64], words: NDArray[np.uint64]
    ) -> int | None:
        """Return the first row before whose query the Stopper halts, or None.

        Args:
            medium: bool[n], True where this side decided "medium" for the row.
            rounds: uint64[n], rounds of the phase; the Stopper of a side armed before a round is first asked before
                the round after it: its first question, at no medium, is left out, so that no round arms a side
                twice (its threshold is addressed by the round).
            words: uint64[n, 2], the Stopper's bits for each round.
        """
        counts = np.empty(len(medium), dtype=np.int64)
        counts[:1] = self.mediums
        counts[1:] = medium[:-1]
        np.add.accumulate(counts, out=counts)
        halts = self.stopper.halts(counts, self.level, words) & (rounds > self.armed)
        row = int(halts.argmax()) if len(halts) else 0
        return row if len(halts) and halts[row] else None
