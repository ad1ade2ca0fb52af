"""What all predictors have in common whose questions are public, and paid for by the training rows."""

from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.questions import QuestionPlan
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.phased import PhasedPredictor

__all__ = ["QuestionPredictor"]

QuestionPlanT = TypeVar("QuestionPlanT", bound=QuestionPlan)


class QuestionPredictor(PhasedPredictor[QuestionPlanT]):
    """Tells of each answer what was paid, and whether it is verified."""

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        self._told = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))]
        answers = super().answer(features, present)
        paid, verified = map(np.concatenate, zip(*self._told, strict=True))
        self._told = []
        return replace(answers, paid=paid, verified=verified)

    def _tell(
        self, before: int, bought: NDArray[np.integer[Any]] | NDArray[np.bool_], verified: NDArray[np.bool_]
    ) -> None:
        """Note what is told of a segment's answers.

        Args:
            before: Paid answers before it.
            bought: bool[n], whether the round's answer was paid; or int[n], how often.
            verified: bool[n].
        """
        self._told.append((before + np.cumsum(bought), verified))

    @classmethod
    def _reopened_at(cls, plan: QuestionPlanT, arrays: StateArrays) -> tuple[Self, int]:
        """Return a predictor at the round of a state, and its paid answers.

        Raises:
            CorruptSnapshotError: More are paid than the plan has.
        """
        rounds, phase, phase_round, paid = arrays["counters"][:4].tolist()
        if paid > plan.paid:
            raise CorruptSnapshotError("snapshot: its paid answers are not those of its plan")
        predictor = cls(plan, PhaseKey(arrays["key"].tobytes()), phase=phase)
        predictor._round, predictor._phase_round = rounds, phase_round
        return predictor, paid
