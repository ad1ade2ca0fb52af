"""What an evaluation found, as one record that the table, the JSON and the page are made from."""

from collections.abc import Sequence

import msgspec

from oracle.evaluation.baselines import Baseline
from oracle.evaluation.trial import Trial
from oracle.planning.plan import Plan
from oracle.planning.promise import Promise

__all__ = ["NOT_PRIVATE", "Report", "Seen", "report_of"]

NOT_PRIVATE = "Not private: made from the rows as they are, for their owner's eyes. Do not publish it."


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of some rounds.

    Attributes:
        phase: Which phase answered; 0 for all of them.
        rounds: How many.
        error: Part of the answers that is wrong.
        of: Rounds that the phase has in all.
    """

    phase: int
    rounds: int
    error: float
    of: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation. Private.

    Attributes:
        warning: That it is not to be published.
        model: The model's name.
        predictor: Its predictor.
        epsilon: Its epsilon.
        delta: Its delta.
        promise: What the plan promises.
        kept: Whether the error that was seen may be below the promised one, by its interval: of a promise beyond some
            learner's error, with that error added.
        error: Part of all answers that is wrong.
        low: The lower end of the error's 95 % interval.
        high: The upper end.
        false_positives: Part of all answers that say 1 and should say 0.
        false_negatives: Part of all answers that say 0 and should say 1.
        phases: The errors by phase, in order.
        baselines: What others make of the same rows.
        causes: Conditions of the promise that the rows do not meet, and what else is wrong.
    """

    warning: str
    model: str
    predictor: str
    epsilon: float
    delta: float
    promise: Promise
    kept: bool
    error: float
    low: float
    high: float
    false_positives: float
    false_negatives: float
    phases: tuple[Seen, ...]
    baselines: tuple[Baseline, ...]
    causes: tuple[str, ...]


def report_of(plan: Plan, promise: Promise, trial: Trial, others: Sequence[Baseline], found: Sequence[str]) -> Report:
    """Put it together."""
    low, high = trial.range
    stump = next((other.error for other in others if other.name == "best stump"), None)
    base = (stump or 0.0) if promise.beyond else 0.0
    return Report(
        warning=NOT_PRIVATE,
        model=plan.name,
        predictor=plan.predictor,
        epsilon=plan.epsilon,
        delta=plan.delta,
        promise=promise,
        kept=low <= base + promise.bound,
        error=trial.error,
        low=low,
        high=high,
        false_positives=trial.false_positives,
        false_negatives=trial.false_negatives,
        phases=tuple(
            Seen(phase=phase, rounds=rounds, error=error, of=plan.phases[phase - 1].rounds)
            for phase, (rounds, error) in trial.by_phase.items()
        ),
        baselines=tuple(others),
        causes=tuple(found),
    )
