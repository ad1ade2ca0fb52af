"""What breaks Perpetua on purpose: a test that cannot tell this from the real one proves nothing."""

import dataclasses
import os
from typing import Any

import numpy as np

from oracle.predictors.base import Answers
from oracle.predictors.rectangles import RectanglesPERP

__all__ = ["draw_noise"]


def draw_noise() -> None:
    """Break the noise of this process: some answers depend on the process and not on their address alone."""
    salt = os.urandom(1)[0]
    real = RectanglesPERP.answer

    def answer(self: RectanglesPERP, *args: Any) -> Answers:
        answers = real(self, *args)
        rounds = answers.first_round + np.arange(len(answers.labels))
        flipped = (rounds % 5 == salt % 5) & (answers.labels >= 0)
        return dataclasses.replace(answers, labels=np.where(flipped, 1 - answers.labels, answers.labels))

    setattr(RectanglesPERP, "answer", answer)  # noqa: B010 -- to mypy, a method is nothing to assign to
