"""Predictors and codecs that fail on messages of one kind; and `perpetua` with such a predictor.

`python -m tests.support.poisoned serve CONFIG` is the daemon, in whose table of predictors the restored ones fail.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Replies
from oracle.cli.main import main
from oracle.codec.batches import BatchCodec
from oracle.codec.decoded import DecodedBatch
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, Predictor, PublicFacts, StateArrays
from oracle.predictors.kinds import PREDICTORS, restore_predictor

FAILING, DEADLY = 0.123456789, 0.987654321
"""First features of a query that makes the predictor raise, and of one that kills the process."""


def body(*features: float, name: str = "poison") -> bytes:
    """Return a query."""
    return msgspec.json.encode({"id": name, "x": features})


@dataclass
class _Poisoned:
    """A predictor that changes its state and then fails, where a query has one of the features above."""

    inner: Predictor

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        answers = self.inner.answer(features, present)
        if (features[:, 0] == DEADLY).any():
            os.kill(os.getpid(), signal.SIGKILL)
        if (features[:, 0] == FAILING).any():
            raise ZeroDivisionError("private")
        return answers

    def settle(self) -> None:
        self.inner.settle()

    def export(self) -> StateArrays:
        return self.inner.export()

    def facts(self) -> PublicFacts:
        return self.inner.facts()


def restore_poisoned(plan: Plan, arrays: StateArrays) -> Predictor:
    """Restore a predictor that fails."""
    return _Poisoned(restore_predictor(plan, arrays))


class PoisonedCodec:
    """A codec that raises where some body has a mark in it.

    Args:
        plan: The plan.
        error: Makes what is raised.
        decodes: Mark of bodies that cannot be decoded.
        encodes: Mark of bodies whose answers cannot be encoded.
    """

    def __init__(
        self,
        plan: Plan,
        error: Callable[[], Exception] = lambda: KeyError("private"),
        decodes: bytes = b"undecodable",
        encodes: bytes = b"unspeakable",
    ) -> None:
        self._codec = BatchCodec(plan)
        self._error, self._decodes, self._encodes = error, decodes, encodes

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries, or fail."""
        self._look(deliveries, self._decodes)
        return self._codec.decode(deliveries)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode answers, or fail."""
        self._look(batch.deliveries, self._encodes)
        return self._codec.encode(batch, answers)

    def _look(self, deliveries: Deliveries, mark: bytes) -> None:
        if any(mark in (body or b"") for body in deliveries.bodies):
            raise self._error()


def _restore(inner: Callable[[Plan, StateArrays], Predictor], plan: Plan, arrays: StateArrays) -> Predictor:
    return _Poisoned(inner(plan, arrays))


def _main() -> None:
    table: Any = PREDICTORS
    for name, kind in PREDICTORS.items():
        table[name] = kind._replace(restore=partial(_restore, kind.restore))
    main()


if __name__ == "__main__":
    _main()
