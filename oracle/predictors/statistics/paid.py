"""The paid questions of a plan about a table."""

from typing import Final

import numpy as np
from msgspec import UNSET

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.planning.statistics.model import TablePlan

__all__ = ["paid_questions", "threshold_offset"]

_ZERO: Final = np.zeros(1, dtype=np.uint64)


def paid_questions(plan: TablePlan) -> PaidQuestions:
    """Return the mechanism of a plan.

    Raises:
        PlanError: The plan has none.
    """
    noise = plan.paid_noise
    threshold = None if noise.threshold_slope is UNSET else noise.threshold_slope
    return PaidQuestions(noise.law, noise.slope, plan.paid, threshold)


def threshold_offset(questions: PaidQuestions, addresses: Addresses) -> int:
    """Return the noise on all thresholds of a run: a function of the phase key, so that a fork has its own.

    Args:
        questions: The mechanism.
        addresses: The phase key's functions, whose first `THRESHOLD` block draws nothing else.
    """
    return questions.offset(addresses.words(Purpose.THRESHOLD, _ZERO, _ZERO, None)[0, 0])
