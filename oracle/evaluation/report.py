"""What an evaluation found, as one record that the table, the JSON and the page are made from."""

from collections.abc import Sequence

import msgspec

from oracle.accounting.ledger import ScoreReleased
from oracle.evaluation.baselines import Baseline, error_beyond
from oracle.evaluation.trial import ClassSeen, Seen, Side, Trial
from oracle.evaluation.votes import VotesSeen
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
        kept: Whether the error that was seen may be below the limit, by its interval, in each phase that was tried and
            in all; of an ensemble, also whether noise may change as few answers of the first as is promised.
        order: How the test rows were asked, in words.
        interval: What the intervals are.
        error: Part of all answers that is wrong.
        low: The lower end of its interval.
        high: The upper end.
        false_positives: Part of all answers that say 1 and should say 0; None where labels are others.
        false_negatives: Part of all answers that say 0 and should say 1; None where labels are others.
        classes: Of labels other than 0 and 1, what was seen of each.
        resting: Rounds that the model rested in, without an answer; they count nowhere else.
        phases: The errors by phase, in order.
        phase_rounds: Rounds that each of these phases has in all.
        later: How many phases come after the last one that was asked.
        stretches: The errors of tenths of the rounds, in order.
        sides: Of boxes, what each side was given.
        baselines: What others make of the same rows.
        causes: Conditions of the promise that the rows do not meet, and what else is wrong.
        votes: Of an ensemble, what its first teachers say; else None.
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
    false_positives: float | None
    false_negatives: float | None
    classes: tuple[ClassSeen, ...] = ()
    resting: int = 0
    phases: tuple[Seen, ...]
    phase_rounds: tuple[int, ...] = ()
    later: int = 0
    stretches: tuple[Seen, ...] = ()
    sides: tuple[Side, ...] = ()
    baselines: tuple[Baseline, ...]
    causes: tuple[str, ...]
    votes: VotesSeen | None = None
    released: ScoreReleased | None = None

    def wrongs(self, share: str) -> str:
        """Return what is wrong with answers of 0 and 1, and how many there are not, in words.

        Args:
            share: Format of a share.
        """
        ways = []
        if self.false_positives is not None and self.false_negatives is not None:
            ways.append(f"{self.false_positives:{share}} wrongly say 1, {self.false_negatives:{share}} wrongly say 0")
        if self.resting:
            ways.append(f"{self.resting:,} further rounds rested, without an answer")
        return "".join(f"; {way}" for way in ways)

    @property
    def verdict(self) -> str:
        """Whether the promise was kept, in words, and where nobody knows."""
        tried = f" in phase {self.phases[0].phase}" if len(self.phases) == 1 else f" in {len(self.phases)} phases"
        untried = f"; {self.later:,} later phases were not tried (--rounds)" if self.later else ""
        if not self.kept:
            wrong = [str(seen.phase) for seen in self.phases if seen.low > self.limit]
            where = f" in phase {' and '.join(wrong)}" if wrong and len(self.phases) > 1 else tried
            return f"not kept{where}{untried}"
        if max(self.error, *(seen.error for seen in self.phases)) > self.limit:
            few = "the error is above the promise, but with so few test rows it may be chance"
            return f"may be kept{tried}: {few}{untried}"
        return f"kept{tried}{untried}"


def report_of(  # noqa: PLR0913, PLR0917 -- its parts
    plan: Plan,
    promise: Promise,
    trial: Trial,
    others: Sequence[Baseline],
    found: Sequence[str],
    order: str,
    released: ScoreReleased | None,
    votes: VotesSeen | None = None,
) -> Report:
    """Put it together."""
    limit = promise.bound + (error_beyond(others) if promise.beyond else 0.0)
    whole, phases = trial.whole, tuple(trial.by_phase)
    kept = all(seen.low <= limit for seen in (whole, *phases))
    if votes is not None and votes.changed_low is not None:
        kept &= votes.changed_low <= promise.bound
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
        classes=() if trial.binary else tuple(trial.classes(plan.labels)),
        resting=trial.resting,
        phases=phases,
        phase_rounds=tuple(plan.phases[seen.phase - 1].rounds for seen in phases),
        later=len(plan.phases) - phases[-1].phase,
        stretches=tuple(trial.stretches),
        sides=trial.sides,
        baselines=tuple(others),
        causes=tuple(found) or (() if kept else (_UNEXPLAINED,)),
        votes=votes,
        released=released,
    )
