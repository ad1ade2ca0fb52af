"""What an ensemble's teachers say of the owner's own rows: how contested their votes are, and what they err by."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.errors import PlanError
from oracle.evaluation.crowd import Crowd, Votes, settings_of
from oracle.evaluation.trial import Rows, Table, interval
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.ensemble.sizes import Terms, contested_by, questions_of, terms_of, widest_noise
from oracle.planning.ensemble.tight import quick_ensemble_examples, quick_terms
from oracle.planning.plan import Plan
from oracle.predictors.base import Labels
from oracle.predictors.ensemble.control import asking_order
from oracle.predictors.ensemble.dealing import owners_of
from oracle.predictors.ensemble.teachers import Teachers, fit_teachers

__all__ = ["VotesSeen", "votes_rows", "votes_seen"]

_AGAIN: Final = 20_000
"""Training rows that are answered for other teachers to be fitted to, at most."""

_LEAST: Final = 1e-4
"""Least share that is recommended to declare."""

_STEP: Final = 1.03
"""Ratio within which the share to declare is looked for."""

_ROOM: Final = 1.1
"""How much more than that is recommended: teachers of another key may be as much more contested, if they are few."""

_LARGE: Final = 1.3
"""A declared share that is so many times as large as the one recommended is still let pass: another key may recommend
less, and round numbers are easier to defend."""


class VotesSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What the first teachers say of the test rows, and others who are fitted to what these answer. Private.

    Figures of the first ones are the larger ones of two settings of the thresholds: where they start, and where each
    class is answered, with noise, as often as it is among the training rows, to which they are steered as far as noise
    lets them go. Those of later ones are for the second.

    Attributes:
        teachers: T.
        contested: Share of the test rows with votes within T/20 of a threshold that they are compared with.
        low: The lower end of its interval.
        high: The upper end.
        declared: What the model declares of it.
        later: The same share by teachers of as many rows each, fitted to what the votes answer, as later ones are.
        later_low: The lower end of its interval.
        allowed: What the plan bears of these; None where no number of rows is enough for one.
        fits: Whether what is declared covers all this and what noise changes, and is not much more than that takes.
        declare: The model file's line that covers the upper ends, with the plan that it makes. It is computed from the
            rows, too.
        examples: Rows that would be enough with that line, or with what is declared, if that fits; None where none are.
        error: Share of the test rows that the votes get wrong without noise.
        again: The same of later teachers.
        alone: The same of one learner that is fitted to all training rows.
        changed: Share of the answers that the plan's noise changes on average; None where there is no plan.
        changed_low: The lower end of its interval.
    """

    teachers: int
    contested: float
    low: float
    high: float
    declared: float
    later: float
    later_low: float
    allowed: float | None
    fits: bool
    declare: str
    examples: int | None
    error: float
    again: float
    alone: float
    changed: float | None
    changed_low: float | None


def votes_rows(votes: VotesSeen) -> Iterator[tuple[str, str]]:
    """Yield what was seen in lines, each with its heading."""
    said = f"{votes.contested:.4f} of the test rows, {votes.low:.4f} to {votes.high:.4f}; declared: {votes.declared:g}"
    yield "contested", said
    bears = "" if votes.allowed is None else f"; the plan bears {votes.allowed:.4f}"
    yield "", f"{votes.later:.4f} by teachers fitted to what these answer, as later ones are{bears}"
    said = f"contested = {votes.declared:g} fits, nothing to change" if votes.fits else f"so declare {votes.declare}"
    if votes.examples is not None:
        yield "", f"{said}: {votes.examples:,} rows are enough with it"
    else:
        yield "", f"{said}: no number of rows is enough with it; take a larger alpha or epsilon, fewer teacher_rows"
        yield "", "(`perpetua suggest` compares them), or a learner whose votes are less contested"
    yield "", "whoever reads the model file reads this line, and no guarantee covers it: it comes from the rows"
    said = (
        f"{votes.teachers:,} teachers are wrong on {votes.error:.4f} without noise; one on all rows: {votes.alone:.4f}"
    )
    yield "votes", said
    yield "", "by thresholds where they start or where they are steered to, whichever is worse"
    yield "", f"teachers fitted to what these answer, as later ones are: {votes.again:.4f}"
    if votes.changed is not None:
        yield "noise", f"changes {votes.changed:.4f} of the answers in phase 1, on average"


def votes_seen(model: EnsembleModel, plan: Plan | None, train: Table, test: Table, secret: bytes) -> VotesSeen | None:
    """Fit the teachers that a plan would have, and look at their votes.

    Args:
        model: The model.
        plan: Its plan; None where there is none, and as many teachers as the rows make are asked.
        train: The training rows, of which those beyond the declared number are not used.
        test: The test rows.
        secret: 32 bytes that dealing and noise follow from; it must never be a state's.

    Returns:
        What was seen; None where there are not two teachers, or no test rows.
    """
    rows, labels = train.features[: model.examples], train.labels[: model.examples].astype(np.int8)
    plan = plan if isinstance(plan, EnsemblePlan) else None
    count = len(labels) // model.teacher_rows if plan is None else plan.teachers
    if count < 2 or not len(test.labels):  # noqa: PLR2004 -- votes
        return None
    terms = _terms(model) if plan is None else terms_of(plan)
    teachers = fit_teachers(model, rows, labels, _owners(secret, rows, 0, count), 0)
    shares = model.shares or (np.bincount(labels, minlength=len(model.classes)) / len(labels)).tolist()
    first = _Poll(_votes(teachers, test.features), count, model.alpha, tuple(shares))
    noise, least = _noises(model, terms)
    answered = rows[:_AGAIN]
    given = replace(first, votes=_votes(teachers, answered)).answers(noise)
    others = max(len(answered) // model.teacher_rows, 1)
    fitted = fit_teachers(model, answered, given, _owners(secret, answered, len(rows), others), 1)
    later = _Poll(_votes(fitted, test.features), others, model.alpha, tuple(shares), starts=False)
    alone = _votes(fit_teachers(model, rows, labels, np.zeros(len(rows), dtype=np.int32), 0), test.features)
    line = _line(model, first, later)
    fits = _covers(model, terms, (first, later), sure=False) and model.contested <= _LARGE * line
    contested, changes, again = first.near(noise), first.changed(noise), later.near(least)
    low, high = interval(contested, len(test.labels))
    return VotesSeen(
        teachers=count,
        contested=contested,
        low=low,
        high=high,
        declared=model.contested,
        later=again,
        later_low=interval(again, len(test.labels))[0],
        allowed=None if terms is None else terms.later,
        fits=fits,
        declare=f"contested = {line:g}",
        examples=_examples(model if fits else msgspec.structs.replace(model, contested=line)),
        error=first.error(noise, test.labels),
        again=_wrong(later.answers(noise), test.labels),
        alone=_wrong(alone.argmax(axis=0), test.labels),
        changed=changes if plan else None,
        changed_low=interval(changes, len(test.labels))[0] if plan else None,
    )


def _owners(secret: bytes, rows: Rows, start: int, count: int) -> NDArray[np.int32]:
    """Return which of so many teachers gets each row, these being numbered from `start`."""
    numbers = np.arange(start, start + len(rows), dtype=np.uint64)
    return owners_of(Addresses(PhaseKey(secret), rows.shape[1]), numbers, count)


def _votes(teachers: Teachers, rows: Rows) -> Votes:
    """Return the votes for each class: int64[C, n]."""
    return teachers.votes(rows).astype(np.int64).T


@dataclass(frozen=True, slots=True)
class _Poll:
    """Votes of some teachers, and what thresholds are steered by; noise is e T, so that it goes with any T.

    Attributes:
        votes: int64[C, n].
        teachers: T.
        alpha: Of the model.
        shares: Of each class.
        starts: Whether thresholds begin where first ones do; else only where they are steered to counts.
    """

    votes: Votes
    teachers: int
    alpha: float
    shares: tuple[float, ...]
    starts: bool = True

    @property
    def order(self) -> NDArray[np.int8]:
        """Numbers of the classes in the order in which they are asked about, the default last."""
        return np.array(asking_order(self.shares), dtype=np.int8)

    def crowd(self, noise: float) -> tuple[Crowd, tuple[Votes, ...]]:
        """Return the votes with some noise, and the thresholds that they are compared with."""
        asked = self.order[:-1]
        crowd = Crowd(self.votes[asked], self.teachers, noise / self.teachers)
        settings = settings_of(crowd, self.alpha, np.array(self.shares)[asked])
        return crowd, settings if self.starts else settings[1:]

    def near(self, noise: float) -> float:
        """Return how contested the votes are."""
        crowd, settings = self.crowd(noise)
        return max(crowd.near(middles) for middles in settings)

    def changed(self, noise: float) -> float:
        """Return the share of the answers that noise changes."""
        crowd, settings = self.crowd(noise)
        return max(crowd.changed(middles) for middles in settings)

    def error(self, noise: float, truth: Labels) -> float:
        """Return the share of the rows that the votes get wrong without noise."""
        crowd, settings = self.crowd(noise)
        return max(_wrong(crowd.said(middles, self.order), truth) for middles in settings)

    def answers(self, noise: float) -> NDArray[np.int8]:
        """Return what is answered, without noise, where thresholds are steered to: int8[n]."""
        crowd, settings = self.crowd(noise)
        return crowd.said(settings[-1], self.order)


def _terms(model: EnsembleModel) -> Terms | None:
    """Return what a plan for as many examples as suffice rests on; None where no number of them does."""
    try:
        return quick_terms(model)
    except PlanError:
        return None


def _noises(model: EnsembleModel, terms: Terms | None) -> tuple[float, float]:
    """Return e T of first lives, and the least of later ones; without a plan as if it had the widest that any has."""
    widest = widest_noise(model.alpha, questions_of(model))
    return (widest, widest) if terms is None else (terms.first, terms.least)


def _line(model: EnsembleModel, first: _Poll, later: _Poll) -> float:
    """Return about the least share that covers all that was seen, with the plan of its own that it makes.

    Where none does that a plan is possible with, one without a plan.
    """
    low, high = _LEAST, 1.0
    while high > _STEP * low:
        middle = math.sqrt(low * high)
        declared = msgspec.structs.replace(model, contested=middle)
        low, high = (low, middle) if _covers(declared, _terms(declared), (first, later), sure=True) else (middle, high)
    return _rounded(_ROOM * high)


def _covers(model: EnsembleModel, terms: Terms | None, polls: tuple[_Poll, _Poll], *, sure: bool) -> bool:
    """Return whether a plan bears what was seen of first teachers and later ones.

    Args:
        model: Its model.
        terms: What it rests on; None where there is none.
        polls: What was seen.
        sure: Whether it bears the upper ends of the intervals.
    """
    first, later = polls

    def most(share: float) -> float:
        return interval(share, first.votes.shape[1])[1] if sure else share

    noise, least = _noises(model, terms)
    near, changes = most(first.near(noise)), most(first.changed(noise))
    if near > model.contested:
        return False
    if terms is None:
        return contested_by(noise, changes, questions_of(model)) <= model.contested
    if changes > terms.changed or most(later.near(least)) > terms.later:
        return False
    return most(later.changed(least)) <= terms.changed


def _wrong(said: NDArray[np.int8] | NDArray[np.intp], truth: Labels | NDArray[np.int8]) -> float:
    return float((said != truth.astype(np.int8)).mean())


def _rounded(share: float) -> float:
    """Return a share rounded up to two digits.

    >>> _rounded(0.03111), _rounded(0.0)
    (0.032, 0.0001)
    """
    share = max(share, _LEAST)
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)
    return min(float(f"{math.ceil(share / unit * (1.0 - 1e-9)) * unit:.2g}"), 1.0)


def _examples(model: EnsembleModel) -> int | None:
    try:
        return quick_ensemble_examples(model)
    except PlanError:
        return None
