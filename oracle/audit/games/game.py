"""One game of Stemmer (2024), Figure 1, against a whole predictor, in one of its two worlds.

The adversary chooses the training rows and the queries, all but for one record: a training row (in the world without
it, it is blanked) or a query (there, its round has no query). It sees every label but that record's own, and the public
events. Which world it is, it is not told.
"""

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import SharesReleased, SideRearmed
from oracle.errors import InputError
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.kinds import new_trainer, points_beyond

if TYPE_CHECKING:
    from oracle.predictors.base import Predictor

__all__ = ["Game"]

Floats = NDArray[np.float64]

PlanT = TypeVar("PlanT", bound=Plan)


def _looks_at_zeros(plan: Plan) -> bool:
    """Return whether rows labelled 0 matter: then blanking a row would exchange it for another."""
    return plan.predictor == "stumps" or (isinstance(plan, ClassicalPlan) and plan.concept == "stump")


class Game(Generic[PlanT]):
    """A game over one feature.

    Args:
        plan: The plan; public. (In the world without a training row its number of examples may be one less.)
        secret: The genesis key, 32 uniform bytes.
        present: Which world.
    """

    def __init__(self, plan: PlanT, secret: bytes, *, present: bool) -> None:
        self.plan: PlanT = plan
        self.rearms: list[int] = []
        self.shares: tuple[int, ...] = ()
        """The noisy counts of classes that are released before the first round, if any; public."""
        self.margin: int | None = None
        """The noisy count that is released when the state is made, if the plan has one; public."""
        self._secret = secret
        self._present = present
        self._predictor: Predictor | None = None
        self._challenged = False

    @property
    def round(self) -> int:
        """Rounds so far; public."""
        return 0 if self._predictor is None else self._predictor.facts().round

    def train(self, values: Floats, labels: NDArray[np.bool_ | np.int8], challenge: int | None = None) -> None:
        """Train on these rows, after blank ones that fill up the declared number; the hidden record comes last.

        Where it is not there, it is blanked as a row labelled 0, or, for a learner that looks at these too, left out;
        an ensemble has a label for blank rows.

        Args:
            values: float64[n], or of a table float64[n, A], at most as many as the plan declares.
            labels: bool[n], or of an ensemble int8[n].
            challenge: The row that is the record; None if it will be a query.
        """
        filler = self.plan.declared - len(values)
        blank = NO_LABEL if isinstance(self.plan, EnsemblePlan) else 0
        rows, marks, plan = (
            np.concatenate([np.zeros((filler, *values.shape[1:])), values]),
            np.append(np.full(filler, blank, dtype=labels.dtype), labels),
            self.plan,
        )
        if challenge is not None:
            self._claim()
            order = np.append(np.delete(np.arange(self.plan.declared), filler + challenge), filler + challenge)
            rows, marks = rows[order], marks[order]
            if not self._present and not _looks_at_zeros(plan):
                rows[-1], marks[-1] = 0.0, blank
            elif not self._present:
                rows, marks = rows[:-1], marks[:-1]
                plan = msgspec.structs.replace(plan, declared=plan.declared - 1)
        trainer = new_trainer(plan, self._secret)
        trainer.add(rows.reshape(len(rows), -1), marks)
        self._predictor = trainer.finish()
        self.margin = points_beyond(trainer)

    @property
    def predictor(self) -> "Predictor":
        """The predictor under attack: its events and releases are public, its state is not."""
        if self._predictor is None:
            raise InputError("rows", None, "must be handed over before the first query")
        return self._predictor

    def _claim(self) -> None:
        if self._challenged:
            raise InputError("challenge", 2, "must be one record")
        self._challenged = True

    def ask(self, values: Floats) -> NDArray[np.int8]:
        """Ask queries one after the other and return their labels."""
        return self._answer(values, np.ones(len(values), dtype=np.bool_))

    def skip(self, rounds: int) -> None:
        """Let rounds pass with no query."""
        self._answer(np.zeros(rounds), np.zeros(rounds, dtype=np.bool_))

    def challenge(self, value: float) -> None:
        """Ask the hidden query, or, in the world without it, let a round pass with no query."""
        self._claim()
        self._answer(np.array([value]), np.array([self._present]))

    def _answer(self, values: Floats, there: NDArray[np.bool_]) -> NDArray[np.int8]:
        answers = self.predictor.answer(values[:, None], there)
        self.rearms += [event.round for event in answers.events if isinstance(event, SideRearmed)]
        self.shares = next((one.counts for one in answers.events if isinstance(one, SharesReleased)), self.shares)
        return answers.labels

    def rearmed_after(self, start: int) -> int | None:
        """Return the first round from `start` on before which a side was armed afresh; public."""
        return next((number for number in self.rearms if number >= start), None)
