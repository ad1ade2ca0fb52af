"""Checks that every (round, side) has a noise draw of its own, as the proofs assume."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from oracle.audit.findings import Seen
from oracle.mechanisms.addresses import Addresses, Purpose

__all__ = ["Words", "all_drawn", "recorded", "spread_bits"]

_ROWS = 48
_BATCH = 64
_VALUES = 40

Words = NDArray[np.uint64]
"""Draws: uint64[n, 2]."""


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

    with patch.object(Addresses, "words", listened):
        yield words


def all_drawn(expected: Sequence[tuple[int, int]], words: Sequence[Words]) -> bool:
    """Return whether all words that were to be drawn are among those that were recorded."""
    return {*expected} <= {*map(tuple, np.concatenate(words).tolist())}


def spread_bits(words: list[Words]) -> Seen:
    """Return whether no half of a draw repeats, and each of the 128 bits takes both values.

    Of n draws of 64 uniform bits two are equal with a probability of n^2 / 2^65 at most.
    """
    drawn = np.concatenate(words) if words else np.empty((0, 2), dtype=np.uint64)
    twice = max(len(drawn) - len(np.unique(drawn[:, half])) for half in (0, 1))
    both = np.bitwise_or.reduce(drawn) & ~np.bitwise_and.reduce(drawn)
    fixed = sum(64 - int(half).bit_count() for half in both)
    return twice == 0 and fixed == 0, f"of {len(drawn)} draws {twice} came before, and {fixed} of 128 bits never change"
