"""What an evaluation found, as one record that the table, the JSON and the page are made from."""

from collections.abc import Sequence

import msgspec

from oracle.accounting.ledger import ScoreReleased
from oracle.evaluation.baselines import Baseline
from oracle.evaluation.trial import Seen, Side, Trial
from oracle.planning.plan import Plan
from oracle.planning.promise import Promise

__all__ = ["INTERVAL", "NOT_PRIVATE", "Report", "report_of"]

NOT_PRIVATE = "Not private: do not publish. It is computed from the rows themselves, for their owner only."
INTERVAL = "95 % interval of Clopper and Pearson (1934), by the test rows that were asked"
_UNEXPLAINED = (
    "nothing that these rows can show: run it again, as a key can miss the promise by chance (with the probability "
    "above); if it persists, features may depend on each other, or sides may starve in a later phase"
)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation. Private, but for what was released. Fields that came later have a default.

    Attributes:
        warning: That it is not to be published.
        model: The model's name.
        predictor: Its predictor.
        epsilon: Its epsilon.
        delta: Its delta.
        promise: What the plan promises.
        limit: The error that it comes to on these rows: of a promise beyond a learner's error, both.
        kept: Whether the error that was seen may be below the limit, by its interval.
        order: How the test rows were asked, in words.
        interval: What the intervals are.
        error: Part of all answers that is wrong.
        low: The lower end of its interval.
        high: The upper end.
        false_positives: Part of all answers that say 1 and should say 0.
        false_negatives: Part of all answers that say 0 and should say 1.
        phases: The errors by phase, in order.
        phase_rounds: Rounds that each of these phases has in all.
        later: How many phases come after the last one that was asked.
        stretches: The errors of tenths of the rounds, in order.
        sides: Of boxes, what each side was given.
        baselines: What others make of the same rows.
        causes: Conditions of the promise that the rows do not meet, and what else is wrong.
        released: The noisy score and what it cost, which may be published; None if none was asked for.
    """

    warning: str = NOT_PRIVATE
    model: str
    predictor: str
    epsilon: float
    delta: float
    promise: Promise
    limit: float = 1.0
    kept: bool
    order: str = ""
    interval: str = INTERVAL
    error: float
    low: float
    high: float
    false_positives: float
    false_negatives: float
    phases: tuple[Seen, ...]
    phase_rounds: tuple[int, ...] = ()
    later: int = 0
    stretches: tuple[Seen, ...] = ()
    sides: tuple[Side, ...] = ()
    baselines: tuple[Baseline, ...]
    causes: tuple[str, ...]
    released: ScoreReleased | None = None

    @property
    def verdict(self) -> str:
        """Whether the promise was kept, in words."""
        if self.kept and self.error > self.limit:
            return "may be kept: the error is above the promise, but with so few test rows it may be chance"
        return "kept" if self.kept else "not kept"


def report_of(  # noqa: PLR0913, PLR0917 -- its parts
    plan: Plan,
    promise: Promise,
    trial: Trial,
    others: Sequence[Baseline],
    found: Sequence[str],
    order: str,
    released: ScoreReleased | None,
) -> Report:
    """Put it together."""
    stump = next((other.error for other in others if other.name == "best stump"), None)
    limit = promise.bound + ((stump or 0.0) if promise.beyond else 0.0)
    whole, phases = trial.whole, tuple(trial.by_phase)
    kept = whole.low <= limit
    return Report(
        model=plan.name,
        predictor=plan.predictor,
        epsilon=plan.epsilon,
        delta=plan.delta,
        promise=promise,
        limit=limit,
        kept=kept,
        order=order,
        error=whole.error,
        low=whole.low,
        high=whole.high,
        false_positives=trial.false_positives,
        false_negatives=trial.false_negatives,
        phases=phases,
        phase_rounds=tuple(plan.phases[seen.phase - 1].rounds for seen in phases),
        later=len(plan.phases) - phases[-1].phase,
        stretches=tuple(trial.stretches),
        sides=trial.sides,
        baselines=tuple(others),
        causes=tuple(found) or (() if kept else (_UNEXPLAINED,)),
        released=released,
    )
