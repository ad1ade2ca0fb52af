"""More ways in which Perpetua is broken on purpose: draws that serve twice or are too short, mediums miscounted."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.slicing import cut_window
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.predictors.bisection.trainer import BisectionTrainer
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.sides import SideBank

__all__ = ["MUTANTS_OF_NOISE"]

Patch = pytest.MonkeyPatch

_LOW_HALF = np.uint64((1 << 32) - 1)


def _words(patch: Patch, change: Callable[..., Any]) -> None:
    real = Addresses.words
    patch.setattr(Addresses, "words", lambda self, *asked: change(lambda *other: real(self, *other), *asked))


def _rounds_apart(patch: Patch) -> None:
    """Rounds r and r + 2 share a draw."""

    def change(real: Any, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        if purpose == Purpose.DEPTH:
            return real(purpose, rounds & ~np.uint64(2), sides, None)
        return real(purpose, rounds, sides, hashes)

    _words(patch, change)


def _sides_share(patch: Patch) -> None:
    """All sides have one draw in a round."""
    _words(patch, lambda real, purpose, rounds, sides, hashes: real(purpose, rounds, sides * np.uint64(0), hashes))


def _short_noise(patch: Patch) -> None:
    """Draws have 32 random bits."""

    def change(real: Any, *asked: Any) -> Any:
        words = real(*asked).copy()
        words[..., 0] &= ~_LOW_HALF
        words[..., 1] = 0
        return words

    _words(patch, change)


def _armed_with(bank: SideBank, addresses: Addresses, side: int, armed: int, copies: int) -> None:
    points = np.repeat(cut_window(bank.collected[side].ordered()[0], bank.rearmed.points, 0), copies)
    level = bank.level(addresses, side, armed)
    bank.armed[side] = ArmedSide(bank.rearmed, bank.stopper, points[: bank.rearmed.points], 0, level, armed)


def _mediums_twice(patch: Patch) -> None:
    """A side that is armed afresh holds each medium twice."""

    def rearm(self: SideBank, addresses: Addresses, side: int, armed: int) -> None:
        _armed_with(self, addresses, side, armed, 2)
        self.collected[side].clear()

    patch.setattr(SideBank, "rearm", rearm)


def _mediums_kept(patch: Patch) -> None:
    """Mediums that a side was armed with are collected for the next time, too."""

    def rearm(self: SideBank, addresses: Addresses, side: int, armed: int) -> None:
        _armed_with(self, addresses, side, armed, 1)

    patch.setattr(SideBank, "rearm", rearm)


def _forgotten(patch: Patch) -> None:
    """Each batch counts its mediums from nothing."""
    patch.setattr(RectanglesPERP, "_keep", lambda self, decided: self._pending.append(decided))


def _heavier_rows(patch: Patch) -> None:
    """Every row counts 5 % more in the mean."""
    real = BisectionTrainer.finish

    def finish(self: BisectionTrainer) -> Any:
        self._sums = (self._sums * 21) // 20
        return real(self)

    patch.setattr(BisectionTrainer, "finish", finish)


MUTANTS_OF_NOISE: Final[dict[str, Callable[[Patch], None]]] = {
    "one draw for rounds r and r + 2": _rounds_apart,
    "one draw for all sides": _sides_share,
    "draws of 32 bits": _short_noise,
    "mediums twice in a side": _mediums_twice,
    "mediums kept over a life": _mediums_kept,
    "mediums forgotten between batches": _forgotten,
    "rows 5 % too heavy in the mean": _heavier_rows,
}
"""What breaks it, by name."""
