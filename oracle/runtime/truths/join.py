"""Two logs read as one: each true label behind the answers that it names, in the order of the labels' own log."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from connectors.base import LogReader
from oracle.codec.json.truths import Answered, TruthCodec
from oracle.codec.rejections import Rejection
from oracle.mechanisms.truth import NoisyPeriod
from oracle.runtime.truths.tally import Tally

__all__ = ["Join", "TruthStore"]

_PAUSE_SECONDS: Final = 0.25
_SAVE_SECONDS: Final = 5.0
_TURN: Final = 4096
"""Answers that are taken before others have a turn."""


class TruthStore(Protocol):
    """Where the state is kept."""

    def save(self, tally: Tally, positions: tuple[int, int]) -> None:
        """Make the state durable: all of it, or nothing."""
        ...


class Join:
    """Counts one shard's true labels, exactly once.

    Labels are taken in the order of their log. Before one is, the answers are read up to the round that it names, if
    there are so many, and not further; where no label waits they are read to their end. So what is counted follows from
    the logs, as long as both were there, and not from who was read first. State and positions are saved as one; a
    release is told behind that only, and one that was saved is never drawn again.

    Args:
        logs: The answers, and the labels; open, and behind these positions.
        positions: Behind the last answer and the last label that the tally has taken.
        released: Called with what was released, once it is durable, and again after a crash.
        rejected: Called with a label's message that is none, and its position.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        codec: TruthCodec,
        tally: Tally,
        store: TruthStore,
        *,
        logs: tuple[LogReader, LogReader],
        positions: tuple[int, int],
        released: Callable[[NoisyPeriod], None],
        rejected: Callable[[Rejection, int], None],
    ) -> None:
        self._codec, self._tally, self._store = codec, tally, store
        self._answers, self._truths = logs
        self._positions = list(positions)
        self._released, self._rejected = released, rejected
        self._waiting: deque[tuple[int, bytes | None]] = deque()
        self._dirty = False
        self._saved_at = time.monotonic()

    async def run(self, *, follow: bool) -> None:
        """Take both logs; with `follow` wait for more at their ends, until cancelled.

        Raises:
            PerpetuaError: A log cannot be read, or the state not be written.
        """
        if self._tally.latest is not None:
            self._released(self._tally.latest)
        try:
            while True:
                if await self.step():
                    continue
                self._save(now=not follow)
                if not follow:
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._save(now=True)

    async def step(self) -> bool:
        """Take what labels there are, or, where there are none, answers; return whether there was anything."""
        told = await self._truths.read()
        for position, body in told:
            await self._take(position, body)
        taken = 0 if told else await self._advance(None)
        self._save(now=False)
        return bool(told) or taken > 0

    async def _take(self, position: int, body: bytes | None) -> None:
        read = self._codec.truth(body)
        if isinstance(read, Rejection):
            self._rejected(read, position)
        else:
            await self._advance(read.round)
            self._tally.truth(read)
        self._positions[1] = position
        self._dirty = True

    async def _advance(self, upto: int | None) -> int:
        """Read answers up to a round, or to their end for now; return how many lines were taken."""
        taken = 0
        while upto is None or self._tally.newest < upto:
            if not self._waiting:
                self._waiting.extend(await self._answers.read())
            if not self._waiting:
                break
            position, body = self._waiting.popleft()
            self._answer(position, self._codec.answer(body))
            taken += 1
            if upto is None and taken >= _TURN:
                break
        return taken

    def _answer(self, position: int, answered: Answered | None) -> None:
        found: Sequence[NoisyPeriod] = () if answered is None else list(self._tally.answer(answered))
        self._positions[0] = position
        self._dirty = True
        if found:
            self._save(now=True)
        for one in found:
            self._released(one)

    def _save(self, *, now: bool) -> None:
        if self._dirty and (now or time.monotonic() - self._saved_at >= _SAVE_SECONDS):
            self._store.save(self._tally, (self._positions[0], self._positions[1]))
            self._dirty, self._saved_at = False, time.monotonic()
