"""Games in sequence: where they are played, and when they stop, follows from what was seen of those before."""

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.games.wealth import Wealth

__all__ = ["LADDER", "Arm", "Play", "detection_limit", "play_out"]

_FIRST: Final = 12
"""Pairs of games with each aim, before any is preferred."""

_GROWTH: Final = 0.4
"""Of the pairs with an aim so far, as many more are played before what is bet on is chosen afresh."""

_LEAST: Final = 0.2
"""Part of the games that is played before any are given up."""

_EXPLORE: Final = 4
"""One in so many batches is played with the aim that has been played least."""

LADDER: Final = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
"""Multiples of the claimed epsilon that a detection limit is looked for among."""

_SHARE: Final = 4
"""One in so many games is played to find whether a multiple would be refuted."""

Floats = NDArray[np.float64]
Play = Callable[[str, int, bool], Floats]
"""Plays so many games in a world, with randomness of this purpose, and returns float64[games, k]."""


class Arm(NamedTuple):
    """One aim of an adversary.

    Attributes:
        name: Of the aim.
        play: Plays it.
    """

    name: str
    play: Play


def play_out(arms: Sequence[Arm], wealth: Wealth, most: int) -> int:
    """Play until the claim is refuted, all games are played, or more of them would say no more; return how many pairs.

    Every aim is tried first. Then most games are played where money grows fastest, against what is to be refuted next
    and against the claim. Neither costs any confidence: who bets may choose games by all that was seen before.

    Args:
        arms: The aims.
        wealth: The bets.
        most: Pairs of games at most.
    """
    counts = [0] * len(arms)

    def play(number: int, pairs: int) -> None:
        arm = arms[number]
        views = [arm.play(f"{arm.name}|{counts[number]}|{world}", pairs, bool(world)) for world in (0, 1)]
        wealth.show(views[0], views[1], number)
        counts[number] += pairs

    for number in range(len(arms)):
        play(number, max(min(_FIRST, most // len(arms)), 2))
    turn = 0
    while not wealth.refuted and (left := most - sum(counts)) > 0:
        if sum(counts) >= _LEAST * most and not wealth.worth(left):
            break
        turn += 1
        promises = [wealth.promise(number)[turn % 2] for number in range(len(arms))]
        least = turn % _EXPLORE == 0
        number = counts.index(min(counts)) if least else promises.index(max(promises))
        play(number, min(max(_FIRST, math.ceil(_GROWTH * counts[number])), left))
    return sum(counts)


def detection_limit(
    arms_of: Callable[[float], Sequence[Arm]],
    wealth_of: Callable[[float], Wealth],
    most: int,
    ladder: Sequence[float] = LADDER,
) -> float | None:
    """Return the least multiple on the ladder that would be refuted; None if none of them would be.

    Each is tried with a part of the games (after those that are only looked at, of which there are as many), and
    counts as refuted if the money has then come as far as that part has to bring it: money grows by factors, so that
    all games would bring it to the end, about.

    Args:
        arms_of: The aims against something of so many times the claimed epsilon.
        wealth_of: Money that has so large a part of its way to go.
        most: Pairs of games that the claim is attacked in, at most.
        ladder: The multiples, ascending.
    """

    def seen(multiple: float) -> bool:
        arms, wealth = arms_of(multiple), wealth_of(1.0 / _SHARE)
        looked = min(_FIRST * len(arms), most)
        play_out(arms, wealth, looked + (most - looked) // _SHARE)
        return wealth.refuted

    if not seen(ladder[-1]):
        return None
    return ladder[bisect.bisect_left(range(len(ladder) - 1), 1, key=lambda number: seen(ladder[number]))]
