"""One game of Stemmer (2024), Figure 1, against a whole predictor, in one of its two worlds.

The adversary chooses the training rows and the queries, all but for one record: a training row (in the world without
it, it is blanked) or a query (there, its round has no query). It sees every label but that record's own, and the public
events. Which world it is, it is not told.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import SideRearmed
from oracle.errors import InputError
from oracle.planning.plan import BoxPlan
from oracle.predictors.kinds import new_trainer

if TYPE_CHECKING:
    from oracle.predictors.base import Predictor

__all__ = ["Game"]

Floats = NDArray[np.float64]


class Game:
    """A game over one feature.

    Args:
        plan: The plan; public.
        secret: The genesis key, 32 uniform bytes.
        present: Which world.
    """

    def __init__(self, plan: BoxPlan, secret: bytes, *, present: bool) -> None:
        self.plan = plan
        self.rearms: list[int] = []
        self._secret = secret
        self._present = present
        self._predictor: Predictor | None = None
        self._challenged = False

    @property
    def round(self) -> int:
        """Rounds so far; public."""
        return 0 if self._predictor is None else self._predictor.facts().round

    def train(self, values: Floats, labels: NDArray[np.bool_], challenge: int | None = None) -> None:
        """Hand over the training rows, filled up with blanked ones.

        Args:
            values: float64[n], at most as many as the plan declares.
            labels: bool[n].
            challenge: The row that is the record; None if it will be a query.
        """
        rows, marks = np.zeros(self.plan.declared), np.zeros(self.plan.declared, dtype=np.bool_)
        rows[: len(values)], marks[: len(values)] = values, labels
        if challenge is not None:
            self._claim()
            if not self._present:
                rows[challenge], marks[challenge] = 0.0, False
        trainer = new_trainer(self.plan, self._secret)
        trainer.add(rows[:, None], marks)
        self._predictor = trainer.finish()

    def _claim(self) -> None:
        if self._challenged:
            raise InputError("challenge", 2, "must be one record")
        self._challenged = True

    def ask(self, values: Floats) -> NDArray[np.int8]:
        """Ask queries one after the other and return their labels."""
        return self._answer(values, np.ones(len(values), dtype=np.bool_))

    def challenge(self, value: float) -> None:
        """Let the hidden query be asked, or, in the world without it, a round go by with no query."""
        self._claim()
        self._answer(np.array([value]), np.array([self._present]))

    def _answer(self, values: Floats, there: NDArray[np.bool_]) -> NDArray[np.int8]:
        if self._predictor is None:
            raise InputError("rows", None, "must be handed over before the first query")
        answers = self._predictor.answer(values[:, None], there)
        self.rearms += [event.round for event in answers.events if isinstance(event, SideRearmed)]
        return answers.labels

    def rearmed_after(self, start: int) -> int | None:
        """Return the first round from `start` on before which a side was armed afresh; public."""
        return next((number for number in self.rearms if number >= start), None)
