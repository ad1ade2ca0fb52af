"""Logs of answers and of labels that come later, in memory, and what counts them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.truths import TruthCodec
from oracle.codec.rejections import Rejection
from oracle.mechanisms.truth import NoisyPeriod
from oracle.planning.model import Truth
from oracle.runtime.truths.join import Join
from oracle.runtime.truths.tally import Tally
from tests.predictors.examples import example

_PLAN = example("rectangles", phases=2, rounds=60)
CODEC = TruthCodec(_PLAN)
_NAME = msgspec.json.encode(_PLAN.name)
SECRET = bytes(range(32))
Lines = tuple[Sequence[bytes | None], Sequence[bytes | None]]

NOISELESS = 60.0
"""An epsilon that no noise is left of."""


def answer(number: int, label: int | None = 0, identifier: str | None = None) -> bytes:
    """Return an answer as the daemon writes it; without a label that of a round with no query."""
    who = None if label is None else identifier or f"q{number}"
    who_text, text = msgspec.json.encode(who), b"null" if label is None else b"%d   " % label
    return b'{"id":%b,"label":%b,"model":%b,"round":%d,"phase":1}' % (who_text, text, _NAME, number)


def truth(number: int, label: int = 0, identifier: str | None = None) -> bytes:
    """Return a message of a true label."""
    return msgspec.json.encode({"id": identifier or f"q{number}", "round": number, "label": label})


@dataclass
class MemoryLog:
    """See `LogReader`: so many lines at a time."""

    lines: Sequence[bytes | None]
    at_once: int = 3
    at: int = 0

    async def open(self, position: int) -> None:
        """Go on behind a position."""
        self.at = position

    async def read(self) -> Sequence[tuple[int, bytes | None]]:
        """Return the next lines."""
        found = [(number + 1, line) for number, line in enumerate(self.lines)][self.at : self.at + self.at_once]
        self.at += len(found)
        return found

    async def close(self) -> None:
        """Do nothing."""


@dataclass
class MemoryStore:
    """See `TruthStore`: it dies at the `dies_at`-th write, before or behind it."""

    saved: tuple[dict[str, NDArray[np.generic]], tuple[int, int]] | None = None
    writes: int = 0
    dies_at: int | None = None
    behind: bool = False

    def save(self, tally: Tally, positions: tuple[int, int]) -> None:
        """Keep it, or die."""
        self.writes += 1
        dies = self.dies_at is not None and self.writes >= self.dies_at  # the dead write nothing more
        if not dies or (self.behind and self.writes == self.dies_at):
            self.saved = {name: array.copy() for name, array in tally.arrays().items()}, positions
        if dies:
            raise KeyboardInterrupt


@dataclass
class Told:
    """All that was told of a run, of processes that died too."""

    released: list[NoisyPeriod] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)


def counted(codec: TruthCodec, truths: Truth, secret: bytes, lines: Lines) -> Told:
    """Return what is told of two logs, of answers and of labels, of any model."""
    return _count((codec, truths, secret), lines, (), 100)


def count(
    truths: Truth,
    answers: Sequence[bytes | None],
    told: Sequence[bytes | None],
    kills: Sequence[Any] = (),
    size: int = 3,
) -> Told:
    """Return what is told of two logs by processes that die as `kills` says (write, behind it), and a last one."""
    return _count((CODEC, truths, SECRET), (answers, told), kills, size)


def _count(model: tuple[TruthCodec, Truth, bytes], lines: Lines, kills: Sequence[Any], size: int) -> Told:
    codec, truths, secret = model
    found, store = Told(), MemoryStore()
    for kill in (*kills, (None, False)):
        store.dies_at, store.behind, store.writes = kill[0], kill[1], 0
        tally, positions = Tally(truths, secret), (0, 0)
        if store.saved is not None:
            tally.restore(store.saved[0])
            positions = store.saved[1]
        logs = MemoryLog(lines[0], size, positions[0]), MemoryLog(lines[1], size + 1, positions[1])
        join = Join(
            codec,
            tally,
            store,
            logs=logs,
            positions=positions,
            released=found.released.append,
            rejected=lambda rejection, _position: found.rejected.append(rejection),
        )
        try:
            asyncio.run(join.run(follow=False))
        except KeyboardInterrupt:
            continue
    return found
