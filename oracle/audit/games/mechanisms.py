"""Games against single mechanisms, thousands at once: every answer is the mechanism's own."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.audit.games.policies import BetweenPolicy, StopperShape
from oracle.audit.randomness import Randomness
from oracle.mechanisms.thresholds.paid import PAID, BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper

__all__ = ["play_between", "play_stopper"]

_LONGEST: Final = 3_000
"""Rounds after which a game of BetweenThresholds is broken off."""

Floats = NDArray[np.float64]


def play_between(  # noqa: PLR0913 -- the mechanism, the adversary, the world and the games
    instance: BetweenThresholds,
    policy: BetweenPolicy,
    mediums: int,
    games: int,
    randomness: Randomness,
    *,
    present: bool,
) -> Floats:
    """Play games against one instance each; the record makes every depth one deeper.

    Args:
        instance: The mechanism.
        policy: The adversary.
        mediums: K; it answers no more after so many.
        games: How many.
        randomness: The mechanism's.
        present: Which world.

    Returns:
        float64[games, 5]: privacy loss by the claimed law, when the adversary had seen enough and at the end; lows,
        mediums and highs of each game.
    """
    loss, counts = np.zeros(games), np.zeros((games, 3), dtype=np.int64)
    first = np.full(games, np.nan)
    playing = np.arange(games)
    for number in range(_LONGEST):
        picks, enough = policy.pick(mediums - counts[playing, PAID], loss[playing])
        satisfied = playing[enough & np.isnan(first[playing])]
        first[satisfied] = loss[satisfied]
        playing, picks = playing[picks >= 0], picks[picks >= 0]
        if not len(playing):
            break
        depths = policy.depths[picks] + int(present)
        answers = instance.answers(depths, randomness.words(number, len(playing)))
        counts[playing, answers] += 1
        loss[playing] += policy.losses[answers, picks]
    return np.column_stack([np.where(np.isnan(first), loss, first), loss, counts.astype(np.float64)])


def play_stopper(stopper: Stopper, shape: StopperShape, games: int, randomness: Randomness, *, present: bool) -> Floats:
    """Play games against one Stopper each; the record is one bit more in its count.

    Returns:
        float64[games, 1]: the round before which it halted, or how many rounds there were.
    """
    starts = randomness.words(0, games)
    levels = np.array([stopper.level(words) for words in starts], dtype=np.int64)
    halted = np.full(games, float(shape.rounds))
    count = shape.count + int(present)
    going = np.arange(games)
    for number in range(shape.rounds):
        words = randomness.words(number + 1, len(going))
        halts = np.zeros(len(going), dtype=np.bool_)
        for level in np.unique(levels[going]):
            mine = np.flatnonzero(levels[going] == level)
            halts[mine] = stopper.halts(np.full(len(mine), count, dtype=np.int64), int(level), words[mine])
        halted[going[halts]] = number
        going = going[~halts]
    return halted[:, None]
