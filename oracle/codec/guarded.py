"""`GuardedCodec`: what nobody foresaw of one message costs that message only.

Why that is safe, though what is a query must not depend on timing, neighbours or the version of the code:

* Decoding looks at no state, so a message whose decoding fails has taken no round, and nothing else has changed.
* It is rejected only if decoding it *alone* fails, so neighbours and batch cuts make no difference.
* It is rejected only for errors that follow from the message. What follows from the machine or the moment (memory,
  files, threads) or from the caller's stack (`RecursionError`) stops the shard instead, with nothing committed.
* The rejection's position is committed with the answers (`oracle.runtime.marks.Passed`), and re-execution goes by
  that: a newer version that can decode the message takes no round for it either. Of rejections that are too old for
  the list the same code finds the same ones; other code is found out by the running tag before it answers anything.
* An answer that cannot be encoded has taken its round, and it stands: the asker is told of an internal error in place
  of it. Re-execution up to a commit encodes nothing.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from connectors.base import JSON, Deliveries, Replies
from oracle.codec.decoded import DecodedBatch
from oracle.codec.rejections import Reason, Rejection
from oracle.errors import PerpetuaError
from oracle.predictors.base import Answers

__all__ = ["Codec", "Failure", "GuardedCodec", "passed_over", "short_of_resources"]


_NONE: Final[Mapping[int, Reason]] = MappingProxyType({})


class Codec(Protocol):
    """What turns deliveries into rows and answers into replies: see `BatchCodec`."""

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries in order."""

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode one reply for each delivery."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure(Rejection):
    """A rejection for an error that nobody foresaw.

    Attributes:
        error: The error's class, which is public; empty where only its position is known still.
    """

    error: str = ""


def passed_over(reason: Reason, error: str = "") -> Rejection:
    """Return the rejection of a message that takes no round for no fault of its asker; its text is always the same."""
    if reason is Reason.SKIPPED:
        return Rejection(reason, "message", "one that can be answered; an operator passed it over")
    return Failure(Reason.INTERNAL, "message", "one that can be processed; the error is ours", error)


def short_of_resources(error: Exception) -> bool:
    """Return whether an error is of the machine or the moment, and may not come again."""
    return isinstance(error, MemoryError | OSError) or type(error) is RuntimeError  # "can't start new thread"


def _follows_from_message(error: Exception) -> bool:
    of_machine = short_of_resources(error) or isinstance(error, RecursionError | SystemError)
    return not of_machine and not isinstance(error, PerpetuaError)


class GuardedCodec:
    """Decodes and encodes as another codec does, and rejects as `internal` what that one fails on.

    Args:
        codec: That one: without state, and of one message alone as of many.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def decode(self, deliveries: Deliveries, passed: Mapping[int, Reason] = _NONE) -> DecodedBatch:
        """Decode deliveries in order; messages that end at positions of `passed` are not looked at, and take no round.

        Raises:
            Exception: What follows from the machine or the moment; nothing was rejected for it.
        """
        if passed and not passed.keys().isdisjoint(deliveries.positions):
            if len(deliveries) == 1:
                return self._rejected(deliveries, passed_over(passed[deliveries.positions[0]]))
            return self._in_halves(deliveries, passed)
        try:
            return self._codec.decode(deliveries)
        except Exception as exc:
            if not _follows_from_message(exc):
                raise
            if len(deliveries) > 1:
                return self._in_halves(deliveries, passed)
            return self._again(deliveries, exc)

    def _in_halves(self, deliveries: Deliveries, passed: Mapping[int, Reason]) -> DecodedBatch:
        half = len(deliveries) // 2
        first, second = deliveries.part(0, half), deliveries.part(half)
        return _joined(self.decode(first, passed), self.decode(second, passed), deliveries)

    def _again(self, deliveries: Deliveries, first: Exception) -> DecodedBatch:
        """Decode one message once more, lest chance decides, and reject it if it fails again."""
        try:
            return self._codec.decode(deliveries)
        except Exception as exc:
            if not _follows_from_message(exc):
                raise
            return self._rejected(deliveries, passed_over(Reason.INTERNAL, type(first).__name__))

    def _rejected(self, deliveries: Deliveries, rejection: Rejection) -> DecodedBatch:
        nothing = self._codec.decode(Deliveries())
        return DecodedBatch(nothing.features, nothing.present, deliveries, [rejection], [0], plain=False)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode one reply for each delivery; of those that fail, `batch.parts` says so from then on.

        Raises:
            Exception: As of `decode`.
        """
        try:
            return self._codec.encode(batch, answers)
        except Exception as exc:
            if not _follows_from_message(exc):
                raise
        starts = [0, *batch.ends[:-1]]
        replies = [self._reply(batch, answers, index, start) for index, start in enumerate(starts)]
        batch.plain = False
        return Replies.joined(replies)

    def _reply(self, batch: DecodedBatch, answers: Answers, index: int, start: int) -> Replies:
        alone, its = _one_of(batch, index, start), answers.part(start, batch.ends[index])
        try:
            for label in (0, 1):  # whether it fails is public: it must not depend on the label
                self._codec.encode(alone, dataclasses.replace(its, labels=np.full_like(its.labels, label)))
            return self._codec.encode(alone, its)
        except Exception as exc:
            if not _follows_from_message(exc):
                raise
            batch.parts[index] = passed_over(Reason.INTERNAL, type(exc).__name__)
        return self._refusal(_one_of(batch, index, start), answers.part(start, start))

    def _refusal(self, alone: DecodedBatch, no_rows: Answers) -> Replies:
        try:
            return self._codec.encode(alone, no_rows)
        except Exception as exc:
            if not _follows_from_message(exc):
                raise
        nameless = dataclasses.replace(alone.deliveries, bodies=[None])  # its very id cannot be read
        bodies = self._codec.encode(dataclasses.replace(alone, deliveries=nameless), no_rows).bodies
        return alone.replies(bodies, [JSON])


def _joined(first: DecodedBatch, second: DecodedBatch, deliveries: Deliveries) -> DecodedBatch:
    rows = len(first.features)
    return DecodedBatch(
        np.concatenate([first.features, second.features]),
        np.concatenate([first.present, second.present]),
        deliveries,
        [*first.parts, *second.parts],
        [*first.ends, *(rows + end for end in second.ends)],
        plain=first.plain and second.plain,
    )


def _one_of(batch: DecodedBatch, index: int, start: int) -> DecodedBatch:
    rows, part = slice(start, batch.ends[index]), batch.parts[index]
    return DecodedBatch(
        batch.features[rows],
        batch.present[rows],
        batch.deliveries.part(index, index + 1),
        [part],
        [len(batch.features[rows])],
        plain=False,
    )
