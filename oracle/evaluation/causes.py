"""Which of a promise's conditions failed, as far as the rows show it.

What is named is beyond what chance does: a share counts once the whole of its interval is beyond its bound, and tests
are at a level of one in a million.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import scipy
from msgspec import UNSET

from oracle.codec.categories import other_category
from oracle.evaluation.baselines import Baseline, error_beyond
from oracle.evaluation.trial import Table, Trial, interval
from oracle.evaluation.votes import VotesSeen
from oracle.planning.boxes.edges import counted
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.tight import too_rare
from oracle.planning.features import columns_of
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.promise import Promise

__all__ = ["causes"]

_SELDOM: Final = 0.05
"""A label that is given less often than this part of its share is never given, for all that it is worth."""

_RARE: Final = 0.25
"""Share of the rows below which a label is called rare."""

_UNFIT: Final = 0.25
"""Part of the bound that labels which no box fits may take before they are named."""

_STARVES: Final = 1.2
"""Times its stripe that a side may reach past before it is named."""

_OTHERS: Final = 0.25
"""Share of a feature's texts that may be none of its categories before they are named."""

_CHANCE: Final = 1e-6


def causes(  # noqa: PLR0913, PLR0917 -- what there is to see
    plan: Plan,
    promise: Promise,
    trial: Trial,
    others: Sequence[Baseline],
    tables: tuple[Table, Table],
    votes: VotesSeen | None,
) -> Iterator[str]:
    """Yield what is wrong, a sentence each; nothing where all that can be seen is as it should be.

    Args:
        plan: The plan.
        promise: What it promises.
        trial: What was seen.
        others: The baselines, the majority first.
        tables: The training and the test rows.
        votes: Of an ensemble's teachers, if any.
    """
    named = {other.name: other for other in others}
    if isinstance(plan, EnsemblePlan) and trial.beyond is not None and trial.beyond < 0:
        yield f"`init` makes no state of these rows, which pay for its count: {too_rare(plan, trial.beyond)}"
    if votes is not None:
        yield from _contested(plan, votes, len(tables[1].labels))
        yield from _worse_later(votes, len(tables[1].labels))
    yield from _misspelt(plan, tables[0])
    yield from _unfit(plan, promise, named.get("best box"), len(tables[0].labels))
    yield from _starving(plan, promise, trial)
    allowed = promise.bound + (error_beyond(others) if promise.beyond else 0.0)
    if trial.binary:
        yield from _rare(allowed, trial, tables[1])
    yield from _useless(trial, others[0])
    yield from _shared(*tables)
    yield from _unlike(plan, promise, *tables)
    yield from _unsteady(promise, allowed, trial)
    yield from _rested(trial)


def _rested(trial: Trial) -> Iterator[str]:
    """Yield that there were queries that got no answer."""
    if trial.resting:
        rounds = trial.resting + len(trial.labels)
        yield (
            f"the model rested in {trial.resting:,} of {rounds:,} rounds, whose queries got no answer: lives were over "
            "too soon, as more queries were contested than the plan bears"
        )


def _worse_later(votes: VotesSeen, rows: int) -> Iterator[str]:
    """Yield that teachers fitted to answers err more than those that gave them, so that each life adds to it."""
    if interval(votes.again, rows)[0] > interval(votes.error, rows)[1]:
        yield (
            f"later phases will err more: votes are wrong on {votes.error:.2%} of the test rows, and teachers fitted "
            f"to what these answer on {votes.again:.2%}; --rounds shows how far it goes; take a learner that finds the "
            "votes' rule again from a teacher's rows, such as a linear one or deeper trees, or more rows a teacher"
        )


def _contested(plan: Plan, votes: VotesSeen, rows: int) -> Iterator[str]:
    """Yield that votes are more contested than the promise rests on, by what is declared or what noise changes."""
    if votes.changed is None or votes.allowed is None or not isinstance(plan, EnsemblePlan):
        return
    remedy = "a larger alpha or epsilon, fewer rows a teacher, or another learner"
    remedy = remedy if votes.examples is None else f"{votes.declare} with {votes.examples:,} rows, or {remedy}"
    if votes.low > votes.declared or interval(votes.changed, rows)[0] > plan.changed:
        yield (
            f"votes crowd about thresholds more than declared: {votes.contested:.2%} of the test rows are contested "
            f"({votes.declared:.2%} declared), and noise changes {votes.changed:.2%} of the answers in phase 1 "
            f"({plan.changed:.2%} promised); more are paid for, so lives may end early and rest; take {remedy}"
        )
    if votes.later_low > votes.allowed:
        yield (
            f"votes of later teachers crowd about thresholds more than the plan bears: {votes.later:.2%} of the test "
            f"rows are contested by teachers fitted to what first ones answer, and the plan bears {votes.allowed:.2%}; "
            f"take {remedy}"
        )


def _misspelt(plan: Plan, train: Table) -> Iterator[str]:
    """Yield the features whose texts are often none of their categories: these may be spelt otherwise."""
    for feature, column in zip(plan.features, columns_of(plan.features)[:-1], strict=True):
        if feature.kind != "category":
            continue
        other = float((train.features[:, column] == other_category(feature)).mean())
        if other > _OTHERS:
            yield (
                f"{other:.2%} of the training rows have a {feature.name} that is none of its categories, and all of "
                f"these count as one: are they spelt alike?"
            )


def _unfit(plan: Plan, promise: Promise, box: Baseline | None, rows: int) -> Iterator[str]:
    """Yield that no box fits the labels, where the promise takes it that one does."""
    if plan.predictor not in {"rectangles", "classical"} or promise.beyond or box is None or box.fit is None:
        return
    if interval(box.fit, rows)[0] > _UNFIT * promise.bound:
        yield (
            f"labels that no box fits: the best box found gets {box.fit:.2%} of the training rows wrong, and "
            f"{box.error:.2%} of the test rows; the promise is for labels that some box fits without error"
        )


def _starving(plan: Plan, promise: Promise, trial: Trial) -> Iterator[str]:
    """Yield the sides that were given too little, or what lies too far in."""
    remedies = ["more rows, or fewer sides"]
    if getattr(plan, "slicing", "") == "faces":
        remedies = [f'take slicing = "{"sequential" if isinstance(plan, BoxPlan) else "whole"}"']
        if any("`bounds`" in condition for condition in promise.conditions):
            remedies.insert(0, "put `bounds` about the rows labelled 1")
    beyond = trial.beyond
    if isinstance(plan, BoxPlan) and plan.check is not UNSET and beyond is not None and beyond < plan.check.margin:
        found = counted(plan.check, len(plan.sides), beyond)
        yield f"`init` makes no state of these rows, which pay for its count: {found}, with noise: {remedies[0]}"
    for side in trial.sides:
        short = side.held is not None and side.needed is not None and side.held < side.needed
        if not short and interval(side.outside, trial.trained)[0] <= _STARVES * side.stripe:
            continue
        given = "" if side.held is None else f"was given {side.held:,} of {side.needed:,} rows, and "
        yield (
            f"a side starves: {side.name} {given}cuts off {side.outside:.2%} of all rows, labelled 1, where "
            f"{side.stripe:.2%} is planned: {', or '.join(remedies)}"
        )


def _rare(allowed: float, trial: Trial, test: Table) -> Iterator[str]:
    """Yield that a label is so rare that the promise says nothing of it, and that it is never given."""
    share, ones = float(test.labels.mean()), float(trial.labels.mean())
    label = int(share < 0.5)  # noqa: PLR2004 -- the rarer label
    rare, given = min(share, 1.0 - share), ones if label else 1.0 - ones
    if rare <= allowed:
        name = "a rare label" if rare < _RARE else "a promise that says little"
        yield (
            f"{name}: {label} is right for only {rare:.2%} of the test rows, and the promise allows {allowed:.2%} of "
            f"wrong answers, so always answering {1 - label} would keep it, too"
        )
    if min(ones, 1.0 - ones) == 0.0 or given < _SELDOM * rare:
        says, part = round(ones), max(ones, 1.0 - ones)
        yield f"it says {says} to {'all' if part == 1.0 else 'nearly all'} queries, whatever they are ({part:.2%})"


def _shared(train: Table, test: Table) -> Iterator[str]:
    """Yield that test rows are training rows: more often than training rows repeat each other."""
    rows = np.concatenate([np.column_stack([table.features + 0.0, table.labels]) for table in (train, test)])
    count = len(train.labels)
    _, which = np.unique(rows, axis=0, return_inverse=True)
    times = np.bincount(which[:count], minlength=which.max() + 1)
    both, repeated = int((times[which[count:]] > 0).sum()), int((times[which[:count]] > 1).sum())
    if interval(both / len(test.labels), len(test.labels))[0] > interval(repeated / count, count)[1]:
        yield (
            f"test rows that are training rows: {both:,} of {len(test.labels):,} are in both files, where "
            f"{round(repeated / count * len(test.labels)):,} would be if the files had no row in common but by chance; "
            "take rows to test on that the model is not trained on"
        )


def _useless(trial: Trial, majority: Baseline) -> Iterator[str]:
    """Yield that it is no better than one answer for all."""
    if majority.error is not None and trial.whole.error >= majority.error:
        yield f"it is no better than {majority.name}, which is wrong on {majority.error:.2%}"


def _unlike(plan: Plan, promise: Promise, train: Table, test: Table) -> Iterator[str]:
    """Yield how the test rows differ from the training rows: the label's share, and each feature's distribution."""
    counts = [np.bincount(table.labels, minlength=len(plan.labels)) for table in (train, test)]
    there = [part[np.sum(counts, axis=0) > 0] for part in counts]
    if len(there[0]) > 1 and scipy.stats.chi2_contingency(there).pvalue < _CHANCE:
        before, after = (part / part.sum() for part in counts)
        most = int(np.abs(after - before).argmax()) if len(plan.labels) > 2 else 1  # noqa: PLR2004 -- two are one share
        yield (
            f"the test rows are not like the training rows: {after[most]:.2%} of them are labelled "
            f"{plan.labels[most]}, and {before[most]:.2%} of the training rows"
        )
    for feature, column in zip(plan.features, columns_of(plan.features)[:-1], strict=True):
        if feature.kind in {"string", "category"} or feature.sides == "none":
            continue
        found = scipy.stats.ks_2samp(train.features[:, column], test.features[:, column], method="asymp")
        if found.pvalue < _CHANCE and found.statistic > promise.bound:
            yield (
                f"the test rows are not like the training rows: on {feature.name} their distributions are "
                f"{found.statistic:.2f} apart (Kolmogorov and Smirnov), more than the promise's bound"
            )


def _unsteady(promise: Promise, allowed: float, trial: Trial) -> Iterator[str]:
    """Yield that the error changes over the rounds, by much of the bound and by more than chance, or with a phase."""
    parts = trial.stretches
    if trial.distinct == len(trial.labels) and len(parts) > 1:
        errors = [part.error for part in parts]
        wrong = [round(part.error * part.rounds) for part in parts]
        table = [wrong, [part.rounds - count for part, count in zip(parts, wrong, strict=True)]]
        spread = max(errors) - min(errors) > _UNFIT * promise.bound
        if spread and all(map(sum, table)) and scipy.stats.chi2_contingency(table).pvalue < _CHANCE:
            yield (
                f"the error is not steady: from {min(errors):.2%} to {max(errors):.2%} in tenths of the rounds, in "
                "their order; queries bring no labels, so no predictor here follows a rule that moves"
            )
    first, *later = trial.by_phase
    for seen in later:
        if seen.low > allowed >= first.low:
            yield f"phase {seen.phase} errs more: wrong on {seen.error:.2%}, phase {first.phase} on {first.error:.2%}"
