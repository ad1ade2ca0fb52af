"""Which of a promise's conditions failed, as far as the rows show it."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from oracle.evaluation.baselines import Baseline
from oracle.evaluation.trial import Table, Trial
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.promise import Promise

__all__ = ["causes"]

_NEVER: Final = 1e-3
"""A predictor that gives a label less often than this gives the other one to everybody."""

_UNFIT: Final = 0.25
"""Part of the bound that labels which no box fits may take before they are named."""

_OR_SEQUENTIAL: Final = ', or take slicing = "sequential"'

_STARVES: Final = 1.2
"""Times its stripe that a side may reach past before it is named."""

_SURELY: Final = 4.0
"""Standard deviations."""


def causes(
    plan: Plan, promise: Promise, trial: Trial, others: Sequence[Baseline], tables: tuple[Table, Table]
) -> Iterator[str]:
    """Yield what is wrong, a sentence each; nothing where all that can be seen is as it should be.

    Args:
        plan: The plan.
        promise: What it promises.
        trial: What was seen.
        others: The baselines.
        tables: The training and the test rows.
    """
    train, test = tables
    errors = {other.name: other.error for other in others if other.error is not None}
    box = errors.get("best box")
    if (
        plan.predictor in {"rectangles", "classical"}
        and not promise.beyond
        and box is not None
        and box > _UNFIT * promise.bound
    ):
        yield f"labels that no box fits: the best box found is wrong on {box:.2%} itself, and the promise is for none"
    for side in trial.sides:
        if side.held < side.needed or side.outside > _STARVES * side.stripe:
            yield (
                f"a side starves: {side.name} was given {side.held:,} of {side.needed:,} rows, and they reach past "
                f"{side.outside:.2%} of all rows where {side.stripe:.2%} is planned: put `bounds` about the rows "
                f"labelled 1{_OR_SEQUENTIAL if isinstance(plan, BoxPlan) and plan.slicing == 'faces' else ''}"
            )
    rare = min(float(test.labels.mean()), 1.0 - float(test.labels.mean()))
    if rare <= promise.bound:
        label = int(test.labels.mean() < 0.5)  # noqa: PLR2004 -- the rarer label
        yield f"a rare label: {label} is right for {rare:.2%} only, so never giving it keeps the promise too"
    ones = float(trial.labels.mean())
    if min(ones, 1.0 - ones) < _NEVER <= rare:
        yield f"it says {round(ones)} to {'all' if ones in {0.0, 1.0} else 'nearly all'} queries"
    before, after = float(train.labels.mean()), float(test.labels.mean())
    spread = math.sqrt(before * (1 - before) / len(train.labels) + after * (1 - after) / len(test.labels))
    if abs(before - after) > _SURELY * spread:
        yield (
            f"the test rows are not like the training rows: {after:.2%} of them are labelled 1, and {before:.2%} of "
            "the training rows"
        )
