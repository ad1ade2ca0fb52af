"""Sizes of Choromanski, Rostamizadeh and Syed (2015), Algorithms 1 and 2; Theorem 2.1's bound with its constants."""

import math
from typing import Final

from oracle.mechanisms.noise.laws import NoiseLaw

__all__ = ["SHRINK", "average_error_bound", "critical_count", "final_side", "probability_near"]

SHRINK: Final = 0.75
"""alpha of Algorithm 2."""


def probability_near(law: NoiseLaw, side: float, dimension: int) -> float:
    """Return Delta p = P(-|I| / 8D <= E <= |I| / 8D)."""
    reach = side / (8.0 * dimension)
    return law.above(-reach) - law.above(reach)


def critical_count(law: NoiseLaw, side: float, dimension: int, horizon: int) -> float:
    """Return N_crit = 30 ln T / Delta p^2."""
    near = probability_near(law, side, dimension)
    return 30.0 * math.log(horizon) / near**2 if near > 0.0 else math.inf


def final_side(horizon: int, directions: int) -> float:
    """Return ln T / sqrt(T d), the side at which the hypercube is small enough."""
    return math.log(horizon) / math.sqrt(horizon * directions)


def average_error_bound(law: NoiseLaw, directions: int, dimension: int, horizon: int, cone: float) -> float:
    """Return Theorem 2.1's bound on the average error, from its proof, with all constants and no O().

    The error in phase i, whose sides have length l_i = 2 sqrt(D) alpha^i, is at most l_i sqrt(d D) a query (Lemma 4.2),
    and the phase takes at most r N_crit(l_i) queries, r = 2/p^2, but with probability T^-30 d; then it is sqrt(D) /
    h_T, h_T = sqrt(T) / ln T. Where the phases take more than T queries together, T ends them.

    Args:
        law: The law of E.
        directions: d.
        dimension: D.
        horizon: T.
        cone: p, the least probability over i of a query within phi of e^i; 0 says nothing beyond the first side.
    """
    side, left, total = 2.0 * math.sqrt(dimension), float(horizon), 0.0
    spread = math.sqrt(directions * dimension)
    while side > final_side(horizon, directions) and left > 0.0:
        wanted = 2.0 / cone**2 * critical_count(law, side, dimension, horizon) if cone > 0.0 else math.inf
        taken = min(wanted, left)
        total += taken * side * spread
        left -= taken
        side *= SHRINK
    return (total + left * math.sqrt(dimension) * math.log(horizon) / math.sqrt(horizon)) / horizon
