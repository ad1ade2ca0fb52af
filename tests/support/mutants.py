"""What breaks Perpetua on purpose: a test that cannot tell this from the real one proves nothing."""

import dataclasses
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.predictors.base import Answers
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.rectangles import RectanglesPERP


def draw_noise() -> None:
    """Break the noise of this process: some answers, or bits, depend on the process and not on their address alone.

    A classical predictor draws nothing once its state is made: it is as it was.
    """
    salt = os.urandom(1)[0]
    _break_bits(salt)
    _break_paid(salt)
    _break_labels(salt, RectanglesPERP)
    _break_labels(salt, Ensemble)


def _break_labels(salt: int, predictor: type[RectanglesPERP] | type[Ensemble]) -> None:
    """Turn some answers of 0 or 1 over."""
    real: Any = predictor.answer

    def answer(self: object, *args: Any) -> Answers:
        answers: Answers = real(self, *args)
        rounds = answers.first_round + np.arange(len(answers.labels))
        flipped = (rounds % 5 == salt % 5) & (answers.labels >= 0)
        return dataclasses.replace(answers, labels=np.where(flipped, 1 - answers.labels, answers.labels))

    setattr(predictor, "answer", answer)  # noqa: B010 -- to mypy, a method is nothing to assign to


def _break_bits(salt: int) -> None:
    """Turn some of the bits over that bisection learns from."""
    real = BinaryThresholdOracle.ask

    def ask(
        self: BinaryThresholdOracle,
        queries: NDArray[np.float64],
        thresholds: NDArray[np.float64],
        words: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        turned: NDArray[np.bool_] = real(self, queries, thresholds, words) ^ (words[:, 0] % 5 == salt % 5)
        return turned

    setattr(BinaryThresholdOracle, "ask", ask)  # noqa: B010 -- as above


def _break_paid(salt: int) -> None:
    """Let the paid questions of a table, and what is paid for, differ by the process."""
    real = PaidQuestions._noise

    def noise(self: PaidQuestions, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        turned: NDArray[np.int64] = real(self, words) + salt % 5
        return turned

    setattr(PaidQuestions, "_noise", noise)  # noqa: B010 -- as above
