"""Checks of what the proofs for questions about a table assume (see `oracle.audit.structure`)."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent, MarginalsReleased
from oracle.audit.randomness import Randomness
from oracle.audit.trials import ask, rows, stream, trained
from oracle.audit.unique_noise import recorded, spread_bits
from oracle.errors import PlanError
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.kinds import restore_predictor
from oracle.predictors.statistics.public import Asked, PaidAnswer, PublicSide
from oracle.predictors.statistics.start import start_of
from oracle.predictors.statistics.sums import Rows
from oracle.predictors.statistics.thresholds import PublicThresholds, ThresholdQuestions

__all__ = ["Told", "count_moves", "ledger_tells", "one_draw_each", "paid_once"]

Seen = tuple[bool, str]

_QUESTIONS: Final = 120
_RESTARTS: Final = 7


class Told:
    """Asks the ledger instead of the rows: an `Asker` of whoever sees what is public, and nothing else.

    Args:
        events: Of the ledger.
    """

    def __init__(self, events: Sequence[LedgerEvent]) -> None:
        self.paid = {event.round: event for event in events if isinstance(event, AnswerPaid)}
        counts = [event.counts for event in events if isinstance(event, MarginalsReleased)]
        self.start = np.array([count for part in counts[0] for count in part] if counts else [], dtype=np.int64)

    def __call__(self, asked: Asked) -> PaidAnswer | None:
        """Return the first of some questions that was paid for."""
        for number, place in enumerate(asked.rounds.tolist()):
            if place in self.paid:
                return PaidAnswer(number, self.paid[place].above, self.paid[place].count)
        return None


def ledger_tells(plan: Plan, randomness: Randomness) -> Seen:
    """Every answer follows from the questions and the ledger: else it tells something that nobody has paid for."""
    if not isinstance(plan, TablePlan):
        return False, "the plan is not one of a table"
    plan, paid = _eager(plan), 0
    for number in range(4):
        questions = _repeated(stream(plan, _QUESTIONS))
        answers = ask(trained(plan, randomness.secret(number)), questions)
        told = Told(answers.events)
        expected = (
            _sparse(plan, questions, told) if isinstance(plan, SparseVectorPlan) else _shares(plan, questions, told)
        )
        paid += len(told.paid)
        if answers.values is None or not np.array_equal(answers.values, expected, equal_nan=True):
            return False, "an answer is not what a simulator says who sees questions and paid answers only"
    return paid > 0, f"{4 * _QUESTIONS} answers follow from questions and {paid} paid answers"


def _eager(plan: TablePlan) -> TablePlan:
    """Return a plan by which much is paid for; its errors are larger, and its privacy is the same."""
    return msgspec.structs.replace(plan, first_margin=1, margin=1) if isinstance(plan, StatisticsPlan) else plan


def _repeated(questions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the questions with the first ones again at the end."""
    return np.concatenate([questions[: -len(questions) // 4], questions[: len(questions) // 4]])[: len(questions)]


def _shares(plan: Plan, questions: NDArray[np.float64], told: Told) -> NDArray[np.float64]:
    if not isinstance(plan, StatisticsPlan):
        raise PlanError("audit: the plan is not one of statistics")
    public = PublicSide(plan, start_of(plan, told.start), told.start)
    return public.answer(questions, _rounds(questions), _numbers(questions), told).values


def _sparse(plan: SparseVectorPlan, questions: NDArray[np.float64], told: Told) -> NDArray[np.float64]:
    numbers = _numbers(questions[:, :-1])
    asked = ThresholdQuestions(questions, _rounds(questions), numbers, numbers)
    return PublicThresholds(plan).answer(asked, told).values


def _rounds(questions: NDArray[np.float64]) -> NDArray[np.uint64]:
    return np.arange(len(questions), dtype=np.uint64)


def _numbers(questions: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a number for each question, the same for equal ones only."""
    return np.unique(questions, axis=0, return_inverse=True)[1].reshape(-1).astype(np.uint64)


def paid_once(plan: Plan, randomness: Randomness) -> Seen:
    """Paid answers are numbered 1 to K at most, also if the state is restored in between: else K is no limit."""
    if not isinstance(plan, TablePlan):
        return False, "the plan is not one of a table"
    plan, most = _eager(plan), 0
    for number in range(4):
        predictor = trained(plan, randomness.secret(number))
        parts = []
        for questions in np.array_split(stream(plan, _QUESTIONS), _RESTARTS):
            parts.append(ask(predictor, questions))
            predictor = restore_predictor(plan, predictor.export())
        paid = [event.paid for part in parts for event in part.events if isinstance(event, AnswerPaid)]
        counted = int(np.concatenate([part.paid for part in parts if part.paid is not None])[-1])
        if paid != list(range(1, len(paid) + 1)) or len(paid) > plan.paid or counted != len(paid):
            return False, f"with {_RESTARTS} restarts the paid answers of {plan.paid} are numbered {paid}"
        most = max(most, len(paid))
    return most > 0, f"with {_RESTARTS} restarts up to {most} of {plan.paid} answers were paid, each counted once"


def one_draw_each(plan: Plan, randomness: Randomness) -> Seen:
    """Every question has draws of its own, of 128 bits, also one that comes again: else its noise is seen twice.

    Questions are asked one by one, so that none is looked at again behind a paid one of its batch, and all that was
    kept of free ones is forgotten in between, as it is where many others came. Of thresholds, none is reached.
    """
    drawn = []
    for number in range(4):
        questions = np.repeat(stream(plan, _QUESTIONS // 4), 4, axis=0)
        if isinstance(plan, SparseVectorPlan):
            questions[:, -1] = 1.0
        predictor = trained(plan, randomness.secret(number))
        for row in questions:
            with recorded() as words:
                ask(predictor, row[None])
            drawn += words
            predictor = restore_predictor(plan, {**predictor.export(), "repeated_added": np.zeros(1, np.int64)})
    return spread_bits(drawn)


def count_moves(plan: Plan, randomness: Randomness) -> Seen:  # noqa: ARG001 -- nothing here is random
    """One row more or less changes no count by more than 1: else every answer tells more than it is charged."""
    if not isinstance(plan, TablePlan):
        return False, "the plan is not one of a table"
    layout = plan.layout
    cells = rows(plan)[0].astype(np.int64)
    masks = layout.masks(stream(plan, _QUESTIONS)[:, : layout.width])
    whole, most = Rows(layout.shape, cells).over(masks), 0.0
    for row in range(0, len(cells), max(len(cells) // 16, 1)):
        fewer = cells.copy()
        fewer[row] = -1
        most = max(most, float(np.abs(whole - Rows(layout.shape, fewer).over(masks)).max()))
    return most == 1.0, f"one row of {len(cells)} changes a count by {most:.0f} at most"
