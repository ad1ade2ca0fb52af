"""Checks that every (round, side) has a noise draw of its own, as the proofs assume."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
from numpy.typing import NDArray

from oracle.audit.randomness import Randomness
from oracle.audit.trials import ask, stream, trained
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.planning.plan import BoxPlan
from oracle.predictors.kinds import restore_predictor

__all__ = ["fresh_noise", "recorded", "spread_bits"]

_ROWS = 48
_BATCH = 64
_VALUES = 40

Words = NDArray[np.uint64]
Seen = tuple[bool, str]


@contextmanager
def recorded() -> Iterator[list[Words]]:
    """Record all bits drawn for noise and coins: uint64[n, 2] for each request.

    A record's coin is looked at again wherever a side of the record is asked for, and counts once.
    """
    words, real = list[Words](), Addresses.words
    coins: set[tuple[int, int, int]] = set()

    def listened(self: Addresses, purpose: Purpose, rounds: Words, sides: Words, hashes: Words | None) -> Words:
        drawn = real(self, purpose, rounds, sides, hashes)
        mine = drawn.reshape(-1, 2).copy()
        if purpose is Purpose.COIN and hashes is not None:
            asked_for = list(product(sides.tolist(), zip(rounds.tolist(), hashes.tolist(), strict=True)))
            known = [(side, *record) in coins for side, record in asked_for]
            coins.update((side, *record) for side, record in asked_for)
            mine = mine[~np.array(known, dtype=np.bool_)]
        words.append(mine)
        return drawn

    Addresses.words = listened  # type: ignore[method-assign]  # for as long as this lasts
    try:
        yield words
    finally:
        Addresses.words = real  # type: ignore[method-assign]


def spread_bits(words: list[Words]) -> tuple[bool, str]:
    """Return whether no half of a draw repeats, and each of the 128 bits takes both values.

    Of n draws of 64 uniform bits two are equal with a probability of n^2 / 2^65 at most.
    """
    drawn = np.concatenate(words) if words else np.empty((0, 2), dtype=np.uint64)
    twice = max(len(drawn) - len(np.unique(drawn[:, half])) for half in (0, 1))
    both = np.bitwise_or.reduce(drawn) & ~np.bitwise_and.reduce(drawn)
    fixed = sum(64 - int(half).bit_count() for half in both)
    return twice == 0 and fixed == 0, f"of {len(drawn)} draws {twice} came before, and {fixed} of 128 bits never change"


def fresh_noise(plan: BoxPlan, randomness: Randomness) -> Seen:
    """Every round has a draw of its own for every side, of 128 bits, over re-arms and the end of a phase.

    And it shows: the same query at an edge is answered now so, now so, and not in pairs.
    """
    count = plan.phases[0].rounds + _ROWS
    queries = stream(plan, count)
    with recorded() as words:
        predictor = trained(plan, randomness.secret(0))
        first = predictor.export()
        for start in range(0, count, _BATCH):
            ask(predictor, queries[start : start + _BATCH])
    fine, says = spread_bits(words)
    most = 0
    for value in stream(plan, _VALUES):
        labels = ask(restore_predictor(plan, first), np.tile(value, (_ROWS, 1))).labels
        pairs = labels.reshape(-1, 2)
        most = max(most, int(np.count_nonzero(pairs[:, 0] != pairs[:, 1])))
    return fine and most > 0, f"{says}; of {_ROWS // 2} pairs of rounds with one query up to {most} had two labels"
