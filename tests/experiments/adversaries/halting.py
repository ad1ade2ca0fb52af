"""When a Stopper halts, decided over plateaus between mediums instead of round by round."""

import math

import numpy as np
from numpy.typing import NDArray

_IMPOSSIBLE = 1e-13
"""A probability that is taken for 0."""


def log_survival(epsilon: float, distance: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return -log P(nu < distance) for nu ~ DLap(epsilon): the hazard of a halt in one round."""
    norm = math.log1p(math.exp(-epsilon))
    far = -np.log1p(-np.exp(-epsilon * np.maximum(distance, 1) - norm))
    near = epsilon * np.maximum(1 - distance, 1) + norm
    return np.where(distance >= 1, far, near)


def draw_level(generator: np.random.Generator, epsilon: float, threshold: int) -> int:
    """Draw k + rho: DLap is the difference of two geometric draws."""
    success = -math.expm1(-epsilon)
    return threshold + int(generator.geometric(success)) - int(generator.geometric(success))


def can_halt(epsilon: float, level: int, mediums: int, rounds: int) -> bool:
    """Say whether a halt within so many rounds, at no more than so many mediums, is worth looking for."""
    hazard = float(log_survival(epsilon, np.array([level - mediums], dtype=np.int64))[0])
    return hazard * rounds > _IMPOSSIBLE


def first_halt(  # noqa: PLR0913, PLR0917 -- the state of one Stopper and a stretch of rounds
    generator: np.random.Generator,
    epsilon: float,
    level: int,
    mediums: int,
    positions: NDArray[np.int64],
    rounds: int,
    fresh: bool,  # noqa: FBT001
) -> int | None:
    """Return the round, of `rounds`, before whose query the Stopper halts, or None.

    P(no halt over m rounds at count c) = P(nu < level - c)^m exactly, so the halt is where the summed hazards pass an
    exponential draw.

    Args:
        generator: Its randomness.
        epsilon: eps_S.
        level: k + rho of this life.
        mediums: How many it has collected before.
        positions: Sorted rounds with a medium, distinct.
        rounds: Length of the stretch.
        fresh: Whether the side was armed before the first of these rounds, which then is not asked about.
    """
    starts = np.concatenate([[1 if fresh else 0], positions + 1])
    ends = np.concatenate([positions + 1, [rounds]])
    lengths = np.maximum(ends - starts, 0)
    hazards = log_survival(epsilon, level - mediums - np.arange(len(starts), dtype=np.int64))
    summed = np.cumsum(lengths * hazards)
    target = generator.exponential()
    if summed[-1] <= target:
        return None
    plateau = int(summed.searchsorted(target, side="right"))
    left = target - (summed[plateau - 1] if plateau else 0.0)
    return int(starts[plateau] + min(int(left / hazards[plateau]), int(lengths[plateau]) - 1))
